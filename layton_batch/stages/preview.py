"""The plan of a manifest as a document: what its run would send and cost, and what a person should know before.

`plan` shows the plan of a copy of the workspace, of which nothing stays. `run` plans its own rows and files, shows the
same document, and sends what is agreed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from sqlalchemy import select

from layton_batch.clock import Clock
from layton_batch.costs.estimate import output_bound
from layton_batch.errors import LaytonBatchError
from layton_batch.files import atomic
from layton_batch.files.run_folder import BATCHES, RunFolder, Workspace
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.manifest.form import BudgetTable
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import ModelFindings, asked_models, check_models
from layton_batch.records import Item
from layton_batch.runs.connections import check_models_settings, connect_within
from layton_batch.runs.context import Run
from layton_batch.runs.folders import home_of, replacement_note
from layton_batch.runs.open import open_copied, refuse_keys
from layton_batch.runs.stores import engine_to_read
from layton_batch.settings import Settings, key_names
from layton_batch.stages.costs import total, with_safety
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.stages.plan_counts import PastState, PlannedJob, count_jobs
from layton_batch.stages.plan_notes import (
    caveats,
    changed_settings,
    label_notes,
    labels_seen,
    notes_on_items,
    refused_pictures,
    short_juries,
)
from layton_batch.states import Lifecycle, Role
from layton_batch.store import schema
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.tasks.protocol import cautions
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class NeededKey:
    """A key that `run` needs, by the variables that may hold it; ``is_set``: one of them does."""

    variables: tuple[str, ...]
    is_set: bool

    def __str__(self) -> str:
        return " or ".join(self.variables)


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan: jobs, what to know before starting, and the most the run can cost by provider and in all."""

    run_id: str
    items: int
    jobs: tuple[PlannedJob, ...]
    caveats: tuple[str, ...]
    budget: BudgetTable
    refused: tuple[str, ...] = ()
    """Why `run` refuses to begin: keys of another provider, models that are gone, settings that they do not take."""
    keys: tuple[NeededKey, ...] = ()
    provider_notes: tuple[tuple[str, str], ...] = ()
    """Provider and what is to be known of its batches."""
    before_sending: tuple[str, ...] = ()
    """Caveats that `run` prints as well, before it sends: on items, labels, models and juries."""
    paid: int = 0
    """Requests of the run that were ever paid for, also those that its manifest does not ask any more."""

    def with_model_findings(self, findings: ModelFindings) -> Preview:
        """Return the plan with further findings on its models."""
        new = tuple(line for line in findings.warnings if line not in self.caveats)
        return replace(self, caveats=(*new, *self.caveats), refused=(*self.refused, *findings.refused))

    @property
    def every_caveat(self) -> tuple[str, ...]:
        """Return the caveats with the missing keys and the notes on providers, a line each."""
        missing = [str(key) for key in self.keys if not key.is_set]
        keys = (f"`run` needs {', '.join(missing)} in the environment or in .env",) if missing else ()
        return (*keys, *self.caveats, *(f"{name}: {note}" for name, note in self.provider_notes))

    def by_provider(self) -> dict[str, Decimal | None]:
        """Return upper bounds in USD by provider; None: a model of the provider has no known price."""
        bounds: dict[str, Decimal | None] = {}
        for planned in self.jobs:
            name = planned.job.spec.provider
            so_far = bounds.get(name, Decimal(0))
            bounds[name] = None if so_far is None or planned.max_usd is None else so_far + planned.max_usd
        return bounds

    @property
    def requests(self) -> int:
        return sum(planned.requests for planned in self.jobs)

    @property
    def answered(self) -> int:
        return sum(planned.answered for planned in self.jobs)

    @property
    def to_send(self) -> int:
        """Return the number of requests to send, of all jobs."""
        return sum(planned.to_send for planned in self.jobs)

    @property
    def judged_again(self) -> int:
        """Return the number of requests to send about items on which the same judge gave a verdict before."""
        return sum(planned.judged_again for planned in self.jobs)

    @property
    def max_usd(self) -> Decimal | None:
        """Return the most that all first attempts can cost in USD."""
        return total(self.by_provider().values())

    @property
    def set_aside_usd(self) -> Decimal | None:
        """Return the budget's reserve for all first attempts in USD: their highest cost, unless the budget has less."""
        return total(with_safety(self.budget, job.max_usd, job.expected_usd) for job in self.jobs)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Return the models, as ``provider model``, that get no requests: there is a budget, and no price is known."""
        jobs = [planned for planned in self.jobs if planned.max_usd is None and planned.requests > planned.answered]
        names = dict.fromkeys(f"{planned.job.spec.provider} {planned.job.spec.model}" for planned in jobs)
        return () if self.budget.max_usd is None else tuple(names)

    @property
    def expected_usd(self) -> Decimal | None:
        """Return the expected cost of all first attempts in USD."""
        return total(planned.expected_usd for planned in self.jobs)


def preview(
    manifest: Manifest,
    settings: Settings,
    clock: Clock,
    write: Path | None = None,
    runs: Path = Path("runs"),
    items: Sequence[Item] | None = None,
) -> Preview:
    """Plan in a copy of the workspace ``runs``, of which nothing stays. With ``write``, the participants' batch files
    are kept in that folder. ``items``: None: as their source has them.

    Raises ManifestError and DataError for everything that `run` would refuse before sending, save missing keys, which
    become caveats, and what is known of the models, which stands beside the plan: a benchmark of models that are gone
    can still be looked at.
    """
    settings = manifest.addressed(settings)
    items = load_items(manifest, manifest_task(manifest), settings, clock) if items is None else items
    refuse_keys(manifest, settings)
    check_models_settings(manifest, settings)
    folder = home_of(manifest, runs)
    with planning_copy(manifest, folder, settings, clock, items) as (run, trouble):
        planned = _planned(run, folder, settings, trouble)
        if write is not None:
            _keep_files(run, write)
    return planned


def plan_to_send(run: Run, settings: Settings, enter: Callable[[Run], object] | None = None) -> Preview:
    """Plan what the run's manifest asks by now. Nothing planned is sent before the store notes that it is agreed.

    ``enter`` enters answers that were given elsewhere, before their judges' requests are planned.
    """
    run.store.set_agreed(is_agreed=False)
    return _planned(run, run.folder, run.manifest.addressed(settings), enter=enter)


def _planned(
    run: Run,
    folder: RunFolder,
    settings: Settings,
    trouble: str | None = None,
    enter: Callable[[Run], object] | None = None,
) -> Preview:
    """Plan the run, and return the document. ``folder``: where the run is, if this is a copy; ``trouble``: why it could
    not be copied."""
    manifest, task, items = run.manifest, run.task, run.load_items()
    before, seen = PastState.of(run), labels_seen(manifest, folder, settings, run.clock)
    on_items = notes_on_items(folder, task, items, seen, is_same=before.same_items)
    if enter is not None:
        enter(run)
    while plan(run) | grade(run):
        pass
    jobs = count_jobs(run, before)
    participants = [job.spec for job in run.store.jobs(Role.PREDICT)]
    models = check_models(manifest, settings, run.clock)
    new_jobs = [planned.job for planned in jobs if planned.job.role is not Role.REJUDGE]
    providers = tuple(dict.fromkeys(job.spec.provider for job in new_jobs))
    asked_providers = tuple(dict.fromkeys(spec.provider for spec in asked_models(manifest)))
    before_sending = (
        *on_items,
        *refused_pictures(run, items, providers),
        *changed_settings(jobs, before),
        *short_juries(manifest, participants if task.uses_jury else ()),
    )
    gold = run.load_gold() if task.uses_jury else None
    notes = (
        *cautions(task),
        *filter(None, (trouble, replacement_note(folder, manifest))),
        *before_sending,
        *(label_notes(manifest, gold) if gold else ()),
        *caveats(manifest, settings, new_jobs, run.prices, has_labels=bool(seen)),
    )
    document = Preview(
        run_id=manifest.name,
        items=len(items),
        jobs=tuple(jobs),
        caveats=notes,
        budget=manifest.budget,
        before_sending=before_sending,
        refused=(*filter(None, map(settings.key_trouble, asked_providers)), *models.refused),
        keys=tuple(NeededKey(key_names(name), settings.has_key(name)) for name in asked_providers),
        provider_notes=tuple(
            (name, note) for name in providers for note in connect_within(manifest, name, None).capabilities.caveats
        ),
        paid=run.store.count_paid(),
    )
    return replace(document, caveats=(*_of_amounts(document), *models.warnings, *notes))


def _keep_files(run: Run, folder: Path) -> None:
    """Copy the participants' batch files, a folder a job."""
    participants = {job.id for job in run.store.jobs(Role.PREDICT)}
    for batch in run.store.batches({Lifecycle.PLANNED}):
        if batch.job_id in participants:
            path = folder / "requests" / batch.job_id / f"{batch.shard_id}.jsonl"
            atomic.write_bytes(path, (run.folder.workspace.root / batch.path).read_bytes())


