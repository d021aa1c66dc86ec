"""Grade: from responses to predictions, and from judges' responses to verdicts. One job at a time, when it is over."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from layton_batch import tables
from layton_batch.records import Grade, Item, Job, ModelSpec, Prediction, Response, Verdict
from layton_batch.run import Run
from layton_batch.states import OPEN, ErrorClass, FinishReason, PredictionKind, RequestOutcome, Role


def grade(run: Run) -> bool:
    """Grade every planned job that has no open batch left."""
    jobs = run.store.jobs()
    busy = {batch.job_id for batch in run.store.batches(OPEN)}
    over = [job for job in jobs if job.planned and not job.graded and job.id not in busy]
    items = {item.id: item for item in run.items} if over else {}
    for job in over:
        if job.role is Role.PREDICT:
            _grade_predictions(run, job, items)
        else:
            _grade_verdicts(run, job)
        run.store.set_graded(job.id, run.clock.now())
    return bool(over)


def final_responses(run: Run, job_id: str) -> pl.DataFrame:
    """The job's requests with the response that counts: the answer, else what the last attempt said."""
    requests = pl.read_parquet(run.folder.part("requests", job_id))
    parts = [
        pl.read_parquet(part)
        for batch in run.store.batches()
        if batch.job_id == job_id
        for part in sorted((run.folder.tables / "responses" / batch.id).glob("*.parquet"))
    ]
    responses = pl.concat(parts) if parts else tables.frame("responses", [])
    best = (
        responses.with_columns(answered=pl.col("outcome") == str(RequestOutcome.SUCCEEDED))
        .sort("answered", "attempt", descending=True, maintain_order=True)
        .unique("custom_id", keep="first", maintain_order=True)
        .drop("answered", "job_id")
    )
    return requests.join(best, on="custom_id", how="left", maintain_order="left")


def response_from(row: Mapping[str, object]) -> Response:
    """A response as the tables have it; a request nothing is known of is MISSING."""
    return Response(
        custom_id=str(row["custom_id"]),
        outcome=RequestOutcome(_text(row["outcome"]) or "missing"),
        text=_text(row["text"]),
        finish_reason=FinishReason(str(row["finish_reason"])) if row["finish_reason"] else None,
        raw_finish_reason=_text(row["raw_finish_reason"]),
        refusal=_text(row["refusal"]),
        error_class=ErrorClass(_text(row["error_class"]) or "none"),
        error_code=_text(row["error_code"]),
        error_message=_text(row["error_message"]),
        served_model=_text(row["served_model"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _grade_predictions(run: Run, job: Job, items: Mapping[str, Item]) -> None:
    rows, marks = [], []
    for row in final_responses(run, job.id).iter_rows(named=True):
        prediction = run.task.parse(row["item_id"], job.spec.name, response_from(row))
        rows.append(_prediction_row(run, job.spec, items[row["item_id"]], prediction, row))
        if not run.task.uses_jury:
            marks += _mark_rows(run.task.grade(items[row["item_id"]], prediction))
    tables.write(run.folder.part("predictions", job.id), tables.frame("predictions", rows))
    if marks:
        tables.write(run.folder.part("grades", job.id), tables.frame("grades", marks))


def _mark_rows(grade: Grade) -> list[dict[str, object]]:
    """A rule's marks, one row a metric."""
    same = {"item_id": grade.item_id, "model": grade.model, "tag": grade.tag, "note": grade.note}
    return [{**same, "metric": metric, "mark": float(mark)} for metric, mark in grade.marks.items()]


def _prediction_row(
    run: Run, spec: ModelSpec, item: Item, prediction: Prediction, row: Mapping[str, object]
) -> dict[str, object]:
    return {
        "item_id": prediction.item_id,
        "model": spec.name,
        "provider": spec.provider,
        "family": spec.family,
        "split": item.split,
        "n_hints": run.manifest.items.hints,
        "kind": str(prediction.kind),
        "answer": tables.storable(prediction.answer),
        "justification": tables.storable(prediction.justification),
        "raw_text": tables.storable(prediction.raw_text),
        "note": prediction.note,
        **{name: row[name] for name in ("finish_reason", "custom_id", "batch_id", "attempt")},
    }


def _grade_verdicts(run: Run, job: Job) -> None:
    rows = []
    for row in final_responses(run, job.id).iter_rows(named=True):
        verdict = run.task.parse_verdict(row["item_id"], row["model"], job.spec.name, response_from(row))
        rows.append(_verdict_row(verdict, job.spec.provider, row))
    tables.write(run.folder.part("verdicts", job.id), tables.frame("verdicts", rows))


def _verdict_row(verdict: Verdict, judge_provider: str, row: Mapping[str, object]) -> dict[str, object]:
    return {
        "item_id": verdict.item_id,
        "model": verdict.model,
        "judge": verdict.judge,
        "judge_provider": judge_provider,
        "is_answer_correct": verdict.is_answer_correct,
        "is_justification_correct": verdict.is_justification_correct,
        "both_correct": verdict.both_correct,
        "note": verdict.note,
        "raw_text": row["text"],
        **{name: row[name] for name in ("custom_id", "batch_id", "attempt")},
    }


def kinds(predictions: pl.DataFrame) -> dict[str, int]:
    """How many predictions there are of each kind."""
    return {str(kind): predictions.filter(pl.col("kind") == str(kind)).height for kind in PredictionKind}
