"""The truth about one run's jobs and batches.

Every change of a batch's state is one UPDATE that names the old state and must hit exactly one row, in one transaction
with the event that tells of it, the money it moves and the rows it makes. Two processes may decide about one batch: the
second finds another state, and its decision is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, Connection, String, and_, bindparam, func, or_, select, update

from layton_batch.clock import Pacing, is_due
from layton_batch.errors import IllegalMoveError, RunCancelledError, StaleStateError, StoreError
from layton_batch.records import Batch, FileDigest, Job, Move, NewRequest, RequestCost, Revision, Wait
from layton_batch.states import JOB_MOVES, OPEN, AnswerState, BatchOutcome, JobState, Lifecycle, Role, is_legal
from layton_batch.store import request_rows, schema
from layton_batch.store.intents import writing_intent
from layton_batch.store.requests import Requests
from layton_batch.store.rows import (
    RUN,
    ZERO,
    RunMoney,
    RunRow,
    batch_from,
    batch_values,
    changed,
    job_columns,
    job_from,
    reserve,
    run_from,
)  # fmt: skip
from layton_batch.store.standing import ProviderLoad, read_load
from layton_batch.store.transactions import Writing
from layton_batch.text import plural

_CHANGE_BATCH = update(schema.batches).where(
    schema.batches.c.run_id == bindparam("this_run"),
    schema.batches.c.batch_id == bindparam("this_batch"),
    schema.batches.c.state == bindparam("this_state"),
)
_REFUSALS = ("upload_failed", "not_looked_for", "not_created", "create_unclear", "account_refused")
"""Events of a provider that takes no batch."""
_ENDED_WITHOUT = (AnswerState.FAILED, AnswerState.UNCERTAIN)
_CHANGED, _APPLIED = "changed", "applied"
"""Values of the column ``prices``: the manifest's prices changed; what is not sent yet is bounded by them."""


_batches, _events, _files = schema.batches.c, schema.events.c, schema.files.c
_below: BindParameter[str] = bindparam("below", type_=String)
_THIS_RUN = select(schema.runs).where(schema.runs.c.run_id == RUN)
_ITS_JOBS = select(schema.jobs).where(schema.jobs.c.run_id == RUN).order_by(schema.jobs.c.seq)
_ITS_BATCHES = select(schema.batches).where(_batches.run_id == RUN).order_by(_batches.seq)
_BATCHES_OF_JOB = _ITS_BATCHES.where(_batches.job_id == bindparam("job"))
_ONE_BATCH = _ITS_BATCHES.where(_batches.batch_id == bindparam("batch"))
_FILES = (
    select(_files.name, _files.size_bytes, _files.sha256)
    .where(_files.run_id == RUN, func.substr(_files.name, 1, func.length(_below)) == _below)
    .order_by(_files.name)
)
_OF_PROVIDER = and_(_events.run_id == RUN, _batches.provider == bindparam("provider"))
_OF_BATCH = and_(_batches.run_id == _events.run_id, _batches.batch_id == _events.batch_id)
_LAST_ANSWER = (
    select(func.max(_events.seq))
    .join(schema.batches, _OF_BATCH)
    .where(_OF_PROVIDER, _events.kind == "collected", _events.detail.contains("succeeded"))
)
_LAST_ANSWERED_AT = _LAST_ANSWER.with_only_columns(func.max(_events.at))
_REFUSED_SINCE = (
    select(func.min(_events.at))
    .join(schema.batches, _OF_BATCH)
    .where(
        _OF_PROVIDER,
        or_(
            _events.kind.in_(_REFUSALS),
            _events.kind.startswith("refused"),
            and_(_events.kind == "ended", _events.detail.startswith(str(BatchOutcome.FAILED))),
        ),
        _events.seq > func.coalesce(_LAST_ANSWER.correlate(None).scalar_subquery(), 0),
    )
)


