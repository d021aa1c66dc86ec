"""Columns of a leaderboard, each said once: terminal, files, notebooks and the site's pages read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import polars as pl

from layton_batch.columns import FOR_PEOPLE, Column, OutputForm, Table, Texts, text_table
from layton_batch.files.table_columns import COUNTS, LEADERBOARD
from layton_batch.scoring.leaderboard import (
    AIM_POINTS,
    ASSUMES,
    BORROWED_ONLY,
    NEW_ITEMS,
    NO_OWN,
    PAPER,
    RULE,
    THIS_SET,
    UNCALIBRATED,
    alike,
    complete,
    flags_of,
)
from layton_batch.text import NONE, number_text, one_line, percent, range_text

Row = Mapping[str, Any]
"""A row of the leaderboard; ``alike``: its letters."""
Rows = Sequence[Row]
_MOST_KINDS = 6  # of failure that have a column of their own: so many fit a terminal
_ALWAYS_COUNTED = ("unparsed", "missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownColumn(Column[Row]):
    """A column of the board for people.

    ``{interval}`` in its heading names the interval, and ``{on}`` what the rows are for. ``shown``: whether it says
    something of the complete rows. ``unfinished``: its cell of a model that is not complete.
    """

    surfaces: Collection[OutputForm] = FOR_PEOPLE
    shown: Callable[[Rows], bool] = bool
    unfinished: Callable[[Row], str] = lambda _: ""

    def cell(self, row: Row) -> str:
        return Column.cell(self, row) if row["progress"] is None else self.unfinished(row)


def board_rows(board: pl.DataFrame) -> list[Row]:
    """Return the rows of a board with their letters."""
    rows = board.to_dicts()
    letters = alike([(row["rank_best"], row["rank_worst"]) for row in rows])
    return [row | {"alike": letter} for row, letter in zip(rows, letters, strict=True)]


def board_columns(board: pl.DataFrame, *, says_target: bool = False) -> list[Column[Row]]:
    """Return the columns of a board: those of the run's table for programs, those that say something for people.

    ``says_target``: headings say what the rows are for, where no legend does.
    """
    shown: list[Column[Row]] = list(_stored_columns())
    rows = complete(board).to_dicts()
    if rows:
        is_paper, level = rows[0]["method"] == PAPER, percent(rows[0]["level"])
        on = f" ({rows[0]['target']})" if says_target and not is_paper else ""
        interval = "interval" if is_paper else f"{level} CI"
        shown += [
            replace(column, words=column.words.format(interval=interval, on=on))
            for column in BOARD
            if column.shown(rows)
        ]
    return shown


def _stored_columns() -> Iterator[Column[Row]]:
    for name, column in LEADERBOARD.items():
        if column.is_stored:
            yield Column(name, surfaces={OutputForm.JSON, OutputForm.CSV}, value=itemgetter(name))
    yield Column("failures", value=lambda row: dict(failures_of(row)), surfaces={OutputForm.JSON})


def failures_of(row: Row) -> dict[str, int]:
    """Return how often each kind of failure occurs."""
    return {failure["kind"]: failure["count"] for failure in row["failures"] or ()}


def failure_table(failures: Sequence[tuple[str, Mapping[str, int]]], title: str = "") -> Table[Texts]:
    """Count the most frequent kinds of failure by model, all others in one column; models without any are left out.

    ``failures``: name of each model, and how often it failed by kind. Plug-in tasks may have many kinds.
    """
    kinds = list(dict(sum((Counter(counts) for _, counts in failures), Counter[str]()).most_common()))
    shown, rare = kinds[:_MOST_KINDS], kinds[_MOST_KINDS:]
    groups = [[kind] for kind in shown] + ([rare] if rare else [])
    heads = [one_line(kind).replace("_", " ") or NONE for kind in shown] + ["other"] * bool(rare)
    rows = [
        (name, *(f"{sum(counts.get(kind, 0) for kind in group):,}" for group in groups))
        for name, counts in failures
        if counts
    ]
    return text_table(title, ["model", *heads], rows)


def has_no_own_labels(row: Row) -> bool:
    """Tell whether none of the model's own answers has a label, on a board that rests on labels."""
    return BORROWED_ONLY in flags_of(row["flags"])


WHERE = {NEW_ITEMS: "on new items of this kind", THIS_SET: "on exactly this set of items"}
"""What a board is for, by its target."""


def meanings(method: str, target: str, level: float) -> tuple[str, str]:
    """Say what the intervals of a board hold, and what its rank ranges and letters hold."""
    letters = "Models that share a letter under “alike” cannot be told apart by their rank ranges."
    if method == PAPER:
        interval = (
            "The interval is the range between the 2.5th and 97.5th percentile of the layton-eval paper's bootstrap. "
            "It holds for exactly these items, there is none for new ones, and it takes the rates found in the human "
            "labels as certain, so it is narrower than a 95 % interval should be."
        )
        return interval, f"The rank range runs from the best to the worst rank that intervals leave open. {letters}"
    exact = "Every answer was graded by rule, so"
    if method == RULE and target == THIS_SET:
        return f"{exact} scores and ranks are exact on this set of items.", letters
    probability = f"with at least {percent(level)} probability."
    ranks = f"The rank range holds the ranks {WHERE[target]} of all models at once, {probability} {letters}"
    interval = f"The {percent(level)} CI holds the score {WHERE[target]} with that probability"
    if method == RULE:
        return f"{exact} the score is exact on this set of items. {interval}.", ranks
    if method == UNCALIBRATED:
        return f"{interval}, if judges are as good as assumed. Each interval holds singly.", ranks
    return f"{interval}. Each interval holds singly. {ASSUMES}", ranks


