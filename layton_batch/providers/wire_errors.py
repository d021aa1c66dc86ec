"""From what SDKs and HTTP libraries raise to what this package raises, and from reply bytes to JSON objects.

Exceptions are told apart by the names of their classes and the shape of their fields, never by ``isinstance``: the SDKs
are built on two HTTP libraries of the same shape (httpx, httpx2), two of them leak raw transport errors, and asking for
a class would import an SDK that is not in use.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator, Mapping
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
from layton_batch.providers.protocol import Access
from layton_batch.records import JsonValue, Snapshot
from layton_batch.redaction import Redactor
from layton_batch.settings import address_problem
from layton_batch.states import BatchOutcome, ErrorClass
from layton_batch.text import printable

LONGEST_WAIT = 3600.0
"""Seconds; a provider that asks for more is asked again after this long."""

_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror"})
_BAD_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL"})
_DROPPED = frozenset({"TransportError", "APIConnectionError", "NoResponseError", "ClientConnectionError", "OSError"})
REFUSALS = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 416, 417, 422, 426, 428, 431, 451}
)
"""Statuses of who read the call and did not carry it out. What is not among them and not a 2xx tells nothing for
certain: a timeout, a conflict, a client that is said to have gone (499), a gateway's own words."""
_NOT_NOW = frozenset({407, 429})
"""Too many calls, or a proxy that wants to know who we are: nothing was done, and it passes or can be mended."""
_LOOK_FIRST = "it may have been carried out: the batch is looked for before anything is sent again"


def api_key(access: Access | None, variable: str, provider: str) -> str:
    """The key to send. Raises MissingKeyError naming the environment variable where there is none, or none that can be
    sent: HTTP libraries print a header they cannot send, so such a key must not get that far. Raises ManifestError
    where it would be sent to what is no address: that is a mistake in our settings, and nothing becomes of a batch."""
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
    """Everything an SDK raises inside becomes an error of this package; the error says ``call`` and never ``secret``.

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
    """The error of this package that says what ``error`` means."""
    links = list(_causes(error))
    reason = clean(_redacted(str(error) or type(error).__name__, secret))
    for link in links:
        reply = _reply(link)
        if reply is not None:
            return _refusal(reply, f"{provider}: {call}", reason, secret, paid=paid)
    names = {cls.__name__ for link in links for cls in type(link).__mro__}
    message = f"{provider}: {call}: {type(links[-1]).__name__}: {clean(_redacted(str(links[-1]), secret)) or reason}"
    if names & _BAD_ADDRESS:
        message += "; that is not a URL that can be called"
    if names & _NOT_SENT:
        return TransientProviderError(f"{message}; nothing was sent", is_sent=False)
    if paid:
        return AmbiguousCallError(f"{message}; {_LOOK_FIRST}")
    if names & (_DROPPED | _BAD_ADDRESS):
        return TransientProviderError(message)
    return ProviderReplyError(f"{provider}: {call}: {unreadable_reply(error, reason)}")


def unreadable_reply(error: BaseException, message: str | None = None) -> str:
    """Say that reading a reply raised this error. ``message``: the error's own text, where it was made harmless."""
    message = clean(str(error)) if message is None else message
    return f"the reply could not be read: {type(error).__name__}: {message}"


# ---- replies with a status -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ErrorReply:
    status: int
    headers: Mapping[str, str]
    body: object


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was explicitly raised from; not ``__context__``: that may be an unrelated call's error."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _reply(error: BaseException) -> _ErrorReply | None:
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
    for name in ("body", "details"):
        body: object = getattr(error, name, None)
        if body:
            return _parsed(body)
    try:
        return _parsed(getattr(response, "text", None))
    except Exception:  # a streamed body that was never read has no text
        return None


def _parsed(body: object) -> object:
    if isinstance(body, str | bytes):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return body if isinstance(body, str) else body.decode("utf-8", "replace")
    return body


