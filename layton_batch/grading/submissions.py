"""Benchmarks that can be graded without a jury, the form that each has for predictions made elsewhere, and values of
``--predictions``: a file, ``NAME=FILE``, a folder of files, a benchmark's own folder, or a run. Each is graded through
its benchmark's form, row by row, and several are ranked as every leaderboard of this package is: on the items that all
of them have.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Literal, cast

import polars as pl

from layton_batch.errors import DataError, ManifestError, StoreError
from layton_batch.files.items import read_items
from layton_batch.files.sources import user_path
from layton_batch.interchange.score_file import reading
from layton_batch.records import Item, JsonValue
from layton_batch.scoring.board import rank_marks
from layton_batch.scoring.boards import RuleBoard
from layton_batch.scoring.evidence import MARKS
from layton_batch.scoring.leaderboard import ScoringRules, leaderboard
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks import NO_SETTINGS, load_task, protocols_of, setting_names, task_names
from layton_batch.tasks.offline import FORMS, Document, FileRow, GradingOptions, ModelFile, OfflineForm, offline_form
from layton_batch.tasks.protocol import RuleTask, TaskOptions
from layton_batch.text import did_you_mean, first_of, plural

DEFAULT_SPLIT = "llm"  # what a manifest says that says nothing


def form_of(
    name: str,
    protocol: str | None,
    options: GradingOptions,
    split: str = DEFAULT_SPLIT,
    settings: Mapping[str, JsonValue] = NO_SETTINGS,
) -> OfflineForm:
    """Return the form of a task under a protocol; None: its default.

    ``split`` and ``settings`` are those of a run, for tasks without forms of their own: with one, ``protocol`` alone
    decides. Raises ManifestError for a task that is not graded by rule, an unknown protocol, and unfit options.
    """
    _rule_task(name, TaskOptions(DEFAULT_SPLIT))
    protocols = protocols_of(name)
    if protocol is not None and protocol not in (protocols or (protocol,)):
        raise ManifestError(f"grade: protocol {protocol!r}: {name} has {', '.join(protocols)}")
    if protocol is not None and "protocol" not in setting_names(name):
        raise ManifestError(f"grade: --protocol {protocol}: task {name!r} has no protocols")
    chosen: Mapping[str, JsonValue] = {} if protocol is None else {"protocol": protocol}
    if name in FORMS:
        return offline_form(_rule_task(name, TaskOptions(DEFAULT_SPLIT), chosen), options)
    form = OfflineForm(_rule_task(name, TaskOptions(split), {**settings, **chosen}), options)
    form.protocol = protocol
    return form


def check_option(form: OfflineForm, option: str) -> None:
    """Raise ManifestError for an option that the benchmark does not know, naming those that do."""
    if option in form.options:
        return
    forms = {name: form_of(name, None, GradingOptions()) for name in FORMS}
    words = {name: known_form.options[option] for name, known_form in forms.items() if option in known_form.options}
    raise ManifestError(f"grade: {option} is for {' and '.join(words)}{''.join(dict.fromkeys(words.values()))}")


def chosen_metric(name: str, form: OfflineForm, metric: str | None) -> str:
    """Return the metric asked for, or the default. Raises ManifestError for one the benchmark is not ranked by."""
    chosen = form.metrics[0] if metric is None else metric
    if chosen not in form.metrics:
        raise ManifestError(f"grade: --metric {chosen!r}: {name} is ranked by {' or '.join(form.metrics)}")
    return chosen


def _rule_task(name: str, options: TaskOptions, settings: Mapping[str, JsonValue] = NO_SETTINGS) -> RuleTask:
    if name in task_names():
        task = load_task(name, options, settings)
        if not task.uses_jury:
            return task
    names = graded_by_rule()
    near = did_you_mean(name, names)
    raise ManifestError(f"grade: {name!r} is not graded by rule; there are {', '.join(names)}{near}")


def graded_by_rule() -> list[str]:
    """Return the names of the tasks that rules grade."""
    return [name for name in task_names() if _is_graded_by_rule(name)]


def _is_graded_by_rule(name: str) -> bool:
    try:
        return not load_task(name, TaskOptions(DEFAULT_SPLIT)).uses_jury
    except Exception:  # somebody else's code, which may not even load, must not hide the others
        return False


# ---- predictions --------------------------------------------------------------------------------------------------


SUFFIXES = (".json", ".jsonl", ".parquet")
"""The files of a folder that are taken for predictions."""


@dataclass(frozen=True, slots=True)
class ModelPredictions:
    """One model's predictions. ``rows``: reads them.

    ``items``: its own, where it brings them (a run does). ``published``: the report of a file without replies.
    ``is_file``: given as one file. ``is_named``: the name was asked for.
    """

    name: str
    where: str
    form: OfflineForm
    rows: Callable[[], Iterable[FileRow]]
    items: Callable[[], Sequence[Item]] | None = None
    published: Document | None = None
    provider: str = ""
    is_file: bool = False
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of a search for predictions: places and form."""

    task: str
    form: OfflineForm
    runs: Path
    settings: Settings


