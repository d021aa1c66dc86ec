"""What a job asks that it has no answer to yet: its requests by fingerprint, in batch files.

A job that is planned again keeps the requests that are still wanted, and marks those that are not as retired. Of the
new ones those that were paid for elsewhere get that answer; those on their way elsewhere in the run wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import islice

import polars as pl

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.batch_file import BatchFiles, OpenShard, batch_requests
from layton_batch.batches.cancel import withdraw
from layton_batch.batches.fingerprints import fingerprint_bytes, of_shards, requests_of, retired_ids
from layton_batch.batches.machine import answered_already
from layton_batch.batches.names import custom_id_prefix, tag
from layton_batch.batches.paid_answers import Paid, PaidAnswers, Standing, report_out_of_reach
from layton_batch.batches.prompt_cache import PromptCache, SizedPrompt
from layton_batch.batches.retry import ask_again
from layton_batch.batches.shared_questions import follow
from layton_batch.batches.taking_over import TakenOver, counts_of, said_of, write_tables
from layton_batch.batches.usage_rows import bill_under_name
from layton_batch.costs.estimate import CostBounds
from layton_batch.errors import ManifestError
from layton_batch.files import atomic, tables
from layton_batch.providers.protocol import Provider
from layton_batch.providers.request_line import request_line
from layton_batch.records import Batch, Content, Job, ModelSpec, Request, RowCount, Shard
from layton_batch.runs.context import Run
from layton_batch.stages.candidates import candidates
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store.request_rows import NewRequests
from layton_batch.tasks import has_one_limit, with_room
from layton_batch.tasks.protocol import juried
from layton_batch.text import decimal_text

TOO_LARGE = "too-large"
"""Begins the shard of requests that no file of their provider can hold: a number follows, one more each time that a
job is planned and has such."""
TAKEN_OVER = "r"
"""Begins the shard of requests whose answers were paid for already."""
LOOKED_UP = 500
"""The number of answers that are looked up at a time."""


def ask(run: Run, job: Job, judged: ModelSpec | None, mark: str) -> bool:
    """Write what the job has not asked yet, and enter it; True where anything was entered."""
    before = run.store.job_batches(job.id)
    entered = {batch.shard_id for batch in before if batch.parent_id is None}
    known = of_shards(requests_of(run.folder, job.id), entered)
    sent = [name for name in entered if not name.startswith((TOO_LARGE, TAKEN_OVER))]
    folder = run.folder.request_file(job.id, "s").parent
    dialect, paid = run.providers.dialect(job.spec.provider), PaidAnswers.of(run)
    with BatchFiles(dialect.limits, run.folder.root, folder, 1 + len(sent)) as files:
        named = _number(f"{TOO_LARGE}-", entered), _number(TAKEN_OVER, entered)
        asking = _Asking(run, job, mark, known, *named, paid, dialect, files)
        with asking.reusing:
            asking.go_through(_prompts(run, job))
    report_out_of_reach(run)
    if entered:
        ask_again(run, job, asking.kept, retired_ids(known))
    followed = follow(run, job, asking.kept) if asking.kept else {}
    asking.waits |= bool(followed)
    _write_requests(asking, judged)
    if entered:
        run.store.keep_requests(job.id, asking.kept)
        bill_under_name(run, job)
    _withdraw_unwanted(run, job, frozenset(known["custom_id"]) - asking.kept)
    held = asking.rows.by_shard()
    batches = [replace(first_attempt(run, job, shard), content=Content(held[shard.id])) for shard in files.shards]
    counts: list[RowCount] = []
    if asking.too_large:
        batches.append(_never_sent(job, asking.left_out, asking.too_large))
        counts.append(_too_large(batches[-1]))
    if asking.taken:
        over = _taken_over(run, job, asking)
        ends = write_tables(run, over, asking.taken, str(job.role), job.spec.name)
        batches.append(replace(over, content=Content(list(ends), ends=ends)))
        counts += counts_of(over, ends)
    _wait_for(run, job, followed | asking.waits_for)
    if batches or not asking.waits:
        collected = sum(batch.state is Lifecycle.COLLECTED for batch in before)
        run.store.plan_job(
            job, batches, run.clock.now(), counts, is_all=not asking.waits, new=asking.rows.new(), collected=collected
        )
    return bool(batches) or not asking.waits


def _wait_for(run: Run, job: Job, batches: Mapping[int, str]) -> None:
    """Note which batches, by number with their runs, have on their way what the job is still to ask; once, in an event,
    those of other runs."""
    others = ", ".join(sorted({*batches.values()} - {run.id}))
    if others and frozenset(batches) != run.waiting.get(job.id):
        detail = f"{job.id}: run {others} asks for some of its answers now; they are waited for, and cost nothing here"
        run.store.add_event(run.clock.now(), None, "waits_for_run", detail)
    run.waiting[job.id] = frozenset(batches)


def _withdraw_unwanted(run: Run, job: Job, unwanted: frozenset[str]) -> None:
    """Batches that were not sent yet, and hold what nobody asks for any more, are not sent: the rest of their requests
    goes in another one."""
    for batch in run.store.batches({Lifecycle.PLANNED}) if unwanted else ():
        held = unwanted.intersection(batch_requests(run, batch)["custom_id"]) if batch.job_id == job.id else ()
        if held and not batch.facts.creates_in_doubt and batch.id not in run.in_hand:  # else it is being sent
            withdraw(run, batch, f"{len(held)} of its requests are not asked for any more")


def _number(beginning: str, entered: Collection[str]) -> str:
    """The next shard's name of those that begin so."""
    number = 1 + sum(name.startswith(beginning) for name in entered)
    return f"{beginning}{number}"


