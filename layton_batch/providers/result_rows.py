"""Result rows without an answer to read: errors in each provider's form, and rows that are not what documents promise.

A damaged row may be of a request that was carried out and paid for, so it never ends in a class that is bought again
by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.error_classes import error_class
from layton_batch.providers.protocol import NO_REPLY
from layton_batch.providers.wire_json import JsonObject, clean, in_words, parse_object, text, whole
from layton_batch.records import JsonValue, Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

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
    """Read a row without an answer: by its HTTP status (0: it never got a reply) and its error, an object or a text."""
    error = _object_in(error) if isinstance(error, str) and "{" in error else error
    holder = error.get("error", error) if isinstance(error, Mapping) else error
    holder = holder or error
    if isinstance(holder, Mapping):
        word, number = _code(holder)
        message: JsonValue = holder.get("message") or holder.get("detail")
    else:
        word, number, message = None, None, holder
    error_message = clean(in_words(message), 500) if message else None
    outcome = _NOT_RUN.get((word or "").lower())
    if status is None and number == _RPC_CANCELLED:
        outcome = RequestOutcome.CANCELLED
    if status == 0 and outcome is None:
        word = NO_REPLY
    if outcome is not None:
        class_ = ErrorClass.NOT_EXECUTED
    elif status is None:
        class_ = rpc_error_class(number, word, error_message)
    else:
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


def _code(error: JsonObject) -> tuple[str | None, int | None]:
    """Return an error's most telling word, and its number: OpenAI's ``code`` or ``type``, Google's ``status``."""
    code, number = error.get("code"), whole(error.get("code"))
    word = code if isinstance(code, str) and code else text(error, "status") or (str(number) if number else None)
    word = word or text(error, "type")
    return clean(word, 80) if word else None, number


def _object_in(error: str) -> JsonValue:
    """Return the object that an error's text ends with, as Vertex writes it: ``Bad Request: {"error": …}``."""
    with suppress(ProviderReplyError):
        return parse_object(error[error.index("{") :], "", "")
    return error


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
