"""The tables of one job, from what is on disk alone: its answers graded, and its votes counted.

Every function here may run in another process (``runs/job_engine.py``): it takes records that pickle can carry,
and the same record gives the same bytes wherever it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from layton_batch.errors import DamagedTableError
from layton_batch.files import item_table, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Grade, Item, Job, Prediction, Response, Verdict
from layton_batch.scoring.evidence import count_by_answer
from layton_batch.stages.responses import ResponseLocations, final_portions, response_from
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome, Role, VerdictKind
from layton_batch.tasks.protocol import Task, juried

VERDICTS = {Role.JUDGE: "verdicts", Role.REJUDGE: "rejudged"}
"""The tables of a jury's verdicts: on this run's answers, and on labelled ones of the gold set."""


@dataclass(frozen=True, slots=True)
class Grading:
    """A job to be graded. ``judged``: the model whose answers it brings or judges; ``located``: its responses;
    ``sample``, ``hints``: of the answers; ``origin``: the digest of what its tables are made from."""

    folder: RunFolder
    manifest: Manifest
    job: Job
    judged: str
    located: ResponseLocations
    sample: int
    hints: int
    origin: str


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A participant whose votes are to be counted. ``judges``: its jury's jobs; none where a rule marks. ``in_turn``:
    a third judge was asked only where two differ."""

    folder: RunFolder
    job: Job
    judges: tuple[str, ...]
    metrics: tuple[str, ...]
    hints: int
    origin: str
    in_turn: bool = False


_kept: dict[Path, tuple[object, Task, Mapping[str, Item]]] = {}
"""Task and items that a run's last job was graded with, by run."""


def grade_apart(grading: Grading) -> None:
    """Grade like :func:`grade_job`, with task and items read from the folder."""
    folder = grading.folder
    made_of = grading.manifest.frozen_json(), _state(folder)
    kept_task = _kept.get(folder.root)
    if kept_task is None or kept_task[0] != made_of:
        items = {item.id: item for item in item_table.read(folder)}
        kept_task = made_of, manifest_task(grading.manifest, folder.prompts), items
        _kept.clear()
        _kept[folder.root] = kept_task
    grade_job(grading, kept_task[1], kept_task[2].__getitem__)


def _state(folder: RunFolder) -> tuple[int, int, int]:
    path = folder.part("items", "items")
    try:
        stat = path.stat()
    except OSError as error:
        raise DamagedTableError(f"{path} cannot be read ({error.strerror}): put it back from a copy", path) from error
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def grade_job(grading: Grading, task: Task, item: Callable[[str], Item]) -> None:
    """From responses to predictions, a rule's marks among them, or from judges' responses to verdicts."""
    if grading.job.role is Role.PREDICT:
        _grade_predictions(grading, task, item)
    else:
        _grade_verdicts(grading, task)


def _grade_predictions(grading: Grading, task: Task, item_of: Callable[[str], Item]) -> None:
    folder, job = grading.folder, grading.job
    with ExitStack() as files:
        part = folder.part("predictions", job.id)
        add_predictions = files.enter_context(tables.writing_frames(part, "predictions", grading.origin))
        add_grades = None
        if not task.uses_jury:
            part = folder.part("grades", job.id)
            add_grades = files.enter_context(tables.writing_frames(part, "grades", grading.origin))
        for portion in final_portions(grading.located):
            predictions: list[tables.Row] = []
            grades: list[tables.Row] = []
            for row in portion.iter_rows(named=True):
                item = item_of(str(row["item_id"]))
                prediction = task.parse(item, job.spec.name, response_from(row))
                predictions.append(_prediction_row(grading, item, prediction, row))
                if not task.uses_jury:
                    grades += _grade_rows(task.grade(item, prediction), grading.sample)
            add_predictions(tables.frame("predictions", predictions))
            if add_grades is not None:
                add_grades(tables.frame("grades", grades))


def _grade_rows(grade: Grade, sample: int) -> list[dict[str, object]]:
    """A rule's grades, one row a metric."""
    same = {"item_id": grade.item_id, "model": grade.model, "tag": grade.tag, "note": grade.note,
            "sample": sample}  # fmt: skip
    return [{**same, "metric": metric, "grade": float(value)} for metric, value in grade.marks.items()]


def _prediction_row(
    grading: Grading, item: Item, prediction: Prediction, row: Mapping[str, object]
) -> dict[str, object]:
    spec = grading.job.spec
    return {
        "item_id": prediction.item_id,
        "model": spec.name,
        "provider": spec.provider,
        "family": spec.family,
        "split": item.split,
        "n_hints": grading.hints,
        "kind": str(prediction.kind),
        "answer": prediction.answer,
        "justification": prediction.justification,
        "raw_text": prediction.raw_text,
        "note": prediction.note,
        "sample": grading.sample,
        **{name: row[name] for name in ("finish_reason", "custom_id", "batch_id", "attempt")},
    }


