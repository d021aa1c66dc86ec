"""Answers that are there already, into a run: predictions and verdicts in files, and the results of batches that a
person sent by hand (`plan --out` wrote their files).

Answers of files are a job whose batch is over before it began, and that nobody is paid for. The rest of the run goes on
from there as ever: a model's answers are graded, its judges' jobs depend on it, and what a file holds of their verdicts
is not asked for. Such a batch has no file (``path``), so nothing of it is ever sent again.

A line of results answers the planned request of the fingerprint with which its custom_id ends: a plan of a run that is
not begun has another mark. The rest is the life of any batch: its results are filed, graded and billed, and what they
lack is asked by the next `run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.batches import batch_results, machine
from layton_batch.batches.answers import batch_digests, final_responses, locate_responses, response_from, response_table
from layton_batch.batches.batch_file import unsent_batch
from layton_batch.batches.collect import collect
from layton_batch.batches.steps import Tick
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic, tables
from layton_batch.files.sources import check_file
from layton_batch.interchange import judge_files, prediction_files
from layton_batch.interchange.every_eval_ever import read_answers
from layton_batch.interchange.prediction_files import Answers, ImportedModel
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.form import LONGEST_NAME
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.pipeline import make_board
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.records import Batch, Job, ModelSpec, NewAttempt, NewRequest, Response
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run, home_of, is_manifest
from layton_batch.runs.imported import FROM_FILE, SHARD, imported_answer, imported_models, is_imported
from layton_batch.runs.jobs import identified, plan_jobs
from layton_batch.runs.open import open_folder, open_run, read_run
from layton_batch.runs.requests import DIGITS, custom_id_prefix
from layton_batch.settings import Settings
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.stages.prompts import candidates
from layton_batch.states import AnswerState, BatchOutcome, ErrorClass, Lifecycle, PredictionKind, RequestOutcome, Role
from layton_batch.text import plural, printable


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


# ---- answers of files ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of entering a model. ``is_new``: its answers were not in the run. ``verdicts``: how many came in;
    ``to_ask``: how many its judges have still to give; ``missing``: ids of items without an answer; ``unparsed``:
    replies in another form than the task asks for. ``hints``: of a run that asks with several numbers of them."""

    model: str
    hints: int | None
    sample: int
    is_new: bool
    answers: int
    missing: tuple[str, ...]
    unparsed: int
    verdicts: int
    to_ask: int


@dataclass(frozen=True, slots=True)
class _ModelImport:
    """Work to do for a model, once all of them are checked. ``jobs``: its job, and of a new model its judges';
    ``more``: answers that no earlier file had; ``verdicts``: by judge's job."""

    imported: ImportedModel
    jobs: Sequence[Job]
    is_new: bool
    more: Answers
    verdicts: Mapping[str, Answers]


def enter_answers(run: Run, files_models: Sequence[ImportedModel]) -> list[ImportResult]:
    """Enter the models and verdicts of files: all of them, or none where anything is wrong with one.

    What is in the run already is left as it is, and nothing of it is asked again. Raises DataError for what contradicts
    the run.
    """
    _check_all(run, files_models)
    if run.revision is not None or not run.store.jobs():
        run.store.set_agreed(is_agreed=False)
        plan(run)  # also a revision's: its new items are answered, not entered as items without an answer
    work = [_checked(run, imported) for imported in files_models]
    if run.task.uses_jury and any(work_item.is_new or work_item.more for work_item in work):
        run.store.set_agreed(is_agreed=False)  # `run` asks before judges are paid for these answers
    for work_item in work:
        if work_item.is_new:
            _enter_model(run, work_item)
        elif work_item.more:
            _enter_more(run, work_item)
    grade(run)
    entered = [_enter_verdicts(run, work_item) for work_item in work]
    grade(run)
    return entered


# ---- checks --------------------------------------------------------------------------------------------------------


