"""What the rows of requests, answers, attempts and batches say together, at every moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from layton_batch.runs.context import Run
from layton_batch.states import PERHAPS_BILLED, AnswerState, BatchOutcome, Lifecycle, RequestOutcome
from layton_batch.store import schema

attempts, batches, answers = schema.attempts.c, schema.batches.c, schema.answers.c
_ATTEMPTS = select(attempts.batch, attempts.fingerprint, attempts.is_open, attempts.outcome, attempts.error_class)
_BATCHES = select(
    batches.key, batches.batch_id, batches.state, batches.requests, batches.submitting_at, batches.absent_creates,
    batches.resent, batches.provider_id, batches.outcome,
)  # fmt: skip
_ANSWERS = select(answers.fingerprint, answers.state, answers.batch)
_WANTED = select(schema.requests.c.answer)


@dataclass(frozen=True, slots=True)
class _Attempt:
    batch: int
    fingerprint: bytes
    is_open: bool
    outcome: str | None
    error_class: str | None


@dataclass(frozen=True, slots=True)
class _Batch:
    batch_id: str
    state: str
    requests: int
    was_intended: bool
    in_doubt: int
    provider_id: str | None
    outcome: str | None

    @property
    def is_unsent(self) -> bool:
        """Whether it is to be sent, or was withdrawn before that; an earlier create may have been refused."""
        is_withdrawn = self.outcome == BatchOutcome.CANCELLED and self.provider_id is None
        return self.state == Lifecycle.PLANNED or (self.state == Lifecycle.ENDED and is_withdrawn)


@dataclass(frozen=True, slots=True)
class _Answer:
    state: str
    batch: int | None


def disagreements(run: Run) -> list[str]:
    """Every way in which the rows of the database contradict each other, in words."""
    with run.store.reading() as connection:
        tries = [_Attempt(*row) for row in connection.execute(_ATTEMPTS)]
        sent = {
            key: _Batch(batch_id, state, requests, intended is not None, absent + resent, provider_id, outcome)
            for key, batch_id, state, requests, intended, absent, resent, provider_id, outcome in connection.execute(
                _BATCHES
            )
        }
        known = {fingerprint: _Answer(*row) for fingerprint, *row in connection.execute(_ANSWERS)}
        wanted = frozenset(connection.execute(_WANTED).scalars())
    broken = [] if wanted <= known.keys() else ["a request wants an answer that has no row"]
    by_batch: dict[int, list[_Attempt]] = defaultdict(list)
    by_answer: dict[bytes, list[_Attempt]] = defaultdict(list)
    for one in tries:
        by_batch[one.batch].append(one)
        by_answer[one.fingerprint].append(one)
    for key, batch in sent.items():
        broken += _of_batch(batch, by_batch[key])
    for fingerprint, answer in known.items():
        broken += _of_answer(fingerprint.hex()[:8], answer, by_answer[fingerprint], sent)
    return broken


def _of_batch(batch: _Batch, tries: Sequence[_Attempt]) -> Iterator[str]:
    if len(tries) != batch.requests:
        yield f"batch {batch.batch_id}: {batch.requests} requests, {len(tries)} attempts"
    is_over = batch.state == Lifecycle.COLLECTED
    if {one.outcome is not None for one in tries} != {is_over}:
        yield f"batch {batch.batch_id} is {batch.state}, and its attempts have {'no ' if is_over else ''}outcomes"
    is_open = batch.in_doubt > 0 if batch.is_unsent else not is_over and batch.was_intended
    if {one.is_open for one in tries} != {is_open}:
        yield f"batch {batch.batch_id} is {batch.state}: its attempts are {'not ' if is_open else ''}open"


def _of_answer(name: str, answer: _Answer, tries: Sequence[_Attempt], sent: Mapping[int, _Batch]) -> Iterator[str]:
    mine = next((one for one in tries if one.batch == answer.batch), None)
    its_batch = None if answer.batch is None else sent[answer.batch]
    if any(one.is_open for one in tries):
        right = {AnswerState.SENT}
    elif any(one.outcome == RequestOutcome.SUCCEEDED for one in tries):
        right = {AnswerState.ANSWERED}
    elif mine is None:  # in no batch yet: the batch is that of the answer before it
        right = {AnswerState.WANTED}
    elif its_batch is not None and its_batch.state != Lifecycle.COLLECTED:
        right = {AnswerState.PLANNED}
    else:
        ended = AnswerState.UNCERTAIN if mine.error_class in PERHAPS_BILLED else AnswerState.FAILED
        right = {ended, AnswerState.WANTED}
    if answer.state not in right:
        yield f"answer {name} is {answer.state}, its attempts say {' or '.join(sorted(right))}"
    if answer.state == AnswerState.ANSWERED and (mine is None or mine.outcome != RequestOutcome.SUCCEEDED):
        yield f"answer {name}: its batch did not bring it"
    if answer.state == AnswerState.SENT and (mine is None or not mine.is_open):
        yield f"answer {name}: its batch does not ask for it"
