"""Grade: from responses to predictions, and from judges' responses to verdicts. One job at a time, when it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from layton_batch.batches.fingerprints import FIRST_SAMPLE, retired_ids
from layton_batch.errors import StaleStateError
from layton_batch.files import tables
from layton_batch.records import Grade, Item, Job, ModelSpec, Prediction, Verdict
from layton_batch.run.context import Run
from layton_batch.stages.final_responses import ends_of_retired, final_responses, response_from
from layton_batch.stages.reask import reask
from layton_batch.states import OPEN, Role
from layton_batch.store.revising import keep_retired_ends
from layton_batch.tasks.protocol import juried

_VERDICTS = {Role.JUDGE: "verdicts", Role.REJUDGE: "rejudged"}
"""The tables of a jury's verdicts: on this run's answers, and on labelled ones of the gold set."""


def grade(run: Run) -> bool:
    """Grade every planned job that has no open batch left, and write the tables of graded ones again that are gone."""
    jobs, batches = run.store.jobs(), run.store.batches()
    busy = {batch.job_id for batch in batches if batch.state in OPEN}
    seen: dict[str, list[str]] = defaultdict(list)
    for batch in batches:
        seen[batch.job_id].append(batch.id)
    is_open = {batch.id for batch in batches if batch.state in OPEN}
    over = [job for job in jobs if job.planned and not job.graded and job.id not in busy]
    over = [job for job in over if not run.waiting.get(job.id, frozenset()) & is_open]
    moved = [run.apart(job.id, partial(_grade_job, run, job, seen[job.id])) for job in over]
    gone = [job for job in jobs if job.graded and not all(part.exists() for part in _parts(run, job))]
    moved += [run.apart(job.id, partial(_write, run, job, seen[job.id])) for job in gone]
    return any(moved)


def _parts(run: Run, job: Job) -> Sequence[Path]:
    """The part files that grading the job writes."""
    if job.role is not Role.PREDICT:
        return [run.folder.part(_VERDICTS[job.role], job.id)]
    names = ["predictions"] if run.task.uses_jury else ["predictions", "grades"]
    return [run.folder.part(name, job.id) for name in names]


def _grade_job(run: Run, job: Job, batches: Sequence[str]) -> bool:
    try:
        if reask(run, job):
            return not run.waiting.get(job.id)
    except StaleStateError:
        return True  # whoever has the writer lease by now goes on
    _write(run, job, batches)
    keep_retired_ends(run.store, job.id, ends_of_retired(run, job.id))
    run.store.set_graded(job.id, run.clock.now(), len(batches))
    return True


def _write(run: Run, job: Job, batches: Sequence[str]) -> bool:
    """Its tables, from the answers on disk alone."""
    retired = sorted(retired_ids(tables.read_part(run.folder.part("requests", job.id))))
    row = run.store.row()
    items = row.items if row else None  # a rule's marks hang on the items' own answers too
    origin = tables.digest(str(job.role), job.id, job.spec.name, items, *sorted(batches), *retired)
    if job.role is Role.PREDICT:
        _grade_predictions(run, job, origin)
    else:
        _grade_verdicts(run, job, origin)
    return True


def _grade_predictions(run: Run, job: Job, origin: str) -> None:
    task = run.task
    with ExitStack() as files:
        mark = None
        if not task.uses_jury:
            mark = files.enter_context(tables.writing(run.folder.part("grades", job.id), "grades", origin))
        predict = files.enter_context(tables.writing(run.folder.part("predictions", job.id), "predictions", origin))
        for row in final_responses(run, job.id):
            item = run.item(str(row["item_id"]))
            prediction = task.parse(item, job.spec.name, response_from(row))
            predict(_prediction_row(run, job.spec, item, prediction, row))
            if mark is not None and not task.uses_jury:
                for one in _mark_rows(task.grade(item, prediction), job.spec.sample):
                    mark(one)


def _mark_rows(grade: Grade, sample: int) -> list[dict[str, object]]:
    """A rule's marks, one row a metric."""
    same = {"item_id": grade.item_id, "model": grade.model, "tag": grade.tag, "note": grade.note,
            "sample": sample}  # fmt: skip
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
        "n_hints": run.manifest.hints_of(spec),
        "kind": str(prediction.kind),
        "answer": tables.storable(prediction.answer),
        "justification": tables.storable(prediction.justification),
        "raw_text": tables.storable(prediction.raw_text),
        "note": prediction.note,
        "sample": spec.sample,
        **{name: row[name] for name in ("finish_reason", "custom_id", "batch_id", "attempt")},
    }


def _grade_verdicts(run: Run, job: Job, origin: str) -> None:
    task = juried(run.task)
    judged = {other.id: other.spec.sample for other in run.store.jobs()}
    sample = judged.get(str(job.depends_on), FIRST_SAMPLE)
    rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
    hints = rejudged.hints if rejudged else run.manifest.hints_of(job.spec)
    rows = (
        _verdict_row(
            task.parse_verdict(str(row["item_id"]), str(row["model"]), job.spec.name, response_from(row)),
            job.spec.provider,
            (sample, hints),
            row,
        )
        for row in final_responses(run, job.id)
    )
    table = _VERDICTS[job.role]
    tables.write_rows(run.folder.part(table, job.id), table, rows, origin)


def _verdict_row(
    verdict: Verdict, judge_provider: str, judged: tuple[int, int], row: Mapping[str, object]
) -> dict[str, object]:
    """``judged``: which sample, and with how many hints."""
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
        "sample": judged[0],
        "n_hints": judged[1],
        **{name: row[name] for name in ("custom_id", "batch_id", "attempt")},
    }
