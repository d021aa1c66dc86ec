"""A download that broke off, taken up where it broke: HTTP ranges (RFC 9110, section 14).

No provider's documents promise them and none forbids them: what the reply says decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from layton_batch.errors import ProviderReplyError


def headers(start: int) -> Mapping[str, str]:
    """What asks for the bytes from ``start`` on: of the content itself, so never of a compressed form of it."""
    return {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {}


def check(provider: str, start: int, status: int, reply: Mapping[str, str]) -> None:
    """Raises ProviderReplyError where the reply is not what ``start`` asked for: servers may send everything again."""
    if start and not (status == 206 and reply.get("content-range", "").strip().startswith(f"bytes {start}-")):
        raise ProviderReplyError(f"{provider}: a download cannot be taken up where it broke off (HTTP {status})")
