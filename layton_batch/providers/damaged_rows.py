"""Result rows that are ours and not what the documents promise: what is recorded of them.

Such a request may have been carried out and paid for, so nothing here ends in a class that is bought again by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from layton_batch.providers.wire_errors import clean
from layton_batch.records import Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

MALFORMED = "malformed"
"""The raw finish reason of a reply that was paid for and holds nothing to read."""

_ID = re.compile(rb'"(?:custom_id|key|batch_request_id)"\s*:\s*"([A-Za-z0-9_-]{1,64})"')
"""Cannot match inside a text of the line, where quotes are escaped."""


def malformed(custom_id: str, usage: Usage, served_model: str | None = None) -> Response:
    """A reply that the provider calls a success and that is not of its documented form: paid for, so answered."""
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        finish_reason=FinishReason.OTHER,
        raw_finish_reason=MALFORMED,
        usage=usage,
        served_model=served_model,
    )


def unreadable(custom_id: str, reason: str) -> Response:
    """A row of which nobody can tell whether it was carried out, nor what it cost."""
    return Response(
        custom_id,
        RequestOutcome.ERRORED,
        error_class=ErrorClass.UNREADABLE,
        error_code=str(ErrorClass.UNREADABLE),
        error_message=clean(reason, 500),
    )


def named_in(line: bytes) -> Sequence[str]:
    """The custom_ids that a line names which is not JSON (cut, or two lines in one), in their order, each once."""
    return list(dict.fromkeys(match.decode() for match in _ID.findall(line)))
