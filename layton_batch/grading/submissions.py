"""Benchmarks that can be graded without a jury, the form that each has for predictions made elsewhere, and values of
``--predictions``: a file, ``NAME=FILE``, a folder of files, a benchmark's own folder, or a run."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from layton_batch.errors import DataError, ManifestError, StoreError
from layton_batch.files.items import read_items
from layton_batch.files.sources import user_path
from layton_batch.interchange.score_file import reading
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks import NO_SETTINGS, load_task, protocols_of, setting_names, task_names
from layton_batch.tasks.offline import FORMS, Document, FileRow, GradingOptions, ModelFile, OfflineForm, offline_form
from layton_batch.tasks.protocol import RuleTask, TaskOptions
from layton_batch.text import did_you_mean

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
    if name in FORMS.names():
        return offline_form(_rule_task(name, TaskOptions(DEFAULT_SPLIT), chosen), options)
    form = OfflineForm(_rule_task(name, TaskOptions(split), {**settings, **chosen}), options)
    form.protocol = protocol
    return form


def check_option(form: OfflineForm, option: str) -> None:
    """Raise ManifestError for an option that the benchmark does not know, naming those that do."""
    if option in form.options:
        return
    forms = {name: form_of(name, None, GradingOptions()) for name in FORMS.names()}
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


if TYPE_CHECKING:
    import polars as pl

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
    if not name:
        yield from listed
    elif len(listed) == 1:
        yield from (replace(submission, name=name, is_named=True) for submission in listed)
    else:
        yield from (replace(submission, name=f"{name}/{submission.name}", is_named=True) for submission in listed)


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
