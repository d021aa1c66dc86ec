"""Input of `judge`: answers of a file, whose run has a manifest without models beside it, or of a table, whose run has
the manifest of the arguments."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import orjson

from layton_batch.commands.notes import warn
from layton_batch.commands.starting import check_manifest, quoted, write_manifest
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import RowLocation, Rows, read_rows, user_path
from layton_batch.frames import Frame, read_frame
from layton_batch.grading.forms import DEFAULT_SPLIT
from layton_batch.interchange.prediction_files import (
    TEXT,
    AnswerFile,
    ImportedModel,
    blank_rows,
    check_replies,
    has_json_replies,
    item_rows,
    models,
    read_answers,
    with_ids,
)
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.checks import manifest_of_tables
from layton_batch.manifest.form import DEFAULT_SEATS
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks import OWN, load_task, setting_names
from layton_batch.tasks.protocol import Task, TaskOptions

JUDGED = "judge"
"""The setting by which a task that a rule grades is given to a jury."""


AnswerSource: TypeAlias = "Frame | str | Path"
"""A table of answers, or a file of them."""


@dataclass(frozen=True, slots=True)
class JudgeArguments:
    """Arguments of `judge` that say what is judged, and by whom."""

    file: Path
    items: str | None
    """None: the rows of ``file`` carry question and reference themselves."""
    panel: Path | None
    model: str | None
    family: str | None
    protocol: str | None
    max_usd: str | None


@dataclass(frozen=True, slots=True)
class _JudgedItems:
    """The items that answers are about, and their task. ``options``: ``[task_options]`` by which a jury sits."""

    task: Task
    split: str
    options: Mapping[str, JsonValue]
    items: Sequence[Item]
    source: str


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """Answers of a file, and the run that judges them. ``manifest``: the one at ``path``, or the text to write there.

    ``items_file``, ``items``: the items that the rows of answers carry themselves, and the file for them.
    """

    answers: Sequence[ImportedModel]
    manifest: Manifest
    path: Path
    text: str
    items_file: Path
    items: Sequence[Mapping[str, JsonValue]]

    def write(self) -> Path:
        """Write the manifest and the items, and return the path of the manifest."""
        if self.items:
            atomic.write_bytes(self.items_file, b"".join(orjson.dumps(row) + b"\n" for row in self.items))
        return write_manifest(self.path, self.text)


def read_judged(arguments: JudgeArguments, settings: Settings) -> JudgedAnswers:
    """Read and check the file and its items, and make the manifest of the run that judges them. Nothing is written.

    Raises DataError and ManifestError.
    """
    if arguments.panel is not None and not os.path.isfile(user_path(arguments.panel)):
        raise ManifestError(f"judge: --panel {arguments.panel}: no such file")
    file = read_answers(arguments.file, settings)
    file = with_ids(file) if arguments.items is None else file
    carried = item_rows(file) if arguments.items is None else []
    benchmark = _benchmark(arguments, carried, settings)
    if arguments.items is not None and _is_same(arguments.items, arguments.file, settings):
        raise ManifestError(f"judge: {arguments.file} is also what --items names, so that the key would be judged")
    answers = models(
        file, {item.id for item in benchmark.items}, arguments.model, arguments.family,
        json_replies=has_json_replies(benchmark.task, benchmark.items),
    )  # fmt: skip
    if unread := check_replies(benchmark.task, benchmark.items, answers, str(arguments.file)):
        warn((unread,))
    if blank := blank_rows(file, answers, {item.id for item in benchmark.items}):
        warn((blank,))
    path = arguments.file.with_name(f"{arguments.file.stem}-judged.toml")
    panel = None if arguments.panel is None else str(user_path(arguments.panel).absolute())
    draft, text = (
        "".join(f"{line}\n" for line in _manifest_lines(arguments, path, benchmark, named))
        for named in (panel, None if panel is None else _from_folder(panel, path))
    )
    return JudgedAnswers(answers, check_manifest(path, draft), path, text, _own_items(arguments.file), carried)


def _is_same(items: str, file: Path, settings: Settings) -> bool:
    return not is_address(items) and (settings.cwd / items).resolve() == (settings.cwd / file).resolve()


def _own_items(file: Path) -> Path:
    """Return the file of the items that a file of answers carries itself."""
    return file.with_name(f"{file.stem}-items.jsonl")


def _benchmark(
    arguments: JudgeArguments, carried: Sequence[Mapping[str, JsonValue]], settings: Settings
) -> _JudgedItems:
    """Return the items. ``carried``: those that the rows of answers carry themselves."""
    source, name, split = arguments.items, OWN, DEFAULT_SPLIT
    if source is None:
        source = str(_own_items(arguments.file))
        rows = Rows(carried, [RowLocation(source, number) for number in range(1, 1 + len(carried))])
    elif source == BUNDLED:
        rows = read_rows(str(load_task(name, TaskOptions(split)).bundled(split)), settings.cwd, settings)
    else:
        rows = read_rows(source, settings.cwd, settings)
        name = guess_task(rows)
        split = guess_split(rows, name)
    keys = setting_names(name)
    options: dict[str, JsonValue] = {JUDGED: True} if JUDGED in keys else {}
    if arguments.protocol is not None:
        if "protocol" not in keys:
            raise ManifestError(f"judge: --protocol {arguments.protocol}: task {name!r} has no protocols")
        options["protocol"] = arguments.protocol
    task = load_task(name, TaskOptions(split, folder=settings.cwd), options)
    if not task.uses_jury:
        raise ManifestError(f"judge: {name} is graded by a rule, no jury sits: `layton-batch grade {name}` grades it")
    return _JudgedItems(task, split, options, task.items(rows), source)


def _manifest_lines(arguments: JudgeArguments, path: Path, benchmark: _JudgedItems, panel: str | None) -> Iterator[str]:
    yield f"# Written by `layton-batch judge {arguments.file}`: no [[models]], the answers are those of that file."
    yield f"name = {quoted(slug(path.stem))}"
    yield f"task = {quoted(benchmark.task.name)}"
    yield "[items]"
    yield f"source = {quoted(_from_folder(benchmark.source, path))}"
    yield f"split = {quoted(benchmark.split)}"
    if benchmark.options:
        yield "[task_options]"
        yield from (f"{name} = {json.dumps(value)}" for name, value in benchmark.options.items())
    if arguments.max_usd is not None:
        yield from ("[budget]", f"max_usd = {quoted(arguments.max_usd)}")
    if panel is not None:
        yield from (
            "[jury]",
            f"panel = {quoted(panel)}",
            f"seats = {min(DEFAULT_SEATS, _judge_count(arguments.panel))}",
        )


def _judge_count(panel: Path | None) -> int:
    """Return how many judges a panel file has; the check of the manifest names what is wrong with the file."""
    with suppress(OSError, ValueError):
        judges = tomllib.loads(user_path(panel or Path()).read_text(encoding="utf-8")).get("judges")
        return sum(not judge.get("substitute") for judge in judges) if isinstance(judges, list) else DEFAULT_SEATS
    return DEFAULT_SEATS


def _from_folder(source: str, manifest: Path) -> str:
    """Return a source as the manifest names it, from its own folder."""
    if source == BUNDLED or is_address(source):
        return source
    return os.path.relpath(user_path(source).absolute(), manifest.absolute().parent)


# ---- a table -------------------------------------------------------------------------------------------------------


def read_answer_table(given: AnswerSource, settings: Settings) -> AnswerFile:
    """Read the answers of a table, as those of a file are read. Raises DataError for rows without an answer."""
    if isinstance(given, str | Path):
        return read_answers(user_path(given), settings)
    frame = read_frame(given, "frame")
    if "model" not in frame.columns:
        raise DataError(
            "the frame has no column 'model', which names whose answer a row holds; its columns are "
            f"{', '.join(frame.columns)}"
        )
    rows = [(f"row {number} of the frame", row) for number, row in enumerate(frame.iter_rows(named=True), 1)]
    for place, row in rows:
        column = next((name for name in (*TEXT, "answer") if name in row), None)
        if column is not None and row[column] is None and row.get("kind") is None:
            raise DataError(
                f"{place}: {column!r} is null, so judges have nothing to read: give the answer. "
                "Without the row the item counts as missing for this model, also in later calls"
            )
    return AnswerFile(Path("the frame"), rows)


_ARGUMENTS: Mapping[tuple[str | int, ...], str] = {
    ("jury", "judges"): "panel",
    ("jury", "panel"): "panel",
    ("jury", "seats"): "seats",
    ("jury",): "task",
    ("items", "source"): "items",
    ("items", "split"): "split",
}
"""The arguments of ``judge`` by the keys of a manifest; the others are called as their keys."""


def jury_manifest(
    name: str,
    task: str,
    split: str,
    items: str,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    seats: int,
    folder: Path,
) -> Manifest:
    """Make the manifest of a run with judges only."""
    jury: dict[str, object] = {"seats": seats}
    if isinstance(panel, str | Path):
        path = user_path(panel)
        if not (folder / path).is_file():
            raise ManifestError(f"judge: panel: no panel file {folder / path}: {_PANEL_FORM}")
        jury["panel"] = str(path)
    else:
        jury["judges"] = _judge_tables(panel)
    tables_ = {"name": name, "task": task, "items": {"source": items, "split": split}, "jury": jury}
    return manifest_of_tables(tables_, folder, "judge", _ARGUMENTS)


def _judge_tables(panel: object) -> list[dict[str, JsonValue]]:
    """Return the judges as tables. Raises ManifestError for what is no list of dicts."""
    if not isinstance(panel, list | tuple):
        raise ManifestError(f"judge: panel: a {type(panel).__name__} is no panel: {_PANEL_FORM}")
    for number, judge in enumerate(panel):
        if not isinstance(judge, Mapping):
            raise ManifestError(f"judge: panel[{number}]: a {type(judge).__name__} is no judge: {_PANEL_FORM}")
    return [dict(judge) for judge in panel]


_PANEL_FORM = 'give a panel file, or a list of dicts with "name", "provider" and "model"'