def _refusal(reply: _ErrorReply, where: str, fallback: str, secret: str, *, paid: bool) -> ProviderError:
    status = reply.status
    reason = clean(_redacted(_message(reply.body) or fallback, secret))
    code = _code(reply.body, secret)
    message = f"{where}: HTTP {status}: {reason}"
    if status < 400:
        message = f"{where}: HTTP {status}, but the reply could not be read: {reason}"
        if paid:
            return AmbiguousCallError(f"{message}; {_LOOK_FIRST}", status=status)
        return ProviderReplyError(message, status=status)
    if status in _NOT_NOW or (status not in REFUSALS and not paid):
        return TransientProviderError(message, status=status, code=code, retry_after=retry_after(reply.headers))
    if status not in REFUSALS:
        return AmbiguousCallError(f"{message}; {_LOOK_FIRST}", status=status, code=code)
    if status == 404:
        return NotFoundError(message, status=status, code=code)
    return RequestRefusedError(message, status=status, code=code)


def _message(body: object, depth: int = 0) -> str | None:
    """The provider's own words, wherever it keeps them."""
    if isinstance(body, str):
        return body or None
    if isinstance(body, Mapping) and depth < 4:
        inner = [body.get(key) for key in ("error", "message", "detail", "msg", "title")]
        return next((message for entry in inner if (message := _message(entry, depth + 1))), None)
    if isinstance(body, list | tuple) and depth < 4:
        return next((message for entry in body if (message := _message(entry, depth + 1))), None)
    return None


def _code(body: object, secret: str) -> str | None:
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    if isinstance(inner, Mapping) and (reason := _reason(inner)):
        return clean(_redacted(reason, secret), 80)
    for holder in (inner, body) if isinstance(inner, Mapping) else (body,):
        for key in ("code", "status", "type"):
            if isinstance(holder.get(key), str | int) and holder[key]:
                return clean(_redacted(str(holder[key]), secret), 80)
    return None