@dataclass(slots=True)
class RunStore(Requests):
    """One run in an open store. Safe to use from several threads: each call is one transaction of its own.

    ``intents``: the folder in which every intent to pay is written as well (see intents.py).
    """

    intents: Path | None = None

    # ---- the run -----------------------------------------------------------------------------------------------

    def enter(self, identity: str, manifest: str, version: str, at: float) -> None:
        """Enter the run where the store has none of this id. ``identity``: of the manifest that begins it; it stays."""
        if self.knows_run():
            return
        values = {"identity": identity, "manifest": manifest, "version": version, "created_at": at, "cancelled": False}
        with self.writing() as writing:
            writing.connection.execute(schema.runs.insert().values(run_id=self.run_id, **values))
            writing.event(at, None, "run_created", f"identity {identity[:8]}")

    def note_revision(
        self, manifest: str, at: float, *, prices: Callable[[str], object], request_digest: str | None = None
    ) -> None:
        """Enter the manifest's latest revision.

        ``request_digest``: digest of what it asks. The jobs follow when they are planned next. ``prices``: those of a
        stored manifest, to be compared with another's.
        """
        row = self.row()
        if request_digest is not None and request_digest != row.revision:
            with self.writing() as writing:
                writing.connection.execute(self._this_run().values(revision=request_digest))
                if row.revision is not None:
                    writing.event(at, None, "revised", "the manifest, or its items, ask for something else by now")
        if row.manifest != manifest:
            with self.writing() as writing:
                writing.connection.execute(self._this_run().values(manifest=manifest))
                writing.event(at, None, "manifest_changed", "see the revisions in run.json")
                if prices(row.manifest) != prices(manifest):
                    writing.connection.execute(self._this_run().values(prices=_CHANGED))
                    writing.event(at, None, "prices_changed", "what is not sent yet is bounded by the new ones")

    def knows_run(self) -> bool:
        """Return whether the run was entered."""
        return self._row(_THIS_RUN) is not None

    def row(self) -> RunRow:
        """The run. Raises StoreError where the store has none of this id."""
        return self._once("run", self._read_row)

    def _read_row(self) -> RunRow:
        if (row := self._row(_THIS_RUN)) is None:
            raise StoreError(f"the state store has no run {self.run_id}")
        return run_from(row._mapping)

    def set_cancelled(self, at: float) -> None:
        """Note that a person cancelled the run, whoever drives it: nothing more is sent."""
        with self.writing() as writing:
            now_cancelled = self._this_run().where(schema.runs.c.cancelled.is_(False)).values(cancelled=True)
            if writing.connection.execute(now_cancelled).rowcount:
                writing.event(at, None, "run_cancelled", "a person asked for it")
            self.end_waits(writing)

    def set_agreed(self, *, is_agreed: bool) -> None:
        """Note whether what is planned may be sent. What is not agreed reserves nothing, and other runs may send it."""
        with self.writing() as writing:
            values = {"agreed": True, "was_agreed": True} if is_agreed else {"agreed": False}
            writing.connection.execute(self._this_run().values(values))

    def end_waits(self, writing: Writing) -> int:
        """Have collected batches wait for a person no more, who has said what becomes of the rest of their requests.
        Return how many batches waited."""
        table = schema.batches
        collected = and_(table.c.run_id == self.run_id, table.c.state == Lifecycle.COLLECTED, table.c.needs_person)
        waits = update(table).where(collected).values(needs_person=False, reason=None)
        return int(writing.connection.execute(waits).rowcount)

    def set_stopped(self, reason: str | None, at: float) -> None:
        """Why the run cannot go on (None: it can). An event is written where this changes."""
        row = self.row()
        if row.stopped_reason == reason:
            return
        before = schema.runs.c.stopped_reason
        with self.writing() as writing:
            seen = before.is_(None) if row.stopped_reason is None else before == row.stopped_reason
            if writing.connection.execute(self._this_run().where(seen).values(stopped_reason=reason)).rowcount:
                writing.event(at, None, "run_stopped" if reason else "run_goes_on", reason or "")

    def _this_run(self) -> Any:
        return update(schema.runs).where(schema.runs.c.run_id == self.run_id)

    # ---- jobs --------------------------------------------------------------------------------------------------

    def add_jobs(
        self,
        jobs: Sequence[Job],
        at: float,
        over: Sequence[Batch] = (),
        requests: Sequence[NewRequest] = (),
    ) -> None:
        """Enter those of the jobs that are not there; the order is the order in which they are shown. ``over``: batches
        of theirs that are over already, with the requests of the first batch's job, all in one transaction. Raises
        StaleStateError where one of those batches' jobs is there."""
        rows = [
            {
                "run_id": self.run_id,
                "job_id": job.id,
                "seq": seq,
                "role": job.role,
                "provider": job.spec.provider,
                "spec": job.spec,
                "depends_on": job.depends_on,
                "planned": job.planned,
                "graded": job.graded,
                "identity": job.identity,
                "news": 0,
                "graded_news": 0,
            }
            for seq, job in enumerate(jobs)
        ]
        with self.writing() as writing:
            mine = select(schema.jobs.c.job_id).where(schema.jobs.c.run_id == self.run_id)
            job_ids = set(writing.connection.execute(mine).scalars())
            if again := job_ids.intersection(batch.job_id for batch in over):
                raise StaleStateError(f"jobs {', '.join(sorted(again))} of run {self.run_id} are there already")
            if new := [row for row in rows if row["job_id"] not in job_ids]:
                writing.connection.execute(schema.jobs.insert(), new)
                if requests and over:
                    request_rows.enter_requests(writing.connection, self.run_id, over[0].job_id, requests)
                self._insert_batches(writing, over)
                writing.event(at, None, "jobs_planned", f"{len(new)} jobs")

    def revise(self, revision: Revision, at: float) -> None:
        """The jobs become those of a revision of the manifest, all in one transaction.

        A retired job's answers stay. What of it is only planned is neither shown nor sent while it is retired; what its
        provider has is polled and collected, for it is paid for.
        """
        with self.writing() as writing:
            new = _enter_jobs(writing, revision)
            writing.connection.execute(self._this_run().values(applied=revision.request_digest, items=revision.items))
            # what was planned while other prices held, and was put aside since, is bounded by those of now
            writing.connection.execute(
                self._this_run().where(schema.runs.c.prices.is_not(None)).values(prices=_CHANGED)
            )
            if new:
                writing.event(at, None, "jobs_planned", f"{new} jobs")
            for kind, jobs in (("jobs_planned_again", revision.again), ("jobs_retired", revision.retired)):
                if jobs:
                    writing.event(at, None, kind, f"{len(jobs)} jobs: {', '.join(sorted(jobs))}")

    def jobs(self, role: Role | None = None) -> list[Job]:
        """The jobs of the latest revision, in order; those of one role, or all."""
        return [job for job in self.all_jobs() if not job.retired and role in (None, job.role)]

    def all_jobs(self) -> list[Job]:
        """Retired jobs as well, at the end."""
        return list(self._once("jobs", self._read_jobs))

    def _read_jobs(self) -> Sequence[Job]:
        return [job_from(row._mapping) for row in self._rows(_ITS_JOBS)]

    def plan_job(
        self,
        job: Job,
        batches: Sequence[Batch],
        at: float,
        new: Iterable[NewRequest],
        remaining: Collection[str],
    ) -> None:
        """Enter what the job asks beside what it asked before, with the batches for it, whose files are on disk.
        ``remaining``: those of its earlier requests, custom_ids, that the manifest still has.

        The job is to be planned again where batches of it were collected since it was read. Raises StaleStateError
        where it is planned already.
        """
        jobs = schema.jobs
        mine = and_(jobs.c.run_id == self.run_id, jobs.c.job_id == job.id)
        with self.writing() as writing:
            connection = writing.connection
            is_as_read = connection.execute(select(jobs.c.news).where(mine)).scalar_one() == job.news
            if self.move_jobs(writing, (job.id,), JobState.NEW, JobState.PLANNED) != 1:
                raise StaleStateError(f"job {job.id} of run {self.run_id} is planned already")
            if not is_as_read:
                self.plan_again(writing, (job.id,))
            request_rows.keep_requests(connection, self.run_id, job.id, remaining)
            request_rows.enter_requests(connection, self.run_id, job.id, new)
            self._insert_batches(writing, batches)
            self._tell_of_batches(writing, job.id, batches, at)

    def add_batches(self, job: Job, batches: Sequence[Batch], at: float) -> None:
        """Enter batches, whose files are on disk, for requests that a job has. It is graded when they are over."""
        with self.writing() as writing:
            self.move_jobs(writing, (job.id,), JobState.GRADED, JobState.PLANNED)
            self._insert_batches(writing, batches)
            self._tell_of_batches(writing, job.id, batches, at)

    def _tell_of_batches(self, writing: Writing, job_id: str, batches: Sequence[Batch], at: float) -> None:
        requests = sum(batch.requests for batch in batches)
        sizes = f"{plural(requests, 'request')}, {plural(len(batches), 'batch', 'batches')}"
        writing.event(at, None, "job_planned", f"{job_id}: {sizes}")

    def price_changes(self) -> tuple[bool, bool]:
        """Return whether prices changed since batches were last bounded by them, and whether they ever changed."""
        prices = self.row().prices
        return prices == _CHANGED, prices is not None

    def reprice(
        self,
        batches: Sequence[Batch],
        bounds: Mapping[str, tuple[Decimal | None, Decimal | None]],
        at: float,
        *,
        new: bool,
        for_all: bool = True,
    ) -> bool:
        """Give planned batches another reserve and another expected cost, by id; True where one has changed. ``new``:
        prices have.
        ``for_all``: no job was left out; else a later process does the same once more.

        What a provider thread is about to send is not among them: its bound is what is set aside.
        """
        number = 0
        with self.writing() as writing:
            for batch in batches:
                if bounds[batch.id] != (batch.max_cost, batch.expected_usd):
                    most, expected = bounds[batch.id]
                    self._change(writing, batch, {"max_cost": most, "expected_usd": expected})
                    number += 1
            if for_all and (number or new):
                writing.connection.execute(self._this_run().values(prices=_APPLIED))
            if number:
                writing.event(at, None, "repriced", f"{number} of {len(batches)} batches not sent yet")
        return number > 0

    def set_graded(self, job: Job, at: float) -> bool:
        """Note that the job's responses were turned into predictions or verdicts.

        False where there is news of it since it was read, or it is to be planned again: then it is graded once more.
        Jobs that depend on it are planned (again), for there may be new predictions to ask about.
        """
        jobs = schema.jobs
        mine = and_(jobs.c.run_id == self.run_id, jobs.c.job_id == job.id, jobs.c.planned, jobs.c.news == job.news)
        mine = and_(mine, or_(~jobs.c.graded, jobs.c.graded_news != jobs.c.news))
        judging = select(jobs.c.job_id).where(jobs.c.run_id == self.run_id, jobs.c.depends_on == job.id)
        with self.writing() as writing:
            graded = update(jobs).where(mine).values(graded=True, graded_news=job.news)
            is_so = writing.connection.execute(graded).rowcount == 1
            if is_so:
                self.plan_again(writing, writing.connection.execute(judging).scalars().all())
                writing.event(at, None, "job_graded", job.id)
        return is_so

    def move_jobs(self, writing: Writing, ids: Collection[str], old: JobState, new: JobState) -> int:
        """``old → new`` for those of the jobs that are in the old state; returns how many were."""
        if new not in JOB_MOVES[old]:
            raise IllegalMoveError(f"jobs of run {self.run_id}: {old} → {new} is not a legal move")
        jobs = schema.jobs
        these = and_(jobs.c.run_id == self.run_id, jobs.c.job_id.in_(list(ids)))
        was = and_(*(jobs.c[name].is_(value) for name, value in job_columns(old).items()))
        moved = writing.connection.execute(update(jobs).where(these, was).values(**job_columns(new)))
        return int(moved.rowcount)

    def plan_again(self, writing: Writing, ids: Collection[str]) -> None:
        """The jobs are new again, whatever they were: there may be more to ask."""
        for state in (JobState.PLANNED, JobState.GRADED):
            self.move_jobs(writing, ids, state, JobState.NEW)

    # ---- batches -----------------------------------------------------------------------------------------------

    def batches(self, states: Collection[Lifecycle] | None = None, provider: str | None = None) -> list[Batch]:
        """Return the batches in order of entry, of these states or all, of this provider or all; without what is
        planned for retired jobs."""
        retired = self._retired_jobs()
        return [
            batch
            for batch in self._once("batches", self._read_batches)
            if (states is None or batch.state in states)
            and provider in (None, batch.provider)
            and not (batch.state is Lifecycle.PLANNED and batch.job_id in retired)
        ]

    def planned_of_retired(self) -> list[Batch]:
        """The planned batches of jobs that the manifest does not have any more: they are neither shown nor sent."""
        retired = self._retired_jobs()
        batches = self._once("batches", self._read_batches) if retired else ()
        return [batch for batch in batches if batch.state is Lifecycle.PLANNED and batch.job_id in retired]

    def _retired_jobs(self) -> frozenset[str]:
        return frozenset(job.id for job in self.all_jobs() if job.retired)

    def _read_batches(self) -> Sequence[Batch]:
        return [batch_from(row._mapping) for row in self._rows(_ITS_BATCHES)]

    def job_batches(self, job_id: str) -> Sequence[Batch]:
        """The batches of one job, in order of entry: what concerns a job must not cost more with every other one."""
        return [batch_from(row._mapping) for row in self._rows(_BATCHES_OF_JOB, job=job_id)]

    def batch(self, batch_id: str) -> Batch:
        """One batch. Raises StoreError where there is none."""
        if (row := self._row(_ONE_BATCH, batch=batch_id)) is not None:
            return batch_from(row._mapping)
        raise StoreError(
            f"run {self.run_id} has no batch {batch_id!r}; `layton-batch status {self.run_id} --json` lists its batches"
        )

    def apply(
        self,
        batch: Batch,
        decision: Move | Wait,
        at: float,
        check: Callable[[ProviderLoad], None] = lambda _load: None,
    ) -> Batch:
        """Apply a decision about the batch in one transaction. Return the batch as it is then. ``check``: raises an
        error if this would pay and the provider's load by now forbids it.

        To ``submitting``: the intent is committed and marked when this returns. Raises IllegalMoveError (not in the
        table of moves), StaleStateError (the batch is in another state by now), RunCancelledError (a person cancelled
        the run, and this would pay), SentElsewhereError (this would pay, and another batch has, or asks for, some of
        the answers).
        """
        after = decision.after
        if after.state is not batch.state and not is_legal(batch.state, after.state):
            raise IllegalMoveError(f"batch {batch.id}: {batch.state} → {after.state} is not a legal move")
        changes = changed(batch, after)
        if not changes and not decision.events:
            return after
        paying = changes.get("state") == Lifecycle.SUBMITTING
        with writing_intent(self.intents if paying else None, batch.id, at), self.writing() as writing:
            cancelled = select(schema.runs.c.cancelled).where(schema.runs.c.run_id == self.run_id)
            if paying and writing.connection.scalar(cancelled):
                raise RunCancelledError(f"batch {batch.id} is not sent: the run was cancelled a moment ago")
            if paying:
                check(read_load(writing.connection, batch.provider, at))
            self._change(writing, batch, changes)
            if isinstance(decision, Move):
                self._move(writing, batch, decision, at)
            else:
                self._know(writing.connection, batch.id, decision.extra_ids)
            for kind, detail in decision.events:
                writing.event(at, batch.id, kind, detail)
        return after

    def _move(self, writing: Writing, batch: Batch, move: Move, at: float) -> None:
        """Have requests and job follow a move of a batch."""
        connection, after = writing.connection, move.after
        if after.state is not batch.state and after.state in request_rows.FOLLOWED:
            key = request_rows.batch_key(connection, self.run_id, batch.id)
            request_rows.follow_batch(connection, key, batch, move)
            _enter_files(connection, self.run_id, move.files)
        if after.state is Lifecycle.COLLECTED:
            self.tell_jobs(writing, (batch.job_id,))
        if move.plan_again:
            self.plan_again(writing, (batch.job_id,))

    def of_run(self, run_id: str) -> RunStore:
        """Return the store of another run of the database, to read from; this one for its own run."""
        return self if run_id == self.run_id else RunStore(self.engine, run_id)

    def note_files(self, files: Sequence[FileDigest]) -> None:
        """Enter the digests of files that were written, instead of earlier ones."""
        with self.writing() as writing:
            _enter_files(writing.connection, self.run_id, files)

    def forget_file(self, name: str) -> None:
        """Forget the digest of a file that is about to be replaced."""
        table = schema.files
        with self.writing() as writing:
            writing.connection.execute(table.delete().where(table.c.run_id == self.run_id, table.c.name == name))

    def files(self, below: str = "") -> list[FileDigest]:
        """Return the digests of the run's files whose paths in the workspace begin with ``below``."""
        return [FileDigest(*row) for row in self._rows(_FILES, below=below)]

    def _change(self, writing: Writing, batch: Batch, changes: Mapping[str, object]) -> None:
        """Change a batch's columns. Raises StaleStateError where it is in another state than it was read in."""
        values = {name: _fit(writing, name, value) for name, value in changes.items()}
        this = {"this_run": self.run_id, "this_batch": batch.id, "this_state": batch.state}
        changed_rows = writing.connection.execute(_CHANGE_BATCH, {"state": batch.state, **values, **this}).rowcount
        if changed_rows != 1:
            raise StaleStateError(f"batch {batch.id} of run {self.run_id} is no longer {batch.state}; call again")
        if provider_id := values.get("provider_id"):
            self._know(writing.connection, batch.id, [str(provider_id)])

    def _insert_batches(self, writing: Writing, batches: Sequence[Batch]) -> None:
        if not batches:
            return
        connection = writing.connection
        table = schema.batches
        query = select(func.coalesce(func.max(table.c.seq), -1)).where(table.c.run_id == self.run_id)
        first = int(connection.execute(query).scalar_one()) + 1
        rows = [{"run_id": self.run_id, "seq": first + n, **batch_values(batch)} for n, batch in enumerate(batches)]
        connection.execute(table.insert(), rows)
        request_rows.enter_attempts(connection, self.run_id, batches)
        self.tell_jobs(writing, {batch.job_id for batch in batches})

    def tell_jobs(self, writing: Writing, job_ids: Collection[str]) -> None:
        """Note that there is news of jobs: whoever read them before does not say of all of it that it is done."""
        jobs = schema.jobs
        these = update(jobs).where(jobs.c.run_id == self.run_id, jobs.c.job_id.in_(list(job_ids)))
        writing.connection.execute(these.values(news=jobs.c.news + 1))

    # ---- requests and their answers ------------------------------------------------------------------------------

    def ask_anew(self, job_id: str) -> None:
        """Have a job be planned again: it may ask something else by now."""
        with self.writing() as writing:
            self.plan_again(writing, (job_id,))

    def retire(self, job_id: str, custom_ids: Collection[str]) -> None:
        """Mark requests of a job as ones that the manifest does not ask for any more."""
        with self.writing() as writing:
            request_rows.retire(writing.connection, self.run_id, job_id, custom_ids)

    def ask_once_more(
        self, job_id: str, requests: Collection[request_rows.KnownRequest], doublings: Mapping[str, int], at: float
    ) -> None:
        """Have answered requests of a job want a further answer each, with so many doublings of the room for it."""
        with self.writing() as writing:
            request_rows.ask_once_more(writing.connection, self.run_id, job_id, requests, doublings)
            detail = f"{job_id}: {plural(len(requests), 'unusable reply is', 'unusable replies are')} asked for again"
            writing.event(at, None, "reopened", detail)

    def retry(self, at: float) -> int:
        """Have another attempt planned at all requests without an answer, permanent errors included. Return how many
        there are.

        A cancelled run goes on, and what was collected waits for a person no more. All of it is one transaction,
        whoever drives the run meanwhile: its next step finds what is wanted. Predictions that come in this way go
        before a jury like any other. What came from a file, or is larger than its provider takes, is left as it is. Of
        a model that the manifest no longer has, what waited for a person may be asked again by whoever wants it.
        """
        runs, jobs, requests = schema.runs.c, schema.jobs.c, schema.requests.c
        answers, batches = schema.answers.c, schema.batches.c
        has_ended = and_(answers.state.in_(_ENDED_WITHOUT), or_(batches.run_id != self.run_id, batches.path != ""))
        unanswered = (
            select(jobs.job_id, requests.answer, answers.state, jobs.retired)
            .join_from(schema.requests, schema.jobs, jobs.key == requests.job)
            .join(schema.answers, answers.fingerprint == requests.answer)
            .outerjoin(schema.batches, batches.key == answers.batch)
            .where(jobs.run_id == self.run_id, ~requests.retired, requests.fingerprint.is_not(None))
            .where(or_(~jobs.retired, batches.needs_person))
            .where(or_(answers.state == AnswerState.WANTED, has_ended))
        )
        with self.writing() as writing:
            connection = writing.connection
            was_cancelled = bool(connection.scalar(select(runs.cancelled).where(runs.run_id == self.run_id)))
            ended = connection.execute(unanswered).all()
            rows = [row for row in ended if not row.retired]
            again = [row for row in rows if row.state in _ENDED_WITHOUT]
            if was_cancelled:
                this_run = update(schema.runs).where(runs.run_id == self.run_id)
                connection.execute(this_run.values(cancelled=False, stopped_reason=None))
                writing.event(at, None, "run_goes_on", "a person asked for it")
            # what a cancel left to be sent is sent because the run goes on
            count = len(rows if was_cancelled else again)
            waited = self.end_waits(writing)
            if again or waited:
                job_ids = {row.job_id for row in again}
                request_rows.want_again(connection, {row.answer for row in ended if row.state in _ENDED_WITHOUT})
                self.move_jobs(writing, job_ids, JobState.GRADED, JobState.PLANNED)
                self.tell_jobs(writing, job_ids)
                detail = f"{count} requests without an answer go again: a person asked for it"
                writing.event(at, None, "reopened", detail)
        return count

    def refused_since(self, provider: str) -> float | None:
        """Return when the provider first refused to take a batch after its last answer (epoch seconds), by the events;
        None if it did not."""
        since: float | None = self._row(_REFUSED_SINCE, provider=provider)[0]
        return since

    def answered_at(self, provider: str) -> float | None:
        """Return when the provider last answered a request (epoch seconds), by the events; None if it did not yet."""
        at: float | None = self._row(_LAST_ANSWERED_AT, provider=provider)[0]
        return at

    def set_max_costs(self, batch_id: str, max_costs: Mapping[str, Decimal | None]) -> None:
        """Give the requests of a batch, by custom_id, other upper bounds in USD."""
        with self.writing() as writing:
            key = request_rows.batch_key(writing.connection, self.run_id, batch_id)
            request_rows.set_max_costs(writing.connection, key, max_costs)

    # ---- when batches are due, what holds them back ------------------------------------------------------------

    def next_due(
        self, at: float, states: Collection[Lifecycle], pacing: Pacing, *, uncollected: Collection[str] = ()
    ) -> float | None:
        """Return when a batch of these states is due next (epoch seconds).

        A planned batch that is due and still there was held back: what it waits for shows elsewhere. ``uncollected``:
        jobs whose ended batches are left as they are.
        """
        moments = [
            _moment(batch, at, pacing)
            for batch in self.batches(states)
            if not (batch.state is Lifecycle.ENDED and batch.job_id in uncollected)
        ]
        return min(moments, default=None)

    def load(self, provider: str, at: float) -> ProviderLoad:
        """Return what a batch of this provider is weighed against now."""
        with self.reading() as connection:
            return read_load(connection, provider, at)

    def wake(self, at: float) -> None:
        """Let every open batch that waits for a person be due at once."""
        table = schema.batches
        asleep = and_(table.c.run_id == self.run_id, table.c.state.in_(OPEN), table.c.due_at > at)
        with self.writing() as writing:
            writing.connection.execute(update(table).where(asleep, table.c.needs_person).values(due_at=at))

    # ---- outcomes, money -------------------------------------------------------------------------------

    def charge_again(
        self, batch_id: str, charges: Sequence[RequestCost], spent: Decimal, unknown: Decimal,
        bound: Decimal | None, at: float,
    ) -> None:  # fmt: skip
        """Correct what a collected batch has cost, and the most that it may have cost beside, where that is another.
        ``bound``: of a batch that was sent without a known price."""
        with self.writing() as writing:
            key = request_rows.batch_key(writing.connection, self.run_id, batch_id)
            request_rows.set_charges(writing.connection, key, charges)
            columns = schema.batches.c
            mine = select(columns.spent_usd, columns.unknown_usd, columns.max_cost).where(columns.key == key)
            before = writing.connection.execute(mine).one()
            after = (spent, unknown, bound if before.max_cost is None else before.max_cost)
            if tuple(before) != after:
                costs = update(schema.batches).where(columns.key == key)
                writing.connection.execute(costs.values(spent_usd=spent, unknown_usd=unknown, max_cost=after[-1]))
                writing.event(at, batch_id, "charged_again", f"${before.spent_usd:f} became ${spent:f}: prices changed")

    def money(self) -> RunMoney:
        """Add up what the run's batches have cost, what is set aside for them, and what nobody can tell."""
        batches = self._once("batches", self._read_batches)
        return RunMoney(
            spent=sum((batch.spent_usd for batch in batches), ZERO),
            reserved=sum((reserve(batch.state, batch.max_cost) for batch in batches), ZERO),
            unknown_cost=sum((batch.unknown_usd + batch.creates_usd for batch in batches), ZERO),
        )


