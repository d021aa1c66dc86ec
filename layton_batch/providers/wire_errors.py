"""From what SDKs and HTTP libraries raise to what this package raises.

Exceptions are told apart by the names of their classes and the shape of their fields, never by ``isinstance``: the SDKs
are built on two HTTP libraries of the same shape (httpx, httpx2), two of them leak raw transport errors, and asking for
a class would import an SDK that is not in use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import orjson

from layton_batch.errors import (
    AmbiguousCallError,
    LaytonBatchError,
    ManifestError,
    MissingKeyError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers.error_classes import REFUSALS
from layton_batch.providers.protocol import Access
from layton_batch.providers.wire_json import clean
from layton_batch.redaction import Redactor
from layton_batch.settings import address_problem

LONGEST_WAIT = 3600.0
"""Seconds; a provider that asks for more is asked again after this long."""

_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror"})
_BAD_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL"})
_DROPPED = frozenset({"TransportError", "APIConnectionError", "NoResponseError", "ClientConnectionError", "OSError"})
_NOT_NOW = frozenset({407, 429})
"""Too many calls, or a proxy that wants to know who we are: nothing was done, and it passes or can be mended."""
_LOOK_FIRST = "it may have been carried out: the batch is looked for before anything is sent again"


def api_key(access: Access | None, variable: str, provider: str) -> str:
    """Return the key to send. Raises MissingKeyError naming the environment variable if there is none, or none that can
    be sent: HTTP libraries print a header they cannot send, so such a key must not get that far. Raises ManifestError
    if it would be sent to what is no address: that is a mistake in our settings, and nothing becomes of a batch."""
    key = access.api_key.strip() if access is not None else ""
    if not key:
        raise MissingKeyError(f"{provider}: no API key; set {variable} in the environment or in .env")
    if not (key.isascii() and key.isprintable()):
        raise MissingKeyError(f"{provider}: {variable} holds characters that no API key has; copy it again")
    problem = address_problem(access.base_url) if access is not None and access.base_url else None
    if problem is not None:
        raise ManifestError(f"{provider}: the base URL set for it in the environment or in .env {problem}")
    return key


@contextmanager
def wire(provider: str, call: str, *, secret: str = "", paid: bool = False) -> Iterator[None]:
    """Turn everything that an SDK raises inside into an error of this package that names ``call`` and hides ``secret``.

    ``paid``: the call creates a batch, so whatever is not certain to have done nothing is an AmbiguousCallError, a
    reply that cannot be read included.
    """
    try:
        yield
    except Exception as error:
        # from None: a traceback's chain would print what the SDK said, unredacted
        own = next((link for link in _causes(error) if isinstance(link, LaytonBatchError)), None)
        if own is None:
            raise translate(error, provider, call, secret=secret, paid=paid) from None
        if paid and isinstance(own, ProviderReplyError):
            raise AmbiguousCallError(f"{own}; {_LOOK_FIRST}", status=own.status, code=own.code) from None
        if own is error:
            raise
        raise own from None  # raised by our rules within the SDK, which wrapped it


def translate(error: BaseException, provider: str, call: str, *, secret: str = "", paid: bool = False) -> ProviderError:
    """Return the error of this package that says what ``error`` means."""
    hide, links, where = Redactor.of([secret]), list(_causes(error)), f"{provider}: {call}"
    reason = clean(hide(str(error) or type(error).__name__))
    if (reply := next(filter(None, map(_reply, links)), None)) is not None:
        return _refusal(reply, where, reason, hide, paid=paid)
    names = {cls.__name__ for link in links for cls in type(link).__mro__}
    message = f"{where}: {type(links[-1]).__name__}: {clean(hide(str(links[-1]))) or reason}"
    if names & _BAD_ADDRESS:
        message += "; that is not a URL that can be called"
    if names & _NOT_SENT:
        return TransientProviderError(f"{message}; nothing was sent", is_sent=False)
    if paid:
        return AmbiguousCallError(f"{message}; {_LOOK_FIRST}")
    if names & (_DROPPED | _BAD_ADDRESS):
        return TransientProviderError(message)
    return ProviderReplyError(f"{where}: {unreadable_reply(error, reason)}")


def unreadable_reply(error: BaseException, message: str | None = None) -> str:
    """Say that reading a reply raised this error. ``message``: the error's own text, if it was made harmless."""
    message = clean(str(error)) if message is None else message
    return f"the reply could not be read: {type(error).__name__}: {message}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was explicitly raised from; not ``__context__``: that may be an unrelated call's
    error."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


