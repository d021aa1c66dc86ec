"""The task and the items that a manifest asks for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import cast

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.addresses import is_address, shown
from layton_batch.files.items import item_list
from layton_batch.files.sources import SourceRows, user_path
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks import load_task, validate_items
from layton_batch.tasks.protocol import Task, TaskOptions
from layton_batch.tasks.templates import PROMPTS
from layton_batch.text import one_line, shortened

BUNDLED = "bundled"
"""The source that means the original items shipped with the package."""
JUDGE_PROMPTS = "judge_"
"""Names of the templates that a jury sees begin so."""


def manifest_task(manifest: Manifest, prompts_folder: Path | None = None, hints: int | None = None) -> Task:
    """Load the task of a manifest. With a folder, write the manifest's prompt texts there and use them.
    ``hints``: the hint level; None: the manifest's lowest."""
    prompts = manifest.prompt_paths(prompts_folder)
    level = manifest.items.levels[0] if hints is None else hints
    options = TaskOptions(manifest.items.split, level, prompts or None, manifest.folder, manifest.has_reasons)
    return load_task(manifest.task, options, cast("Mapping[str, JsonValue]", manifest.task_options))


def judge_prompts_sha256(
    task: str, own: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> str | None:
    """Return the SHA-256, in hex, of a jury's templates and the task's options.

    ``own``: the manifest's templates, which replace those of the package. None: the package has no such templates.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (PROMPTS / task).glob(f"{JUDGE_PROMPTS}*.txt")}
    if not texts:
        return None
    texts |= {name: text for name, text in (own or {}).items() if name.startswith(JUDGE_PROMPTS)}
    content = {"templates": texts, "options": dict(options or {})}
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def load_items(manifest: Manifest, task: Task, settings: Settings, clock: Clock | None = None) -> Sequence[Item]:
    """Load the items of a manifest. Raises DataError: unreadable, empty, an id twice, a row that is no item."""
    table = manifest.items
    source = str(task.bundled(table.split)) if table.source == BUNDLED else table.source
    rows = SourceRows(source, manifest.folder, settings, clock)
    try:
        items = item_list(task.items(rows))
        _check_split(items, table.split, rows)
        validate_items(items)
    except DataError as error:
        if error is rows.error:
            raise DataError(f"run {manifest.name}: [items] source: {error}") from error
        several = rows.location is not None and Path(source).name != Path(rows.location.file).name
        place = f"; the row is {rows.location}" if several and not is_address(source) else ""
        reason = str(error)
        if rows.location is not None:  # of the row that the task did not take, which it counts without the header
            reason = re.sub(r"^row \d+", f"line {rows.location.line}", reason)
        raise DataError(f"{shown(source)}: {reason}{place}") from error
    return items[: table.limit]


def _check_split(items: Sequence[Item], split: str, rows: Iterable[Mapping[str, JsonValue]]) -> None:
    """Raise DataError where there is no item: it names the splits that the rows have, each with its number of rows."""
    if items:
        return
    counts = Counter(one_line(str(row["split"])) for row in rows if row.get("split") is not None)
    listed = ", ".join(f"{shortened(name, 40)} ({count})" for name, count in counts.most_common(5))
    rest = f"; its rows have: {listed}{', …' if len(counts) > 5 else ''}" if counts else ""
    raise DataError(f"no items of the split {split!r} that [items] names{rest}")


def is_missing(source: str, manifest: Manifest, settings: Settings) -> bool:
    """Return whether a source is a file that does not exist or is empty."""
    if is_address(source) or source == BUNDLED or "*" in source:
        return False
    paths = [folder / user_path(source) for folder in (manifest.folder, settings.cwd)]
    return not any(path.exists() and (path.is_dir() or path.stat().st_size) for path in paths)
