"""lighteval's own files of evaluate-idk, below a folder ``results``.

``results/<model>/results_<time>.json`` has the totals of a run, and
``details/<model>/<time>/details_<task>_<time>.parquet`` its replies, a row a question, with ``doc`` (query, choices,
gold_index, id) and ``model_response`` (text). The last choice is "I don't know".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import TypeVar

import msgspec

from layton_batch.errors import DataError, ManifestError
from layton_batch.tasks.mcq_idk.metrics import METRICS
from layton_batch.tasks.offline import Estimate, FileRow, ModelFile, as_json

TOTALS, DETAILS = "results_*.json", "details_*.parquet"
"""The names of lighteval's two kinds of file."""
_DAY = len("2025-10-09")
_TIME = re.compile(r"_\d{4}-\d\d-\d\dT[\d.:-]+$")
_Run = TypeVar("_Run")


class _ModelConfig(msgspec.Struct):
    model_name: str = ""


class _GeneralConfig(msgspec.Struct):
    llm: _ModelConfig | None = msgspec.field(name="model_config", default=None)
    model_name: str = ""


class _Totals(msgspec.Struct):
    results: dict[str, dict[str, float | None]]
    config_general: _GeneralConfig = msgspec.field(default_factory=_GeneralConfig)


class _Doc(msgspec.Struct):
    choices: list[str]
    gold_index: list[int] | int
    id: str | int | None = None
    query: str | None = None


class _ModelResponse(msgspec.Struct):
    text: list[str | None] | str | None = None


class _Detail(msgspec.Struct):
    doc: _Doc
    model_response: _ModelResponse


def models_of(path: Path, benchmark: str | None, *, every_run: bool) -> list[ModelFile]:
    """Return the models of a file, or of a folder: those with replies, and after them those with totals alone.

    Of several runs of a model the one with the largest path counts; with ``every_run`` all do, named by their time.
    Raises ManifestError if there are several benchmarks to choose from.
    """
    if path.is_dir():
        return _models_of_folder(path, benchmark, every_run=every_run)
    if totals := _totals(path):
        return [totals[_chosen(set(totals), path, benchmark)]]
    return [ModelFile(_detail_of(path)[0] if path.match(DETAILS) else path.stem, path)]


def _models_of_folder(folder: Path, benchmark: str | None, *, every_run: bool) -> list[ModelFile]:
    details = [(*_detail_of(path), path) for path in sorted(folder.rglob(DETAILS)) if path.is_file()]
    totals = [(name, file) for path in sorted(folder.rglob(TOTALS)) for name, file in _totals(path).items()]
    wanted = _chosen({name for _, name, _ in details} | {name for name, _ in totals}, folder, benchmark)
    replies = [(model, path) for model, name, path in details if name == wanted]
    published = [file for name, file in totals if name == wanted]
    if every_run:
        graded = _by_date((model, path.parent.name, path) for model, path in replies)
        without = _by_date((file.name, file.path.stem.removeprefix("results_"), file) for file in published)
    else:
        graded, without = dict(replies), {file.name: file for file in published}
    rest = [ModelFile(name, file.path, file.published) for name, file in without.items() if name not in graded]
    return [*(ModelFile(name, path) for name, path in graded.items()), *rest]


def _by_date(runs: Iterable[tuple[str, str, _Run]]) -> dict[str, _Run]:
    """Name runs (model, time, run) by model and day; by the time of day too where a day has several."""
    by_name: dict[str, _Run] = {}
    for model, time, run in runs:
        day = f"{model} ({time[:_DAY]})"
        by_name[f"{model} ({time})" if day in by_name else day] = run
    return by_name


def _chosen(names: set[str], where: Path, benchmark: str | None) -> str:
    """Return the only benchmark, or the named one."""
    if benchmark in names or len(names) <= 1:
        return benchmark if benchmark in names else next(iter(names), "")
    listed = ", ".join(sorted(names))
    if benchmark is None:
        raise ManifestError(f"{where}: holds results of {listed}; --benchmark says which")
    raise ManifestError(f"{where}: holds no results of --benchmark {benchmark!r}, but of {listed}")


def _detail_of(path: Path) -> tuple[str, str]:
    """Return model and benchmark of a details file: the folder above its time, and the middle of its name."""
    path = path.absolute()
    return path.parent.parent.name or path.stem, _task_name(_TIME.sub("", path.stem.removeprefix("details_")))


def _task_name(task: str) -> str:
    """Return the middle of a task's name: ``community|gpqa-diamond-idk|0`` is gpqa-diamond-idk."""
    parts = task.split("|")
    return parts[1] if len(parts) > 1 and parts[1] else task


def _totals(path: Path) -> dict[str, ModelFile]:
    """Return a run's published totals by benchmark; empty for a file of another kind. A model's name is what follows
    the last slash; the folder names a model that the document does not name."""
    if path.suffix != ".json":
        return {}
    try:
        totals = msgspec.json.decode(path.read_bytes(), type=_Totals)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
    general = totals.config_general
    model = (general.llm.model_name if general.llm else "") or general.model_name or path.parent.name
    return {
        _task_name(task): ModelFile(
            model.rpartition("/")[2], path, {"metrics": as_json(estimates), "n": None, "rows": []}
        )
        for task, row in totals.results.items()
        if task != "all" and (estimates := _estimates(row))
    }


def _estimates(row: Mapping[str, float | None]) -> dict[str, Estimate]:
    return {name: Estimate(mean, row.get(f"{name}_stderr")) for name in METRICS if (mean := row.get(name)) is not None}


def is_detail(row: FileRow) -> bool:
    """Return whether a row is of a file of details."""
    return isinstance(row.get("doc"), Mapping) and isinstance(row.get("model_response"), Mapping)


def as_predictions(rows: Iterable[FileRow], path: Path) -> Iterator[FileRow]:
    """Yield details as predictions that carry their gold. Raises DataError naming the row in another form."""
    for number, row in enumerate(rows, 1):
        try:
            detail = msgspec.convert(row, _Detail)
        except msgspec.ValidationError as error:
            raise DataError(f"{path}, row {number}: not a row of details ({error})") from error
        doc, n_options = detail.doc, len(detail.doc.choices) - 1
        gold = doc.gold_index if isinstance(doc.gold_index, int) else next(iter(doc.gold_index), -1)
        if not 0 <= gold < min(n_options, len(ascii_uppercase)):
            raise DataError(f"{path}, row {number}: gold_index {gold} is no real option of {n_options}")
        text = detail.model_response.text
        replies = text if isinstance(text, list) else [text]
        if len(replies) > 1:
            raise DataError(f"{path}, row {number}: {len(replies)} replies to one question; only one is graded")
        yield {
            "item_id": doc.id if doc.id not in (None, "") else str(number),
            "gold": ascii_uppercase[gold],
            "n_options": n_options,
            "query": doc.query,
            "response": replies[0] if replies else None,
        }
