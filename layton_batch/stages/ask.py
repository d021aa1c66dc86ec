"""What a job asks that it has no answer to yet: its requests by fingerprint, in batch files.

A job that is planned again keeps the requests that are still wanted, and marks those that are not as retired. Of the
new ones those that were paid for elsewhere get that answer; those on their way elsewhere in the run wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import compress

import polars as pl

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.batch_file import BatchFiles, OpenShard, Pieces, batch_requests
from layton_batch.batches.cancel import withdraw
from layton_batch.batches.fingerprints import Seen, of_shards, requests_of, retired_ids
from layton_batch.batches.names import custom_id_prefix, tag
from layton_batch.batches.paid_answers import Paid, PaidAnswers
from layton_batch.batches.request_lines import Alike, LineWriter
from layton_batch.batches.retry import ask_again
from layton_batch.batches.shared_questions import follow
from layton_batch.batches.shown_prompts import Shown, ShownPrompts
from layton_batch.batches.taking_over import TakenOver, said_of, write_tables
from layton_batch.batches.usage_rows import bill_under_name
from layton_batch.errors import ManifestError, StaleStateError
from layton_batch.files import atomic, tables
from layton_batch.records import Batch, Job, ModelSpec, RowCount, Shard
from layton_batch.runs.context import Run
from layton_batch.stages.candidates import candidates
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.tasks import has_one_limit, with_room
from layton_batch.tasks.protocol import juried
from layton_batch.text import decimal_text

TOO_LARGE = "too-large"
"""Begins the shard of requests that no file of their provider can hold: a number follows, one more each time that a
job is planned and has such."""
TAKEN_OVER = "r"
"""Begins the shard of requests whose answers were paid for already."""
PORTION, PORTION_BYTES, TABLE_ROWS = 200, 1 << 20, 4_096
"""How many requests, of how many bytes of text, are worked at and written at once, and how many rows put into the
table."""


def ask(run: Run, job: Job, judged: ModelSpec | None, mark: str) -> bool:
    """Write what the job has not asked yet, and enter it; True where anything was entered."""
    entered = _entered(run, job)
    known = of_shards(requests_of(run.folder, job.id), entered)
    sent = [name for name in entered if not name.startswith((TOO_LARGE, TAKEN_OVER))]
    folder = run.folder.request_file(job.id, "s").parent
    dialect, paid = run.providers.dialect(job.spec.provider), PaidAnswers.of(run)
    paid.look(job.spec)
    with tables.growing(run.folder.part("requests", job.id)) as table:
        with BatchFiles(dialect.limits, run.folder.root, folder, 1 + len(sent)) as files:
            named = _number(f"{TOO_LARGE}-", entered), _number(TAKEN_OVER, entered)
            asking = _Asking(run, job, mark, known, *named, paid, LineWriter(dialect, run.prices), files, table)
            with asking.reusing:
                asking.go_through(_prompts(run, job))
        if entered:
            ask_again(run, job, asking.kept, retired_ids(known))
        followed = follow(run, job, asking.kept) if asking.kept else frozenset()
        asking.waits |= bool(followed)
        _write_requests(asking, judged)
    if entered:
        bill_under_name(run, job)
    _withdraw_unwanted(run, job, frozenset(known["custom_id"]) - asking.kept)
    batches = [first_attempt(run, job, shard) for shard in files.shards]
    counts: list[RowCount] = []
    if asking.too_large:
        batches.append(_never_sent(job, asking.left_out, asking.too_large))
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
class _Rows:
    """New requests that are not in the table yet, in their order, a column each. The last ones, whose ``lines`` are not
    written yet, have no shard."""

    names: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    prints: list[bytes] = field(default_factory=list)
    costs: list[Decimal | None] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)
    lines: list[Pieces] = field(default_factory=list)

    def add(
        self,
        names: Sequence[str],
        items: Sequence[str],
        digests: Sequence[bytes],
        lines: Sequence[Pieces],
        costs: Sequence[Decimal | None],
    ) -> None:
        """Some more."""
        self.names += names
        self.items += items
        self.prints += digests
        self.lines += lines
        self.costs += costs

    def written(self, shards: Sequence[str | None], left_out: str) -> list[str]:
        """Where the lines are now; ``left_out`` stands for those that are in no file, whose names it returns."""
        at, lacking = len(self.shards), list[str]()
        if None in shards:
            for number, shard in enumerate(shards, at):
                if shard is None:
                    self.costs[number] = None
                    lacking.append(self.names[number])
        self.shards += [shard or left_out for shard in shards]
        self.lines.clear()
        return lacking

    def taken(self) -> pl.DataFrame:
        """As rows of the table ``requests``, without what is the same for the whole job; then there are none here."""
        table = {
            "custom_id": self.names,
            "item_id": self.items,
            "shard_id": self.shards,
            "max_cost": [decimal_text(cost) for cost in self.costs],
            "fingerprint": [digest.hex() for digest in self.prints],
        }
        taken = pl.DataFrame(table, schema=dict.fromkeys(table, pl.String))
        for column in (self.names, self.items, self.prints, self.shards, self.costs):
            column.clear()
        return taken


@dataclass(slots=True)
class _Asking:
    """Goes through a job's prompts once: writes those to be sent, in portions, and notes the rest on the way.

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
    writer: LineWriter
    files: BatchFiles
    table: tables.Growing
    reusing: ExitStack = field(default_factory=ExitStack)
    rows: _Rows = field(default_factory=_Rows)
    number: int = 0
    prefix: str = field(init=False)
    seen: Seen = field(default_factory=Seen)
    kept: set[str] = field(default_factory=set)
    too_large: list[str] = field(default_factory=list)
    taken: list[TakenOver] = field(default_factory=list)
    waits_for: set[str] = field(default_factory=set)
    waits: bool = False
    reused: OpenShard | None = None

    def __post_init__(self) -> None:
        self.prefix = custom_id_prefix(self.mark, self.job.id)

    def go_through(self, prompts: Iterable[tuple[str, ModelSpec, Shown]]) -> None:
        """Every prompt, with its item and what is asked of the model."""
        self.number = self.known.height
        asked = self._asked()
        may_be_known = bool(asked) or self.paid.may_know(self.job.spec)
        for portion in _portions(prompts):
            items, specs, shown = zip(*portion, strict=True)
            is_one = not may_be_known and all(spec is specs[0] for spec in specs)
            alike = self.writer.alike(specs[0], shown) if is_one else None
            if alike is not None:
                self._ask(items, alike)
            else:
                for one in portion:
                    self._ask_one(*one, asked)
            self._write()
        self._add_rows()

    def _ask(self, items: Sequence[str], alike: Alike) -> None:
        """What nobody knows yet."""
        new = self.seen.add(alike.digests)
        if not all(new):
            self.waits = True
            alike.only(new)
            items = list(compress(items, new))
        names = self._names(len(items))
        self.number += len(items)
        self.rows.add(names, items, alike.digests, alike.lines(names, items), alike.costs())

    def _ask_one(
        self, item_id: str, spec: ModelSpec, shown: Shown, asked: Mapping[tuple[str, str | None], str]
    ) -> None:
        names = self._names(1)
        line, digest, max_cost = self.writer.asked(names[0], item_id, spec, shown)
        if self._is_known(asked, names[0], item_id, line, digest):
            return
        if self.seen.add((digest,)) == [False]:
            self.waits = True
            return
        self.number += 1
        self.rows.add(names, (item_id,), (digest,), ((line, b"\n"),), (max_cost,))

    def _names(self, count: int) -> list[str]:
        """The next ones of the job."""
        return [f"{self.prefix}{number:06d}" for number in range(self.number + 1, self.number + 1 + count)]

    def _is_known(
        self, asked: Mapping[tuple[str, str | None], str], name: str, item_id: str, line: bytes, digest: bytes
    ) -> bool:
        """Whether the job asked it before, somebody has the answer, or it is under way elsewhere."""
        print_ = digest.hex()
        before = asked.get((item_id, print_)) or asked.get((item_id, None))
        if before is not None:
            self.kept.add(before)
        elif (paid := self.paid.find(self.job.spec, print_)) is not None:
            self._take(name, item_id, line, digest, paid)
        elif (batch_id := self.paid.under_way(print_)) is not None:
            self.waits_for.add(batch_id)
            self.waits = True
        else:
            return False
        return True

    def _asked(self) -> dict[tuple[str, str | None], str]:
        """The job's requests by item and fingerprint; one without, of an import, stands for its item."""
        columns = (self.known[name] for name in ("item_id", "fingerprint", "custom_id"))
        return {(item_id, known): name for item_id, known, name in zip(*columns, strict=True)}

    def _take(self, name: str, item_id: str, line: bytes, digest: bytes, paid: Paid) -> None:
        self._write()
        if self.reused is None:
            path = self.run.folder.request_file(self.job.id, self.taken_over)
            self.reused = OpenShard(self.reusing.enter_context(atomic.writing(path)))
        self.number += 1
        self.rows.add((name,), (item_id,), (digest,), ((line, b"\n"),), (None,))
        self._check_names()
        self.rows.written((self.taken_over,), self.left_out)
        self.reused.add(((line, b"\n"),), (None,))
        self.taken.append(TakenOver(name, paid))

    def _write(self) -> None:
        """The lines that wait for it, to the job's files."""
        rows = self.rows
        if not rows.lines:
            return
        self._check_names()
        shards = self.files.add(rows.lines, rows.costs[-len(rows.lines) :])
        self.too_large += rows.written(shards, self.left_out)
        if len(rows.names) >= TABLE_ROWS:
            self._add_rows()

    def _add_rows(self) -> None:
        self.table.add(self.rows.taken())

    def _check_names(self) -> None:
        """All of a job's have one form, and the last is the longest."""
        if problem := custom_id_problem(self.rows.names[-1]):
            raise ManifestError(f"job {self.job.id}: {problem}")


