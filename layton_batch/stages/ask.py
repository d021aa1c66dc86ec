"""What a job asks that it has no answer to yet: its requests by fingerprint, in batch files.

A job that is planned again keeps the requests that are still wanted, and marks those that are not as retired. Of the
new ones those that were paid for elsewhere get that answer; those on their way elsewhere in the run wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from hashlib import sha256

import polars as pl

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.batch_file import Line, OpenShard, Packed, batch_requests, pack
from layton_batch.batches.cancel import withdraw
from layton_batch.batches.fingerprints import fingerprint, of_shards, requests_of, retired_ids
from layton_batch.batches.names import custom_id, tag
from layton_batch.batches.paid_answers import Paid, PaidAnswers
from layton_batch.batches.request_lines import LineWriter, Shown, ShownPrompts
from layton_batch.batches.retry import ask_again
from layton_batch.batches.shared_questions import follow
from layton_batch.batches.taking_over import TakenOver, said_of, write_tables
from layton_batch.batches.usage_rows import bill_under_name
from layton_batch.errors import ManifestError, StaleStateError
from layton_batch.files import atomic, tables
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Job, ModelSpec, RowCount, Shard
from layton_batch.run.context import Run
from layton_batch.stages.candidates import candidates
from layton_batch.stages.reask import spec_of
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.tasks.protocol import juried
from layton_batch.text import decimal_text

TOO_LARGE = "too-large"
"""Begins the shard of requests that no file of their provider can hold: a number follows, one more each time that a
job is planned and has such."""
TAKEN_OVER = "r"
"""Begins the shard of requests whose answers were paid for already."""


def ask(run: Run, job: Job, judged: ModelSpec | None, mark: str) -> bool:
    """Write what the job has not asked yet, and enter it; True where anything was entered."""
    entered = _entered(run, job)
    known = of_shards(requests_of(run.folder, job.id, job.spec.provider, job.spec.model), entered)
    dialect = run.providers.dialect(job.spec.provider)
    asking = _Asking(
        run,
        job,
        dialect,
        mark,
        known,
        _number(TAKEN_OVER, entered),
        PaidAnswers.of(run),
        LineWriter(dialect, run.prices),
    )
    asking.paid.look(job.spec)
    sent = [name for name in entered if not name.startswith((TOO_LARGE, TAKEN_OVER))]
    folder = run.folder.request_file(job.id, "s").parent
    with asking.files:
        packed = pack(asking.lines(), asking.provider.limits, run.folder.root, folder, 1 + len(sent))
    left_out = _number(f"{TOO_LARGE}-", entered)
    packed.shard_of |= dict.fromkeys(packed.too_large, left_out)
    packed.shard_of |= {one.custom_id: asking.shard_id for one in asking.taken}
    ask_again(run, job, asking.kept, retired_ids(known))
    followed = follow(run, job, asking.kept) if asking.kept else frozenset()
    asking.waits |= bool(followed)
    _write_requests(run, job, judged, asking, packed)
    bill_under_name(run, job)
    _withdraw_unwanted(run, job, frozenset(known["custom_id"]) - asking.kept)
    batches = [first_attempt(run, job, shard) for shard in packed.shards]
    counts: list[RowCount] = []
    if packed.too_large:
        batches.append(_never_sent(job, left_out, packed.too_large))
        counts.append(_too_large(batches[-1]))
    if asking.taken:
        batches.append(_taken_over(run, job, asking))
        counts += write_tables(run, batches[-1], asking.taken, str(job.role), job.spec.name)
    run.waiting[job.id] = followed | asking.waits_for
    if batches or not asking.waits:
        run.store.plan_job(job, batches, run.clock.now(), counts, is_all=not asking.waits)
    return bool(batches) or not asking.waits


def _withdraw_unwanted(run: Run, job: Job, unwanted: frozenset[str]) -> None:
    """Batches that were not sent yet, and hold what nobody asks for any more, are not sent: the rest of their requests
    goes in another one."""
    for batch in run.store.batches({Lifecycle.PLANNED}) if unwanted else ():
        held = unwanted.intersection(batch_requests(run, batch)["custom_id"]) if batch.job_id == job.id else ()
        if held and not batch.facts.creates_in_doubt:
            with suppress(StaleStateError):  # it is being sent
                withdraw(run, batch, f"{len(held)} of its requests are not asked for any more")


def _number(beginning: str, entered: Collection[str]) -> str:
    """The next shard's name of those that begin so."""
    number = 1 + sum(name.startswith(beginning) for name in entered)
    return f"{beginning}{number}"


