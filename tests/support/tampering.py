"""A sandbox behind a proxy that changes its answers: a provider that lies, drips, forgets or floods, in any dialect.

The sandbox stays honest and strict, and its ledger tells what was carried out; what the program sees is the proxy's.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from unittest.mock import MagicMock

from starlette.routing import compile_path

from layton_batch.sandbox import Fault
from layton_batch.sandbox.server import APIS
from layton_batch.settings import Settings
from layton_batch.testing.providers import Answer as Reply
from layton_batch.testing.providers import HandlerCall, Loopback
from tests.support.lab import Lab, lab

_HOP = frozenset({"transfer-encoding", "connection", "keep-alive"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the program is answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def of(self, content: bytes, status: int | None = None) -> Answer:
        """The same answer with other content (its length told truthfully)."""
        kept = {name: value for name, value in self.headers.items() if name != "content-encoding"}
        headers = {**kept, "content-length": str(len(content))}
        return replace(self, status=status or self.status, headers=headers, content=content)


Tamper = Callable[[str, str, str, Answer], Answer]
"""Given provider, kind of call (upload, create, poll, results, list, cancel), path and the honest answer."""


def honest(_provider: str, _kind: str, _path: str, answer: Answer) -> Answer:
    """Change nothing."""
    return answer


_APIS = [api(MagicMock()) for api in APIS]  # routes are asked for, and nothing is carried out


def kind_of(method: str, path: str) -> tuple[str, str]:
    """Return the provider and the kind of call that a request is."""
    for api in _APIS:
        for endpoint in api.endpoints():
            if endpoint.method == method and compile_path(api.prefix + endpoint.path)[0].match(path):
                return api.provider, endpoint.on
    raise AssertionError(f"no provider has {method} {path}")


def passed_on(home: str, call: HandlerCall) -> Answer | None:
    """Return the answer of the sandbox at ``home``; None: it broke the connection.

    The Host header goes on as it came: addresses that a provider gives out then lead here again.
    """
    connection = http.client.HTTPConnection(home.removeprefix("http://"), timeout=60)
    try:
        connection.request(call.method, call.path, call.body or None, call.headers)
        reply = connection.getresponse()
        headers = {name.lower(): value for name, value in reply.getheaders() if name.lower() not in _HOP}
        return Answer(reply.status, headers, reply.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def on_the_wire(answer: Answer | None) -> Reply:
    """Return an answer as the loopback server gives it."""
    return Reply(drop=True) if answer is None else Reply(answer.status, answer.content, dict(answer.headers))


class Tampering:
    """Answers what ``tamper`` makes of the sandbox's answer; it may be set at any time, and may block."""

    def __init__(self, home: str) -> None:
        self.tamper: Tamper = honest
        self._home = home

    def answer(self, call: HandlerCall) -> Reply:
        answer = passed_on(self._home, call)
        if answer is not None:
            answer = self.tamper(*kind_of(call.method, call.path.partition("?")[0]), call.path, answer)
        return on_the_wire(answer)


@contextmanager
def hostile(
    folder: Path, *faults: Fault, variables: Mapping[str, str] = MappingProxyType({}), batch_seconds: float = 60.0
) -> Iterator[tuple[Lab, Tampering]]:
    """A lab whose program sees every provider through a proxy, and has these ``variables`` in its environment."""
    with lab(folder, *faults, batch_seconds=batch_seconds) as there:
        between = Tampering(there.server.url)
        with Loopback(between.answer) as proxy:
            environment = {
                name: value.replace(there.server.url, proxy.url) for name, value in there.server.environment().items()
            }
            there.settings = Settings.from_environment({**environment, **variables}, folder)
            yield there, between
