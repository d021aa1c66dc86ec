"""Results of batches that a person sent by hand: `plan --out` wrote the files, the provider's results are brought here.

A line answers the planned request of the fingerprint with which its custom_id ends: a plan of a run that is not begun
has another mark. The rest is the life of any batch: its results are filed, graded and billed, and what they lack is
asked by the next `run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.batches import batch_results, machine
from layton_batch.batches.answers import final_responses, locate_responses, response_from
from layton_batch.batches.tick import Tick
from layton_batch.errors import DataError
from layton_batch.files.sources import check_file
from layton_batch.interchange.entering import ImportResult, make_board
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.records import Batch, Job
from layton_batch.runs.context import Run
from layton_batch.runs.requests import DIGITS
from layton_batch.stages.collect import collect
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.states import AnswerState, Lifecycle, PredictionKind, Role
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Planned requests of one provider: batch and custom_id, by the digits of their fingerprints."""

    dialect: Provider
    requests: Mapping[str, tuple[str, str]]

    def named_by(self, line: bytes) -> tuple[str, bytes] | None:
        """Return the batch of a line and the line under its request's name; None: it is of none of these requests."""
        response = batch_results.decoded(line, self.dialect.decode)
        if isinstance(response, str):
            return None
        batch_id, custom_id = self.requests.get(response.custom_id[-DIGITS:], (None, ""))
        return None if batch_id is None else (batch_id, line.replace(response.custom_id.encode(), custom_id.encode()))


def enter_results(run: Run, paths: Sequence[Path], note: Callable[[str], None]) -> list[ImportResult]:
    """Enter the results of planned batches, and make the board and the pages again. Return a result a model.

    ``note`` is told of lines that answer no planned request. Raises DataError for a file that has no other line.
    """
    if run.revision is not None or not run.store.jobs():
        run.store.set_agreed(is_agreed=False)  # `run` asks before what the files lack is paid for
    plan(run)
    planned = run.store.batches({Lifecycle.PLANNED})
    files_by_batch = _files_by_batch(paths, _wanted(run, planned), note)
    brought = [batch for batch in planned if batch.id in files_by_batch]
    for batch in brought:
        _bring(run, batch, files_by_batch[batch.id])
    for thread in sorted({run.threads.of(batch) for batch in brought}):
        collect(run, Tick(is_cancelled=False), thread)
    grade(run)
    plan(run)
    make_board(run)
    touched = {batch.job_id for batch in brought}
    jobs = run.store.jobs()
    judged = {job.depends_on for job in jobs if job.id in touched}
    return [_result(run, job, jobs) for job in jobs if job.role is Role.PREDICT and job.id in touched | judged]


def _wanted(run: Run, planned: Sequence[Batch]) -> list[_Wanted]:
    requests: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for batch in planned:
        for custom_id in run.store.asked_of(batch.id):
            requests[batch.provider][custom_id[-DIGITS:]] = (batch.id, custom_id)
    return [_Wanted(run.providers.dialect(provider), by_digits) for provider, by_digits in requests.items()]


def _files_by_batch(
    paths: Sequence[Path], wanted: Sequence[_Wanted], note: Callable[[str], None]
) -> dict[str, dict[Path, _Wanted]]:
    files: defaultdict[str, dict[Path, _Wanted]] = defaultdict(dict)
    for path in paths:
        check_file(path, path)
        named = [(match[0], part) for line in _lines(path) for part in wanted if (match := part.named_by(line))]
        if not named:
            raise DataError(
                f"{path}: no line answers a request that the run has planned: results of files that `plan --out` wrote "
                "are named by custom_id, and answers that the run has or has asked for stay as they are"
            )
        for batch_id, part in named:
            files[batch_id][path] = part
        if rest := sum(1 for _ in _lines(path)) - len(named):
            note(f"{path}: {plural(rest, 'line')} left out, of requests that are not planned here")
    return files


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from (line for line in handle if line.strip())


def _bring(run: Run, batch: Batch, files: Mapping[Path, _Wanted]) -> None:
    def of_batch(path: Path, wanted: _Wanted) -> Iterator[bytes]:
        for line in _lines(path):
            if (match := wanted.named_by(line)) and match[0] == batch.id:
                yield match[1].rstrip() + b"\n"

    parts = [ResultPart("output", of_batch(path, wanted)) for path, wanted in files.items()]
    batch_results.store(run.folder.batch(batch.id).root, parts)
    now, names = run.clock.now(), ", ".join(str(path) for path in files)
    run.store.apply(batch, machine.brought(batch, f"its results were brought in {names}", now), now)


def _result(run: Run, job: Job, jobs: Sequence[Job]) -> ImportResult:
    """Count what the run has of a model now."""
    rows = final_responses(locate_responses(run, job.id, only_answers=True))
    responses = {str(row["item_id"]): response_from(row) for row in rows if row["outcome"] is not None}
    kinds = [run.task.parse(run.by_id[item], job.spec.name, reply).kind for item, reply in responses.items()]
    verdicts = [
        request for judge in jobs if judge.depends_on == job.id and judge.role is Role.JUDGE
        for request in run.store.known_requests(judge.id) if not request.retired
    ]  # fmt: skip
    given = sum(request.state is AnswerState.ANSWERED for request in verdicts)
    return ImportResult(
        job.spec.name, job.spec.hints, job.spec.sample,
        is_new=True,
        answers=len(responses),
        missing=tuple(item.id for item in run.items if item.id not in responses),
        unparsed=kinds.count(PredictionKind.UNPARSED),
        verdicts=given,
        to_ask=len(verdicts) - given,
    )  # fmt: skip