@dataclass(slots=True)
class _Asking:
    """Goes through a job's prompts once: ``lines`` gives those to be sent, and the rest is noted on the way.

    ``rows``: item and fingerprint of each new request; ``kept``: the custom_ids of earlier ones that are still wanted;
    ``taken``: what gets an answer that was paid for, in a batch file of its own, from which `retry` takes lines.
    ``waits``: something is on its way elsewhere, or was asked a moment ago under another name.
    """

    run: Run
    job: Job
    provider: Provider
    mark: str
    known: pl.DataFrame
    shard_id: str
    paid: PaidAnswers
    writer: LineWriter
    files: ExitStack = field(default_factory=ExitStack)
    rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    taken: list[TakenOver] = field(default_factory=list)
    waits_for: set[str] = field(default_factory=set)
    waits: bool = False
    reused: OpenShard | None = None

    def lines(self) -> Iterator[Line]:
        """Encoded lines of what is to be asked."""
        asked, new = self._asked(), set[str]()
        for item_id, shown in _prompts(self.run, self.job):
            line, print_ = self._encoded(item_id, shown)
            before = asked.get((item_id, print_)) or asked.get((item_id, None))
            if before is not None:
                self.kept.add(before)
            elif (paid := self.paid.find(self.job.spec, print_)) is not None:
                self.rows[line.custom_id] = item_id, print_
                self._take(line, paid)
            elif print_ in new or self._is_under_way(print_):
                self.waits = True
            else:
                self.rows[line.custom_id] = item_id, print_
                new.add(print_)
                yield line

    def _encoded(self, item_id: str, shown: Shown) -> tuple[Line, str]:
        """The line under the job's next name, and its fingerprint."""
        spec = self.job.spec
        name = custom_id(self.mark, self.job.id, self.known.height + len(self.rows) + 1)
        if problem := custom_id_problem(name):
            raise ManifestError(f"job {self.job.id}: {problem}")
        line = self.writer.line(name, item_id, spec_of(self.run, self.job, item_id), shown)
        return line, fingerprint(spec.provider, spec.model, line.content, name, spec.sample)

    def _asked(self) -> dict[tuple[str, str | None], str]:
        """The job's requests by item and fingerprint; one without, of an earlier version, stands for its item."""
        columns = self.known.select("item_id", "fingerprint", "custom_id").iter_rows()
        return {(item_id, known): name for item_id, known, name in columns}

    def _is_under_way(self, print_: str) -> bool:
        batch_id = self.paid.under_way(print_)
        if batch_id is not None:
            self.waits_for.add(batch_id)
        return batch_id is not None

    def _take(self, line: Line, paid: Paid) -> None:
        if self.reused is None:
            path = self.run.folder.request_file(self.job.id, self.shard_id)
            self.reused = OpenShard(self.files.enter_context(atomic.writing(path)), sha256())
        self.reused.add(line)
        self.taken.append(TakenOver(line.custom_id, paid))


def _entered(run: Run, job: Job) -> set[str]:
    """The shards that the job was split into so far, those of requests that were never sent among them."""
    return {batch.shard_id for batch in run.store.job_batches(job.id) if batch.parent_id is None}


