"""Errors of providers: from what SDKs and HTTP libraries raise to what this package raises, the classes of errors, and
result rows without an answer to read.

A damaged row may be of a request that was carried out and paid for, so it never ends in a class that is bought again by
itself.

Exceptions are told apart by the names of their classes and the shape of their fields, never by ``isinstance``: the SDKs
are built on two HTTP libraries of the same shape (httpx, httpx2), two of them leak raw transport errors, and asking for
a class would import an SDK that is not in use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

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
from layton_batch.providers.protocol import NO_REPLY, Access
from layton_batch.providers.wire_json import at, clean, in_words, objects, parse_object, text, whole
from layton_batch.records import EMPTY, JsonValue, Response, Snapshot, Usage
from layton_batch.redaction import Redactor
from layton_batch.settings import address_problem, key_names
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, RequestOutcome

REFUSALS = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 416, 417, 422, 426, 428, 431, 451}
)
"""Statuses of who read the call and did not carry it out. What is not among them and not a 2xx tells nothing for
certain: a timeout, a conflict, a client that is said to have gone (499), a gateway's own words."""

# ---- the account

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


# ---- requests

_VALIDATION = frozenset(
    {
        "context_length_exceeded", "duplicate_custom_id", "empty_file", "mismatched_model",
        "missing_required_parameter", "model_mismatch", "model_not_found", "not_found_error", "streaming_unsupported",
        "unknown_parameter", "unsupported_parameter", "unsupported_value", "url_mismatch",
    }
)  # fmt: skip
_WITHOUT_MEANING = frozenset({"", "batch_client_error"})
"""Codes that stand for errors of every kind, so that the text decides. Together's is also used for internal errors."""
_LIMITED = re.compile(r"rate.?limit|enqueued|quota", re.IGNORECASE)
_OURS = re.compile(
    r"\binvalid|not supported|unsupported|malformed|\bpars|not found|duplicate|\breading|\bmust be\b|\ballowed\b"
    r"|validation",
    re.IGNORECASE,
)


def error_class(status: int | None, code: str | None, message: str | None) -> ErrorClass:
    """Classify an error for the next attempt: by its HTTP status (0: no reply came), else its code, else its text.

    What does not sound like our doing counts as the provider's fault: sending the row again is bounded and errored
    rows are not billed, while giving it up would lose an answer.
    """
    if concerns_account(status, code, message):
        return ErrorClass.ACCOUNT
    if status == 429:
        return ErrorClass.RATE_LIMITED
    if status == 413:
        return ErrorClass.TOO_LARGE
    if status is not None and (status == 0 or 400 <= status <= 599):
        return ErrorClass.INVALID_REQUEST if status in REFUSALS else ErrorClass.PROVIDER_FAULT
    word = (code or "").lower()
    return _class_of_text(message or "") if word in _WITHOUT_MEANING else _class_of_code(word)


def _class_of_code(word: str) -> ErrorClass:
    if any(part in word for part in ("rate_limit", "token_limit", "quota", "resource_exhausted")):
        return ErrorClass.RATE_LIMITED
    if "too_large" in word or word == "too_many_tasks":  # the file has more rows than a batch may have
        return ErrorClass.TOO_LARGE
    is_ours = word in _VALIDATION or word.startswith("invalid")
    return ErrorClass.INVALID_REQUEST if is_ours else ErrorClass.PROVIDER_FAULT


def _class_of_text(text: str) -> ErrorClass:
    if _LIMITED.search(text):
        return ErrorClass.RATE_LIMITED
    return ErrorClass.INVALID_REQUEST if _OURS.search(text) else ErrorClass.PROVIDER_FAULT


# ---- batches

_NO_ROOM = re.compile(r"\brate[ _-]?limit|\btoo many requests\b(?! (in|per|for) )", re.IGNORECASE)
"""Words of a provider that takes no more for now, also as those of status 429."""
_OVER_A_LIMIT = re.compile(
    r"\b(too (large|many|big)|exceeds?|more than)\b.{0,80}\b(requests?|lines?|rows?|bytes|MB|file size)\b",
    re.IGNORECASE,
)


