"""Score: from verdicts to votes, one row per prediction and metric. Models whose jury is done are scored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

import polars as pl

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.status import finished
from layton_batch.scoring.evidence import count_by_answer
from layton_batch.states import PredictionKind


def score(run: Run) -> bool:
    """Count the votes of every model that is done and whose votes were not counted, or were from other verdicts."""
    jobs, work = run.store.jobs(), list[tuple[Job, Future[None]]]()
    for job in finished(jobs):
        judges = [other.id for other in jobs if other.depends_on == job.id] if run.task.uses_jury else []
        origin = _origin(run, job, judges)
        if tables.made_from(run.folder.part("scores", job.id)) != origin:
            hints, seats = run.manifest.hints_of(job.spec), None if run.manifest.in_turn else len(judges)
            metrics, folder = tuple(run.task.metrics), run.folder.absolute()
            work.append((job, run.engine.submit(count_votes, folder, job, hints, judges, seats, metrics, origin)))
    moved = [run.engine.apart(job.id, partial(_end, run, job, counting)) for job, counting in work]
    return any(moved)


def _end(run: Run, job: Job, work: Future[None]) -> bool:
    run.engine.wait_for(job, work)
    return True


def _origin(run: Run, job: Job, judges: Sequence[str]) -> str:
    """Digest the inputs of a predict job's scores: predictions, and its judges' verdicts or a rule's grades."""
    graded = [run.folder.part("verdicts", judge) for judge in judges] or [run.folder.part("grades", job.id)]
    sources = (run.folder.part("predictions", job.id), *graded)
    how = ("in turn",) if run.manifest.in_turn else ()
    return tables.digest("scores", job.spec.name, *map(tables.made_from, sources), *how)


def count_votes(
    folder: RunFolder,
    job: Job,
    hints: int,
    judges: Sequence[str],
    seats: int | None,
    metrics: Sequence[str],
    origin: str,
) -> None:
    """Write one row for each prediction and metric. May run in another process.

    ``judges``: the jobs of its jury; none if a rule marks. ``seats``: how many judges were asked about each answer;
    None: a third was asked only about answers on which two differ.
    """
    if judges:
        rows = _jury_votes(folder, job, judges, seats, metrics)
    else:  # a rule's grades as they are
        rows = tables.read_part(folder.part("grades", job.id)).rename({"grade": "vote", "tag": "flag"})
    same = {"model": job.spec.name, "sample": job.spec.sample, "n_hints": hints}
    table = tables.of_columns("scores", {**rows.drop("note", strict=False).to_dict(), **same})
    tables.write(folder.part("scores", job.id), table, origin)


def _jury_votes(
    folder: RunFolder, job: Job, judges: Sequence[str], seats: int | None, metrics: Sequence[str]
) -> pl.DataFrame:
    """Return a jury's votes, metric by metric. What a judge left out shortens the jury of that item only."""
    from layton_batch.scoring.evidence import with_contents

    content = ("item_id", "kind", "answer", "justification")
    nothing = tables.frame("predictions", []).select(content)
    # some of the texts are in memory at a time
    portions = itertools.chain([nothing], tables.read_portions(folder.part("predictions", job.id), content))
    predictions = pl.concat(map(with_contents, portions))
    fields = {metric: METRIC_FIELDS.get(metric, metric) for metric in metrics}
    columns = list(dict.fromkeys(fields.values()))
    verdicts = pl.concat(
        [tables.read_part(folder.part("verdicts", name), ("item_id", "judge", *columns)) for name in judges]
    )
    votes = count_by_answer(verdicts, ["item_id"], columns, in_turn=seats is None)
    joined = predictions.join(votes, on="item_id", how="left", maintain_order="left")
    frames = [
        joined.with_columns(
            metric=pl.lit(metric),
            **_vote(
                pl.col(f"yes {field}"),
                pl.col(f"total {field}"),
                pl.col(f"asked {field}") if seats is None else pl.lit(seats),
            ),
        )
        for metric, field in fields.items()
    ]
    wanted = ("item_id", "metric", "yes", "total", "judges", "vote", "flag", "content")
    return pl.concat([frame.select(pl.col(name).cast(SCHEMAS["scores"][name]) for name in wanted) for frame in frames])


def _vote(yes: pl.Expr, total: pl.Expr, seats: pl.Expr) -> dict[str, pl.Expr]:
    """Compute the vote. An answer that no jury judged has its kind as flag, and the vote 0."""
    judged = pl.col("kind") == str(PredictionKind.ANSWERED)
    yes, total, seats = (pl.when(judged).then(count.fill_null(0)).otherwise(0) for count in (yes, total, seats))
    flag = pl.when(total == 0).then(pl.lit("unjudged")).when(total < seats).then(pl.lit("short_jury"))
    return {
        "yes": yes,
        "total": total,
        "judges": seats,
        "vote": pl.when(~judged).then(0.0).when(total > 0).then(yes / total),
        "flag": pl.when(~judged).then(pl.col("kind")).otherwise(flag),
    }
