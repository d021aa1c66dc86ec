"""Answers that are there already, into a run: predictions and verdicts in files, and the results of batches that a
person sent by hand (`plan --out` wrote their files).

A line of results answers the planned request of the fingerprint with which its custom_id ends: a plan of a run that is
not begun has another mark. The rest is the life of any batch: its results are filed, graded and billed, and what they
lack is asked by the next `run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from layton_batch.batches import batch_results, machine
from layton_batch.batches.answers import final_responses, locate_responses, response_from
from layton_batch.batches.collect import collect
from layton_batch.batches.steps import Tick
from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import check_file
from layton_batch.interchange import judge_files, prediction_files
from layton_batch.interchange.entering import ImportResult, enter_answers
from layton_batch.interchange.every_eval_ever import read_answers
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.pipeline import make_board
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.records import Batch, Job, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run, home_of, is_manifest
from layton_batch.runs.open import open_folder, open_run
from layton_batch.runs.requests import DIGITS
from layton_batch.settings import Settings
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.states import AnswerState, Lifecycle, PredictionKind, Role
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files of an import. ``model``: whose ``predictions`` or ``verdicts`` they are; ``eee``: Every Eval Ever
    lines, which name their models; ``results``: of batches that were sent by hand."""

    model: str | None = None
    predictions: Path | None = None
    verdicts: Sequence[Path] = ()
    eee: Sequence[Path] = ()
    family: str | None = None
    results: Sequence[Path] = ()

    def check(self) -> None:
        """Raise ManifestError for files that do not go together."""
        files = bool(self.predictions or self.verdicts)
        named = bool(self.model or files)
        if bool(self.eee) + bool(self.results) + named > 1:
            raise ManifestError(
                "import: --eee and --results are given alone, without --model, --predictions and --verdicts: their "
                "lines name the models"
            )
        if not (self.eee or self.results or files):
            raise ManifestError("import: give --predictions FILE, --verdicts FILE, --results FILE or --eee FILE")
        if files and self.model is None:
            raise ManifestError("import: --model NAME says whose predictions or verdicts these are")


def open_for_import(name: str | None, runs: Path, settings: Settings) -> AbstractContextManager[Run]:
    """Open the run of this name, folder or manifest (None: the only run), to enter answers and score them.

    A manifest whose run is not there begins it, and nobody is asked; so does one whose earlier import was refused
    before the run was planned. Raises ManifestError and StoreError.
    """
    if name is not None and is_manifest(name):
        manifest = load_manifest(Path(name), PromptFiles(settings, runs))
        if not home_of(manifest, runs).part("items", "items").exists():
            return open_run(manifest, runs, settings, only_scores=True)
    return open_folder(find_run(name, runs), settings, only_scores=True)


def import_answers(
    run: Run, files: ImportedFiles, settings: Settings, note: Callable[[str], None]
) -> list[ImportResult]:
    """Enter the answers and verdicts of the files, all of them or none. ``note`` is told what is left out of results.

    Raises ManifestError and DataError.
    """
    if files.results:
        return enter_results(run, files.results, note)
    if files.eee:
        models = read_answers(files.eee, _items(run), run.manifest.items.levels)
    else:
        models = _of_model(run, str(files.model), settings, files)
    entered = enter_answers(run, models)
    make_board(run)
    return entered


def _spec(run: Run, name: str) -> ModelSpec:
    """Return the specification of a model of the run."""
    specs = [job.spec for job in run.store.jobs() if job.role is Role.PREDICT and job.spec.name == name]
    if not specs:
        raise ManifestError(f"import: the run has no model {name!r}; give --predictions as well")
    if len(specs) > 1:
        raise ManifestError(
            f"import: {name!r} was asked {len(specs)} times, and no file of verdicts says which it is on"
        )
    return specs[0]


def _of_model(run: Run, name: str, settings: Settings, files: ImportedFiles) -> list[prediction_files.ImportedModel]:
    """Read the model's answers: an import for each sample and each of the run's hint levels."""
    ids, items, predictions = _items(run), run.load_items(), files.predictions
    given = judge_files.verdicts(files.verdicts, ids, settings)
    source = ", ".join(str(path) for path in (predictions, *files.verdicts) if path is not None)
    if predictions is None:
        return [prediction_files.ImportedModel(_spec(run, name), {}, source, given)]
    file = prediction_files.read_answers(predictions, settings)
    prediction_files.check_options(file, run.task, items)
    samples = prediction_files.models(
        file, ids, name, files.family, levels=run.manifest.items.levels,
        json_replies=prediction_files.has_json_replies(run.task, items),
    )  # fmt: skip
    if given and len(samples) > 1:
        raise ManifestError(f"import: {predictions} has several answers to an item, and no verdict says which it is on")
    return [replace(imported, source=source, verdicts=given) for imported in samples]


def _items(run: Run) -> frozenset[str]:
    """Return the ids of the run's items. An opened run that is not planned yet has them in its source only."""
    items = run.items if run.folder.part("items", "items").exists() else run.load_items()
    return frozenset(item.id for item in items)


# ---- batches sent by hand ------------------------------------------------------------------------------------------


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
    for job in (job for job in jobs if job.id in touched and job.role is Role.REJUDGE):
        given = sum(request.state is AnswerState.ANSWERED for request in run.store.known_requests(job.id))
        note(f"{job.spec.name}: {plural(given, 'verdict')} on answers that people labelled")
    return [_result(run, job, jobs) for job in jobs if job.role is Role.PREDICT and job.id in touched | judged]


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
        return (
            None if batch_id is None else (batch_id, line.replace(response.custom_id.encode(), custom_id.encode(), 1))
        )


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