# ---- cells ---------------------------------------------------------------------------------------------------------


def _interval(row: Row) -> str:
    if row["method"] == PAPER:
        return NONE if row["score"] is None or row["half_width"] is None else f"±{row['half_width']:.1f}"
    if row["method"] == RULE and row["target"] == THIS_SET:
        return "exact"
    return range_text(row["lower"], row["upper"])


def _labels(row: Row) -> str:
    own, borrowed = row["own_labels"], row["borrowed_labels"]
    return NONE if own is None or borrowed is None else f"{own} · {borrowed}"


def _verdicts(row: Row) -> str:
    if row["n_verdicts"] is None:
        return NONE
    return f"{row['n_verdicts'] - row['n_verdicts_missing']:,} of {row['n_verdicts']:,}"


def _rounds(row: Row) -> str:
    return NONE if row["rounds"] is None or row["round_sd"] is None else f"{row['rounds']} ± {row['round_sd']:.1f}"


def _whole(name: str) -> Callable[[Row], str]:
    return lambda row: number_text(row[name], 0)


# ---- the columns ---------------------------------------------------------------------------------------------------


def _any(name: str) -> Callable[[Rows], bool]:
    return lambda rows: any(row[name] for row in rows)


def _several(name: str) -> Callable[[Rows], bool]:
    return lambda rows: len({row[name] for row in rows}) > 1


def _by(*methods: str) -> Callable[[Rows], bool]:
    return lambda rows: rows[0]["method"] in methods


def _count(words: str, name: str, surface: OutputForm) -> ShownColumn:
    """Return a count of answers: published boards and pages have all that there are, and Markdown some also without
    any."""

    def shown(rows: Rows) -> bool:
        if surface is OutputForm.MARKDOWN:
            return words in _ALWAYS_COUNTED or any(row[name] for row in rows)
        return (surface is OutputForm.PAGE or rows[0]["method"] == PAPER) and any(row[name] for row in rows)

    return ShownColumn(name=words, text=_whole(name), shown=shown, surfaces={surface})


BOARD: tuple[ShownColumn, ...] = (
    ShownColumn(name="rank", text=_whole("rank"), help="By score; see the rank range for what the data leave open."),
    ShownColumn(
        name="model",
        text=lambda row: f"{row['model']} {NO_OWN}" if has_no_own_labels(row) else row["model"],
        unfinished=lambda row: row["model"],
        surfaces={OutputForm.TERMINAL, OutputForm.PAGE},
        is_text=True,
    ),
    ShownColumn(name="model", text=lambda row: row["model"], unfinished=lambda row: row["model"],
                surfaces={OutputForm.MARKDOWN}, is_text=True),
    ShownColumn(name="provider", text=lambda row: row["provider"], unfinished=lambda row: row["provider"] or "",
                surfaces={OutputForm.MARKDOWN}, is_text=True),
    ShownColumn(name="hints", text=_whole("n_hints"), shown=_several("n_hints"), unfinished=_whole("n_hints"),
                help="How many hints the model was given."),
    ShownColumn(name="score", text=lambda row: number_text(row["score"]), unfinished=lambda row: row["progress"]),
    ShownColumn(name="interval", words="{interval}{on}", text=_interval,
                help="How far the score is known, on what the board is for."),
    ShownColumn(name="rounds", words="rounds\n± sd", text=_rounds, shown=_any("rounds"),
                help="Samples of each item, and the standard deviation of the score over them, in points."),
    ShownColumn(name="range", words="rank\nrange{on}", style="dim",
                text=lambda row: range_text(row["rank_best"], row["rank_worst"], 0),
                help="Holds the ranks of all models at once, on what the board is for."),
    ShownColumn(name="alike", text=lambda row: row["alike"], is_text=True, style="dim",
                help="Models that share a letter cannot be told apart by their rank ranges."),
    ShownColumn(name="share", words="jury's\nvote", text=lambda row: number_text(row["jury_vote"]),
                shown=_by(UNCALIBRATED), help="Share of yes of the jury, which no label corrects."),
    ShownColumn(name="needed", words=f"labels\nfor ± {AIM_POINTS}", text=_whole("labels_needed"),
                shown=_by(UNCALIBRATED), help=f"Labels that would give ± {AIM_POINTS} points."),
    ShownColumn(name="labels", words="human labels\nown · borrowed", text=_labels,
                shown=lambda rows: not _by(RULE, UNCALIBRATED)(rows),
                help="People’s verdicts on the model’s own answers · borrowed from other answers."),
    ShownColumn(name="verdicts", text=_verdicts, shown=_any("n_verdicts_missing"),
                help="How many of the verdicts that judges were asked for can be read: the score stands on these."),
    ShownColumn(name="items", text=_whole("n_items"), shown=lambda rows: _by(PAPER)(rows) or _several("n_items")(rows),
                surfaces={OutputForm.TERMINAL, OutputForm.PAGE}, help="Items behind the score."),
    ShownColumn(name="items", text=_whole("n_items"), surfaces={OutputForm.MARKDOWN}),
    *(_count(words, name, surface) for surface in (OutputForm.TERMINAL, OutputForm.MARKDOWN, OutputForm.PAGE)
      for words, name in COUNTS.items()),
)  # fmt: skip
"""Columns for people, in their order; ``surfaces`` with ``DATA`` also in JSON and CSV, after the table's own."""
