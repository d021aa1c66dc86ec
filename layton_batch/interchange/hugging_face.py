"""Hugging Face's evaluation results: a YAML file a model, for ``.eval_results/`` of the model's own repository."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from layton_batch.clock import utc
from layton_batch.errors import ManifestError
from layton_batch.files.run_folder import slug
from layton_batch.interchange.run_contents import RunContents
from layton_batch.text import one_line, percent, range_text


@dataclass(frozen=True, slots=True)
class HubBenchmark:
    """The data set whose leaderboard the results are for, the id of its task, and where the evaluation can be seen."""

    dataset: str
    task_id: str


def benchmark_of(contents: RunContents, dataset: str | None) -> HubBenchmark:
    """Return the requested benchmark, ``OWNER/NAME`` or ``OWNER/NAME:TASK``, else the manifest's.

    Raises ManifestError if neither names a data set.
    """
    dataset, _, task_id = (dataset or "").partition(":")
    source = contents.run.manifest.items.source
    if not dataset and source.startswith("hf://datasets/"):
        dataset = "/".join(source.removeprefix("hf://datasets/").split("/")[:2])
    if dataset.count("/") != 1 or not all(dataset.split("/")):
        raise ManifestError("export: --to hf needs the benchmark's data set: --dataset OWNER/NAME[:TASK]")
    return HubBenchmark(dataset, task_id or f"{contents.run.task.name}_{contents.run.manifest.items.split}")


def files(contents: RunContents, benchmark: HubBenchmark) -> Iterator[tuple[str, bytes]]:
    """Yield ``<model>/.eval_results/<task>.yaml`` of every model with a score, by the run's metric.

    A run with several hint levels has a file for each.
    """
    rows = contents.boards[contents.metrics[0]].to_dicts()
    several = len({row["n_hints"] for row in rows}) > 1
    for row in rows:
        if row["score"] is not None:
            task = f"{benchmark.task_id}_{row['n_hints']}_hints" if several else benchmark.task_id
            path = f"{slug(row['model'])}/.eval_results/{slug(task)}.yaml"
            about = replace(benchmark, task_id=task)
            yield path, _yaml(row, about, utc(contents.run.born).date().isoformat()).encode()


def _yaml(row: Mapping[str, Any], benchmark: HubBenchmark, date: str) -> str:
    """Every text is a JSON string, which YAML reads as it is."""
    lines = [
        "- dataset:",
        f"    id: {_text(benchmark.dataset)}",
        f"    task_id: {_text(benchmark.task_id)}",
        f"  value: {row['score']:g}",
        f"  date: {_text(date)}",
    ]
    return "\n".join([*lines, f"  notes: {_text(_notes(row))}"]) + "\n"


def _notes(row: Mapping[str, Any]) -> str:
    notes = [row["metric"].replace("_", " "), f"{row['n_items']} items", row["method"]]
    if row["lower"] is not None and row["upper"] is not None:
        notes.append(f"{percent(row['level'])} interval {range_text(row['lower'], row['upper'])} for {row['target']}")
    return ", ".join(notes)


def _text(text: str) -> str:
    return json.dumps(one_line(text), ensure_ascii=False)