def _prompts(run: Run, job: Job) -> Iterator[tuple[str, Shown]]:
    kept = run.kept.setdefault(ShownPrompts, ShownPrompts())
    if job.role is Role.PREDICT:
        asking = run.task_of(job.spec)
        kept.about(None if job.spec.hints is None else f"{job.spec.hints} hints")
        return ((item.id, kept.of(item, None, partial(asking.prompt, item))) for item in run.items)
    task = juried(run.task)
    kept.about(job.depends_on or job.id)
    return (
        (one.item.id, kept.of(one.item, one.prediction, partial(task.judge_prompt, one)))
        for one in candidates(run, job)
    )


def _write_requests(run: Run, job: Job, judged: ModelSpec | None, asking: _Asking, packed: Packed) -> None:
    """The table of the job's requests: rows of before in their order, for batch files are in it, and new ones."""
    whose = {"model": judged.name if judged else job.spec.name, "judge": job.spec.name if judged else None}
    named = [pl.lit(value, pl.String).alias(column) for column, value in whose.items()]
    known = asking.known.with_columns(*named, retired=~pl.col("custom_id").is_in(list(asking.kept)))
    said = {
        "custom_id": asking.rows,
        "item_id": (item_id for item_id, _ in asking.rows.values()),
        "shard_id": map(packed.shard_of.__getitem__, asking.rows),
        "max_cost": (decimal_text(packed.max_cost.get(name)) for name in asking.rows),
        "fingerprint": (print_ for _, print_ in asking.rows.values()),
    }
    new = pl.DataFrame([pl.Series(column, list(values), pl.String) for column, values in said.items()])
    new = new.with_columns(
        *named,
        job_id=pl.lit(job.id),
        role=pl.lit(str(job.role)),
        sample=pl.lit(job.spec.sample, pl.Int64),
        retired=pl.lit(False),
    )
    tables.write(run.folder.part("requests", job.id), pl.concat([known, new.select(known.columns)]))


def first_attempt(run: Run, job: Job, shard: Shard) -> Batch:
    """The first batch of a shard."""
    return Batch(
        id=f"{job.id}.{shard.id}.a1",
        job_id=job.id,
        shard_id=shard.id,
        provider=job.spec.provider,
        model=job.spec.model,
        attempt=1,
        state=Lifecycle.PLANNED,
        tag=tag(run.tag_prefix, job.id, shard.id, 1),
        requests=shard.requests,
        path=shard.path,
        sha256=shard.sha256,
        size_bytes=shard.size_bytes,
        max_cost=shard.max_cost,
    )


def _taken_over(run: Run, job: Job, asking: _Asking) -> Batch:
    """Requests that get answers which were paid for already, as a batch that is over before it began, and cost
    nothing."""
    if asking.reused is None:
        raise AssertionError(f"job {job.id}: answers are taken over, and their batch file was not written")
    path = run.folder.request_file(job.id, asking.shard_id).relative_to(run.folder.root).as_posix()
    return replace(
        first_attempt(run, job, asking.reused.written(asking.shard_id, path)),
        state=Lifecycle.COLLECTED,
        outcome=BatchOutcome.COMPLETED,
        max_cost=Decimal(0),
        cause=said_of(asking.taken),
    )


def _never_sent(job: Job, shard_id: str, custom_ids: Sequence[str]) -> Batch:
    """Requests too large for the provider, as a batch that is over before it began: counted, shown, not sent."""
    return Batch(
        id=f"{job.id}.{shard_id}",
        job_id=job.id,
        shard_id=shard_id,
        provider=job.spec.provider,
        model=job.spec.model,
        attempt=1,
        state=Lifecycle.COLLECTED,
        outcome=BatchOutcome.FAILED,
        error_class=ErrorClass.TOO_LARGE,
        tag="",
        requests=len(custom_ids),
        path="",
        sha256="",
        size_bytes=0,
        reason=f"larger than {job.spec.provider} takes in one line; never sent: {', '.join(custom_ids[:5])}",
    )


def _too_large(batch: Batch) -> RowCount:
    return RowCount(batch.id, RequestOutcome.ERRORED, ErrorClass.TOO_LARGE, batch.requests)