def _portions(
    prompts: Iterable[tuple[str, ModelSpec, Shown]],
) -> Iterator[Sequence[tuple[str, ModelSpec, Shown]]]:
    """Some at a time, of not much more than ``PORTION_BYTES`` of text. Two at first: by these the form of the others is
    known."""
    portion, size, most = list[tuple[str, ModelSpec, Shown]](), 0, 2
    for one in prompts:
        portion.append(one)
        size += one[2].text_bytes + sum(map(len, one[2].texts or ())) if one[2].images else one[2].text_bytes
        if len(portion) >= most or size >= PORTION_BYTES:
            yield portion
            portion, size, most = [], 0, PORTION
    if portion:
        yield portion


def _entered(run: Run, job: Job) -> set[str]:
    """The shards that the job was split into so far, those of requests that were never sent among them."""
    return {batch.shard_id for batch in run.store.job_batches(job.id) if batch.parent_id is None}


def _prompts(run: Run, job: Job) -> Iterator[tuple[str, ModelSpec, Shown]]:
    kept = run.kept.setdefault(ShownPrompts, ShownPrompts())
    if job.role is Role.PREDICT:
        kept.about(None if job.spec.hints is None else f"{job.spec.hints} hints")
        spec, is_asked_again = job.spec, run.manifest.answers_per_item > 1
        is_same = has_one_limit(run.task, spec)
        for item_id, shown in kept.of_items(run.items, run.task_of(spec).prompt, keep=is_asked_again):
            yield item_id, spec if is_same else with_room(run.task, run.item(item_id), spec), shown
        return
    task = juried(run.task)
    kept.about(job.depends_on or job.id)
    for one in candidates(run, job):
        yield one.item.id, job.spec, kept.of(one.item, one.prediction, partial(task.judge_prompt, one))


def _write_requests(asking: _Asking, judged: ModelSpec | None) -> None:
    """The table of the job's requests: rows of before in their order, for batch files are in it, and new ones."""
    job = asking.job
    whose = {"model": judged.name if judged else job.spec.name, "judge": job.spec.name if judged else None}
    named = {column: pl.lit(value, pl.String) for column, value in whose.items()}
    before = None
    if not asking.known.is_empty():
        before = asking.known.lazy().with_columns(**named, retired=~pl.col("custom_id").is_in(list(asking.kept)))
    same = {
        "job_id": pl.lit(job.id),
        "role": pl.lit(str(job.role)),
        "sample": pl.lit(job.spec.sample, pl.Int64),
        "retired": pl.lit(value=False),
    }
    same = {column: value.alias(column) for column, value in (named | same).items()}
    asking.table.write(asking.known.columns, before, same)


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
    return replace(
        first_attempt(run, job, asking.reused.written(asking.taken_over, path)),
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
