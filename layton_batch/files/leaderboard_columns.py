"""The leaderboard's one schema: what each column is called, holds and means, for tables, files, history and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class LeaderboardColumn:
    """``words``: what the column says. ``count``: the heading of a count of answers, which tables and pages show where
    it says something. ``json_name``: its name in JSON, where that is another. ``in_history``: kept in the snapshots of
    earlier boards. ``is_stored``: stands in tables and files."""

    dtype: pl.DataType
    words: str
    count: str = ""
    json_name: str = ""
    in_history: bool = False
    is_stored: bool = True


_INTEGER, _FLOAT, _TEXT = pl.Int64(), pl.Float64(), pl.String()
_ESTIMATE = {
    "rank": (_INTEGER, "rank by score"),
    "rank_best": (_INTEGER, "best rank of the range that holds all models' ranks together at the row's level"),
    "rank_worst": (_INTEGER, "worst rank of that range"),
    "score": (_FLOAT, "score in percent, as printed"),
    "lower": (_FLOAT, "lower end of the score's interval"),
    "upper": (_FLOAT, "upper end of the score's interval"),
    "half_width": (_FLOAT, "half of the printed interval, in points"),
}
"""A score with its interval and its rank, on one target; null where nothing is known."""
ESTIMATE = tuple(_ESTIMATE)
NEW, SET = "new_", "set_"
"""What the columns of both targets begin with: new items of the kind, exactly this set."""


def _shown(name: str) -> dict[str, LeaderboardColumn]:
    dtype, words = _ESTIMATE[name]
    return {name: LeaderboardColumn(dtype, f"{words}, on the row's target", in_history=name != "half_width")}


def _on(prefix: str, target: str, *, in_history: bool) -> dict[str, LeaderboardColumn]:
    return {
        prefix + name: LeaderboardColumn(
            dtype,
            f"{words}, on {target}",
            in_history=in_history and name in ("score", "lower", "upper"),
            is_stored=name != "half_width",
        )
        for name, (dtype, words) in _ESTIMATE.items()
    }


LEADERBOARD: Mapping[str, LeaderboardColumn] = {
    **_shown("rank"),
    **_shown("rank_best"),
    **_shown("rank_worst"),
    "model": LeaderboardColumn(_TEXT, "model", in_history=True),
    "provider": LeaderboardColumn(_TEXT, "who serves the model", in_history=True),
    "n_hints": LeaderboardColumn(_INTEGER, "number of hints that it was given", in_history=True),
    **_shown("score"),
    **_shown("lower"),
    **_shown("upper"),
    **_shown("half_width"),
    "method": LeaderboardColumn(_TEXT, "how scores are made", in_history=True),
    "metric": LeaderboardColumn(_TEXT, "what is scored", in_history=True),
    "n_items": LeaderboardColumn(_INTEGER, "items that the score rests on", in_history=True),
    "n_unparsed": LeaderboardColumn(_INTEGER, "answers that could not be read", count="unparsed"),
    "n_missing": LeaderboardColumn(_INTEGER, "answers that never came", count="missing"),
    "n_unjudged": LeaderboardColumn(_INTEGER, "answers without a readable verdict", count="unjudged"),
    "flags": LeaderboardColumn(_TEXT, "what a reader of the row has to know, by name", in_history=True),
    "level": LeaderboardColumn(_FLOAT, "level of the interval and of the rank range, a fraction", in_history=True),
    "target": LeaderboardColumn(_TEXT, "what the row is for: new items or this set", in_history=True),
    **_on(NEW, "new items of this kind", in_history=False),
    **_on(SET, "exactly these items", in_history=True),
    "own_labels": LeaderboardColumn(_INTEGER, "labels on the model's own answers", in_history=True),
    "borrowed_labels": LeaderboardColumn(_INTEGER, "labels on other answers that the row rests on", in_history=True),
    "smallest_gold_bin": LeaderboardColumn(
        _INTEGER, "fewest borrowed labels behind a vote that its answers have", json_name="fewest_labels_per_vote"
    ),
    "n_abstained": LeaderboardColumn(_INTEGER, "answers that the model refused to give", count="abstained"),
    "labels_needed": LeaderboardColumn(
        _INTEGER, "labels on the model's answers for ± 3 points on this set, where the board has no label at all"
    ),
    "rounds": LeaderboardColumn(_INTEGER, "samples of its answers that the score is the mean of; null for one"),
    "round_sd": LeaderboardColumn(_FLOAT, "sample standard deviation of the rounds' scores, in points"),
    "failures": LeaderboardColumn(
        pl.List(pl.Struct({"kind": _TEXT, "count": _INTEGER})),
        "how often each kind of failure occurs: in the rule's words, or what never came before a jury",
        is_stored=False,
    ),
}
STORED: Mapping[str, pl.DataType] = {name: column.dtype for name, column in LEADERBOARD.items() if column.is_stored}
COUNTS = {
    column.count: name
    for name, column in sorted(LEADERBOARD.items(), key=lambda named: named[0] != "n_abstained")
    if column.count
}
"""Columns that count answers, by heading: first those that the model meant not to give."""
