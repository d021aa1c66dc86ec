"""A run's own tables as items and predictions, so that its replies can be graded again, also by another protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from layton_batch.errors import DataError, ManifestError
from layton_batch.files import item_table, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.grading.one_file import Row
from layton_batch.grading.submissions import Submission
from layton_batch.records import Item, JsonValue
from layton_batch.run.open import stored_manifest
from layton_batch.states import PredictionKind

if TYPE_CHECKING:
    import polars as pl

_TEXTS = {"mcq_idk": "response", "zebralogic": "output", "rome": "answer"}
_IDS = {"mcq_idk": "item_id", "zebralogic": "id", "rome": "question_id"}
"""A prediction's columns by task; a third party's has the first ones."""


def run_submissions(folder: RunFolder, task: str) -> Iterator[Submission]:
    """Every model whose replies are in.

    Raises ManifestError for a run of another task, DataError where no model's are.
    """
    manifest = stored_manifest(folder)
    if manifest.task != task:
        raise ManifestError(f"run {folder.root.name} is one of {manifest.task}, not of {task}")
    said = _said(folder)
    if said.is_empty():
        raise DataError(f"run {folder.root.name} has no predictions yet: `layton-batch run` goes on with it")
    items = cache(partial(item_table.read, folder))

    def gold() -> list[Row]:
        return [_item(one, task) for one in items()]

    for (model, provider), part in said.group_by(["model", "provider"], maintain_order=True):
        yield Submission(
            name=str(model),
            where=folder.root.name,
            rows=partial(_rows, part, items, task),
            items=gold,
            provider=str(provider),
            made=items,
            split=manifest.items.split,
            settings=cast("Mapping[str, JsonValue]", manifest.task_options),
        )


def _said(folder: RunFolder) -> pl.DataFrame:
    """The predictions of every model, with the tokens each took where they are known."""
    said = tables.read(folder.tables, "predictions")
    usage = tables.read(folder.tables, "usage")
    tokens = usage.select("custom_id", "batch_id", "attempt", usage_tokens="output_tokens").unique(
        ["custom_id", "batch_id", "attempt"], keep="last"
    )
    return said.join(tokens, on=["custom_id", "batch_id", "attempt"], how="left", maintain_order="left")


def _rows(said: pl.DataFrame, items: Callable[[], Sequence[Item]], task: str) -> list[Row]:
    asked = {item.id: item.question for item in items()}
    text, name = _TEXTS.get(task, "response"), _IDS.get(task, "item_id")
    rows: list[Row] = []
    for row in said.iter_rows(named=True):
        is_missing = row["kind"] == PredictionKind.MISSING
        raw = None if is_missing else row["raw_text"] or ""
        rows.append(
            {
                name: row["item_id"],
                text: "" if raw is None and task == "rome" else raw,
                "finish_reason": row["finish_reason"],
                "output_tokens": row["usage_tokens"],
                "is_missing": is_missing,
                "asked": asked.get(row["item_id"]),
            }
        )
    return rows


def _item(item: Item, task: str) -> Row:
    if task == "mcq_idk":
        return {"item_id": item.id, "gold": item.payload.get("gold"), "options": item.payload.get("options")}
    if task == "zebralogic":
        return {"id": item.id, "size": item.payload.get("size"), "solution": item.payload.get("solution")}
    if task != "rome":
        return {}  # a third party's task takes the items as they are
    evaluator = {name: item.payload.get(name) for name in ("evaluator", "evaluator_kwargs")}
    return {"question_id": item.id, "question": item.question, "task": item.category, **evaluator}
