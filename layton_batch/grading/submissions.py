"""What ``--predictions`` may name: a file, ``NAME=FILE``, a folder of files, a benchmark's own folder, or a run."""

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
from layton_batch.files.run_folder import RunFolder
from layton_batch.grading.forms import form_of
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.offline import FileRow, ModelFile, OfflineForm, Report

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".json", ".jsonl", ".parquet")
"""The files of a folder that are taken for predictions."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One model's predictions (or one round of them), read when they are graded.

    ``items``: its own, where it brings them (a run does). ``published``: the totals of a file without replies.
    ``is_file``: given as one file. ``is_named``: the name was asked for.
    """

    name: str
    where: str
    form: OfflineForm
    rows: Callable[[], Iterable[FileRow]]
    items: Callable[[], Sequence[Item]] | None = None
    published: Report | None = None
    provider: str = ""
    is_file: bool = False
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """Where predictions are looked for, and in which form. ``rounds``: files without a name are of one model."""

    task: str
    form: OfflineForm
    runs: Path
    settings: Settings
    rounds: bool = False


def submissions(asked: Sequence[str], desk: Desk) -> list[Submission]:
    """Everything asked for, in order, each under a name of its own; rounds of one model share theirs.

    Raises ManifestError for two models of one name, DataError for what is not there or holds no predictions.
    """
    found = [one for text in asked for one in _submissions(text, desk)]
    if desk.rounds:
        return [one if one.is_named or one.items else replace(one, name="model") for one in found]
    named = Counter(one.name for one in found if one.is_named)
    twice = next((name for name, count in named.items() if count > 1), None)
    if twice is not None:
        several = "; several rounds of one model: --rounds" if "--rounds" in desk.form.options else ""
        raise ManifestError(f"grade: two of --predictions are called {twice!r}; give each a name of its own{several}")
    return _apart(found)


def _submissions(text: str, desk: Desk) -> Iterator[Submission]:
    name, source = _split(text, desk)
    found = list(_of_source(source, desk))
    if not name:
        yield from found
    elif len(found) == 1 or (desk.rounds and not found[0].items):
        yield from (replace(one, name=name, is_named=True) for one in found)
    else:
        yield from (replace(one, name=f"{name}/{one.name}", is_named=True) for one in found)


def _split(text: str, desk: Desk) -> tuple[str, str]:
    """Name and source; a path that exists is a path, whatever is in its name."""
    name, sign, source = text.partition("=")
    if not sign or _kind(text, desk) != "nothing":
        return "", text
    if not name.strip() or not source:
        raise ManifestError(f"grade: --predictions {text!r}: NAME=FILE needs a name and a file")
    return _clean(name.strip()), source


def _path(text: str, desk: Desk) -> Path:
    return desk.settings.cwd / Path(text).expanduser()


def _kind(text: str, desk: Desk) -> Literal["file", "folder", "run", "nothing"]:
    """What is there; nothing where the text cannot even be a path."""
    try:
        path = _path(text, desk)
        if path.is_dir():
            return "run" if (path / "run.json").exists() else "folder"
        return "file" if path.exists() else "nothing"
    except (OSError, ValueError, RuntimeError):  # too long, a null character, the home of nobody
        return "nothing"


def _of_source(source: str, desk: Desk) -> Iterator[Submission]:
    kind = _kind(source, desk)
    if kind == "file":
        yield replace(_of_file(desk.form.model_file(Path(source).expanduser()), desk), is_file=True)
    elif kind == "folder":
        yield from _of_folder(_path(source, desk), desk)
    elif kind == "nothing" and any(sign in source for sign in "*?[") and (found := _matching(source, desk)):
        yield from (replace(_of_file(desk.form.model_file(path), desk), is_file=True) for path in found)
    else:
        yield from _of_run(str(_path(source, desk)) if kind == "run" else source, desk)


def _matching(pattern: str, desk: Desk) -> list[Path]:
    """The files of a pattern, a model each."""
    found = sorted(glob.glob(pattern, root_dir=desk.settings.cwd, recursive=True))
    return [path for name in found if (path := desk.settings.cwd / name).is_file()]