def submissions(texts: Sequence[str], search: SearchSettings) -> list[ModelPredictions]:
    """Everything asked for, in order, each under a name of its own.

    Raises ManifestError for two models of one name, DataError for what is not there or holds no predictions.
    """
    listed = [submission for text in texts for submission in _submissions(text, search)]
    named = Counter(submission.name for submission in listed if submission.is_named)
    twice = next((name for name, count in named.items() if count > 1), None)
    if twice is not None:
        raise ManifestError(f"grade: two of --predictions are called {twice!r}; give each a name of its own")
    return _apart(listed)


def _submissions(text: str, search: SearchSettings) -> Iterator[ModelPredictions]:
    name, source = _split(text, search)
    listed = list(_of_source(source, search))
    for submission in listed:
        own = f"/{submission.name}" if len(listed) > 1 else ""
        yield replace(submission, name=f"{name}{own}", is_named=True) if name else submission


def _split(text: str, search: SearchSettings) -> tuple[str, str]:
    """Name and source; a path that exists is a path, whatever is in its name."""
    name, sign, source = text.partition("=")
    if not sign or _kind(text, search) != "nothing":
        return "", text
    if not name.strip() or not source:
        raise ManifestError(f"grade: --predictions {text!r}: NAME=FILE needs a name and a file")
    return _clean(name.strip()), source


def _path(text: str, search: SearchSettings) -> Path:
    return search.settings.cwd / user_path(text)


def _kind(text: str, search: SearchSettings) -> Literal["file", "folder", "run", "nothing"]:
    """Return what a path leads to; "nothing" where the text cannot even be a path. A manifest stands for its run."""
    from layton_batch.runs.folders import is_manifest

    try:
        path = _path(text, search)
        if path.is_dir():
            return "run" if (path / "run.json").exists() else "folder"
        if is_manifest(str(path)):
            return "run"
        return "file" if path.exists() else "nothing"
    except (OSError, ValueError, RuntimeError):  # too long, a null character, the home of nobody
        return "nothing"


def _of_source(source: str, search: SearchSettings) -> Iterator[ModelPredictions]:
    kind = _kind(source, search)
    if kind == "file":
        (file,) = search.form.models(user_path(source))
        yield replace(_of_file(file, search), is_file=True)
    elif kind == "folder":
        yield from _of_folder(_path(source, search), search)
    elif kind == "nothing" and any(sign in source for sign in "*?[") and (paths := _matching(source, search)):
        files = chain.from_iterable(map(search.form.models, paths))
        yield from (replace(_of_file(file, search), is_file=True) for file in files)
    else:
        yield from _of_run(str(_path(source, search)) if kind == "run" else source, search)


def _matching(pattern: str, search: SearchSettings) -> list[Path]:
    """The files of a pattern, a model each."""
    names = sorted(glob.glob(pattern, root_dir=search.settings.cwd, recursive=True))
    return [path for name in names if (path := search.settings.cwd / name).is_file()]


def _of_run(name: str, search: SearchSettings) -> Iterator[ModelPredictions]:
    from layton_batch.files import tables  # loads polars, which the rows of a JSONL file do not need
    from layton_batch.runs.folders import find_run, stored_manifest

    try:
        folder = find_run(name, search.runs)
    except (StoreError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, StoreError) and Path(name).suffix:
            raise DataError(str(reason)) from error  # it says that there is no such file
        raise DataError(f"{name[:200]}: no such file or folder, and {reason}") from error
    manifest, run_name = stored_manifest(folder), folder.root.name
    if manifest.task != search.task:
        raise ManifestError(f"run {run_name} is of task {manifest.task}, not {search.task}")
    settings = cast("Mapping[str, JsonValue]", manifest.task_options)
    form = form_of(search.task, search.form.protocol, search.form.asked, manifest.items.split, settings)
    predictions, items = tables.read(folder.tables, "predictions"), cache(partial(read_items, folder))
    if predictions.is_empty():
        raise DataError(f"run {run_name} has no predictions yet: `layton-batch run` goes on with it")
    for (model, provider, sample), part in predictions.group_by(["model", "provider", "sample"], maintain_order=True):
        rows = partial(_run_rows, part, items, form)
        named = str(model) if sample == 1 else f"{model} (sample {sample})"
        yield ModelPredictions(named, run_name, form, rows, items, provider=str(provider))