def _of_amounts(planned: Preview) -> Iterator[str]:
    """Yield the notes on the plan's own numbers: requests that are too large, and an upper bound above the budget."""
    for planned_job in planned.jobs:
        if planned_job.too_large:
            requests = plural(planned_job.too_large, "request is", "requests are")
            job = planned_job.job
            yield f"{job.id}: {requests} larger than {job.spec.provider} takes, and will not be sent"
    budget, aside = planned.budget, planned.set_aside_usd
    if budget.max_usd is None or aside is None or aside <= budget.max_usd:
        return
    if budget.bound is not None:
        yield (
            f"{budget.safety:f} times the expected cost is above the budget: `run` stops before a batch exceeds it. "
            "Raise max_usd, lower safety in [budget], or ask fewer items ([items] limit)"
        )
        return
    dearest = max(planned.jobs, key=lambda job: job.max_usd or Decimal(0)).job.spec
    yield (
        "the upper bound is above the budget: `run` stops before a batch that could exceed it. Lower "
        f"max_output_tokens, first of {dearest.name} (now {output_bound(dearest):,} a reply), or raise max_usd, or "
        'set bound = "expected" in [budget]'
    )


_ROWS = 5_000
"""Rows that are written in one statement."""


@contextmanager
def planning_copy(
    manifest: Manifest, folder: RunFolder, settings: Settings, clock: Clock, items: Sequence[Item]
) -> Iterator[tuple[Run, str | None]]:
    """Yield the manifest's run in a copy of its workspace, with what the manifest asks by now, and why the workspace
    cannot be read (None: it can): then the copy is empty. Nothing of what is done there stays."""
    with TemporaryDirectory(prefix="layton-batch-plan-") as temporary:
        copy, trouble = Workspace(Path(temporary).resolve() / "runs"), None
        copy.root.mkdir()
        try:
            _copy(folder.absolute(), settings, copy)
        except LaytonBatchError as error:
            trouble = f"the run cannot be read, and all of it is counted as new: {error}"
            copy = Workspace(Path(temporary).resolve() / "empty")
            copy.root.mkdir()
        with open_copied(manifest, copy.run(folder.root.name), settings, clock, items) as run:
            yield run, trouble