def check_answers(manifest: Manifest, runs: Path, settings: Settings, files_models: Sequence[ImportedModel]) -> None:
    """Check answers against the manifest's run under ``runs`` as `enter_answers` does, before the run is opened.

    Raises DataError for what contradicts the run, or cannot begin it.
    """
    folder = home_of(manifest, runs)
    if not folder.manifest.exists():
        _check_models(manifest, (), files_models)
        return
    with read_run(folder, settings, manifest) as run:
        _check_all(run, files_models)


def _check_all(run: Run, files_models: Sequence[ImportedModel]) -> None:
    for imported in files_models:
        _checked(run, imported)
    _check_models(run.manifest, [job.spec for job in _participants(run)], files_models)


def _checked(run: Run, imported: ImportedModel) -> _ModelImport:
    """Raises DataError where the run has the model with other answers, or its judges have spoken otherwise."""
    # by their ids a later revision of the manifest knows them again
    manifest = run.manifest
    planned = plan_jobs([imported.spec], manifest.panel(), manifest.seats, run.task.uses_jury)
    jobs = identified(manifest, planned)
    jobs_known = {job.id: job for job in run.store.jobs()}
    asked_as = _asked_as(imported.spec)
    job_there = next((job for job in _participants(run) if _asked_as(job.spec) == asked_as), None)
    if imported.answers:
        _check_not_asked(run, imported)
    if job_there is None:
        _check_is_new(run, imported, jobs)
    more = _answers_to_later_items(run, imported, job_there) if job_there is not None and imported.answers else {}
    sitting = _judges(run, job_there.id) if job_there else jobs[1:]
    given = {_judge(name, sitting, imported).id: answers for name, answers in imported.verdicts.items()}
    for judge_id, answers in given.items():
        _check_verdicts(run, jobs_known.get(judge_id), answers)
    return _ModelImport(imported, [job_there] if job_there else jobs, job_there is None, more, given)


def _check_models(manifest: Manifest, specs: Sequence[ModelSpec], files_models: Sequence[ImportedModel]) -> None:
    """Raise DataError for names that no model can have, for models that no judge may judge, and where samples are
    lacking, or not as many with every number of hints: no board has such. ``specs``: the models of the run.
    """
    panel = manifest.panel()
    for imported in files_models:
        name = imported.spec.name
        if not 0 < len(name) <= LONGEST_NAME or printable(name) != name:
            raise DataError(
                f"{imported.source}: {name[:50]!r} cannot name a model: 1 to {LONGEST_NAME} characters that are seen"
            )
        if panel and not seat_jury(panel, imported.spec, seats=1):
            raise DataError(
                f"{imported.source}: no judge may sit for {name!r}: all of the panel are of its family "
                f"{imported.spec.family!r}; add a judge of another maker to the panel, or correct the family"
            )
    new = [imported.spec for imported in files_models]
    for name in dict.fromkeys(spec.name for spec in new):
        numbers: dict[int | None, set[int]] = {}
        for spec in (*new, *specs):
            if spec.name == name:
                numbers.setdefault(spec.hints, set()).add(spec.sample)
        first, *other_numbers = numbers.values()
        if first != set(range(1, 1 + len(first))) or any(other != first for other in other_numbers):
            raise DataError(
                f"model {name!r}: its samples are {sorted(first.union(*other_numbers))}; they are numbered from 1, "
                "and all are there with every number of hints"
            )


def _asked_as(spec: ModelSpec) -> tuple[str, int | None, int]:
    """Return what tells a run's models apart, whatever the store calls their jobs."""
    return spec.name, spec.hints, spec.sample


def _participants(run: Run) -> list[Job]:
    return [job for job in run.store.jobs() if job.role is Role.PREDICT]


def _check_not_asked(run: Run, imported: ImportedModel) -> None:
    jobs = [job for job in _participants(run) if job.spec.name == imported.spec.name]
    if len(imported_models(jobs, run.store.batches())) < len(jobs):
        raise DataError(
            f"{imported.source}: the run asks a model called {imported.spec.name!r} itself; give it another name"
        )


