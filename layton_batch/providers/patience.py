"""How long a call may take and how much a reply may hold."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds on one HTTP call: seconds of a whole phase, not of single waits, and bytes after inflating."""

    connect: float = 60.0
    """To find the address, connect and agree on TLS."""
    head: float = 600.0
    """From the last byte sent to the end of the reply's head, 1xx replies included, for calls that change something: a
    gateway may hold a create for as long, and settling counts on no more."""
    head_of_reading: float = 300.0
    """The same for calls that only read."""
    grace: float = 300.0
    """For the body of a reply that is read whole. A request's body and a file may take this and a second more for every
    ``slowest`` bytes that went through: large or slow is not too slow."""
    slowest: float = 1_000.0
    stop: float = 1.0
    """What a call in progress is left when the program is told to stop."""
    reply_bytes: int = 64 * _MIB
    """Of a reply that is held in memory whole."""
    file_bytes: int = 32 * 1024 * _MIB
    """Of one result file, which is streamed to disk."""
    inflation: int = 200
    """How many bytes a byte of a compressed file may stand for; rows of short answers reach some dozens."""

    def timeouts(self, method: str) -> dict[str, float]:
        """In the form of httpx's request extension ``timeout``."""
        head = self.head_of_reading if method in ("GET", "HEAD") else self.head
        return {"connect": self.connect, "read": head, "write": self.grace, "pool": self.connect}
