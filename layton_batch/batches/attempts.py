"""Further attempts: which requests of a batch go into another one by themselves, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layton_batch.batches.machine import REFUSED_CALLS
from layton_batch.clock import Pacing
from layton_batch.records import Batch, End
from layton_batch.states import PASSING, BatchOutcome, ErrorClass, RequestOutcome

MOST_SPLITS = 7
"""Most times that a batch is halved: into 128 parts."""
MOST_WAITS = 100
"""Most returns of a batch that the provider had no room for: about a day, at the longest pauses."""


@dataclass(frozen=True, slots=True)
class AttemptWait:
    """The wait before the next attempt at a batch's requests: seconds, why, and whether a person has to end it."""

    pause: float = 0.0
    reason: str | None = None
    needs_person: bool = False


AT_ONCE = AttemptWait()


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts that led to a batch, itself included, since its requests were answered last. ``creates``: those that
    count; ``turned_away``: those that the provider had no room for (queued tokens, rate limits), those refused to the
    account, and those that were not sent: no fault of the requests. ``splits``: how often it was halved."""

    batch: Batch
    creates: int
    turned_away: int
    splits: int

    @classmethod
    def of(cls, batch: Batch, of_job: Sequence[Batch]) -> Attempts:
        """``of_job``: the batches of its job."""
        by_id = {other.id: other for other in of_job}
        turned_away, splits, earlier = 0, 0, by_id.get(batch.id)
        is_halved = True
        while earlier is not None and earlier.reask == batch.reask:
            turned_away += _was_turned_away(earlier)
            earlier = by_id.get(earlier.parent_id or "")
            is_halved &= earlier is not None and earlier.error_class is ErrorClass.TOO_LARGE
            splits += is_halved
        answered = earlier.attempt if earlier is not None else 0  # another answer was asked for: attempts begin anew
        return cls(batch, batch.attempt - answered - turned_away, turned_away, splits)

    def are_left(self, most: int) -> bool:
        """Return whether the requests may go again by themselves, ``most`` times in all."""
        return self.creates < most and self.turned_away < MOST_WAITS

    @property
    def is_split(self) -> bool:
        """Return whether the batch was refused for its size, and halves may fit.

        A batch that was refused whole costs nothing. The number of splits is limited, for the provider may mean
        something else.
        """
        batch = self.batch
        is_refused = batch.error_class is ErrorClass.TOO_LARGE and batch.outcome is BatchOutcome.FAILED
        return is_refused and batch.requests > 1 and self.splits < MOST_SPLITS

    def wait(self, pacing: Pacing) -> AttemptWait:
        """Return the wait before the next attempt: none, unless the batch failed as a whole, or the account was
        refused. A person is told of that in the end."""
        batch, is_of_account = self.batch, self.batch.error_class is ErrorClass.ACCOUNT
        if batch.outcome is not BatchOutcome.FAILED and not is_of_account:
            return AT_ONCE
        pause = pacing.backoff(batch.attempt)
        if self.turned_away:
            pause = max(pacing.backoff(self.turned_away), pacing.no_room)
        if not is_of_account:
            return AttemptWait(pause)
        reason = f"{batch.provider} refused {batch.id}: {batch.reason}"
        return AttemptWait(pause, reason, self.turned_away >= REFUSED_CALLS)

    def again(self, ends: Mapping[str, End], most: int) -> frozenset[str]:
        """Return the custom_ids that go into another batch by themselves: without an answer, and known not to have been
        billed for one. What a batch that was too large left unanswered comes back as two halves, which costs no
        attempt, and neither does a refusal of the account. After a cancel that this run did not ask for, a person says
        whether they go again."""
        if self.batch.stopped_elsewhere:
            return frozenset()
        classes = PASSING if self.is_split or self.are_left(most) else frozenset({ErrorClass.ACCOUNT})
        classes |= {ErrorClass.TOO_LARGE} if self.is_split else set()
        return frozenset(
            name
            for name, (outcome, error_class) in ends.items()
            if outcome is not RequestOutcome.SUCCEEDED and error_class in classes
        )


def _was_turned_away(batch: Batch) -> bool:
    was_limited = batch.outcome is BatchOutcome.FAILED and batch.error_class is ErrorClass.RATE_LIMITED
    return was_limited or batch.error_class is ErrorClass.ACCOUNT or batch.was_withdrawn