def _check_is_new(run: Run, imported: ImportedModel, wanted: Sequence[Job]) -> None:
    """Raise DataError where the run has had a model of this name, or has jobs that a new model's would be called."""
    name, ids = imported.spec.name, {job.id for job in wanted}
    had = [job.id for job in run.store.all_jobs() if job.id in ids or (job.retired and job.spec.name == name)]
    if had:
        raise DataError(
            f"{imported.source}: the run has {', '.join(had)} already, of a model that its manifest no longer has or "
            f"calls otherwise; give {name!r} another name"
        )


def _answers_to_later_items(run: Run, imported: ImportedModel, job: Job) -> Answers:
    """Return the answers to items that no earlier file of the model was asked for, or to which it had none. Raise
    DataError where the file says something else than an earlier one."""
    item_of = {request.custom_id: request.item_id for request in run.store.known_requests(job.id)}
    earlier_items: set[str] = set()
    for batch in run.store.job_batches(job.id):
        if is_imported(batch):
            items = [item_of[custom_id] for custom_id in run.store.asked_of(batch.id)]
            answers = _complete(items, imported.answers)
            blanks = _blanks(run, batch, item_of) if batch.sha256 != _digest(answers) else {}
            earlier_items.update(item for item in items if item not in blanks or not _is_answered(answers[item]))
            if batch.sha256 != _digest({**answers, **blanks}):
                raise DataError(
                    f"{imported.source}: the run has other predictions of a model called {imported.spec.name!r}. Give "
                    "it another name; or, to add answers to new items, a file that holds the earlier answers as well"
                )
    later_items = imported.answers.keys() - earlier_items
    return {item.id: imported.answers[item.id] for item in run.items if item.id in later_items}


def _blanks(run: Run, batch: Batch, item_of: Mapping[str, str]) -> Answers:
    """Return what an imported batch has of items without an answer. ``item_of``: items by custom_id."""
    parts = run.folder.batch(batch.id).answer_parts
    responses = [response_from(row) for part in parts for row in tables.read_part(part).iter_rows(named=True)]
    return {item_of[response.custom_id]: response for response in responses if not _is_answered(response)}


def _is_answered(response: Response) -> bool:
    return response.outcome is RequestOutcome.SUCCEEDED


def _judges(run: Run, predict_id: str) -> list[Job]:
    return [job for job in run.store.jobs() if job.role is Role.JUDGE and job.depends_on == predict_id]


def _judge(name: str, sitting: Sequence[Job], imported: ImportedModel) -> Job:
    jobs = [job for job in sitting if name in (job.spec.name, job.spec.model)]
    if len(jobs) == 1:
        return jobs[0]
    seated = ", ".join(job.spec.name for job in sitting) or "none"
    raise DataError(f"judge {name!r} does not sit for model {imported.spec.name!r}; its jury is: {seated}")


def _check_verdicts(run: Run, job: Job | None, answers: Answers) -> None:
    """A judge that was asked already keeps what it said."""
    if job is None or not run.store.known_requests(job.id):
        return
    batches = [batch for batch in run.store.batches() if batch.job_id == job.id]
    theirs = [batch for batch in batches if is_imported(batch)]
    if not theirs or theirs[0].sha256 not in (_digest(answers), _digest(_judged_only(run, job, answers))):
        raise DataError(
            f"judge {job.spec.name!r} was asked about this model already (job {job.id}); its verdicts stay as they are"
        )


# ---- entering ------------------------------------------------------------------------------------------------------


def _enter_model(run: Run, work: _ModelImport) -> None:
    job, *judges = work.jobs
    answers = _complete([item.id for item in run.items], work.imported.answers)
    batch, requests = _written(run, job, answers, work.imported.source)
    # in one transaction: a job without its batch would be asked, and paid for
    jobs = [*run.store.jobs(), replace(job, planned=True), *judges]
    run.store.add_jobs(jobs, run.clock.now(), [batch], requests)