def _run_rows(predictions: pl.DataFrame, items: Callable[[], Sequence[Item]], form: OfflineForm) -> Iterator[FileRow]:
    questions = {item.id: item.question for item in items()}
    for row in predictions.iter_rows(named=True):
        is_missing = row["kind"] == PredictionKind.MISSING
        yield {
            form.id_columns[0]: row["item_id"],
            form.text_column: None if is_missing else row["raw_text"] or "",
            "finish_reason": row["finish_reason"],
            "is_missing": is_missing,
            "asked": questions.get(row["item_id"]),
        }


def _of_file(file: ModelFile, search: SearchSettings) -> ModelPredictions:
    rows = partial(search.form.rows, file.path, search.settings)
    return ModelPredictions(_clean(file.name), str(file.path), search.form, rows, published=file.published)


def _clean(name: str) -> str:
    """A name as text that every output can hold."""
    return name.encode("utf-8", "replace").decode().replace("\0", " ") or "model"


# ---- folders -------------------------------------------------------------------------------------------------------


def _of_folder(folder: Path, search: SearchSettings) -> Iterator[ModelPredictions]:
    if model_files := search.form.models(folder):
        yield from (_of_file(file, search) for file in model_files)
        return
    with reading(folder):
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not files:
        raise DataError(f"{folder}: is a folder without predictions (*{', *'.join(SUFFIXES)}), and not a run's")
    yield from (_of_file(file, search) for path in files for file in search.form.models(path))


# ---- names ---------------------------------------------------------------------------------------------------------