def failure_class(reading: Snapshot) -> ErrorClass:
    """Return why a batch failed as a whole: by the provider's code if that is telling, else by its sentence."""
    reason, by_code = reading.message or "", reading.error_class
    if reading.outcome is BatchOutcome.FAILED and concerns_account(None, None, reason):
        return ErrorClass.ACCOUNT
    if reading.outcome is not BatchOutcome.FAILED or by_code in (ErrorClass.RATE_LIMITED, ErrorClass.TOO_LARGE):
        return by_code
    if _NO_ROOM.search(reason):
        return ErrorClass.RATE_LIMITED
    return ErrorClass.TOO_LARGE if _OVER_A_LIMIT.search(reason) else by_code


MALFORMED = "malformed"
"""The raw finish reason of a reply that was paid for and holds nothing to read."""
CUSTOM_ID = re.compile(rb'"(?:custom_id|key|batch_request_id)"\s*:\s*"([A-Za-z0-9_-]{1,64})"')
"""The name of a request in a line of a batch or result file. It cannot match inside a text of the line, where quotes
are escaped."""

_NOT_RUN = {
    "batch_expired": RequestOutcome.EXPIRED,
    "batch_cancelled": RequestOutcome.CANCELLED,
    "batch_canceled": RequestOutcome.CANCELLED,
}
_RPC_CANCELLED = 1
_RPC = {
    3: ErrorClass.INVALID_REQUEST,  # INVALID_ARGUMENT
    5: ErrorClass.INVALID_REQUEST,  # NOT_FOUND
    7: ErrorClass.INVALID_REQUEST,  # PERMISSION_DENIED
    8: ErrorClass.RATE_LIMITED,  # RESOURCE_EXHAUSTED
    9: ErrorClass.INVALID_REQUEST,  # FAILED_PRECONDITION
    11: ErrorClass.INVALID_REQUEST,  # OUT_OF_RANGE
    12: ErrorClass.INVALID_REQUEST,  # UNIMPLEMENTED
    16: ErrorClass.ACCOUNT,  # UNAUTHENTICATED
}
"""google.rpc.Code; the ones left out (unknown, deadline, internal, unavailable …) are the provider's fault."""


def errored(custom_id: str, status: int | None, error: JsonValue) -> Response:
    """Read a row without an answer: by its HTTP status (0: it never got a reply) and its error, an object or a text,
    perhaps one that ends with an object, as Vertex writes it: ``Bad Request: {"error": …}``."""
    if isinstance(error, str) and "{" in error:
        with suppress(ProviderReplyError):
            error = parse_object(error[error.index("{") :], "", "")
    word, number, sentence = _words_of(error)
    word = clean(word, 80) if word else None
    sentence = sentence or (in_words(error) if error and not isinstance(error, Mapping) else None)
    error_message = clean(sentence, 500) if sentence else None
    outcome = _NOT_RUN.get((word or "").lower())
    if status is None and number == _RPC_CANCELLED:
        outcome = RequestOutcome.CANCELLED
    if outcome is not None:
        class_ = ErrorClass.NOT_EXECUTED
    elif status is None:
        class_ = rpc_error_class(number, word, error_message)
    else:
        word = NO_REPLY if status == 0 else word
        class_ = error_class(status, word, error_message)
    return Response(
        custom_id,
        outcome or RequestOutcome.ERRORED,
        error_class=class_,
        error_code=word or (str(status) if status else None),
        error_message=error_message,
    )


def rpc_error_class(number: int | None, word: str | None, message: str | None) -> ErrorClass:
    """Classify an error whose number is a code of google.rpc or an HTTP status."""
    is_rpc = number is not None and 0 < number < 20
    by_words = error_class(None if is_rpc else number, word, message)
    if not is_rpc or by_words is ErrorClass.ACCOUNT:
        return by_words
    return _RPC.get(number or 0, ErrorClass.PROVIDER_FAULT)


# ---- rows that are ours and not of the documented form


def malformed(custom_id: str, usage: Usage, served_model: str | None = None) -> Response:
    """Record a reply that the provider calls a success and that is not of its documented form: paid for, so
    answered."""
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        finish_reason=FinishReason.OTHER,
        raw_finish_reason=MALFORMED,
        usage=usage,
        served_model=served_model,
    )


def unreadable(custom_id: str, reason: str) -> Response:
    """Record a row of which nobody can tell whether it was carried out, nor what it cost."""
    return Response(
        custom_id,
        RequestOutcome.ERRORED,
        error_class=ErrorClass.UNREADABLE,
        error_code=str(ErrorClass.UNREADABLE),
        error_message=clean(reason, 500),
    )


