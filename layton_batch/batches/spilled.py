"""A reply as bytes and back: what is read of a result line once is kept on disk until its turn comes."""

from __future__ import annotations

import marshal
from decimal import Decimal

from layton_batch.records import Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

_FORM = 0
"""Of marshal's forms the one in which equal values are equal bytes, whatever else refers to them."""

_OF_USAGE = 10
"""Where the tokens begin."""


def packed(reply: Response) -> bytes:
    """The same bytes for the same reply, any text in it. Raises ValueError where a dialect put something into it that
    is no plain text or number."""
    used = reply.usage
    return marshal.dumps(
        (
            reply.custom_id,
            reply.outcome.value,
            reply.text,
            None if reply.finish_reason is None else reply.finish_reason.value,
            reply.raw_finish_reason,
            reply.refusal,
            reply.error_class.value,
            reply.error_code,
            reply.error_message,
            reply.served_model,
            used.input_tokens,
            used.cached_input_tokens,
            used.output_tokens,
            used.reasoning_tokens,
            used.cache_write_tokens,
            used.known,
            None if used.stated_usd is None else str(used.stated_usd),
        ),
        _FORM,
    )


def unpacked_reply(content: bytes) -> Response:
    """What :func:`packed` was given."""
    said = marshal.loads(content)  # noqa: S302  of a nameless file that this process wrote
    custom_id, outcome, text, finish, raw_finish, refusal, cause, code, message, served = said[:_OF_USAGE]
    sent, cached, made, thought, written, known, usd = said[_OF_USAGE:]
    return Response(
        custom_id,
        RequestOutcome(outcome),
        text,
        None if finish is None else FinishReason(finish),
        raw_finish,
        refusal,
        Usage(sent, cached, made, thought, written, known, None if usd is None else Decimal(usd)),
        ErrorClass(cause),
        code,
        message,
        served,
    )
