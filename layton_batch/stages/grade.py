"""Grade a job when it is over: predictions of responses, verdicts of judges' responses; or ask once more.

``grade_job`` and ``grade_apart`` write the tables of one job. They may run in another process (``runs/job_engine.py``):
they take a record that pickle can carry, and the same record gives the same bytes wherever they run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from layton_batch.batches.answers import (
    final_portions,
    final_responses,
    locate_responses,
    located_digest,
    response_from,
)
from layton_batch.batches.run_costs import charge_columns
from layton_batch.errors import DamagedTableError, StoreError
from layton_batch.files import atomic, tables
from layton_batch.files.items import read_items
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, Job, Response
from layton_batch.runs.context import Run
from layton_batch.runs.job_engine import CallingThread
from layton_batch.runs.requests import FIRST_SAMPLE
from layton_batch.stages.ask import spec_of
from layton_batch.stages.prompts import reopen_juries
from layton_batch.states import (
    OPEN,
    AnswerState,
    FinishReason,
    PredictionKind,
    RequestOutcome,
    Role,
    VerdictKind,
)
from layton_batch.tasks.protocol import Task, juried

_VERDICTS = {Role.JUDGE: "verdicts", Role.REJUDGE: "rejudged"}
"""The tables of a jury's verdicts: on this run's answers, and on labelled ones of the gold set."""


def grade(run: Run) -> bool:
    """Grade every planned job that has no open batch left, nor an answer that a person is to decide about, and write
    the tables of graded ones again that are gone."""
    jobs, batches = run.store.jobs(), run.store.batches()
    busy = {batch.job_id for batch in batches if batch.state in OPEN}
    over = [job for job in jobs if job.planned and (not job.graded or job.is_stale) and job.id not in busy]
    unfinished = run.store.unfinished([job.id for job in over])
    over = [job for job in over if job.id not in unfinished and not run.store.requests_to_ask(job.id)]
    again = {job.id for job in over}
    gone = [job for job in jobs if job.graded and job.id not in again and not _has_tables(run, job)]
    begun: list[tuple[Job, Future[None]]] = []
    moved = [run.engine.apart(job.id, partial(_begin, run, job, begun)) for job in (*over, *gone)]
    moved += [run.engine.apart(job.id, partial(_end, run, job, work, is_over=job.id in again)) for job, work in begun]
    return any([*moved, reopen_juries(run)])


def _has_tables(run: Run, job: Job) -> bool:
    if job.role is not Role.PREDICT:
        names = [_VERDICTS[job.role]]
    else:
        names = ["predictions"] if run.task.uses_jury else ["predictions", "grades"]
    return all(run.folder.part(name, job.id).exists() for name in names)


def _begin(run: Run, job: Job, begun: list[tuple[Job, Future[None]]]) -> bool:
    """Start writing the job's tables, unless some answers are asked for again. Return True in that case."""
    answers, located = _subject(run, job), locate_responses(run, job.id)
    if not job.graded or job.is_stale:
        if _have_more_room(run, job):
            run.store.ask_anew(job.id)
            return True
        if _reask(run, job, answers[0], located):
            return True
    _write_reused(run, job)
    items = run.store.row().items  # a rule's marks depend on the items' own answers too
    sources = (str(job.role), job.id, job.spec.name, job.spec.family, items, answers[0], located_digest(located))
    grading = Grading(run.folder.absolute(), run.manifest, job, located, *answers, tables.digest(*sources))
    if isinstance(run.engine.executor, CallingThread):
        begun.append((job, run.engine.submit(grade_job, grading, run.task, run.item)))
    else:
        begun.append((job, run.engine.submit(grade_apart, grading)))
    return False


def _end(run: Run, job: Job, work: Future[None], *, is_over: bool) -> bool:
    if run.engine.wait_for(job, work) and is_over:
        run.store.set_graded(job, run.clock.now())
    return True


def _subject(run: Run, job: Job) -> tuple[str, int, int]:
    """Return the model whose answers the job brings or judges, as the board shows it, their sample and hint level.

    Raises StoreError if the database has lost the job that this one judges.
    """
    spec, sample = job.spec, job.spec.sample
    if job.depends_on:
        judged = next((other.spec for other in run.store.jobs() if other.id == job.depends_on), None)
        if judged is None:
            raise StoreError(
                f"job {job.id} judges job {job.depends_on}, which the database does not have: somebody changed the "
                "database; restore a backup of the workspace"
            )
        spec, sample = judged, judged.sample
    elif job.role is Role.REJUDGE:
        sample = FIRST_SAMPLE
        if (rejudged := run.rejudging.get(job.id)) is not None:
            return rejudged.judged.name, sample, rejudged.hints
    return spec.name, sample, run.manifest.hints_of(spec)


