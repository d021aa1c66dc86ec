"""Replies made elsewhere: evaluate-idk's files, and its table, ensembles and bar chart of several models.

Predictions have ``item_id``, ``response`` (text; null is an empty reply) and, where no items are given, ``gold`` (a
letter) and ``n_options`` (real options, default 4). Items have ``item_id`` or ``id`` and the same two, or their options
and the right one in any form of this task. Such items name no letter: a letter of a prediction means the order of the
prediction's own ``options``, else its own ``gold``, else the order of the options in the file of items. A prediction
may have ``finish_reason``: the corrected protocol reads no answer out of a refusal, and minds that a reply was cut off.

lighteval's own files stand below a folder ``results``. ``results/<model>/results_<time>.json`` has the totals of a run,
and ``details/<model>/<time>/details_<task>_<time>.parquet`` its replies, a row a question, with ``doc`` (query,
choices, gold_index, id) and ``model_response`` (text). The last choice is "I don't know".

The published vote of an ensemble is on outcomes (right, wrong, neither), which nobody could hold without the gold
letters: two wrong models outvote a right one even if their letters differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf, sqrt
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar

import msgspec
import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.mcq_idk.task import (
    CORRECTED,
    MAX_OPTIONS,
    METRICS,
    MIN_OPTIONS,
    in_order_of,
    item_from,
    item_key,
    option_letters,
)
from layton_batch.tasks.offline import (
    Columns,
    Document,
    Estimate,
    FileRow,
    ModelEstimates,
    ModelFile,
    OfflineForm,
    as_json,
    estimates_in,
)
from layton_batch.text import first_of, plural

if TYPE_CHECKING:
    import altair as alt


TOTALS, DETAILS = "results_*.json", "details_*.parquet"
"""The names of lighteval's two kinds of file."""
_DAY = len("2025-10-09")
_TIME = re.compile(r"_\d{4}-\d\d-\d\dT[\d.:-]+$")


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
    replies = [(name, path.parent.name, ModelFile(model, path)) for model, name, path in details]
    totals = [
        (name, path.stem.removeprefix("results_"), file)
        for path in sorted(folder.rglob(TOTALS)) for name, file in _totals(path).items()
    ]  # fmt: skip
    wanted = _chosen({name for name, *_ in (*replies, *totals)}, folder, benchmark)
    graded, published = (
        _named((time, file) for name, time, file in runs if name == wanted) if every_run
        else {file.name: file for name, _, file in runs if name == wanted}
        for runs in (replies, totals)
    )  # fmt: skip
    return [*graded.values(), *(file for name, file in published.items() if name not in graded)]


def _named(runs: Iterable[tuple[str, ModelFile]]) -> dict[str, ModelFile]:
    """Name runs, of which each has its time, by model and day; by the time of day too where a day has several."""
    by_name: dict[str, ModelFile] = {}
    for time, file in runs:
        day = f"{file.name} ({time[:_DAY]})"
        name = f"{file.name} ({time})" if day in by_name else day
        by_name[name] = replace(file, name=name)
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


DEFAULT_OPTIONS = 4
_OPTION_COLUMNS = frozenset({"options", "choices", "correct answer", "a", "option_a"})