def _enter_more(run: Run, work: _ModelImport) -> None:
    """Enter answers that no earlier file had, in the place of requests without an answer."""
    job_id = work.jobs[0].id
    earlier = run.store.known_requests(job_id)
    batch, requests = _written(run, work.jobs[0], work.more, work.imported.source, len(earlier) + 1)
    wanted = [request for request in earlier if not request.retired and request.item_id not in work.more]
    run.store.ask_anew(job_id)
    job = next(job for job in run.store.jobs() if job.id == job_id)
    run.store.plan_job(job, [batch], run.clock.now(), requests, [request.custom_id for request in wanted])


def _complete(items: Collection[str], answers: Answers) -> Answers:
    """In the order of the items; one without an answer has none for good."""
    nothing = Response("", RequestOutcome.ERRORED, error_message="not in the imported file")
    return {item: answers.get(item, nothing) for item in items}


def _enter_verdicts(run: Run, work: _ModelImport) -> ImportResult:
    count = 0
    job_ids = {batch.job_id for batch in run.store.batches()}
    for judge_id, answers in work.verdicts.items():
        job = next(job for job in run.store.jobs() if job.id == judge_id)
        mine = _judged_only(run, job, answers)
        if judge_id in job_ids or not mine:
            continue
        batch, requests = _written(run, job, mine, work.imported.source)
        run.store.plan_job(job, [batch], run.clock.now(), requests, ())
        count += len(mine)
    _plan_remaining_verdicts(run, work.verdicts)
    replies = {item: response for item, response in work.imported.answers.items() if _is_answered(response)}
    missing = tuple(item.id for item in run.items if item.id not in replies) if work.imported.answers else ()
    spec = work.imported.spec
    parsed = (run.task.parse(item, spec.name, replies[item.id]) for item in run.items if item.id in replies)
    unparsed = sum(prediction.kind is PredictionKind.UNPARSED for prediction in parsed)
    jury = _judges(run, work.jobs[0].id)
    answered = sum(1 for _ in candidates(run, jury[0])) if jury else 0
    to_ask = sum(answered for job in jury if not job.planned) - count
    return ImportResult(
        spec.name,
        spec.hints,
        spec.sample,
        work.is_new,
        answers=len(replies),
        missing=missing,
        unparsed=unparsed,
        verdicts=count,
        to_ask=max(to_ask, 0),
    )


def _plan_remaining_verdicts(run: Run, judges: Collection[str]) -> None:
    """The judges' jobs that have verdicts of a file alone, and not on all answers, are planned for the others; also
    where an import was cut short before it came to that."""
    batches = run.store.batches()
    for job in run.store.jobs():
        mine = [batch for batch in batches if batch.job_id == job.id]
        if job.id not in judges or not job.planned or not mine or not all(map(is_imported, mine)):
            continue
        if sum(batch.requests for batch in mine) < sum(1 for _ in candidates(run, job)):
            with run.store.writing() as writing:
                run.store.plan_again(writing, [job.id])


def _judged_only(run: Run, job: Job, answers: Answers) -> Answers:
    """The verdicts on items that the model answered, in their order."""
    return {
        candidate.item.id: answers[candidate.item.id]
        for candidate in candidates(run, job)
        if candidate.item.id in answers
    }


def _written(run: Run, job: Job, answers: Answers, source: str, first: int = 1) -> tuple[Batch, list[NewRequest]]:
    """Write the job's responses to disk. Return their batch, and the job's requests, the first of which has the number
    ``first``."""
    prefix = custom_id_prefix(run.mark, job.id)
    requests, content, named = list[NewRequest](), list[NewAttempt](), list[Response]()
    for number, (item, response) in enumerate(answers.items(), first):
        name = f"{prefix}{number:06d}"
        answer = imported_answer(run.mark, name)
        error_class = ErrorClass.NONE if _is_answered(response) else ErrorClass.INVALID_REQUEST
        requests.append(NewRequest(name, item, None, answer))
        content.append(NewAttempt(name, answer, Decimal(0), (response.outcome, error_class)))
        named.append(replace(response, custom_id=name, error_class=error_class))
    files = sum(map(is_imported, run.store.job_batches(job.id)))
    shard_id = f"{SHARD}-{files + 1}" if files else SHARD
    reason = f"{FROM_FILE}{source}"
    batch = unsent_batch(job, shard_id, content, BatchOutcome.COMPLETED, reason, sha256=_digest(answers))
    with atomic.writing_folder(run.folder.batch(batch.id).answers) as folder:
        for number, portion in enumerate(tables.portions(named, lambda response: len(response.text or ""))):
            texts = [response.text for response in portion]
            tables.write(folder / f"{number:05d}.parquet", response_table(batch, portion, texts))
    run.store.note_files(batch_digests(run.folder.batch(batch.id), run.folder.workspace.root))
    return batch, requests


