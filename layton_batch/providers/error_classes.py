"""Classes of errors: why a call, a request or a whole batch failed, by the provider's status, code or sentence."""

from __future__ import annotations

import re

from layton_batch.records import Snapshot
from layton_batch.states import BatchOutcome, ErrorClass

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
