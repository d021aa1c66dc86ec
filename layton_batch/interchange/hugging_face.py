"""Hugging Face's evaluation results: a YAML file a model, for ``.eval_results/`` of the model's own repository."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from layton_batch.clock import utc
from layton_batch.errors import ManifestError
from layton_batch.files.run_folder import slug
from layton_batch.interchange.run_contents import RunContents, hub_data_set
from layton_batch.text import one_line, percent, range_text


def files(contents: RunContents, dataset: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield ``<model>/.eval_results/<task>.yaml`` of every model with a score, by the run's metric.

    ``dataset``: ``OWNER/NAME`` or ``OWNER/NAME:TASK`` of the benchmark, by default the manifest's. A run with several
    hint levels has a file for each. Raises ManifestError if nothing names a data set.
    """
    run = contents.run
    dataset, _, task_id = (dataset or "").partition(":")
    dataset = dataset or hub_data_set(run)
    if dataset.count("/") != 1 or not all(dataset.split("/")):
        raise ManifestError("export: --to hf needs the benchmark's data set: --dataset OWNER/NAME[:TASK]")
    task_id = task_id or f"{run.task.name}_{run.manifest.items.split}"
    rows = next(iter(contents.boards.values())).to_dicts()
    several = len({row["n_hints"] for row in rows}) > 1
    for row in rows:
        if row["score"] is not None:
            task = f"{task_id}_{row['n_hints']}_hints" if several else task_id
            date = utc(run.born).date().isoformat()
            # every text is a JSON string, which YAML reads as it is
            yield (
                f"{slug(row['model'])}/.eval_results/{slug(task)}.yaml",
                (
                    f"- dataset:\n    id: {_text(dataset)}\n    task_id: {_text(task)}\n  value: {row['score']:g}\n"
                    f"  date: {_text(date)}\n  notes: {_text(_notes(row))}\n"
                ).encode(),
            )


def _notes(row: Mapping[str, Any]) -> str:
    notes = [row["metric"].replace("_", " "), f"{row['n_items']} items", row["method"]]
    if row["lower"] is not None and row["upper"] is not None:
        notes.append(f"{percent(row['level'])} interval {range_text(row['lower'], row['upper'])} for {row['target']}")
    return ", ".join(notes)


def _text(text: str) -> str:
    return json.dumps(one_line(text), ensure_ascii=False)