# ---- replies with a status


@dataclass(frozen=True, slots=True)
class _ErrorReply:
    status: int
    headers: Mapping[str, str]
    body: object


def _reply(error: BaseException) -> _ErrorReply | None:
    """Return the reply that an SDK's error is about; None: it is about none."""
    response = getattr(error, "response", None)
    if response is None:
        response = getattr(error, "raw_response", None)
    own = getattr(error, "status_code", None), getattr(error, "code", None)
    for status in (*own, getattr(response, "status_code", None)):
        if type(status) is int and 100 <= status <= 999:
            headers = getattr(response, "headers", None)
            return _ErrorReply(status, headers if isinstance(headers, Mapping) else {}, _body(error, response))
    return None


def _body(error: BaseException, response: object) -> object:
    body: object = getattr(error, "body", None) or getattr(error, "details", None)
    if not body:
        try:
            body = getattr(response, "text", None)
        except Exception:  # a streamed body that was never read has no text
            return None
    if isinstance(body, str | bytes):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return body if isinstance(body, str) else body.decode("utf-8", "replace")
    return body


def _refusal(reply: _ErrorReply, where: str, fallback: str, hide: Redactor, *, paid: bool) -> ProviderError:
    status, word = reply.status, _code(reply.body)
    reason = clean(hide(_message(reply.body) or fallback))
    code = clean(hide(word), 80) if word else None
    message = f"{where}: HTTP {status}: {reason}"
    if status < 400:
        trouble = "a redirect, which is not followed" if status >= 300 else f"a reply that could not be read: {reason}"
        message = f"{where}: HTTP {status}, {trouble}"
        return (
            AmbiguousCallError(f"{message}; {_LOOK_FIRST}", status=status)
            if paid
            else ProviderReplyError(message, status=status)
        )
    if status in _NOT_NOW or (status not in REFUSALS and not paid):
        return TransientProviderError(message, status=status, code=code, retry_after=retry_after(reply.headers))
    if status not in REFUSALS:
        return AmbiguousCallError(f"{message}; {_LOOK_FIRST}", status=status, code=code)
    kind = NotFoundError if status == 404 else RequestRefusedError
    return kind(message, status=status, code=code)


def _message(body: object, depth: int = 0) -> str | None:
    """Return the provider's own words, wherever it keeps them."""
    if isinstance(body, str):
        return body or None
    inner: Iterable[object] = ()
    if isinstance(body, Mapping):
        inner = [body.get(key) for key in ("error", "message", "detail", "msg", "title")]
    elif isinstance(body, list | tuple):
        inner = body
    return next((text for entry in inner if (text := _message(entry, depth + 1))), None) if depth < 4 else None


def _code(body: object) -> str | None:
    """Return the most exact word of an error: of a google.rpc.Status the reason of its ErrorInfo, else the name of its
    status, for Google's ``code`` only repeats the HTTP status."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    error = inner if isinstance(inner, Mapping) else {}
    details = error.get("details")
    entries = [entry for entry in details if isinstance(entry, Mapping)] if isinstance(details, list) else []
    words = [entry.get("reason") for entry in entries]
    words += [error.get("status")] if isinstance(error.get("code"), int) else []
    words = [word for word in words if isinstance(word, str)]
    words += [holder.get(key) for holder in (error, body) for key in ("code", "status", "type")]
    return next((str(word) for word in words if isinstance(word, str | int) and word), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by ``retry-after-ms`` or ``retry-after`` (seconds, or an HTTP date measured against
    the reply's own ``date``), within 0 and LONGEST_WAIT; None if the headers do not say."""
    lowered = {str(key).lower(): str(value) for key, value in headers.items()}
    seconds = _number(lowered.get("retry-after-ms"))
    seconds = seconds / 1000 if seconds is not None else _number(lowered.get("retry-after"))
    if seconds is None:
        seconds = _until(lowered.get("retry-after"), lowered.get("date"))
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _until(then: str | None, now: str | None) -> float | None:
    try:
        return (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds() if then and now else None
    except (ValueError, TypeError, OverflowError):
        return None
