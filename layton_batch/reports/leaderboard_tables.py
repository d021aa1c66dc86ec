"""A leaderboard on every surface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from layton_batch.files.leaderboard_columns import COUNTS, LEADERBOARD, STORED
from layton_batch.records import JsonValue
from layton_batch.reports.document import Document
from layton_batch.reports.table import as_csv, as_html, as_json, as_markdown, print_table, say_line, show
from layton_batch.scoring.leaderboard import (
    ASSUMES,
    BORROWED_ONLY,
    FLAGS,
    METHOD_WORDS,
    NEW_ITEMS,
    NO_OWN,
    OTHER_HINTS,
    RULE,
    THIS_SET,
    alike,
    complete,
    flags_of,
    interval_text,
    ranks_text,
    stored,
    verdicts_text,
)
from layton_batch.scoring.uncalibrated import AIM_POINTS, UNCALIBRATED, need
from layton_batch.text import NONE, Column, Table, columns, number_text, one_line, percent, text_table

if TYPE_CHECKING:
    import altair as alt

_KINDS_WIDTH, _KIND_LENGTH = 54, 24  # columns of the table of failures; of one heading
_TEXTS = ("model", "marked model", "provider", "alike")


@dataclass(frozen=True, slots=True)
class Leaderboard(Document):
    """A leaderboard: a row a model, the best first, scores and intervals in percent."""

    FORMATS: ClassVar = ("table", "json", "csv", "md", "html")
    board: pl.DataFrame

    @property
    def frame(self) -> pl.DataFrame:
        """Return the columns of the run's table. Columns ``new_*`` and ``set_*`` hold both targets."""
        return stored(self.board)

    def show(self) -> None:
        print_board(self.board)

    def as_json(self) -> object:
        rows = [row | {"failures": _failures(row)} for row in self.board.iter_rows(named=True)]
        names = [name for name in LEADERBOARD if name in STORED or name == "failures"]
        return as_json(
            Table(columns(*map(_json_name, names)), tuple(tuple(row[name] for name in names) for row in rows))
        )

    def text(self, form: str) -> str:
        write = {"csv": board_csv, "md": board_markdown, "html": board_html}[form]
        return f"{write(self.board).rstrip()}\n"

    def plot(self) -> alt.LayerChart:
        """Return an Altair chart of each model's score and interval, the best on top."""
        from layton_batch.reports.charts import board_chart  # altair takes long to load

        return board_chart(self.board)

    def _repr_html_(self) -> str:
        return board_html(self.board)


Row = Mapping[str, Any]
"""A row of the leaderboard."""


def print_board(board: pl.DataFrame) -> None:
    """At most as wide as the terminal, long names on two lines."""
    rows = complete(board).to_dicts()
    if not rows:
        say_line("no model is done yet: there is no leaderboard. `layton-batch run` continues the run")
        return
    paper = rows[0]["method"] == "paper"
    names = _paper_names(rows) if paper else _names(rows)
    table = _table(board.to_dicts(), names)
    notes = _legend(rows)
    show(Table(table.columns, table.rows, _title(rows), notes))
    if not paper:
        _print_failures(rows)
    for line in board_notes(complete(board), counts=paper):
        say_line(line, "yellow")


def _print_failures(rows: Sequence[Row]) -> None:
    """Print the counts of each kind of failure by model in the board's order.

    The rarest kinds share one column if not all fit. Models without failures are left out.
    """
    shown, rest = _kinds(rows)
    if not shown:
        return
    title = "not right, by kind" if rows[0]["method"] == RULE else "never judged, by kind"
    hints = len({row["n_hints"] for row in rows}) > 1
    header = ["model", *(["hints"] if hints else []), *map(_heading, shown), *(["other"] if rest else [])]
    lines = []
    for row in (row for row in rows if row["failures"]):
        times = _failures(row)
        counts = [times.get(kind, 0) for kind in shown]
        counts += [sum(times.get(kind, 0) for kind in rest)] if rest else []
        lines.append([row["model"], *([str(row["n_hints"])] if hints else []), *map(str, counts)])
    print_table(text_table(title, header, lines))


def _failures(row: Row) -> dict[str, int]:
    return {failure["kind"]: failure["count"] for failure in row["failures"] or ()}