def named_in(line: bytes) -> Sequence[str]:
    """Return the custom_ids that a line names which is not JSON (cut, or two lines in one), in their order, each
    once."""
    return list(dict.fromkeys(match.decode() for match in CUSTOM_ID.findall(line)))


LONGEST_WAIT = 3600.0
"""Seconds; a provider that asks for more is asked again after this long."""

_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror"})
_BAD_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL"})
_DROPPED = frozenset({"TransportError", "APIConnectionError", "NoResponseError", "ClientConnectionError", "OSError"})
_NOT_NOW = frozenset({407, 429})
"""Too many calls, or a proxy that wants to know who we are: nothing was done, and it passes or can be mended."""
_LOOK_FIRST = "it may have been carried out: the batch is looked for before anything is sent again"


def api_key(access: Access | None, provider: str) -> str:
    """Return the key to send. Raises MissingKeyError naming the environment variable if there is none, or none that can
    be sent: HTTP libraries print a header they cannot send, so such a key must not get that far. Raises ManifestError
    if it would be sent to what is no address: that is a mistake in our settings, and nothing becomes of a batch."""
    key, variable = access.api_key.strip() if access is not None else "", " or ".join(key_names(provider))
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
        return _refusal(*reply, where, reason, hide, paid=paid)
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


def _reply(error: BaseException) -> tuple[int, Mapping[str, str], object] | None:
    """Return status, headers and body of the reply that an SDK's error is about; None: it is about none."""
    response = getattr(error, "response", None)
    response = getattr(error, "raw_response", None) if response is None else response
    own = getattr(error, "status_code", None), getattr(error, "code", None)
    for status in (*own, getattr(response, "status_code", None)):
        if type(status) is int and 100 <= status <= 999:
            headers = getattr(response, "headers", None)
            return status, headers if isinstance(headers, Mapping) else {}, _body(error, response)
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


def _refusal(
    status: int, headers: Mapping[str, str], body: object, where: str, fallback: str, hide: Redactor, *, paid: bool
) -> ProviderError:
    word, _, sentence = _words_of(body)
    reason, code = clean(hide(sentence or fallback)), clean(hide(word), 80) if word else None
    message = f"{where}: HTTP {status}: {reason}"
    if status < 400:
        trouble = "a redirect, which is not followed" if status >= 300 else f"a reply that could not be read: {reason}"
        message = f"{where}: HTTP {status}, {trouble}"
        if not paid:
            return ProviderReplyError(message, status=status)
    elif status in REFUSALS:
        return (NotFoundError if status == 404 else RequestRefusedError)(message, status=status, code=code)
    elif status in _NOT_NOW or not paid:
        return TransientProviderError(message, status=status, code=code, retry_after=retry_after(headers))
    return AmbiguousCallError(f"{message}; {_LOOK_FIRST}", status=status, code=code)


def _words_of(body: object) -> tuple[str | None, int | None, str | None]:
    """Return an error's most exact word, its number and its sentence, wherever the provider keeps them.

    The word of a google.rpc.Status is the name of its status, for Google's ``code`` only repeats the HTTP status, but
    the reason of its ErrorInfo where that is the account's; others have it in ``code``, ``status`` or ``type``.
    """
    whole_body = body if isinstance(body, Mapping) else EMPTY
    error = at(whole_body, "error") or whole_body
    number = whole(error.get("code"))
    reasons = (text(entry, "reason") or "" for entry in objects(error, "details"))
    words = [reason for reason in reasons if reason.lower() in _ACCOUNT_CODES]
    words += filter(None, (text(error, "code"), text(error, "status"), str(number or ""), text(error, "type")))
    word = next(iter(words), None) or text(whole_body, "code")
    return word, number, _sentence(body)


def _sentence(body: object, depth: int = 0) -> str | None:
    """Return the provider's own words."""
    if isinstance(body, str):
        return body or None
    inner: Iterable[object] = ()
    if isinstance(body, Mapping):
        inner = [body.get(key) for key in ("error", "message", "detail", "msg", "title")]
    elif isinstance(body, list | tuple):
        inner = body
    return next((words for entry in inner if (words := _sentence(entry, depth + 1))), None) if depth < 4 else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by ``retry-after-ms`` or ``retry-after``, within 0 and LONGEST_WAIT; None if the
    headers do not say."""
    lowered = {str(key).lower(): str(value) for key, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError, LookupError):
            if math.isfinite(seconds := float(lowered[name]) / unit):
                return min(max(seconds, 0.0), LONGEST_WAIT)
    return None
