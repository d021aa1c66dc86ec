"""`judge FILE`: answers that are there already go before a jury. The run is one of a manifest without models, written
beside the file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from layton_batch.cli.starting import check_manifest, quoted, write_manifest
from layton_batch.cli.terminal import say
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import RowLocation, Rows, read_rows
from layton_batch.grading.forms import DEFAULT_SPLIT
from layton_batch.imports.prediction_files import (
    TEXT,
    AnswerFile,
    ImportedModel,
    blank_rows,
    check_replies,
    has_json_replies,
    item_rows,
    models,
    read_answers,
)
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.item_check import ALSO_CALLED, guess_split, guess_task
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers import provider_names
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks import OWN, load_task, setting_names
from layton_batch.tasks.protocol import Task, TaskOptions

JUDGED = "judge"
"""The setting by which a task that a rule grades is given to a jury."""

_OF_ANSWERS = ("reference", "model", "provider", "family", "sample", *TEXT)
"""Columns that files of answers have, and files of questions with their key do not."""


@dataclass(frozen=True, slots=True)
class JudgeArguments:
    """Arguments of `judge` that say what is judged, and by whom. ``task``: None: by the columns of the items."""

    file: Path
    items: str | None
    """None: the rows of ``file`` carry question and reference themselves."""
    task: str | None
    panel: Path | None
    seats: int | None
    model: str | None
    family: str | None
    provider: str | None
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
    if arguments.panel is not None and not os.path.isfile(arguments.panel.expanduser()):
        raise ManifestError(f"judge: --panel {arguments.panel}: no such file; it holds tables [[judges]]")
    name = str(arguments.file)
    if name == slug(name) and not arguments.file.suffix and not os.path.exists(name):
        raise ManifestError(
            f"judge: {name}: no such file; FILE has a row for each answer. A run's answers are judged by "
            f"`layton-batch run {name}`"
        )
    file = read_answers(arguments.file, settings)
    _check_who_answered(arguments, file)
    carried = item_rows(file) if arguments.items is None else []
    if carried and all(row["answer"] is None for row in carried):
        _say_other_reference(file)
    benchmark = _benchmark(arguments, carried, settings)
    if arguments.items is not None and _is_same(arguments.items, arguments.file, settings):
        raise ManifestError(
            f"judge: {arguments.file} is also what --items names, so that the key would be judged: FILE holds "
            "the answers of models, and --items the questions with their key"
        )
    answers = models(
        file, {item.id for item in benchmark.items}, arguments.model, arguments.family, arguments.provider,
        json_replies=has_json_replies(benchmark.task, benchmark.items),
    )  # fmt: skip
    if unread := check_replies(benchmark.task, benchmark.items, answers, str(arguments.file)):
        say(unread)
    if blank := blank_rows(file, answers, {item.id for item in benchmark.items}):
        say(blank)
    path = arguments.file.with_name(f"{arguments.file.stem}-judged.toml")
    panel = None if arguments.panel is None else str(arguments.panel.expanduser().absolute())
    draft, text = (
        "".join(f"{line}\n" for line in _manifest_lines(arguments, path, benchmark, named))
        for named in (panel, None if panel is None else _from_folder(panel, path))
    )
    return JudgedAnswers(answers, check_manifest(path, draft), path, text, _own_items(arguments.file), carried)


def _is_same(items: str, file: Path, settings: Settings) -> bool:
    return not is_address(items) and (settings.cwd / items).resolve() == (settings.cwd / file).resolve()


def _check_who_answered(arguments: JudgeArguments, file: AnswerFile) -> None:
    """Raise ManifestError where --model names a model to ask, and for questions with their key instead of answers."""
    rows = [row for _, row in file.rows]
    provider, sign, model = (arguments.model or "").partition(":")
    if sign and provider in provider_names() and all(row.get("model") != arguments.model for row in rows):
        raise ManifestError(
            f"judge: --model {arguments.model}: --model names who answered, and no row of {arguments.file} names this "
            f"model; judges: --panel FILE; an answering model: --model {model} --provider {provider}"
        )
    if arguments.items is not None or arguments.model or arguments.family or arguments.provider:
        return
    columns = {name for row in rows for name, value in row.items() if value is not None}
    if columns >= {"question", "answer"} and columns.isdisjoint(_OF_ANSWERS):
        raise ManifestError(
            f"judge: {arguments.file} has questions and answers, but no column 'reference' or 'model'. If the answers "
            f"are the key, `layton-batch run {arguments.file} --model PROVIDER:ID` asks models. If a model gave them, "
            "name it: --model NAME"
        )


def _say_other_reference(file: AnswerFile) -> None:
    """Say of a file without references which of its columns may have them."""
    columns = dict.fromkeys(name for _, row in file.rows for name in row)
    names = [name for name in columns if name.strip().casefold().replace(" ", "_") in ALSO_CALLED["answer"]]
    if names:
        say(
            f"{file.path}: judges see nothing of the column {names[0]!r}; if it says what is right, name it 'reference'"
        )


def _own_items(file: Path) -> Path:
    """Return the file of the items that a file of answers carries itself."""
    return file.with_name(f"{file.stem}-items.jsonl")


def _benchmark(
    arguments: JudgeArguments, carried: Sequence[Mapping[str, JsonValue]], settings: Settings
) -> _JudgedItems:
    """Return the items. ``carried``: those that the rows of answers carry themselves."""
    source, name, split = arguments.items, arguments.task, DEFAULT_SPLIT
    if source is None:
        source = str(_own_items(arguments.file))
        rows = Rows(carried, [RowLocation(source, number) for number in range(1, 1 + len(carried))])
        name = name or OWN
    elif source == BUNDLED:
        name = name or OWN
        rows = read_rows(str(load_task(name, TaskOptions(split)).bundled(split)), settings.cwd, settings)
    else:
        rows = read_rows(source, settings.cwd, settings)
        name = name or _guessed(rows, source)
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


def _guessed(rows: Rows, source: str) -> str:
    try:
        return guess_task(rows)
    except ManifestError as error:
        raise ManifestError(f"{source}: {error}") from error


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
    if panel is not None or arguments.seats is not None:
        yield "[jury]"
    if arguments.seats is not None:
        yield f"seats = {arguments.seats}"
    if panel is not None:
        yield f"panel = {quoted(panel)}"


def _from_folder(source: str, manifest: Path) -> str:
    """Return a source as the manifest names it, from its own folder."""
    if source == BUNDLED or is_address(source):
        return source
    return os.path.relpath(Path(source).expanduser().absolute(), manifest.absolute().parent)