def _kinds(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Split the kinds into those with a column, in their order, and the rest. Plug-in tasks may have many kinds."""
    times: Counter[str] = Counter()
    for row in rows:
        times.update(_failures(row))
    shown = list(times)
    rest: list[str] = []
    while sum(max(map(len, _heading(kind).split("\n"))) + 1 for kind in shown) > _KINDS_WIDTH:
        rest.append(shown.pop(shown.index(min(shown, key=times.__getitem__))))
    return shown, rest


def _heading(kind: str) -> str:
    return one_line(kind)[:_KIND_LENGTH].replace("_", "\n", 1) or NONE


def board_notes(board: pl.DataFrame, *, counts: bool = True) -> list[str]:
    """Return notes about rows, in words; models with the same note share a line.

    ``counts``: also the number of replies of each kind, for boards without a table of failures.
    """
    rows = board.to_dicts()
    models_by_note: dict[str, list[str]] = {}
    for row in rows:
        counted = [f"{row[name]} {words}" for words, name in COUNTS.items() if counts and row[name]]
        sentences = [", ".join(counted) + "."] if counted else []
        if row["n_items"] and row["n_missing"] == row["n_items"]:
            sentences.append(_NO_ANSWER)
        sentences += [FLAGS.get(flag, one_line(flag)) for flag in flags_of(row["flags"])]
        if sentences:
            models_by_note.setdefault(" ".join(sentences), []).append(one_line(row["model"]))
    first = [need([row["labels_needed"] for row in rows])] if rows and rows[0]["method"] == UNCALIBRATED else []
    return first + [f"{_whom(models, len(rows))}: {words}" for words, models in models_by_note.items()]


_NO_ANSWER = (
    "no item has an answer, and each counts as wrong: the score says nothing about the model. "
    "`layton-batch status RUN` shows why."
)


def _whom(models: Sequence[str], all_: int) -> str:
    return "all models" if len(models) == all_ > 1 else ", ".join(models)


# ---- columns -------------------------------------------------------------------------------------------------------


def _title(rows: Sequence[Row]) -> str:
    items = {row["n_items"] for row in rows}
    count = f"{items.pop()} items" if len(items) == 1 else f"{min(items)} to {max(items)} items"
    how = METHOD_WORDS.get(rows[0]["method"], rows[0]["method"])
    return f"Leaderboard · {rows[0]['metric'].replace('_', ' ')} · {how} · {count} · {_WHERE[rows[0]['target']]}"


_WHERE = {NEW_ITEMS: "for new items of this kind", THIS_SET: "for exactly this set"}
_ALIKE = "alike: models that share a letter cannot be told apart by their rank ranges"


def _legend(rows: Sequence[Row]) -> tuple[str, ...]:
    """Explain the column headings."""
    row = rows[0]
    if row["method"] == "paper":
        interval = "interval: the published bootstrap's, which has none for new items"
        return (f"{interval} · range: ranks that overlapping intervals leave open", _ALIKE)
    level = percent(row["level"])
    if row["method"] == RULE and row["target"] == THIS_SET:
        return ("a rule graded every answer: on this set scores and ranks are exact", _ALIKE)
    where = _ON[row["target"]]
    ranks = f"rank range: holds the ranks of all models at once with at least {level} probability"
    if row["method"] == RULE:
        return (f"score: exact on these items · {level} CI: holds the score {where}", ranks, _ALIKE)
    other = " · --this-set: these" if row["target"] == NEW_ITEMS else ""
    score = f"{level} CI: holds the score {where}, each singly{other}"
    if row["method"] == UNCALIBRATED:
        share = "jury's vote: share of yes, corrected by nothing"
        return (f"{score}, if judges are as good as assumed", ranks, _ALIKE, share)
    hints = " and other hints" if any(OTHER_HINTS in flags_of(other_row["flags"]) for other_row in rows) else ""
    labels = f"human labels: on the model's own answers · borrowed from other models{hints}"
    if any(map(_has_none_of_its_own, rows)):
        labels += f" · {NO_OWN}: none of its own"
    return (score, ranks, _ALIKE, labels, ASSUMES)


_ON = {NEW_ITEMS: "on new items of this kind", THIS_SET: "on exactly these items"}


def _has_none_of_its_own(row: Row) -> bool:
    return BORROWED_ONLY in flags_of(row["flags"])


def _names(rows: Sequence[Row]) -> list[str]:
    """Columns that say nothing in any row are left out; counts stand in the notes."""
    hints = ["hints"] if len({row["n_hints"] for row in rows}) > 1 else []
    items = ["items"] if len({row["n_items"] for row in rows}) > 1 else []
    score = ["score", "interval", *_rounds(rows), "range", "alike"]
    return ["rank", "marked model", *hints, *score, *_of_labels(rows), *_verdicts(rows), *items]


def _of_labels(rows: Sequence[Row]) -> list[str]:
    """Return the columns about labels: of a board without any, what the jury says and how many labels it takes."""
    return {RULE: [], UNCALIBRATED: ["share", "needed"]}.get(rows[0]["method"], ["labels"])


def _paper_names(rows: Sequence[Row]) -> list[str]:
    """Columns that say nothing in any row are left out."""
    optional = [words for words, name in COUNTS.items() if any(row[name] for row in rows)]
    hints = ["hints"] if len({row["n_hints"] for row in rows}) > 1 else []
    return [
        "rank",
        "range",
        "alike",
        "model",
        *hints,
        "score",
        "half width",
        *_rounds(rows),
        *_verdicts(rows),
        "items",
        *optional,
    ]


def _rounds(rows: Sequence[Row]) -> list[str]:
    """Only where a model was asked several times."""
    return ["rounds"] if any(row["rounds"] for row in rows) else []


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Only where some are missing."""
    return ["verdicts"] if any(row["n_verdicts_missing"] for row in rows) else []


def _table(rows: Sequence[Row], names: Sequence[str], *, says_target: bool = False) -> Table:
    """The columns of these names, in words for people; ``says_target``: the headings say what the rows are for, where
    no legend does."""
    method = rows[0]["method"] if rows else ""
    level = percent(rows[0]["level"]) if rows else ""
    target = rows[0]["target"] if rows else NEW_ITEMS
    on = f" ({target})" if says_target else ""
    heads = {
        "marked model": "model",
        "range": "range" if not rows or method == "paper" else f"rank\nrange{on}",
        "interval": f"{level} CI{on}",
        "half width": "interval",
        "rounds": "rounds\n± sd",
        "labels": "human labels\nown · borrowed",
        "share": "jury's\nvote",
        "needed": f"labels\nfor ± {AIM_POINTS}",
    }
    letters = alike([(row["rank_best"], row["rank_worst"]) for row in rows])
    styles = {"range": "dim", "alike": "dim"}
    shown = tuple(Column(heads.get(name, name), name in _TEXTS, styles.get(name, "")) for name in names)
    cells = (
        tuple(letter if name == "alike" else _cell(row, name) for name in names)
        for row, letter in zip(rows, letters, strict=True)
    )
    return Table(shown, tuple(cells))


def _cell(row: Row, name: str) -> JsonValue:
    if row["progress"] is not None:
        return row["progress"] if name == "score" else row.get(name.removeprefix("marked "), "") or ""
    if name in _CELLS:
        return _CELLS[name](row)
    value: JsonValue = row[name if name in row else f"n_{name}"]
    return value


def _rounds_text(row: Row) -> str:
    return NONE if row["rounds"] is None or row["round_sd"] is None else f"{row['rounds']} ± {row['round_sd']:.1f}"


def _half_width(row: Row) -> str:
    return NONE if row["score"] is None or row["half_width"] is None else f"±{row['half_width']:.1f}"


_CELLS: Mapping[str, Callable[[Row], JsonValue]] = {
    "range": ranks_text,
    "marked model": lambda row: f"{row['model']} {NO_OWN}" if _has_none_of_its_own(row) else row["model"],
    "score": lambda row: number_text(row["score"]),
    "interval": interval_text,
    "half width": _half_width,
    "labels": lambda row: f"{row['own_labels']} · {row['borrowed_labels']}",
    "rounds": _rounds_text,
    "verdicts": verdicts_text,
    "share": lambda row: number_text(row["jury_vote"]),
    "needed": lambda row: row["labels_needed"],
}
"""Cells under a heading of the table; the others are counts."""


# ---- files ---------------------------------------------------------------------------------------------------------


def board_csv(board: pl.DataFrame) -> str:
    """A header and a row per model under the names of the run's table."""
    table = stored(board)
    return as_csv(Table(columns(*table.columns), tuple(table.iter_rows())))


def _json_name(name: str) -> str:
    return LEADERBOARD[name].json_name or name


def board_html(board: pl.DataFrame) -> str:
    """The board as a terminal shows it, for a notebook."""
    rows = complete(board).to_dicts()
    if not rows:
        return as_html(Table((), (), notes=("no model is done yet: there is no leaderboard",)))
    paper = rows[0]["method"] == "paper"
    names = _paper_names(rows) if paper else _names(rows)
    table = _table(board.to_dicts(), names)
    notes = (*_legend(rows), *board_notes(complete(board)))
    return as_html(Table(table.columns, table.rows, _title(rows), notes))


def board_markdown(board: pl.DataFrame) -> str:
    """A GitHub-style table; names cannot break out of their cell."""
    rows, shown = complete(board).to_dicts(), board.to_dicts()
    paper = bool(rows) and rows[0]["method"] == "paper"
    names = ["rank", "range", "alike", "model", "provider", "score"]
    labels = _of_labels(rows) if rows and rows[0]["method"] == UNCALIBRATED else ["labels"]
    corrected = ["rank", "model", "provider", "score", "interval", "range", "alike", *labels]
    names = [*names, "half width"] if paper else corrected
    names += [*_rounds(rows), *_verdicts(rows)]
    return as_markdown(_table(shown, [*names, "items", "unparsed", "missing"], says_target=True))
