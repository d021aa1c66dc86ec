"""Later attempts at a question that several requests of a run ask: one asks, the others take its answer over.

Two models of one manifest may ask exactly the same, and items may repeat. What is looked for before a first attempt is
looked for before every other one: whether the question is on its way, or was answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from layton_batch.batches.attempts import write_next
from layton_batch.batches.machine import answered_already
from layton_batch.batches.names import part_of
from layton_batch.batches.paid_answers import PaidAnswers, want_own
from layton_batch.batches.taking_over import TakenOver, counts_of, said_of, write_tables
from layton_batch.files import tables
from layton_batch.records import Batch, Content, Job, RowCount
from layton_batch.runs.context import Run
from layton_batch.states import PERHAPS_BILLED, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store.reopening import RowKey, reopen


@dataclass(slots=True)
class Sorted:
    """What is to become of some of a job's requests. ``free``: nobody else asks; ``taken``: there is an answer;
    ``waiting``: another request is on its way, or is about to go; ``waits_for``: the batches that it is in, by their
    numbers in the database, and their runs."""

    free: list[str] = field(default_factory=list)
    taken: list[TakenOver] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    waits_for: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Questions:
    """Sorts requests that are to be asked once more. Of those that ask the same the first that is sorted asks."""

    run: Run
    _fingerprints: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    _asked: set[bytes] = field(default_factory=set)

    def sort(self, job: Job, custom_ids: Collection[str], reask: int, *, by_a_person: bool = False) -> Sorted:
        """``reask``: how many times they will have been asked for again though they were answered. An answer that may
        have been billed counts as one, unless they go ``by_a_person``."""
        found, fingerprints = Sorted(), self._of(job)
        wanted = {fingerprints[name] for name in custom_ids if name in fingerprints}
        standings = PaidAnswers.of(self.run).look_up(wanted, reask)
        away = {key: standing for key, standing in standings.items() if standing.fingerprint != key}
        names = [name for name in custom_ids if fingerprints.get(name) in away]
        want_own(self.run, job.id, {name: away[fingerprints[name]] for name in names})
        for name in custom_ids:
            fingerprint = fingerprints.get(name)
            standing = None if fingerprint is None else standings.get(fingerprint)
            paid, sent = (None, None) if standing is None else (standing.paid, standing.sent)
            if paid is not None and (paid.answered or not (by_a_person or sent)):
                found.taken.append(TakenOver(name, paid))
            elif sent is not None:
                found.waiting.append(name)
                found.waits_for[sent.key] = sent.run_id
            elif fingerprint in self._asked:
                found.waiting.append(name)
            else:
                found.free.append(name)
                self._asked |= {fingerprint} if fingerprint is not None else set()
        return found

    def _of(self, job: Job) -> Mapping[str, bytes]:
        if job.id not in self._fingerprints:
            self._fingerprints[job.id] = self.run.store.fingerprints(job.id)
        return self._fingerprints[job.id]


def closed(run: Run, job: Job, batch: Batch, taken: Sequence[TakenOver]) -> tuple[Batch, list[RowCount]]:
    """A batch whose file is on disk, as one that is over before it began: its requests get these answers."""
    over = answered_already(batch, said_of(taken))
    ends = write_tables(run, over, taken, str(job.role), job.spec.name)
    return replace(over, content=Content(list(ends), ends=ends)), counts_of(over, ends)


def follow(run: Run, job: Job, wanted: Collection[str]) -> dict[int, str]:
    """Give those of a job's requests that have no answer the ones that others brought meanwhile. Return the batches
    that may bring more, by their numbers in the database, and their runs. Nothing is sent."""
    batches = [batch for batch in run.store.batches() if batch.job_id == job.id]
    waits_for: dict[int, str] = {}
    again: list[Batch] = []
    counts: list[RowCount] = []
    repeated: Counter[RowKey] = Counter()
    for batch in batches:
        rows = unanswered(run, batch, batches)
        rows = rows.filter(pl.col("custom_id").is_in(list(wanted)))
        found = _sort_unanswered(run, job, batch, rows)
        waits_for |= found.waits_for
        if found.taken:
            names = [one.custom_id for one in found.taken]
            planned = write_next(run, batch, names, numbered("r", batch, batches), said_of(found.taken))
            over, ends = closed(run, job, planned, found.taken)
            again.append(over)
            counts += ends
            repeated.update(row_keys(batch, rows.filter(pl.col("custom_id").is_in(names))))
    if again:
        detail = f"{job.id}: {sum(batch.requests for batch in again)} requests without an answer take one over"
        reopen(run.store, again, repeated, run.clock.now(), detail=detail, counts=counts)
    return waits_for


def _sort_unanswered(run: Run, job: Job, batch: Batch, rows: pl.DataFrame) -> Sorted:
    """Sort rows without an answer by what others brought. One that may have been billed here is not answered by
    one that may have been billed elsewhere."""
    perhaps = rows["error_class"].is_in([str(cause) for cause in PERHAPS_BILLED])
    found, questions = Sorted(), Questions(run)
    for part, by_a_person in ((rows.filter(~perhaps), False), (rows.filter(perhaps), True)):
        if len(part):
            its = questions.sort(job, part["custom_id"].to_list(), batch.reask, by_a_person=by_a_person)
            found.taken += its.taken
            found.waits_for |= its.waits_for
    return found


def numbered(mark: str, parent: Batch, batches: Sequence[Batch]) -> str:
    """A mark for the next attempt that only the run's driver makes: requests of one batch may go at
    different times."""
    entered = {one.shard_id for one in batches if one.parent_id == parent.id}
    name, number = mark, 1
    while part_of(parent.shard_id, f"{parent.attempt}{name}") in entered:
        number += 1
        name = f"{mark}x{number}"
    return name


def unanswered(run: Run, batch: Batch, batches: Sequence[Batch]) -> pl.DataFrame:
    """``custom_id, outcome, error_class`` of a collected batch's requests that no later attempt has taken over."""
    empty = pl.DataFrame(schema={"custom_id": pl.String, "outcome": pl.String, "error_class": pl.String})
    parts = sorted((run.folder.tables / "responses" / batch.id).glob("*.parquet"))
    if batch.state is not Lifecycle.COLLECTED or not batch.path or not parts:
        return empty
    rows = pl.concat([tables.read_part(part, columns=empty.columns) for part in parts])
    taken = [run.folder.part("attempts", other.id) for other in batches if other.parent_id == batch.id]
    repeated = pl.concat([tables.read_part(part, columns=["custom_id"]) for part in taken]) if taken else empty
    open_rows = rows.filter(pl.col("outcome") != str(RequestOutcome.SUCCEEDED))
    return open_rows.join(repeated.select("custom_id"), on="custom_id", how="anti", maintain_order="left")


def row_keys(batch: Batch, rows: pl.DataFrame) -> Counter[RowKey]:
    """How many of the batch's rows go again, by how they ended."""
    pairs = zip(rows["outcome"], rows["error_class"], strict=True)
    return Counter((batch.id, RequestOutcome(outcome), ErrorClass(error_class)) for outcome, error_class in pairs)
