"""Contents of a finished part of a run, put together for those who write it down elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import tables
from layton_batch.records import Job, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.stages.rank import board, finished_jobs, samples
from layton_batch.states import Role

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelContents:
    """A model that is done. ``predictions``: its rows; by item ``usage``, ``verdicts`` (by judge, the row of the table)
    and ``marks`` (by metric: the mark or share of yes votes, and what became of it). ``samples``: how often the model
    was asked."""

    spec: ModelSpec
    hints: int
    judges: Sequence[ModelSpec]
    predictions: Sequence[Row]
    usage: Mapping[str, Row] = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    marks: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    samples: int = 1


@dataclass(frozen=True, slots=True)
class RunContents:
    """The models that are done, in the manifest's order, and the boards they are on, by metric. ``models`` hold their
    first samples, ``later`` the others."""

    run: Run
    models: Sequence[ModelContents]
    boards: Mapping[str, pl.DataFrame]
    later: Sequence[ModelContents] = ()

    @property
    def metrics(self) -> Sequence[str]:
        """The run's own metric first."""
        return list(self.boards)

    def row(self, model: ModelContents, metric: str) -> pl.DataFrame:
        """A model's row of a board."""
        return self.boards[metric].filter(model=model.spec.name, n_hints=model.hints)


def contents(run: Run) -> RunContents:
    """Read the contents of the completed models. Raises DataError if no model is completed."""
    jobs = run.store.jobs()
    done = finished_jobs(run)
    if not done:
        raise DataError(
            f"run {run.id}: no model is done yet; there is nothing to export. `layton-batch run` continues it"
        )
    main = run.rules.metric
    metrics = [main, *(metric for metric in run.task.metrics if metric != main)]
    boards = {metric: board(run, replace(run.rules, metric=metric)) for metric in metrics}
    sample_counts = samples(run)
    models = [replace(_of_model(run, job, jobs), samples=sample_counts[job.spec.name]) for job in done]
    first = [model for model in models if model.spec.sample == 1]
    return RunContents(run, first, boards, [model for model in models if model.spec.sample > 1])


def _of_model(run: Run, job: Job, jobs: Sequence[Job]) -> ModelContents:
    sitting = [other for other in jobs if other.role is Role.JUDGE and other.depends_on == job.id]
    predictions = tables.read_part(run.folder.part("predictions", job.id))
    scores = tables.read_part(run.folder.part("scores", job.id))
    verdicts: dict[str, dict[str, Row]] = {}
    for other in sitting:
        for row in tables.read_part(run.folder.part("verdicts", other.id)).iter_rows(named=True):
            verdicts.setdefault(row["item_id"], {})[row["judge"]] = row
    return ModelContents(
        spec=job.spec,
        hints=run.manifest.hints_of(job.spec),
        judges=[other.spec for other in sitting],
        predictions=list(predictions.iter_rows(named=True)),
        usage=_usage(run, predictions),
        verdicts=verdicts,
        marks={(row["item_id"], row["metric"]): row for row in scores.iter_rows(named=True)},
    )


def _usage(run: Run, predictions: pl.DataFrame) -> dict[str, Row]:
    """Return the usage of each item's final answer."""
    keys = ["custom_id", "batch_id", "attempt"]
    usage = tables.read(run.folder.tables, "usage")
    joined = predictions.select("item_id", *keys).join(usage.unique(keys, keep="last"), on=keys, how="inner")
    return {row["item_id"]: row for row in joined.iter_rows(named=True)}
