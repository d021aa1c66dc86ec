"""A sandbox behind a proxy that changes its answers: a provider that lies, drips, forgets or floods, in any dialect.

The sandbox stays honest and strict, and its ledger tells what was carried out; what the program sees is the proxy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType

from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from tests.support.lab import Lab, lab
from tests.support.proxy import PhaseProxy, kind_of

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the program is answered. ``send``: how it goes out on the wire, where not as one honest HTTP reply: it is
    given the handler and writes everything itself, head included."""

    status: int
    headers: Headers
    content: bytes
    send: Callable[[BaseHTTPRequestHandler], None] | None = None

    def of(self, content: bytes, status: int | None = None) -> Answer:
        """The same answer with other content (its length told truthfully)."""
        kept = tuple(pair for pair in self.headers if pair[0].lower() not in ("content-length", "content-encoding"))
        headers = (*kept, ("content-length", str(len(content))))
        return replace(self, status=status or self.status, headers=headers, content=content)


Tamper = Callable[[str, str, str, Answer], Answer]
"""Given provider, kind of call (upload, create, poll, results, list, cancel), path and the honest answer."""


class Tampering(PhaseProxy):
    """Answers what ``tamper`` makes of the sandbox's answer; it may be set at any time, and may block."""

    def __init__(self, sandbox_url: str) -> None:
        self.tamper: Tamper = lambda _provider, _kind, _path, answer: answer
        super().__init__(sandbox_url)

    def _send(self, call: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        path = call.path.partition("?")[0]
        answer = self.tamper(*kind_of(call.command, path), call.path, Answer(status, tuple(headers), content))
        if answer.send is not None:
            answer.send(call)
            call.close_connection = True
        else:
            super()._send(call, answer.status, list(answer.headers), answer.content)


@contextmanager
def hostile(
    folder: Path, *faults: Fault, variables: Mapping[str, str] = MappingProxyType({}), **options: object
) -> Iterator[tuple[Lab, Tampering]]:
    """A lab (arguments: as :func:`tests.support.lab.lab`) whose program sees every provider through a proxy, and these
    ``variables`` of the environment beside."""
    with lab(folder, *faults, **options) as there:  # type: ignore[arg-type]
        between = Tampering(there.server.url)
        try:
            environment = {
                name: value.replace(there.server.url, between.url) for name, value in there.server.environment().items()
            }
            there.settings = Settings.from_environment({**environment, **variables}, folder)
            yield there, between
        finally:
            between.close()