def _digest(answers: Answers) -> str:
    """Digest the answers, whatever their order in the file."""
    rows = [
        [
            item,
            str(response.outcome),
            response.text,
            str(response.finish_reason) if response.finish_reason else None,
            response.error_message,
        ]
        for item, response in sorted(answers.items())
    ]
    return sha256(orjson.dumps(rows)).hexdigest()


# ---- batches sent by hand ------------------------------------------------------------------------------------------


def enter_results(run: Run, paths: Sequence[Path], note: Callable[[str], None]) -> list[ImportResult]:
    """Enter the results of planned batches, and make the board and the pages again. Return a result a model.

    ``note`` is told of lines that answer no planned request. Raises DataError for a file that has no other line.
    """
    if run.revision is not None or not run.store.jobs():
        run.store.set_agreed(is_agreed=False)  # `run` asks before what the files lack is paid for
    plan(run)
    planned = run.store.batches({Lifecycle.PLANNED})
    wanted = _wanted(run, planned)
    files_by_batch = _files_by_batch(paths, wanted, note)
    brought = [batch for batch in planned if batch.id in files_by_batch]
    for batch in brought:
        _bring(run, batch, files_by_batch[batch.id], wanted)
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


_Wanted = Sequence[tuple[Provider, Mapping[str, tuple[str, str]]]]
"""Planned requests of each provider: batch and custom_id, by the digits of their fingerprints."""


def _wanted(run: Run, planned: Sequence[Batch]) -> _Wanted:
    requests: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for batch in planned:
        for custom_id in run.store.asked_of(batch.id):
            requests[batch.provider][custom_id[-DIGITS:]] = (batch.id, custom_id)
    return [(run.providers.dialect(provider), by_digits) for provider, by_digits in requests.items()]


def _files_by_batch(paths: Sequence[Path], wanted: _Wanted, note: Callable[[str], None]) -> dict[str, dict[Path, None]]:
    files: defaultdict[str, dict[Path, None]] = defaultdict(dict)
    for path in paths:
        check_file(path, path)
        named = [batch_id for batch_id, _ in _named_lines(path, wanted)]
        if not named:
            raise DataError(
                f"{path}: no line answers a request that the run has planned: results of files that `plan --out` wrote "
                "are named by custom_id, and answers that the run has or has asked for stay as they are"
            )
        for batch_id in named:
            files[batch_id][path] = None
        if rest := sum(1 for _ in _lines(path)) - len(named):
            note(f"{path}: {plural(rest, 'line')} left out, of requests that are not planned here")
    return files


def _named_lines(path: Path, wanted: _Wanted) -> Iterator[tuple[str, bytes]]:
    """Yield each line that answers a planned request, under the request's name, after the id of its batch."""
    for line in _lines(path):
        for dialect, requests in wanted:
            response = batch_results.decoded(line, dialect.decode)
            if not isinstance(response, str) and (request := requests.get(response.custom_id[-DIGITS:])):
                batch_id, custom_id = request
                yield batch_id, line.replace(response.custom_id.encode(), custom_id.encode(), 1)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from (line for line in handle if line.strip())


def _bring(run: Run, batch: Batch, files: Collection[Path], wanted: _Wanted) -> None:
    def of_batch(path: Path) -> Iterator[bytes]:
        named = _named_lines(path, wanted)
        yield from (line.rstrip() + b"\n" for batch_id, line in named if batch_id == batch.id)

    parts = [ResultPart("output", of_batch(path)) for path in files]
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
