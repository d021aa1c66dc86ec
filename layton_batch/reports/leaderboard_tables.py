"""A leaderboard on every surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from layton_batch.columns import Table, text_table
from layton_batch.reports.table import Document, as_csv, as_html, as_markdown, print_table, say_line, show
from layton_batch.scoring.board_columns import (
    WHERE,
    Row,
    board_columns,
    board_rows,
    failure_table,
    failures_of,
    has_no_own_labels,
    meanings,
)
from layton_batch.scoring.leaderboard import (
    FLAGS,
    METHOD_WORDS,
    NO_OWN,
    PAPER,
    RULE,
    UNCALIBRATED,
    complete,
    flags_of,
    need,
    stored,
)
from layton_batch.text import one_line

if TYPE_CHECKING:
    import altair as alt


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
        """Print the board at most as wide as the terminal, long names on two lines."""
        rows = complete(self.board).to_dicts()
        if not rows:
            say_line(f"{_NOTHING}. `layton-batch run` continues the run")
            return
        is_paper = rows[0]["method"] == PAPER
        show(self.table(_title(rows), _legend(rows)))
        if not is_paper:
            _print_failures(rows)
        for line in board_notes(complete(self.board)):
            say_line(line, "yellow")

    def table(self, title: str = "", notes: Sequence[str] = ()) -> Table[Row]:
        """Return the board as a table, also with the models that are not complete."""
        return Table(board_columns(self.board), board_rows(self.board), title, notes)

    def as_json(self) -> object:
        return self.table().records()

    def text(self, form: str) -> str:
        """Return the board as CSV, Markdown or HTML; in none of them a name can act, or break out of its cell."""
        if form == "csv":
            return as_csv(self.table())
        if form == "html":
            return f"{self._repr_html_()}\n"
        if complete(self.board).is_empty():
            return f"{_NOTHING}\n"
        return as_markdown(Table(board_columns(self.board, says_target=True), board_rows(self.board)))

    def plot(self) -> alt.LayerChart:
        """Return an Altair chart of each model's score and interval, the best on top."""
        from layton_batch.reports.board_chart import board_chart  # altair takes long to load

        return board_chart(self.board)

    def _repr_html_(self) -> str:
        rows = complete(self.board).to_dicts()
        if not rows:
            return as_html(text_table(_NOTHING, (), ()))
        return as_html(self.table(_title(rows), (*_legend(rows), *board_notes(complete(self.board)))))


_NOTHING = "no model is done yet: there is no leaderboard"


def _print_failures(rows: Sequence[Row]) -> None:
    """Print the counts of each kind of failure by model in the board's order."""
    title = "not right, by kind" if rows[0]["method"] == RULE else "never judged, by kind"
    hints = len({row["n_hints"] for row in rows}) > 1
    failures = [(row["model"] + f"@{row['n_hints']}" * hints, failures_of(row)) for row in rows]
    if any(counts for _, counts in failures):
        print_table(failure_table(failures, title))


def board_notes(board: pl.DataFrame) -> list[str]:
    """Return notes about rows, in words; models with the same note share a line."""
    rows = board.to_dicts()
    models_by_note: dict[str, list[str]] = {}
    for row in rows:
        has_none = row["n_items"] and row["n_missing"] == row["n_items"]
        sentences = [_NO_ANSWER] if has_none else []
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


# ---- words ---------------------------------------------------------------------------------------------------------


def _title(rows: Sequence[Row]) -> str:
    items = {row["n_items"] for row in rows}
    count = f"{items.pop()} items" if len(items) == 1 else f"{min(items)} to {max(items)} items"
    how = METHOD_WORDS.get(rows[0]["method"], rows[0]["method"])
    return f"Leaderboard · {rows[0]['metric'].replace('_', ' ')} · {how} · {count} · {WHERE[rows[0]['target']]}"


def _legend(rows: Sequence[Row]) -> tuple[str, ...]:
    """Explain the column headings."""
    own = (f"{NO_OWN}: none of its own answers has a label",) if any(map(has_no_own_labels, rows)) else ()
    return (*meanings(rows[0]["method"], rows[0]["target"], rows[0]["level"]), *own)