def _reason(error: Mapping[object, object]) -> str | None:
    """Return the most exact word of a google.rpc.Status: the reason of its ErrorInfo, else the name of its status.

    None for errors of other forms; Google's ``code`` only repeats the HTTP status.
    """
    details, status = error.get("details"), error.get("status")
    reasons = (
        (entry.get("reason") for entry in details if isinstance(entry, Mapping)) if isinstance(details, list) else ()
    )
    words = (*reasons, status if isinstance(error.get("code"), int) else None)
    return next((word for word in words if isinstance(word, str) and word), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``retry-after`` (seconds, or an HTTP date measured against the reply's
    own ``date``), within 0 and LONGEST_WAIT; None where the headers do not say."""
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


# ---- the account -----------------------------------------------------------------------------------------------------


_ACCOUNT_STATUSES = frozenset({401, 402})
_ACCOUNT_CODES = frozenset(
    {
        "authentication_error", "billing_error", "billing_not_active", "billing_hard_limit_reached",
        "credit_balance_exhausted", "insufficient_quota", "invalid_api_key", "permission_error",
        # Google's; the last means no billing where there is no free tier, by its documents
        "api_key_invalid", "unauthenticated", "failed_precondition",
    }
)  # fmt: skip
_ACCOUNT_WORDS = re.compile(
    r"\bcredit balance is too low|(\b(used all available|out of|not have any)|n't have any) credits\b"
    r"|\binsufficient (credits?|balance|funds)\b|\bcredit limit\b|\bspend(ing)? limit\b|\bbilling hard limit\b"
    r"|\b(enable|requires) billing\b|\bbilling (has been |is )?(suspended|disabled|not active)\b"
    r"|\baccount is not active\b|\bspecified API usage limits\b|\b(incorrect|invalid|expired) (x-)?api[ -]key\b"
    r"|\bapi[ -]key (is )?(not valid|invalid|expired|disabled|revoked)\b|\bcaller does not have permission\b"
    r"|\b(organi[sz]ation|account|project|team|consumer)( '[^']*')? (has been|is) (disabled|deactivated|suspended)\b"
    r"|\b(cannot|could not|failed to) (find|download) (the )?(input )?file\b",
    re.IGNORECASE,
)
"""Sentences of providers, whose statuses and codes are those of a bad request. The last one is of a file that we have
uploaded: OpenAI and Together said it while the file was there."""


def concerns_account(status: int | None, code: str | None, text: str | None) -> bool:
    """Return whether an error is the account's trouble: no credit, a wrong key, no access, a file of ours that is not
    found. It says nothing of a request, was not billed, and passes when it is mended. ``status``: of HTTP."""
    if status in _ACCOUNT_STATUSES or (code or "").lower() in _ACCOUNT_CODES:
        return True
    return _ACCOUNT_WORDS.search(text or "") is not None


# ---- text ----------------------------------------------------------------------------------------------------------


def clean(text: str, longest: int = 300) -> str:
    """One printable line of at most ``longest`` characters: what a provider wrote goes to terminals and logs."""
    if len(text) <= longest and text.isascii() and text.isprintable() and " " not in text:
        return text
    head = text[: longest * 4]
    line = " ".join(printable(head, " ").split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _redacted(text: str, secret: str) -> str:
    return Redactor.of([secret])(text)


# ---- reply bytes ---------------------------------------------------------------------------------------------------


def parse_json(raw: bytes | str, provider: str, reply_name: str) -> JsonValue:
    """The JSON value of a reply or result line. Raises ProviderReplyError naming ``reply_name`` where it is not JSON.

    A lone surrogate or a byte that is not UTF-8 becomes U+FFFD instead of an error: one bad character in a reply that
    was paid for must not cost the reply. For the same reason NaN and infinities, which some servers write, are null,
    and a byte order mark is no part of the text.
    """
    raw = raw.removeprefix("\ufeff") if isinstance(raw, str) else raw.removeprefix(codecs.BOM_UTF8)
    try:
        value: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        value = _parse_leniently(raw, f"{provider}: {reply_name} is not JSON ({error.msg}): {excerpt(raw)}")
    return value


def parse_object(raw: bytes | str, provider: str, reply_name: str) -> Mapping[str, JsonValue]:
    """Parse like :func:`parse_json` what must be a JSON object."""
    value = parse_json(raw, provider, reply_name)
    if not isinstance(value, dict):
        raise ProviderReplyError(f"{provider}: {reply_name} is not a JSON object: {excerpt(raw)}")
    return value


def excerpt(raw: bytes | str) -> str:
    """The beginning of what could not be read, for an error message."""
    head = raw[:400]
    return repr(clean(head if isinstance(head, str) else head.decode("utf-8", "replace"), 120))


def _parse_leniently(raw: bytes | str, complaint: str) -> JsonValue:
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        return well_formed(json.loads(text, parse_constant=_null))
    except (ValueError, RecursionError):
        raise ProviderReplyError(complaint) from None


def _null(_name: str) -> None:
    """Read NaN, Infinity and -Infinity as null."""


def well_formed(value: JsonValue) -> JsonValue:
    """The value with plain dicts and lists, and U+FFFD where a string holds half a surrogate pair."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {str(well_formed(key)): well_formed(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(entry) for entry in value]
    return value


_NO_ROOM = re.compile(r"\brate[ _-]?limit|\btoo many requests\b(?! (in|per|for) )", re.IGNORECASE)
"""Words of a provider that takes no more for now, also as those of status 429."""
_OVER_A_LIMIT = re.compile(
    r"\b(too (large|many|big)|exceeds?|more than)\b.{0,80}\b(requests?|lines?|rows?|bytes|MB|file size)\b",
    re.IGNORECASE,
)


def failure_class(reading: Snapshot) -> ErrorClass:
    """Why a batch failed as a whole: by the provider's code where that is telling, else by its sentence."""
    reason, by_code = reading.message or "", reading.error_class
    if reading.outcome is BatchOutcome.FAILED and concerns_account(None, None, reason):
        return ErrorClass.ACCOUNT
    if reading.outcome is not BatchOutcome.FAILED or by_code in (ErrorClass.RATE_LIMITED, ErrorClass.TOO_LARGE):
        return by_code
    if _NO_ROOM.search(reason):
        return ErrorClass.RATE_LIMITED
    return ErrorClass.TOO_LARGE if _OVER_A_LIMIT.search(reason) else by_code