class McqForm(OfflineForm):
    """evaluate-idk's form."""

    options: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("--chart", "--table", "--ensemble", "--benchmark", "--every-run"), ""
    )
    id_columns = ("item_id", "id", "sample_id")
    gold_columns = ("gold", "n_options")
    columns: ClassVar[Columns] = {"letter": pl.String, "in_order_of_items": pl.Boolean}
    shown = ("letter",)
    metrics = ("idk_score", "trad_score")

    # ---- files to frames -------------------------------------------------------------------------------------------

    def models(self, path: Path) -> Sequence[ModelFile]:
        return models_of(path, self.asked.benchmark, every_run=self.asked.every_run)

    def rows(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        rows = iter(super().rows(path, settings))
        first = next(rows)  # there is one, or reading has raised
        rows = chain([first], rows)
        return as_predictions(rows, path) if is_detail(first) else rows

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        protocol = self.protocol or CORRECTED
        for number, row in enumerate(rows, 1):
            if row.get("gold") is None and not _OPTION_COLUMNS.isdisjoint(name.strip().lower() for name in row):
                item = item_from(row, number, split="", seed=None)
            else:
                name = self._id(row, f"item row {number}")
                item = _item(name, row, f"item row {number} (item {name!r})")
            other = items_by_id.setdefault(item.id, item)
            if item_key(other, protocol) != item_key(item, protocol):
                raise DataError(f"item row {number}: item {item.id!r} is there twice, with different gold")
        return list(items_by_id.values())

    def _item(self, row: FileRow, where: str) -> Item:
        if row.get("gold") is None:
            raise DataError(
                f"{where}: nothing says which letter is right: give the items with --items FILE, or the predictions a "
                "column 'gold'"
            )
        return _item(self._id(row, where), row, where)

    def _chosen(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        item = super()._chosen(items, row, where)
        if "order" not in item.payload:
            return item  # the file of items names the letter
        if row.get("options") is not None:
            return in_order_of(row["options"], item, where)
        if row.get("gold") is not None:
            return self._item(row, where)
        if item.payload["order"] is None:
            raise DataError(
                f"{where}: the items' columns 'Correct Answer' and 'Incorrect Answer 1' … have no order, so that no "
                "letter has a meaning: give the predictions a column 'options' (as the model saw them) or 'gold'"
            )
        return item

    def _response(self, row: FileRow, where: str) -> Response:
        is_empty = self.text_column in row and row[self.text_column] is None
        return super()._response({**row, self.text_column: ""} if is_empty else row, where)

    def _record(self, row: FileRow, item: Item, prediction: Prediction, grade: Grade) -> dict[str, object]:
        in_order = "order" in item.payload and row.get("options") is None
        record = super()._record(row, item, prediction, grade)
        return {**record, "letter": prediction.answer, "in_order_of_items": in_order}

    # ---- frames to documents ---------------------------------------------------------------------------------------

    def notes(self, frame: pl.DataFrame) -> Sequence[str]:
        notes = []
        if frame["in_order_of_items"].any():
            notes.append(
                "letters are read in the order of the options in the file of items; if the model saw another order, "
                "give the predictions a column 'options' (as the model saw them) or 'gold' (the right letter)"
            )
        if unread := frame.filter(kind=str(PredictionKind.UNPARSED))["item_id"].to_list():
            replies = plural(len(unread), "reply counts", "replies count")
            notes.append(
                f"{replies} as wrong because no letter can be read ({first_of(unread)}): a reply says its letter as in "
                "`Answer: B`"
            )
        return notes

    def ensemble(self, frames: Sequence[pl.DataFrame]) -> Document:
        votes = ensemble_votes(frames)
        if votes.is_empty():
            raise DataError("they have no item in common")
        return {"metrics": as_json(vote_estimates(votes)), "n": len(votes)}

    def table(self, documents: Mapping[str, Document]) -> str:
        return markdown(_in_order(documents)) + "\n"

    def chart(self, documents: Mapping[str, Document], title: str) -> alt.LayerChart:
        from layton_batch.tasks.mcq_idk.bar_chart import bar_chart  # a second, which tables need not pay

        return bar_chart(_in_order(documents), title, clip_negative=self.protocol != CORRECTED)


def _in_order(documents: Mapping[str, Document]) -> ModelEstimates:
    """Return the estimates of each model by trad_score, highest first, models without a score last."""
    none = Estimate(-inf, None)
    rows = [(name, estimates_in(document)) for name, document in documents.items()]
    return dict(sorted(rows, key=lambda row: -row[1].get("trad_score", none).mean))


# ---- rows ----------------------------------------------------------------------------------------------------------


def _item(name: str, row: FileRow, where: str) -> Item:
    """Make an item of which no more is known than what grading needs."""
    listed, n_options = row.get("options"), row.get("n_options")
    if n_options is None:
        n_options = len(listed) if isinstance(listed, list) else DEFAULT_OPTIONS
    if isinstance(n_options, float) and n_options.is_integer():
        n_options = int(n_options)
    if isinstance(n_options, bool) or not isinstance(n_options, int) or not MIN_OPTIONS <= n_options <= MAX_OPTIONS:
        raise DataError(f"{where}: n_options is {n_options!r}; it must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    gold, letters = row.get("gold"), option_letters(n_options)
    letter = gold.strip().upper() if isinstance(gold, str) else ""
    if len(letter) != 1 or letter not in letters:
        advice = "; a file of items has a column gold, or options and answer" if gold is None else ""
        raise DataError(f"{where}: gold is {str(gold)[:80]!r}; it must be a letter from A to {letters[-1]}{advice}")
    is_whole = isinstance(listed, list) and len(listed) == n_options
    options: JsonValue = listed if is_whole else list(letters)
    return Item(name, "", "", "", payload={"options": options, "gold": letter})


# ---- the table: every blank of the Markdown -----------------------------------------------------------------------


_MARKDOWN = re.compile(r"([\\`*\[\]<>|])")


def markdown(models: ModelEstimates) -> str:
    """Return the table of the models as they come, without a line break at its end."""
    header = ["Model", *(f"{metric} ± se" for metric in METRICS)]
    lines = [[plain_cell(name), *(cell(row.get(metric)) for metric in METRICS)] for name, row in models.items()]
    widths = [max(3, *(len(line[i]) for line in (header, *lines))) for i in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in (header, *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (padded[0], rule, *padded[1:]))


def cell(estimate: Estimate | None) -> str:
    """Percent with two decimals: "64.65 ± 3.41", "64.65" without a standard error, "-" without a value."""
    if estimate is None:
        return "-"
    value = f"{estimate.mean * 100:.2f}"
    return value if estimate.se is None else f"{value} ± {estimate.se * 100:.2f}"


def plain_cell(name: str) -> str:
    """Return a name that can end neither its cell nor its line, and is nothing but text."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return _MARKDOWN.sub(r"\\\1", " ".join(shown.split()))


# ---- several models as one: a vote on every item that all of them replied to ---------------------------------------


def ensemble_votes(frames: Sequence[pl.DataFrame]) -> pl.Series:
    """Return the published vote on each item that all models have: +1 right, -1 wrong, 0 neither or a tie; in order.

    ``frames``: each model's graded rows. An unreadable reply votes 0, not -1.
    """
    vote = pl.col("idk_score") + pl.col("extract_fail")
    votes = pl.concat(frame.select("item_id", vote=vote).unique("item_id", keep="last") for frame in frames)
    right, wrong, neither = ((pl.col("vote") == vote).sum() for vote in (1, -1, 0))
    by_item = votes.group_by("item_id").agg(pl.len(), right=right, wrong=wrong, neither=neither)
    majority = (
        pl.col(name) > pl.max_horizontal(other, "neither") for name, other in (("right", "wrong"), ("wrong", "right"))
    )
    is_right, is_wrong = (column.cast(pl.Int64) for column in majority)
    return by_item.filter(len=len(frames)).select(is_right - is_wrong).to_series().sort()


def vote_estimates(votes: pl.Series) -> dict[str, Estimate]:
    """Return estimates like the published table.

    Abstentions include ties and unreadable replies, and nothing fails to extract. Standard errors come from the
    population's variance (n), unlike a single model's.
    """
    marks = zip(METRICS, (votes == 1, votes, votes == 0, votes * 0), strict=True)
    columns = {metric: column.cast(pl.Float64).to_numpy() for metric, column in marks}
    return {name: Estimate(float(x.mean()), float(x.std() / sqrt(len(x)))) for name, x in columns.items()}