@dataclass(slots=True)
class _Rows:
    """New rows of the table ``requests``, in their order, a column each."""

    custom_ids: list[str] = field(default_factory=list)
    item_ids: list[str] = field(default_factory=list)
    shard_ids: list[str] = field(default_factory=list)
    max_costs: list[str | None] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    fingerprints: list[bytes] = field(default_factory=list)

    def add(
        self,
        custom_id: str,
        item_id: str,
        shard_id: str,
        max_cost: Decimal | None,
        digest: bytes,
        fingerprint: bytes,
    ) -> None:
        """Put a row at the end. ``fingerprint``: the digest within its scope."""
        self.custom_ids.append(custom_id)
        self.item_ids.append(item_id)
        self.shard_ids.append(shard_id)
        self.max_costs.append(decimal_text(max_cost))
        self.digests.append(digest)
        self.fingerprints.append(fingerprint)

    def new(self) -> NewRequests:
        """Return the rows as the store enters them."""
        return NewRequests(self.custom_ids, self.item_ids, self.fingerprints)

    def by_shard(self) -> dict[str, list[str]]:
        """Return the custom_ids of each shard."""
        held: dict[str, list[str]] = {}
        for name, shard in zip(self.custom_ids, self.shard_ids, strict=True):
            held.setdefault(shard, []).append(name)
        return held

    def frame(self) -> pl.DataFrame:
        """The columns that differ from row to row."""
        columns = {
            "custom_id": self.custom_ids,
            "item_id": self.item_ids,
            "shard_id": self.shard_ids,
            "max_cost": self.max_costs,
            "fingerprint": [digest.hex() for digest in self.digests],
        }
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


@dataclass(frozen=True, slots=True)
class _Line:
    """A request as its provider takes it. ``name``: its custom_id; ``fingerprint``: the digest within its scope."""

    name: str
    item_id: str
    spec: ModelSpec
    sized: SizedPrompt
    content: bytes
    digest: bytes
    fingerprint: bytes


