"""What the SDKs' HTTP clients are told besides: hooks on replies that httpx and httpx2 take alike.

``DefaultHttpxClient(event_hooks=http_rules.HOOKS)``, given to an SDK as its ``http_client``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

_CREATE = "/batches"
"""Where the path of the paid call ends, in every OpenAI-shaped API."""

GRACE_SECONDS, SLOWEST = 300.0, 1_000.0
"""What a reply's body may take: so long, and a second more for every so many bytes of it. Timeouts are of single reads:
without this a server that sends a byte now and then would hold us for ever."""


class RedirectedError(Exception):
    """A paid call was answered with a redirect; ``response`` is that answer, ``body`` what to say of it."""

    def __init__(self, response: Any) -> None:
        self.body = "it is a redirect, which is not followed"
        super().__init__(self.body)
        self.response = response


class SlowReplyError(TimeoutError):
    """A reply that comes so slowly that its connection is as good as dropped."""


def not_redirected(response: Any) -> None:
    """Raises RedirectedError where the answer to a create is a redirect.

    Followed, it would be sent a second time, or what became of the second call would be taken for what became of the
    first. Other calls may follow theirs: downloads do, to where the files are stored.
    """
    request = response.request
    if request.method == "POST" and request.url.path.endswith(_CREATE) and 300 <= response.status_code < 400:
        raise RedirectedError(response)


def in_time(response: Any) -> None:
    """Lets the body be read as long as it keeps coming; SlowReplyError ends the reading where it does not."""
    pieces, begun = response.iter_raw, monotonic()

    def iter_raw(chunk_size: int | None = None) -> Iterator[bytes]:
        came = 0
        for piece in pieces(chunk_size):
            came += len(piece)
            took = monotonic() - begun
            if took > GRACE_SECONDS + came / SLOWEST:
                raise SlowReplyError(f"{came} bytes in {took:.0f} seconds is too slow to wait for the rest")
            yield piece

    response.iter_raw = iter_raw


HOOKS: Mapping[str, list[Callable[[Any], None]]] = {"response": [not_redirected, in_time]}
