"""One address with two accounts behind it, as a provider has one for each project: the key says whose a call is, and
replies name the organisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from layton_batch.providers.protocol import ACCOUNT_HEADERS
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.support.tampering import on_the_wire, passed_on


@contextmanager
def switchboard(homes: Mapping[str, str]) -> Iterator[str]:
    """Serve at the address that is yielded. ``homes``: by key the URL of the sandbox that has the key's account, which
    is the name of the organisation too."""

    def answer(call: HandlerCall) -> Answer:
        said = " ".join([call.path, *call.headers.values()])
        (home,) = {url for key, url in homes.items() if key in said}
        reply = passed_on(home, call)
        return on_the_wire(reply and replace(reply, headers={**reply.headers, **dict.fromkeys(ACCOUNT_HEADERS, home)}))

    with Loopback(answer) as server:
        yield server.url