@dataclass(slots=True)
class _Asking:
    """Goes through a job's prompts once: writes those to be sent, and notes the rest on the way.

    ``left_out``, ``taken_over``: the shards of what is too large and of what gets an answer that was paid for, whose
    lines are in a batch file of their own (``reused``), from which `retry` takes them. ``kept``: the custom_ids of
    earlier requests that are still wanted. ``waits``: something is on its way elsewhere, or was asked a moment ago
    under another name.
    """

    run: Run
    job: Job
    mark: str
    known: pl.DataFrame
    left_out: str
    taken_over: str
    paid: PaidAnswers
    provider: Provider
    files: BatchFiles
    reusing: ExitStack = field(default_factory=ExitStack)
    rows: _Rows = field(default_factory=_Rows)
    seen: set[bytes] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    too_large: list[str] = field(default_factory=list)
    taken: list[TakenOver] = field(default_factory=list)
    waits_for: dict[int, str] = field(default_factory=dict)
    waits: bool = False
    reused: OpenShard | None = None

    def go_through(self, prompts: Iterable[tuple[str, ModelSpec, SizedPrompt]]) -> None:
        """Go through every prompt, with its item and what is asked of the model, some hundred look-ups at a time."""
        prefix, number = custom_id_prefix(self.mark, self.job.id), self.known.height + 1
        if problem := custom_id_problem(f"{prefix}{number:06d}"):
            raise ManifestError(f"job {self.job.id}: {problem}")
        costs, asked, left = CostBounds(self.run.prices), self._asked(), iter(prompts)
        while portion := list(islice(left, LOOKED_UP)):
            first = number + len(self.rows.custom_ids)
            written = [self._written(f"{prefix}{first + at:06d}", *prompt) for at, prompt in enumerate(portion)]
            standings = self._look_up(asked, written)
            for line in written:
                name = f"{prefix}{number + len(self.rows.custom_ids):06d}"
                if line.name != name:  # one before it is not asked
                    line = self._written(name, line.item_id, line.spec, line.sized)
                self._enter(line, asked, standings.get(line.fingerprint), costs)

    def _written(self, name: str, item_id: str, spec: ModelSpec, sized: SizedPrompt) -> _Line:
        content = request_line(self.provider, Request(name, item_id, spec, sized.prompt))
        digest = fingerprint_bytes(spec.provider, spec.model, content, name, spec.sample)
        return _Line(name, item_id, spec, sized, content, digest, self.paid.fingerprint(spec, digest))

    def _look_up(self, asked: Mapping[tuple[str, str | None], str], lines: Sequence[_Line]) -> Mapping[bytes, Standing]:
        """Look up how the answers stand that the job did not ask for before."""
        new = {line.fingerprint for line in lines if (line.item_id, line.digest.hex()) not in asked}
        return self.paid.look_up(new)

    def _enter(
        self,
        line: _Line,
        asked: Mapping[tuple[str, str | None], str],
        standing: Standing | None,
        costs: CostBounds,
    ) -> None:
        """Put the line where it belongs: the job asked it before, it is answered or on its way, or it is to be sent."""
        before = asked.get((line.item_id, line.digest.hex())) or asked.get((line.item_id, None))
        if before is not None:
            self.kept.add(before)
        elif standing is not None and standing.paid is not None:
            self._take(line, standing.paid)
        elif standing is not None and standing.sent is not None:
            self.waits_for[standing.sent.key] = standing.sent.run_id
            self.waits = True
        elif line.digest in self.seen:
            self.waits = True
        else:
            self.seen.add(line.digest)
            max_cost = costs.most(line.spec, line.sized.size)
            shard = self.files.add(line.content, max_cost)
            if shard is None:
                self.too_large.append(line.name)
                shard, max_cost = self.left_out, None
            fingerprint = line.fingerprint if standing is None else standing.fingerprint
            self.rows.add(line.name, line.item_id, shard, max_cost, line.digest, fingerprint)

    def _asked(self) -> dict[tuple[str, str | None], str]:
        """The job's requests by item and fingerprint; one without, of an import, stands for its item."""
        columns = (self.known[name] for name in ("item_id", "fingerprint", "custom_id"))
        return {(item_id, known): name for item_id, known, name in zip(*columns, strict=True)}

    def _take(self, line: _Line, paid: Paid) -> None:
        if self.reused is None:
            path = self.run.folder.request_file(self.job.id, self.taken_over)
            self.reused = OpenShard(self.reusing.enter_context(atomic.writing(path)))
        self.reused.add(line.content, None)
        self.rows.add(line.name, line.item_id, self.taken_over, None, line.digest, line.fingerprint)
        self.taken.append(TakenOver(line.name, paid))


def _prompts(run: Run, job: Job) -> Iterator[tuple[str, ModelSpec, SizedPrompt]]:
    kept: PromptCache = run.kept.setdefault(PromptCache, PromptCache())
    if job.role is Role.PREDICT:
        task, spec = run.task_of(job.spec), job.spec
        kept.about(task)
        has_own_limit = has_one_limit(run.task, spec)
        for item in run.items:
            limited = spec if has_own_limit else with_room(run.task, item, spec)
            yield item.id, limited, kept.of(item, None, partial(task.prompt, item))
        return
    jury = juried(run.task)
    kept.about(jury, job.depends_on or job.id)
    for one in candidates(run, job):
        yield one.item.id, job.spec, kept.of(one.item, one.prediction, partial(jury.judge_prompt, one))


def _write_requests(asking: _Asking, judged: ModelSpec | None) -> None:
    """The table of the job's requests: rows of before in their order, for batch files are in it, and new ones."""
    job, known = asking.job, asking.known
    whose = {"model": judged.name if judged else job.spec.name, "judge": job.spec.name if judged else None}
    named = {column: pl.lit(value, pl.String) for column, value in whose.items()}
    before = known.with_columns(**named, retired=~pl.col("custom_id").is_in(list(asking.kept)))
    new = asking.rows.frame().with_columns(
        **named,
        job_id=pl.lit(job.id),
        role=pl.lit(str(job.role)),
        sample=pl.lit(job.spec.sample, pl.Int64),
        retired=pl.lit(value=False),
    )
    rows = pl.concat([before, new.select(known.columns)])
    tables.write(asking.run.folder.part("requests", job.id), rows)


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
    path = run.folder.request_file(job.id, asking.taken_over).relative_to(run.folder.root).as_posix()
    planned = first_attempt(run, job, asking.reused.written(asking.taken_over, path))
    return answered_already(planned, said_of(asking.taken))


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