# ---- asking again ----------------------------------------------------------------------------------------------------


def _have_more_room(run: Run, job: Job) -> bool:
    """Return whether answers of the job were cut that the manifest gives more room by now: they were on their way when
    it was raised. The job is to be planned again."""
    return any(
        request.lacks_room(spec_of(run, job, request.item_id).max_output_tokens)
        for request in run.store.known_requests(job.id)
        if request.is_cut and not request.retired and request.item_id in run.by_id
    )


def _reask(run: Run, job: Job, judged: str, located: pl.DataFrame) -> bool:
    """Have replies of the job that cannot be used be asked for again, as far as the policy allows. Return whether there
    are any. ``judged``: the model that a judge's job is about."""
    policy = run.manifest.policy
    if not (policy.reask_unparsed or policy.reask_truncated) or run.store.row().cancelled:
        return False
    requests = {request.custom_id: request for request in run.store.known_requests(job.id)}
    doublings: dict[str, int] = {}
    for reply in final_responses(located):
        request, response = requests[str(reply["custom_id"])], response_from(reply)
        if response.outcome is not RequestOutcome.SUCCEEDED or request.fingerprint is None:
            continue
        if request.state is AnswerState.UNCERTAIN:
            continue  # it was asked again, and may have been answered: a person's `retry` asks once more
        truncated = response.finish_reason is FinishReason.LENGTH
        if request.reask >= (policy.reask_truncated if truncated else policy.reask_unparsed):
            continue
        if not _is_usable(run, job, request.item_id, judged, response):
            doublings[request.custom_id] = request.reask + 1 if truncated else 0
    if doublings:
        run.store.ask_once_more(job.id, [requests[name] for name in doublings], doublings, run.clock.now())
    return bool(doublings)


def _is_usable(run: Run, job: Job, item_id: str, judged: str, response: Response) -> bool:
    if job.role is Role.PREDICT:
        return run.task.parse(run.item(item_id), judged, response).kind is not PredictionKind.UNPARSED
    verdict = juried(run.task).parse_verdict(item_id, judged, job.spec.name, response)
    return all(getattr(verdict, METRIC_FIELDS[metric]) is not None for metric in run.task.metrics)


# ---- the tables of one job -------------------------------------------------------------------------------------------


def _write_reused(run: Run, job: Job) -> None:
    """Write what the answers cost that another run, or another request of this one, paid for: a row for each request
    that has one."""
    rows: list[tables.Row] = [
        {
            **charge_columns(charge), "custom_id": custom_id, "role": str(job.role), "model": job.spec.name,
            "provider": job.spec.provider, "run": paying_run, "batch_id": batch_id, "paid_as": charge.custom_id,
        }
        for custom_id, paying_run, batch_id, charge in run.store.bought_elsewhere(job.id)
    ]  # fmt: skip
    part = run.folder.part("reused", job.id)
    if rows:
        digest = tables.digest("reused", *(repr(sorted(row.items(), key=str)) for row in rows))
        tables.write(part, tables.frame("reused", rows), digest)
    else:
        atomic.remove(part)


@dataclass(frozen=True, slots=True)
class Grading:
    """A job to be graded. ``located``: its responses; ``answers_of``, ``sample``, ``hints``: the model whose answers it
    brings or judges, and which of them; ``origin``: the digest of what its tables are made from."""

    folder: RunFolder
    manifest: Manifest
    job: Job
    located: pl.DataFrame
    answers_of: str
    sample: int
    hints: int
    origin: str

    def columns(self, row: Mapping[str, object], *names: str) -> dict[str, object]:
        """Return the columns of a prediction or verdict that say which answer and which reply it is of."""
        reply = {name: row[name] for name in ("custom_id", "batch_id", "attempt", *names)}
        return {"sample": self.sample, "n_hints": self.hints, **reply}


_kept: dict[Path, tuple[object, Task, Mapping[str, Item]]] = {}
"""Task and items that a run's last job was graded with, by run."""


