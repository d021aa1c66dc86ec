"""Score: from verdicts to votes, one row per prediction and metric. Models whose jury is done are scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from layton_batch.files import tables
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job
from layton_batch.run.context import Run
from layton_batch.stages.readiness import finished
from layton_batch.states import PredictionKind


def score(run: Run) -> bool:
    """Count the votes of every model that is done and whose votes were not counted, or were from other verdicts."""
    jobs = run.store.jobs()
    stale = [job for job in finished(jobs) if tables.made_from(_part(run, job)) != _origin(run, job, jobs)]
    moved = [run.apart(job.id, partial(_write, run, [job], jobs)) for job in stale]
    return any(moved)


def score_again(run: Run) -> None:
    """Count all votes anew from the stored verdicts."""
    jobs = run.store.jobs()
    _write(run, finished(jobs), jobs)


def _write(run: Run, done: Sequence[Job], jobs: Sequence[Job]) -> bool:
    for job in done:
        rows = tables.frame("scores", list(_score_rows(run, job, jobs)))
        tables.write(_part(run, job), rows, _origin(run, job, jobs))
    return bool(done)


def _part(run: Run, job: Job) -> Path:
    return run.folder.part("scores", job.id)


def _origin(run: Run, job: Job, jobs: Sequence[Job]) -> str:
    """What the scores of a predict job are made from: its predictions, and its judges' verdicts or a rule's grades."""
    judges = [run.folder.part("verdicts", other.id) for other in jobs if other.depends_on == job.id]
    graded = judges or [run.folder.part("grades", job.id)]
    sources = (run.folder.part("predictions", job.id), *graded)
    return tables.digest("scores", job.spec.name, *map(tables.made_from, sources))


def _score_rows(run: Run, job: Job, jobs: Sequence[Job]) -> Iterator[dict[str, object]]:
    if not run.task.uses_jury:
        return _mark_rows(run, job)
    return _vote_rows(run, job, [other.id for other in jobs if other.depends_on == job.id])


def _mark_rows(run: Run, job: Job) -> Iterator[dict[str, object]]:
    """A rule's marks as they are."""
    for row in tables.read_part(run.folder.part("grades", job.id)).iter_rows(named=True):
        yield {
            "item_id": row["item_id"],
            "model": job.spec.name,
            "metric": row["metric"],
            "vote": row["mark"],
            "flag": row["tag"],
            "sample": job.spec.sample,
            "n_hints": run.manifest.hints_of(job.spec),
        }


def _vote_rows(run: Run, job: Job, judge_jobs: Sequence[str]) -> Iterator[dict[str, object]]:
    """A jury's votes, metric by metric; what a judge left out shortens the jury of that item only."""
    predictions = tables.read_part(run.folder.part("predictions", job.id), columns=["item_id", "kind"])
    columns = ["item_id", *dict.fromkeys(METRIC_FIELDS.get(metric, metric) for metric in run.task.metrics)]
    verdicts = pl.concat([tables.read_part(run.folder.part("verdicts", name), columns=columns) for name in judge_jobs])
    for metric in run.task.metrics:
        field = METRIC_FIELDS.get(metric, metric)
        votes = verdicts.group_by("item_id").agg(yes=pl.col(field).sum(), total=pl.col(field).count())
        joined = predictions.join(votes, on="item_id", how="left", maintain_order="left")
        for item_id, kind, yes, total in joined.iter_rows():
            row = _vote_row(job, metric, item_id, kind, int(yes or 0), int(total or 0), len(judge_jobs))
            yield {**row, "n_hints": run.manifest.hints_of(job.spec)}


def _vote_row(job: Job, metric: str, item_id: str, kind: str, yes: int, total: int, seats: int) -> dict[str, object]:
    row = {"item_id": item_id, "model": job.spec.name, "metric": metric, "sample": job.spec.sample}
    if kind != PredictionKind.ANSWERED:
        return {**row, "yes": 0, "total": 0, "vote": 0.0, "flag": kind}
    if total == 0:
        return {**row, "yes": 0, "total": 0, "vote": None, "flag": "unjudged"}
    return {**row, "yes": yes, "total": total, "vote": yes / total, "flag": None if total >= seats else "short_jury"}