def _apart(listed: Sequence[ModelPredictions]) -> list[ModelPredictions]:
    """Names that meet get as much of their folders as tells them apart, and a number where nothing does."""
    names = [submission.name for submission in listed]
    for depth in range(1, 6):
        meeting = {name for name, count in Counter(names).items() if count > 1}
        if not meeting:
            break
        names = [
            _longer(submission, depth) if name in meeting else name
            for submission, name in zip(listed, names, strict=True)
        ]
    seen: Counter[str] = Counter()
    numbered = []
    for submission, name in zip(listed, names, strict=True):
        seen[name] += 1
        numbered.append(replace(submission, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return numbered


def _longer(submission: ModelPredictions, depth: int) -> str:
    """The name behind the last ``depth`` folders of where it is from."""
    if submission.is_named:
        return submission.name
    folders = Path(submission.where).parent.parts if submission.is_file else (submission.where,)
    return _clean("/".join([*folders[-depth:], submission.name]))


@dataclass(slots=True)
class GradedModel:
    """A model's marks. ``frame``: its graded predictions, None for totals without replies. ``document``: its report,
    if a benchmark makes one.

    ``marks``: the frame of marks; empty for totals. ``questions``: by item, a value that differs if the questions do;
    empty where all models are graded by one file. ``twice``: an item with several predictions. ``unanswered``: ids in
    the file of items that have no prediction. ``notes``: how predictions were read.
    """

    name: str
    where: str
    provider: str
    frame: pl.DataFrame | None = None
    document: Mapping[str, JsonValue] | None = None
    marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    questions: dict[str, tuple[str, object]] = field(default_factory=dict)
    twice: str | None = None
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()


# ---- one submission ------------------------------------------------------------------------------------------------


def grade(
    submission: ModelPredictions,
    items: Sequence[Item] | None,
    metric: str,
    updated: list[FileRow] | None = None,
    *,
    with_rows: bool,
) -> GradedModel:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry.

    ``metric``: by which a board will rank, item by item. ``with_rows``: the report has a row a prediction, which a
    board of many models has no room for. Raises DataError naming the submission and the row that is wrong.
    """
    model = GradedModel(submission.name, submission.where, submission.provider, document=submission.published)
    if submission.published is not None:
        return model
    own = submission.items() if submission.items is not None else items
    try:
        model.frame = frame = submission.form.graded(submission.rows(), own, updated)
        model.document = submission.form.report(frame, with_rows=with_rows)
    except DataError as error:
        message = str(error)
        raise DataError(message if submission.where in message else f"{submission.where}: {message}") from error
    if frame.is_empty():
        raise DataError(f"{submission.where}: there are no predictions in it")
    answered = set(frame["item_id"])
    names = [f"{of_set}:{item}" if of_set else item for of_set, item in frame.select("set", "item_id").iter_rows()]
    model.unanswered = [item for item in dict.fromkeys(item.id for item in own or ()) if item not in answered]
    model.twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if submission.items is None:
        model.notes = submission.form.notes(frame)
    marks = {
        "model": model.name, "provider": model.provider, "n_hints": 0, "sample": 1, "item_id": names,
        "mark": frame[metric], "kind": frame["kind"],
        **{column: frame[name].fill_null("") for column, name in (("failure", "tag"), ("stratum", "stratum"))},
    }  # fmt: skip
    model.marks = pl.DataFrame(marks, schema=MARKS)
    if items is None or submission.items is not None:
        questions = zip(names, frame["asked"], strict=True)
        model.questions = {
            name: (question.partition(":")[0], question) for name, question in questions if question is not None
        }
    return model


def items_of(form: OfflineForm, rows: Iterable[FileRow]) -> Sequence[Item]:
    """Return the items of a file. Raises DataError for rows that are no items."""
    try:
        return form.items(rows)
    except DataError as error:
        raise DataError(f"--items: {error}") from error


# ---- the board -----------------------------------------------------------------------------------------------------


def ranked(
    models: Sequence[GradedModel], metric: str, span: tuple[float, float] = (0.0, 1.0)
) -> tuple[pl.DataFrame, list[str]]:
    """Return the board of the models that have replies, best first, and what a reader has to know, such as items that
    some models lack.

    ``span``: the least and the greatest mark by the metric. Raises DataError where models have no item in common, and
    where items of one id are not the same question.
    """
    entered = [model for model in models if model.marks.height]
    left_out = [
        f"{model.name}: as published; without replies it has no interval and no rank"
        for model in models
        if model.marks.is_empty()
    ]
    if not entered:
        return leaderboard(), left_out
    marks, notes = shared_marks(entered)
    board = rank_marks(RuleBoard(marks, ScoringRules(metric=metric), span))
    return board, [*notes, *left_out]


def shared_marks(models: Sequence[GradedModel]) -> tuple[pl.DataFrame, list[str]]:
    """The marks of the models on the items that all of them have, and what a reader has to know. Raises DataError as
    ``ranked``."""
    for model in models:
        if model.twice is not None:
            raise DataError(f"{model.where}: item {model.twice!r} is there twice; a board needs one prediction an item")
    _check_same(models)
    for model in models:
        if not model.marks["mark"].count():
            raise DataError(f"{model.where}: model {model.name!r} has no score on any item; leave the model out")
    scored = pl.concat(model.marks for model in models).drop_nulls("mark")
    shared = scored.group_by("item_id").len().filter(len=len(models))
    if shared.is_empty():
        names = first_of([model.name for model in models], 5)
        raise DataError(
            f"no item is in the predictions of all models ({names}): they cannot be ranked together. Give the same "
            "item the same id everywhere, or leave a model out"
        )
    return scored.join(shared, on="item_id", how="semi"), _notes(models, shared.height)


def to_json(board: pl.DataFrame, model: GradedModel) -> dict[str, JsonValue]:
    """A model's place: score and interval in percent, as leaderboards have them; null for one that is not ranked."""
    mine = board.filter(model=model.name)
    if mine.is_empty():
        return {"rank": None, "rank_box": None, "score": None, "interval": None, "n_items": 0, "failures": None}
    row = mine.row(0, named=True)
    return {
        "rank": row["rank"],
        "rank_box": [row["rank_best"], row["rank_worst"]],
        "score": row["score"],
        "interval": [row["lower"], row["upper"]],
        "n_items": row["n_items"],
        "failures": {failure["kind"]: failure["count"] for failure in row["failures"]},
    }


def _notes(models: Sequence[GradedModel], shared: int) -> list[str]:
    notes = []
    for model in models:
        scored = model.marks["mark"].count()
        if scored > shared:
            items = plural(shared, "item")
            notes.append(f"{model.name}: ranked on the {items} that all models have; it has {scored}.")
        if outside := model.marks.height - scored:
            notes.append(
                f"{model.name}: {plural(outside, 'item')} without a reply, through no fault of its own, left out."
            )
    return notes


def _check_same(models: Sequence[GradedModel]) -> None:
    """Ids are not enough: data sets of several versions number different questions alike."""
    first: dict[str, tuple[GradedModel, tuple[str, object]]] = {}
    for model in models:
        for item, question in model.questions.items():
            first_model, other = first.setdefault(item, (model, question))
            if other[0] == question[0] and other != question:
                raise DataError(
                    f"item {item!r} is not the same in {first_model.where} and {model.where}: its question or its "
                    "right answer differs; models are only ranked on the same items"
                )