def _copy(folder: RunFolder, settings: Settings, copy: Workspace) -> None:
    """Copy the rows of all runs, and link to their files. Raises LaytonBatchError."""
    workspace, own = folder.workspace, folder.root.name
    if not (settings.state_url or workspace.database.exists() or folder.manifest.exists()):
        return
    batch_names = _copy_rows(folder, settings, copy.database, own)
    paths = [path for path in workspace.root.glob("*") if path.is_dir() and path.name not in (own, BATCHES)]
    paths += [path for path in (workspace.root / BATCHES).glob("*") if path.name != own]
    paths += [path for path in (*folder.root.glob("*.json*"), *folder.labels.glob("*")) if path != folder.log]
    paths += folder.tables.glob("*/*.parquet")
    # file by file, for the copy mends what is damaged; what the rows do not know is written anew
    paths += [path for name in batch_names for path in (workspace.batches(own) / name).rglob("*") if path.is_file()]
    for path in paths:
        link = copy.root / path.relative_to(workspace.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(path.resolve(), link)


def _copy_rows(folder: RunFolder, settings: Settings, target: Path, run_id: str) -> Sequence[str]:
    """Copy the database to a file. Return the batches of the run."""
    with engine_to_read(folder, settings) as source:
        if source.dialect.name == "sqlite":
            with closing(source.raw_connection()) as reading, closing(sqlite3.connect(target)) as writing:
                cast("sqlite3.Connection", reading.driver_connection).backup(writing)
        engine = open_engine(sqlite_url(target))
        try:
            if source.dialect.name != "sqlite":
                with source.connect() as reading, engine.begin() as writing:
                    for table in set(schema.metadata.sorted_tables) - {schema.schema_version}:
                        for rows in reading.execute(select(table)).mappings().partitions(_ROWS):
                            writing.execute(table.insert(), [dict(row) for row in rows])
            with engine.connect() as copied:
                mine = select(schema.batches.c.batch_id).where(schema.batches.c.run_id == run_id)
                return copied.execute(mine).scalars().all()
        finally:
            engine.dispose()
