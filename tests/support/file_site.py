"""A site of files on this machine, and what it was asked for."""

from __future__ import annotations

from layton_batch.testing.providers import Answer, HandlerCall, Loopback


class FileSite(Loopback):
    """Paths with their replies in turn, of which the last one stays; other paths are not there."""

    def __init__(self) -> None:
        self.replies: dict[str, tuple[Answer, ...]] = {}
        super().__init__(self._reply)

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        """Return path and token of each call."""
        return [(call.path, call.headers.get("authorization")) for call in self.calls]

    def serve(self, path: str, *replies: Answer | bytes) -> None:
        self.replies[path] = tuple(Answer(body=one) if isinstance(one, bytes) else one for one in replies)

    def _reply(self, call: HandlerCall) -> Answer:
        reply, *later = self.replies.get(call.path, (Answer(404),))
        if later:
            self.replies[call.path] = tuple(later)
        return reply
