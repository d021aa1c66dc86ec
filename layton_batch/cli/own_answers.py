"""`judge FILE`: answers that are there already go before a jury. The run is one of a manifest without models, written
beside the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.cli.starting import quoted, write_manifest
from layton_batch.errors import ManifestError
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import Rows, read_rows
from layton_batch.imports.reading import ImportedModel, models
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.settings import Settings
from layton_batch.tasks import OWN, load_task
from layton_batch.tasks.protocol import TaskOptions

NEEDS_ITEMS = "--items names the questions with their references (CSV, JSONL, Parquet; `bundled` with --task)"


@dataclass(frozen=True, slots=True)
class JudgeArguments:
    """Arguments of `judge` that say what is judged, and by whom. ``task``: None: by the columns of the items."""

    file: Path
    items: str
    task: str | None
    panel: Path | None
    seats: int | None
    model: str | None
    family: str | None
    provider: str | None
    max_usd: str | None


def manifest_and_answers(arguments: JudgeArguments, settings: Settings) -> tuple[Path, Sequence[ImportedModel]]:
    """Write the manifest of the run that judges the file, and return its path with the answers of the file's models.

    Nothing is written where the file or the items are wrong. Raises DataError and ManifestError.
    """
    task, split, item_ids = _items(arguments, settings)
    answers = models(arguments.file, item_ids, settings, arguments.model, arguments.family, arguments.provider)
    path = arguments.file.with_name(f"{arguments.file.stem}-judged.toml")
    text = "".join(f"{line}\n" for line in _manifest_lines(arguments, path, task, split))
    return write_manifest(path, text), answers


def _items(arguments: JudgeArguments, settings: Settings) -> tuple[str, str, frozenset[str]]:
    """Return the task, the split and the ids of the items."""
    source, task = arguments.items, arguments.task
    if source == BUNDLED:
        task, split = task or OWN, "llm"
        source = str(load_task(task, TaskOptions(split)).bundled(split))
        rows = read_rows(source, settings.cwd, settings)
    else:
        rows = read_rows(source, settings.cwd, settings)
        task = task or _guessed(rows, source)
        split = guess_split(rows, task)
    loaded = load_task(task, TaskOptions(split))
    if not loaded.uses_jury:
        raise ManifestError(f"judge: {task} is graded by a rule, no jury sits: `layton-batch grade {task}` grades it")
    return task, split, frozenset(item.id for item in loaded.items(rows))


def _guessed(rows: Rows, source: str) -> str:
    try:
        return guess_task(rows)
    except ManifestError as error:
        raise ManifestError(f"{source}: {error}") from error


def _manifest_lines(arguments: JudgeArguments, path: Path, task: str, split: str) -> Iterator[str]:
    yield f"# Written by `layton-batch judge {arguments.file}`: no [[models]], the answers are those of that file."
    yield f"name = {quoted(slug(path.stem))}"
    yield f"task = {quoted(task)}"
    yield "[items]"
    yield f"source = {quoted(_from_folder(arguments.items, path))}"
    yield f"split = {quoted(split)}"
    if arguments.max_usd is not None:
        yield from ("[budget]", f"max_usd = {quoted(arguments.max_usd)}")
    if arguments.panel is not None or arguments.seats is not None:
        yield "[jury]"
    if arguments.seats is not None:
        yield f"seats = {arguments.seats}"
    if arguments.panel is not None:
        yield f"panel = {quoted(_from_folder(str(arguments.panel), path))}"


def _from_folder(source: str, manifest: Path) -> str:
    """Return a source as the manifest names it, from its own folder."""
    if source == BUNDLED or is_address(source):
        return source
    return os.path.relpath(Path(source).expanduser().absolute(), manifest.absolute().parent)
