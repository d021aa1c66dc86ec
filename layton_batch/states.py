"""READ THIRD. The life of a batch, how it and its requests can end, and the one table of legal moves.

Three columns describe a batch: its lifecycle (ours, below), its outcome (how the provider's work ended) and the
provider's raw status word. Only the lifecycle decides what the program does next.
"""

from __future__ import annotations

from enum import StrEnum


class Lifecycle(StrEnum):
    """State of a batch from our side."""

    PLANNED = "planned"  # its file is on disk; nothing was paid
    SUBMITTING = "submitting"  # the intent to pay is committed; the reply is not
    LOST = "lost"  # whether it exists, or what became of it, could not be told; a person decides
    IN_FLIGHT = "in_flight"  # the provider has it and we have its id
    CANCELLING = "cancelling"  # the provider is asked to stop it until it does; partial answers may still come
    ENDED = "ended"  # the provider is done with it; results wait to be downloaded
    COLLECTED = "collected"  # every line is on our disk and every request has its outcome


class BatchOutcome(StrEnum):
    """End of the provider's work on a batch; any of these may have results."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class RequestOutcome(StrEnum):
    """Outcome of one attempt; every attempt has exactly one."""

    SUCCEEDED = "succeeded"  # a reply was paid for (also a refused, truncated or malformed one)
    ERRORED = "errored"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    MISSING = "missing"  # the batch ended and no line names it


class ErrorClass(StrEnum):
    """Error class of a failed request, which decides about the next attempt."""

    NONE = "none"
    INVALID_REQUEST = "invalid_request"  # the same request can never succeed: not sent again
    RATE_LIMITED = "rate_limited"
    PROVIDER_FAULT = "provider_fault"  # 5xx, overloaded, internal
    NOT_EXECUTED = "not_executed"  # expired, cancelled, batch failed before its turn
    TOO_LARGE = "too_large"
    OUT_OF_REACH = "out_of_reach"  # it may have been answered, and the results cannot be had: not sent again by itself
    ACCOUNT = "account"  # no credit, no access, our file not found: no outcome of a request, which is asked again
    UNREADABLE = "unreadable"  # its line is damaged: it may have been paid for, so only a person has it sent again


class AnswerState(StrEnum):
    """The state of an answer that requests want, over all attempts at it."""

    WANTED = "wanted"  # a batch is to be written that asks for it
    PLANNED = "planned"  # it is in a batch that was not sent yet
    SENT = "sent"  # a batch asks for it that may be billed and has not come to its end
    ANSWERED = "answered"  # it was paid for, and is here
    FAILED = "failed"  # the last attempt at it brought nothing and was not billed
    UNCERTAIN = "uncertain"  # the last attempt at it brought nothing, and may have been billed


class PredictionKind(StrEnum):
    """Kind of a participant's parsed reply."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    UNPARSED = "unparsed"
    MISSING = "missing"


class VerdictKind(StrEnum):
    """End of the request for a verdict. Only a readable one counts."""

    READABLE = "readable"
    UNREADABLE = "unreadable"  # a reply in which no verdict stands
    CUT = "cut"  # by the output limit, before a verdict
    REFUSED = "refused"
    MISSING = "missing"  # no reply


class FinishReason(StrEnum):
    """Reason for which the model stopped, in one vocabulary for all providers."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class Role(StrEnum):
    """Purpose of a job's requests."""

    PREDICT = "predict"
    JUDGE = "judge"
    REJUDGE = "rejudge"  # labelled answers of the gold set before the run's own jury


_L = Lifecycle

MOVES: dict[Lifecycle, frozenset[Lifecycle]] = {
    # planned → ended: the run was cancelled before the batch was sent (outcome cancelled, nothing to download)
    _L.PLANNED: frozenset({_L.SUBMITTING, _L.ENDED}),
    # submitting → planned: the create certainly did nothing; → ended: the provider refused it for good
    _L.SUBMITTING: frozenset({_L.IN_FLIGHT, _L.LOST, _L.PLANNED, _L.ENDED}),
    # lost → planned: a person has it sent again; → ended: a person gave it up
    _L.LOST: frozenset({_L.IN_FLIGHT, _L.PLANNED, _L.ENDED}),
    # in_flight, cancelling → lost: long past its deadline, the provider will not say what became of it
    _L.IN_FLIGHT: frozenset({_L.CANCELLING, _L.ENDED, _L.LOST}),
    _L.CANCELLING: frozenset({_L.ENDED, _L.LOST}),
    _L.ENDED: frozenset({_L.COLLECTED}),
    _L.COLLECTED: frozenset(),
}


class JobState(StrEnum):
    """State of a job."""

    NEW = "new"  # its requests are not known, or not all of them
    PLANNED = "planned"  # its batch files are on disk
    GRADED = "graded"  # its responses were turned into predictions or verdicts


JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    JobState.NEW: frozenset({JobState.PLANNED}),
    # planned, graded → new: there may be predictions that the judge was not asked about
    JobState.PLANNED: frozenset({JobState.GRADED, JobState.NEW}),
    # graded → planned: requests of the job go again, and what they bring is graded with the rest
    JobState.GRADED: frozenset({JobState.PLANNED, JobState.NEW}),
}

OPEN = frozenset({_L.PLANNED, _L.SUBMITTING, _L.LOST, _L.IN_FLIGHT, _L.CANCELLING, _L.ENDED})
"""States in which a batch still has something to happen to it."""

TO_SEND = frozenset({_L.PLANNED, _L.SUBMITTING})
"""States of a batch that is to be sent, or whose create is to be settled."""

AT_PROVIDER = frozenset({_L.IN_FLIGHT, _L.CANCELLING})
"""States in which the provider is to be asked how it is going."""

PASSING = frozenset({ErrorClass.RATE_LIMITED, ErrorClass.PROVIDER_FAULT, ErrorClass.NOT_EXECUTED, ErrorClass.ACCOUNT})
"""Error classes whose rows go into another attempt, while attempts are left; ``ACCOUNT`` takes none."""

PERHAPS_BILLED = frozenset({ErrorClass.UNREADABLE, ErrorClass.OUT_OF_REACH})
"""Classes of requests that may have been answered and billed, though we have no answer."""


def is_legal(old: Lifecycle, new: Lifecycle) -> bool:
    """Tell whether the table of moves allows ``old → new``."""
    return new in MOVES[old]