def _grade_verdicts(grading: Grading, task: Task) -> None:
    job, judging = grading.job, juried(task)
    table, fields = VERDICTS[job.role], [METRIC_FIELDS.get(metric, metric) for metric in task.metrics]
    with tables.writing_frames(grading.folder.part(table, job.id), table, grading.origin) as add:
        for portion in final_portions(grading.located):
            rows = []
            for row in portion.iter_rows(named=True):
                response = response_from(row)
                verdict = judging.parse_verdict(str(row["item_id"]), grading.judged, job.spec.name, response)
                verdict_row = _verdict_row(verdict, grading, row)
                kind = _kind(response, is_readable=all(verdict_row[field] is not None for field in fields))
                rows.append({**verdict_row, "kind": str(kind)})
            add(tables.frame(table, rows))


def _verdict_row(verdict: Verdict, grading: Grading, row: Mapping[str, object]) -> dict[str, object]:
    return {
        "item_id": verdict.item_id,
        "model": verdict.model,
        "judge": verdict.judge,
        "judge_provider": grading.job.spec.provider,
        "is_answer_correct": verdict.is_answer_correct,
        "is_justification_correct": verdict.is_justification_correct,
        "both_correct": verdict.both_correct,
        "note": verdict.note,
        "reason": verdict.reason,
        "raw_text": row["text"],
        "sample": grading.sample,
        "n_hints": grading.hints,
        **{name: row[name] for name in ("custom_id", "batch_id", "attempt")},
    }


def _kind(response: Response, *, is_readable: bool) -> VerdictKind:
    if response.outcome is not RequestOutcome.SUCCEEDED:
        return VerdictKind.MISSING
    if is_readable:
        return VerdictKind.READABLE
    if response.refusal is not None or response.finish_reason is FinishReason.REFUSAL:
        return VerdictKind.REFUSED
    return VerdictKind.CUT if response.finish_reason is FinishReason.LENGTH else VerdictKind.UNREADABLE


# ---- votes ---------------------------------------------------------------------------------------------------------


def count_votes(counting: CountedJob) -> None:
    """One row for each prediction and metric."""
    rows = _votes(counting) if counting.judges else tables.frame("scores", list(_rule_votes(counting)))
    tables.write(counting.folder.part("scores", counting.job.id), rows, counting.origin)


def _rule_votes(counting: CountedJob) -> Iterator[dict[str, object]]:
    """A rule's grades as they are."""
    job = counting.job
    for row in tables.read_part(counting.folder.part("grades", job.id)).iter_rows(named=True):
        yield {
            "item_id": row["item_id"],
            "model": job.spec.name,
            "metric": row["metric"],
            "vote": row["grade"],
            "flag": row["tag"],
            "sample": job.spec.sample,
            "n_hints": counting.hints,
        }


def _votes(counting: CountedJob) -> pl.DataFrame:
    """A jury's votes, metric by metric; what a judge left out shortens the jury of that item only."""
    from layton_batch.scoring.evidence import with_contents

    folder, job = counting.folder, counting.job
    content = ("item_id", "kind", "answer", "justification")
    nothing = tables.frame("predictions", []).select(content)
    # some of the texts are in memory at a time
    portions = itertools.chain([nothing], tables.read_portions(folder.part("predictions", job.id), content))
    predictions = pl.concat(map(with_contents, portions))
    fields = {metric: METRIC_FIELDS.get(metric, metric) for metric in counting.metrics}
    columns = ["item_id", "judge", *dict.fromkeys(fields.values())]
    verdicts = pl.concat([tables.read_part(folder.part("verdicts", name), columns=columns) for name in counting.judges])
    votes = count_by_answer(verdicts, ["item_id"], [*dict.fromkeys(fields.values())], in_turn=counting.in_turn)
    joined = predictions.join(votes, on="item_id", how="left", maintain_order="left")
    frames = [
        joined.with_columns(
            model=pl.lit(job.spec.name),
            metric=pl.lit(metric),
            **_vote(
                pl.col(f"yes {field}"),
                pl.col(f"total {field}"),
                pl.col(f"asked {field}") if counting.in_turn else pl.lit(len(counting.judges)),
            ),
            sample=pl.lit(job.spec.sample, pl.Int64),
            n_hints=pl.lit(counting.hints, pl.Int64),
        )
        for metric, field in fields.items()
    ]
    schema = SCHEMAS["scores"]
    return pl.concat([frame.select(pl.col(name).cast(kind) for name, kind in schema.items()) for frame in frames])


def _vote(yes: pl.Expr, total: pl.Expr, seats: pl.Expr) -> dict[str, pl.Expr]:
    """Compute the vote. An answer that no jury judged has its kind as flag, and the vote 0."""
    judged = pl.col("kind") == str(PredictionKind.ANSWERED)
    yes, total = (pl.when(judged).then(count.fill_null(0)).otherwise(0) for count in (yes, total))
    flag = pl.when(total == 0).then(pl.lit("unjudged")).when(total < seats).then(pl.lit("short_jury"))
    return {
        "yes": yes,
        "total": total,
        "judges": pl.when(judged).then(seats.fill_null(0)).otherwise(0),
        "vote": pl.when(~judged).then(0.0).when(total > 0).then(yes / total),
        "flag": pl.when(~judged).then(pl.col("kind")).otherwise(flag),
    }