def _of_run(name: str, desk: Desk) -> Iterator[Submission]:
    from layton_batch.files import item_table  # loads polars, which the rows of a JSONL file do not need
    from layton_batch.runs.folders import find_run, stored_manifest

    try:
        folder = find_run(name, desk.runs)
    except (StoreError, OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{name[:200]}: no such file or folder, and {told}") from error
    manifest, run_name = stored_manifest(folder), folder.root.name
    if manifest.task != desk.task:
        raise ManifestError(f"run {run_name} is one of {manifest.task}, not of {desk.task}")
    settings = cast("Mapping[str, JsonValue]", manifest.task_options)
    form = form_of(desk.task, desk.form.protocol, desk.form.asked, manifest.items.split, settings)
    said, items = _said(folder), cache(partial(item_table.read, folder))
    if said.is_empty():
        raise DataError(f"run {run_name} has no predictions yet: `layton-batch run` goes on with it")
    for (model, provider, sample), part in said.group_by(["model", "provider", "sample"], maintain_order=True):
        rows = partial(_run_rows, part, items, form)
        # the samples of a model are its rounds, or stand side by side
        named = str(model) if sample == 1 or desk.rounds else f"{model} (sample {sample})"
        yield Submission(named, run_name, form, rows, items, provider=str(provider))


def _said(folder: RunFolder) -> pl.DataFrame:
    """The predictions of every model, with the tokens each took where they are known."""
    from layton_batch.files import tables

    said = tables.read(folder.tables, "predictions")
    usage = tables.read(folder.tables, "usage")
    tokens = usage.select("custom_id", "batch_id", "attempt", usage_tokens="output_tokens").unique(
        ["custom_id", "batch_id", "attempt"], keep="last"
    )
    return said.join(tokens, on=["custom_id", "batch_id", "attempt"], how="left", maintain_order="left")


def _run_rows(said: pl.DataFrame, items: Callable[[], Sequence[Item]], form: OfflineForm) -> list[FileRow]:
    asked = {item.id: item.question for item in items()}
    rows: list[FileRow] = []
    for row in said.iter_rows(named=True):
        is_missing = row["kind"] == PredictionKind.MISSING
        rows.append(
            {
                form.id_columns[0]: row["item_id"],
                form.text_column: form.no_reply if is_missing else row["raw_text"] or "",
                "finish_reason": row["finish_reason"],
                "output_tokens": row["usage_tokens"],
                "is_missing": is_missing,
                "asked": asked.get(row["item_id"]),
            }
        )
    return rows


def _of_file(found: ModelFile, desk: Desk) -> Submission:
    where, form = str(found.path), desk.form
    rows = partial(_predictions, found.path, desk)
    return Submission(_clean(found.name), where, form, rows, published=found.published)


def _predictions(path: Path, desk: Desk) -> Iterable[FileRow]:
    """The rows of a file, once there is one. Raises DataError where there is none."""
    found = iter(desk.form.predictions(path, desk.settings))
    first = next(found, None)
    if first is None:
        raise DataError(f"{path}: there are no predictions in it")
    return chain([first], found)


def _clean(name: str) -> str:
    """A name as text that every output can hold."""
    return name.encode("utf-8", "replace").decode().replace("\0", " ") or "model"


# ---- folders -------------------------------------------------------------------------------------------------------


def _of_folder(folder: Path, desk: Desk) -> Iterator[Submission]:
    if found := desk.form.model_files(folder):
        yield from (_of_file(one, desk) for one in found)
        return
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error})") from error
    if not files:
        raise DataError(f"{folder}: is a folder without predictions (*{', *'.join(SUFFIXES)}), and not a run's")
    yield from (_of_file(desk.form.model_file(path), desk) for path in files)


# ---- names ---------------------------------------------------------------------------------------------------------


def _apart(found: Sequence[Submission]) -> list[Submission]:
    """Names that meet get as much of their folders as tells them apart, and a number where nothing does."""
    names = [one.name for one in found]
    for depth in range(1, 6):
        meeting = {name for name, count in Counter(names).items() if count > 1}
        if not meeting:
            break
        names = [_longer(one, depth) if name in meeting else name for one, name in zip(found, names, strict=True)]
    seen: Counter[str] = Counter()
    numbered = []
    for one, name in zip(found, names, strict=True):
        seen[name] += 1
        numbered.append(replace(one, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return numbered


def _longer(one: Submission, depth: int) -> str:
    """The name behind the last ``depth`` folders of where it is from."""
    if one.is_named:
        return one.name
    folders = Path(one.where).parent.parts if one.is_file else (one.where,)
    return _clean("/".join([*folders[-depth:], one.name]))