def grade_apart(grading: Grading) -> None:
    """Grade like :func:`grade_job`, with task and items read from the folder."""
    folder, part = grading.folder, grading.folder.part("items", "items")
    try:
        stat = part.stat()
    except OSError as error:
        raise DamagedTableError(f"{part} cannot be read ({error.strerror}): put it back from a copy", part) from error
    made_of = grading.manifest.frozen_json(), stat.st_ino, stat.st_size, stat.st_mtime_ns
    kept_task = _kept.get(folder.root)
    if kept_task is None or kept_task[0] != made_of:
        items = {item.id: item for item in read_items(folder)}
        kept_task = made_of, manifest_task(grading.manifest, folder.prompts), items
        _kept.clear()
        _kept[folder.root] = kept_task
    grade_job(grading, kept_task[1], kept_task[2].__getitem__)


def grade_job(grading: Grading, task: Task, item: Callable[[str], Item]) -> None:
    """From responses to predictions, a rule's marks among them, or from judges' responses to verdicts."""
    if grading.job.role is Role.PREDICT:
        _grade_predictions(grading, task, item)
    else:
        _grade_verdicts(grading, task)


def _grade_predictions(grading: Grading, task: Task, item_of: Callable[[str], Item]) -> None:
    spec, names = grading.job.spec, ("predictions",) if task.uses_jury else ("predictions", "grades")
    with ExitStack() as files:
        add = {
            name: files.enter_context(
                tables.writing_frames(grading.folder.part(name, grading.job.id), name, grading.origin)
            )
            for name in names
        }
        for portion in final_portions(grading.located):
            rows: dict[str, list[tables.Row]] = {name: [] for name in names}
            for row in portion.iter_rows(named=True):
                item = item_of(str(row["item_id"]))
                prediction = task.parse(item, spec.name, response_from(row))
                rows["predictions"].append(
                    {
                        "item_id": prediction.item_id,
                        "model": spec.name,
                        "provider": spec.provider,
                        "family": spec.family,
                        "split": item.split,
                        "kind": str(prediction.kind),
                        "answer": prediction.answer,
                        "justification": prediction.justification,
                        "raw_text": prediction.raw_text,
                        "note": prediction.note,
                        **grading.columns(row, "finish_reason"),
                    }
                )
                if not task.uses_jury:
                    grade = task.grade(item, prediction)
                    same = {"item_id": grade.item_id, "model": grade.model, "tag": grade.tag, "note": grade.note,
                            "sample": grading.sample}  # fmt: skip
                    rows["grades"] += [
                        {**same, "metric": metric, "grade": float(value)} for metric, value in grade.marks.items()
                    ]
            for name in names:
                add[name](tables.frame(name, rows[name]))


def _grade_verdicts(grading: Grading, task: Task) -> None:
    spec, judging, table = grading.job.spec, juried(task), _VERDICTS[grading.job.role]
    fields = [METRIC_FIELDS.get(metric, metric) for metric in task.metrics]
    with tables.writing_frames(grading.folder.part(table, grading.job.id), table, grading.origin) as add:
        for portion in final_portions(grading.located):
            rows: list[tables.Row] = []
            for row in portion.iter_rows(named=True):
                response = response_from(row)
                verdict = judging.parse_verdict(str(row["item_id"]), grading.answers_of, spec.name, response)
                names = ("item_id", "model", "judge", *METRIC_FIELDS.values(), "note", "reason")
                columns = {name: getattr(verdict, name) for name in names}
                kind = _kind(response, is_readable=all(columns[field] is not None for field in fields))
                rows.append(
                    {
                        **columns,
                        "judge_provider": spec.provider,
                        "kind": str(kind),
                        "raw_text": row["text"],
                        **grading.columns(row),
                    }
                )
            add(tables.frame(table, rows))


def _kind(response: Response, *, is_readable: bool) -> VerdictKind:
    if response.outcome is not RequestOutcome.SUCCEEDED:
        return VerdictKind.MISSING
    if is_readable:
        return VerdictKind.READABLE
    if response.refusal is not None or response.finish_reason is FinishReason.REFUSAL:
        return VerdictKind.REFUSED
    return VerdictKind.CUT if response.finish_reason is FinishReason.LENGTH else VerdictKind.UNREADABLE