def _enter_jobs(writing: Writing, revision: Revision) -> int:
    """Enter the revision's jobs. Return the number of new jobs."""
    table = schema.jobs
    mine = table.c.run_id == writing.run_id
    job_ids = set(writing.connection.execute(select(table.c.job_id).where(mine)).scalars())
    for seq, job in enumerate(revision.jobs):
        values: dict[str, object] = {
            "seq": seq,
            "spec": job.spec,
            "depends_on": job.depends_on,
            "identity": job.identity,
            "retired": False,
        }
        if job.id in job_ids:
            if job.id in revision.again:
                values |= {"planned": False, "graded": False}
            writing.connection.execute(update(table).where(mine, table.c.job_id == job.id).values(**values))
        else:
            fixed = {"run_id": writing.run_id, "job_id": job.id, "role": job.role, "provider": job.spec.provider}
            begun = {"planned": False, "graded": False, "news": 0, "graded_news": 0}
            writing.connection.execute(table.insert().values(**fixed, **values, **begun))
    for job_id in revision.retired:
        last = {"retired": True, "seq": len(revision.jobs)}
        writing.connection.execute(update(table).where(mine, table.c.job_id == job_id).values(**last))
    return sum(job.id not in job_ids for job in revision.jobs)


_FOR_PEOPLE = frozenset({"reason", "provider_status"})
"""Columns of a batch that hold text for people."""


def _fit(writing: Writing, column: str, value: object) -> object:
    """Return the value of a batch's column as it is kept."""
    if not isinstance(value, str):
        return value
    return writing.text(value) if column in _FOR_PEOPLE else writing.identifier(value)


def _enter_files(connection: Connection, run_id: str, files: Sequence[FileDigest]) -> None:
    table = schema.files
    if files:
        names = [file.name for file in files]
        connection.execute(table.delete().where(table.c.run_id == run_id, table.c.name.in_(names)))
        connection.execute(table.insert(), [{**asdict(file), "run_id": run_id} for file in files])


def _moment(batch: Batch, at: float, pacing: Pacing) -> float:
    due = min(batch.due_at, at) if is_due(batch.due_at, at) else batch.due_at
    return max(due, at + pacing.held) if batch.state is Lifecycle.PLANNED else due
