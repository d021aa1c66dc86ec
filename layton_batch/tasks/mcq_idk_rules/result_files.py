"""evaluate-idk's own files, as lighteval writes them below its ``results`` folder.

``results/<model>/results_<time>.json`` has the totals of a run, and
``details/<model>/<time>/details_<task>_<time>.parquet`` its replies: a row a question, with ``doc`` (query, choices,
gold_index, id) and ``model_response`` (text).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import TypeVar

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS
from layton_batch.tasks.offline import Estimate, FileRow

TOTALS, DETAILS = "results_*.json", "details_*.parquet"
"""The names of the two kinds of file."""

_DATE = len("2025-10-09")
_Run = TypeVar("_Run")
_TIME = re.compile(r"_\d{4}-\d\d-\d\dT[\d.:-]+$")


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One run's result as it lies in a file; ``model`` is the full name, such as ``openrouter/openai/gpt-5``."""

    path: str
    model: str
    estimates: Mapping[str, Estimate]


def latest(results: Iterable[ResultFile]) -> dict[str, ResultFile]:
    """Return the latest result of each model: the run with the largest path. A name is what follows the last slash."""
    in_order = sorted(results, key=lambda result: result.path)
    return {result.model.rpartition("/")[2]: result for result in in_order}


def is_detail(row: FileRow) -> bool:
    """Return whether a row comes from a details file."""
    return isinstance(row.get("doc"), Mapping) and isinstance(row.get("model_response"), Mapping)


def detail_rows(rows: Iterable[FileRow], where: str) -> Iterator[FileRow]:
    """Details as predictions that carry their gold. Raises DataError naming the row that is in another form."""
    for number, row in enumerate(rows, 1):
        doc, reply = row.get("doc"), row.get("model_response")
        if not isinstance(doc, Mapping) or not isinstance(reply, Mapping):
            raise DataError(f"{where}, row {number}: no columns 'doc' and 'model_response'; is this a details file?")
        choices, gold = doc.get("choices"), doc.get("gold_index")
        first = gold[0] if isinstance(gold, list) and gold else gold
        if not isinstance(choices, list) or isinstance(first, bool) or not isinstance(first, int):
            raise DataError(f"{where}, row {number}: doc has no choices, or no gold_index")
        if not 0 <= first < min(len(choices) - 1, len(ascii_uppercase)):
            raise DataError(f"{where}, row {number}: gold_index {first} is no real option of {len(choices) - 1}")
        name = doc.get("id")
        yield {
            "item_id": name if name not in (None, "") else str(number),
            "gold": ascii_uppercase[first],
            "n_options": len(choices) - 1,  # the last choice is "I don't know"
            "query": doc.get("query"),
            "response": reply.get("text"),
        }


def results_in(
    folder: Path, benchmark: str | None, *, every_run: bool = False
) -> tuple[dict[str, Path], dict[str, ResultFile]]:
    """The replies of a folder by model, and the totals of the models without replies.

    Of several runs of a model the one with the largest path counts; with ``every_run`` all do, named by their time.
    Raises ManifestError where there are several benchmarks to choose from.
    """
    details = [path for path in sorted(folder.rglob(DETAILS)) if path.is_file()]
    replies = [(*detail_of(path.absolute()), path) for path in details]
    totals = [(name, result) for path in sorted(folder.rglob(TOTALS)) for name, result in totals_in(path).items()]
    wanted = chosen({name for _, name, _ in replies} | {name for name, _ in totals}, str(folder), benchmark)
    if every_run:
        graded = _by_date((model, path.parent.name, path) for model, name, path in replies if name == wanted)
        dated = _by_date(
            (result.model.rpartition("/")[2], Path(result.path).stem.removeprefix("results_"), result)
            for name, result in totals
            if name == wanted
        )
        return graded, {name: result for name, result in dated.items() if name not in graded}
    graded = {model: path for model, name, path in replies if name == wanted}
    published = latest(result for name, result in totals if name == wanted)
    return graded, {name: result for name, result in published.items() if name not in graded}


def _by_date(runs: Iterable[tuple[str, str, _Run]]) -> dict[str, _Run]:
    """Name runs (model, time, run) by model and day; by the time of day too where a day has several."""
    by_name: dict[str, _Run] = {}
    for model, time, run in runs:
        day = f"{model} ({time[:_DATE]})"
        by_name[f"{model} ({time})" if day in by_name else day] = run
    return by_name


def chosen(names: set[str], where: str, benchmark: str | None) -> str:
    """The one that is there, or asked for. Raises ManifestError where there are several to choose from."""
    if benchmark in names or len(names) <= 1:
        return benchmark if benchmark in names else next(iter(names), "")
    listed = ", ".join(sorted(names))
    if benchmark is None:
        raise ManifestError(f"{where}: holds results of {listed}; --benchmark says which")
    raise ManifestError(f"{where}: holds no results of --benchmark {benchmark!r}, but of {listed}")


def totals_in(path: Path) -> dict[str, ResultFile]:
    """A run's published totals by benchmark; empty for a file of another kind."""
    if path.suffix != ".json":
        return {}
    try:
        with path.open("rb") as handle:
            if not handle.read(64).lstrip().startswith(b"{"):
                return {}
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return totals_of(value, str(path), path.parent.name)


def totals_of(value: JsonValue, path: str, folder: str) -> dict[str, ResultFile]:
    """Read totals from a document, if it has any. ``folder`` names a model that the document does not name."""
    results = value.get("results") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(results, Mapping):
        return {}
    general = value.get("config_general")
    config = general.get("model_config") if isinstance(general, Mapping) else None
    names = (part.get("model_name") for part in (config, general) if isinstance(part, Mapping))
    model = next((name for name in names if isinstance(name, str) and name), folder)
    return {
        benchmark_of(task): ResultFile(path, model, estimates)
        for task, row in results.items()
        if task != "all" and isinstance(row, Mapping) and (estimates := _estimates(row))
    }


def benchmark_of(task: str) -> str:
    """``community|gpqa-diamond-idk|0`` is gpqa-diamond-idk."""
    parts = task.split("|")
    return parts[1] if len(parts) > 1 and parts[1] else task


def detail_of(path: Path) -> tuple[str, str]:
    """Model and benchmark of a details file: the folder above its time, and the middle of its name."""
    task = _TIME.sub("", path.stem.removeprefix("details_"))
    return path.parent.parent.name or path.stem, benchmark_of(task)


def _estimates(row: FileRow) -> dict[str, Estimate]:
    estimates = {}
    for name in METRICS:
        mean, error = row.get(name), row.get(f"{name}_stderr")
        if _is_number(mean):
            estimates[name] = Estimate(float(str(mean)), float(str(error)) if _is_number(error) else None)
    return estimates


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6
