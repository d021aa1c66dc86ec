"""The columns of a run's tables. The leaderboard's say what each holds, for tables, files, history and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import polars as pl


class OverRounds(StrEnum):
    """Rule that makes one value of those of a model's rounds; least and most are also of repeated rounds."""

    FIRST = "first"
    SUM = "sum"
    MEAN = "mean"
    LEAST = "least"
    MOST = "most"


@dataclass(frozen=True, slots=True)
class LeaderboardColumn:
    """``words``: what the column says. ``count``: the heading of a count of answers, which tables and pages show where
    it says something. ``in_history``: kept in the snapshots of earlier boards. ``is_stored``: stands in tables and
    files. ``over_rounds``: of a model that was asked several times."""

    dtype: pl.DataType
    words: str
    count: str = ""
    in_history: bool = False
    is_stored: bool = True
    over_rounds: OverRounds = OverRounds.FIRST


_INTEGER, _FLOAT, _TEXT = pl.Int64(), pl.Float64(), pl.String()
_ESTIMATE = {
    "rank": (_INTEGER, "rank", "rank, by the unrounded score"),
    "rank_best": (_INTEGER, "best rank", "best rank of the rank range"),
    "rank_worst": (_INTEGER, "worst rank", "worst rank of the rank range"),
    "score": (_FLOAT, "score", "score"),
    "lower": (_FLOAT, "lower end", "lower end of the confidence interval"),
    "upper": (_FLOAT, "upper end", "upper end of the confidence interval"),
    "half_width": (_FLOAT, "half width", "half of the interval"),
}
"""A score with its interval and its rank, on one target; null where nothing is known."""
_OVER_ROUNDS = {
    "rank_best": OverRounds.LEAST,
    "rank_worst": OverRounds.MOST,
    **dict.fromkeys(("score", "lower", "upper", "half_width"), OverRounds.MEAN),
}
ESTIMATE = tuple(_ESTIMATE)
NEW, SET = "new_", "set_"
"""Prefixes of the columns of both targets: new items of the kind, exactly this set."""


def _shown(name: str) -> dict[str, LeaderboardColumn]:
    dtype, _, words = _ESTIMATE[name]
    words = words if name == "half_width" else f"the {words}"
    return {name: LeaderboardColumn(dtype, words, in_history=name != "half_width")}


def _on(prefix: str, target: str, *, in_history: bool) -> dict[str, LeaderboardColumn]:
    return {
        prefix + name: LeaderboardColumn(
            dtype,
            f"the {words} {target}",
            in_history=in_history and name in ("score", "lower", "upper"),
            is_stored=name != "half_width",
            over_rounds=_OVER_ROUNDS.get(name, OverRounds.FIRST),
        )
        for name, (dtype, words, _) in _ESTIMATE.items()
    }


LEADERBOARD: Mapping[str, LeaderboardColumn] = {
    **_shown("rank"),
    **_shown("rank_best"),
    **_shown("rank_worst"),
    "model": LeaderboardColumn(_TEXT, "the model, by its name on the leaderboard", in_history=True),
    "provider": LeaderboardColumn(_TEXT, "the provider", in_history=True),
    "n_hints": LeaderboardColumn(_INTEGER, "the hint level: the number of hints shown", in_history=True),
    **_shown("score"),
    **_shown("lower"),
    **_shown("upper"),
    **_shown("half_width"),
    "method": LeaderboardColumn(_TEXT, "the method of the interval", in_history=True),
    "metric": LeaderboardColumn(_TEXT, "the metric", in_history=True),
    "n_items": LeaderboardColumn(_INTEGER, "items of the score", in_history=True),
    "n_unparsed": LeaderboardColumn(
        _INTEGER, "predictions that could not be parsed", count="unparsed", over_rounds=OverRounds.SUM
    ),
    "n_missing": LeaderboardColumn(_INTEGER, "items without an answer", count="missing", over_rounds=OverRounds.SUM),
    "n_unjudged": LeaderboardColumn(
        _INTEGER, "predictions without a readable verdict", count="unjudged", over_rounds=OverRounds.SUM
    ),
    "n_verdicts": LeaderboardColumn(
        _INTEGER, "verdicts that judges were asked for, on answered predictions", over_rounds=OverRounds.SUM
    ),
    "n_verdicts_missing": LeaderboardColumn(
        _INTEGER, "of these, verdicts that cannot be read or never came", over_rounds=OverRounds.SUM
    ),
    "flags": LeaderboardColumn(_TEXT, "what a reader has to know of this row, by name", in_history=True),
    "level": LeaderboardColumn(_FLOAT, "the level of the interval, a fraction", in_history=True),
    "target": LeaderboardColumn(
        _TEXT, "`new items` or `this set`: what rank, rank range, score and interval are for", in_history=True
    ),
    **_on(NEW, "for new items", in_history=False),
    **_on(SET, "on these items", in_history=True),
    "own_labels": LeaderboardColumn(
        _INTEGER, "labels on this model's own answers", in_history=True, over_rounds=OverRounds.SUM
    ),
    "borrowed_labels": LeaderboardColumn(_INTEGER, "labels on other answers that inform this row", in_history=True),
    "fewest_labels_per_vote": LeaderboardColumn(_INTEGER, "the fewest borrowed labels behind any vote of this model"),
    "jury_vote": LeaderboardColumn(
        _FLOAT,
        "the jury's mean vote on these items: its share of yes in percent, which no label corrects",
        over_rounds=OverRounds.MEAN,
    ),
    "n_abstained": LeaderboardColumn(
        _INTEGER, "predictions that abstained", count="abstained", over_rounds=OverRounds.SUM
    ),
    "labels_needed": LeaderboardColumn(_INTEGER, "labels that would give ± 3 points, on a leaderboard without labels"),
    "rounds": LeaderboardColumn(_INTEGER, "samples of each item, where there are several"),
    "round_sd": LeaderboardColumn(_FLOAT, "standard deviation of the score over the samples, in points"),
    "progress": LeaderboardColumn(
        _TEXT,
        "of a model that is not complete, without score and rank: how many of its requests are answered; else null",
    ),
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


Columns = Mapping[str, pl.DataType | type[pl.DataType]]


def _texts(*names: str) -> Columns:
    return dict.fromkeys(names, pl.String)


def _counts(*names: str) -> Columns:
    return dict.fromkeys(names, pl.Int64)


VERDICTS: Columns = {
    **_texts("item_id", "model", "judge", "judge_provider"),
    **dict.fromkeys(("is_answer_correct", "is_justification_correct", "both_correct"), pl.Boolean),
    **_texts("kind", "note", "reason", "raw_text", "custom_id", "batch_id"),
    **_counts("attempt", "sample", "n_hints"),
}
"""Columns of this run's answers, and of labelled answers of the gold set."""
USAGE: Columns = {
    **_texts("custom_id", "role", "provider", "model", "batch_id"),
    **_counts("attempt", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    **_counts("cache_write_tokens", "hour_write_tokens"),
    **_texts("cost_usd", "unbatched_usd", "price_source", "price_date"),
}
"""Columns of what was paid for here, and of answers that another run, or another job, paid for."""
_MARKS = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), pl.Boolean)
_IMAGE = pl.Struct({"media_type": pl.String, "base64": pl.String})

SCHEMAS: Mapping[str, Columns] = {
    "items": {
        **_texts("item_id", "split", "category", "question"),
        "images": pl.List(_IMAGE),
        "hints": pl.List(pl.String),
        **_texts("answer", "justification", "solution", "payload"),
    },
    "responses": {
        **_texts("custom_id", "job_id", "batch_id"),
        **_counts("attempt"),
        **_texts("outcome", "error_class", "error_code", "error_message", "text", "finish_reason"),
        **_texts("raw_finish_reason", "refusal", "served_model"),
    },
    "usage": USAGE,
    "reused": {**USAGE, **_texts("run", "paid_as")},
    "predictions": {
        **_texts("item_id", "model", "provider", "family", "split"),
        **_counts("n_hints"),
        **_texts("kind", "answer", "justification", "raw_text", "note", "finish_reason", "custom_id", "batch_id"),
        **_counts("attempt", "sample"),
    },
    "verdicts": VERDICTS,
    "rejudged": VERDICTS,
    "grades": {
        **_texts("item_id", "model", "metric"),
        "grade": pl.Float64,
        **_texts("tag", "note"),
        **_counts("sample"),
    },
    "scores": {
        **_texts("item_id", "model", "metric"),
        **_counts("yes", "total", "judges"),
        "vote": pl.Float64,
        **_texts("flag"),
        **_counts("sample", "n_hints", "content"),
    },
    "labels": {
        **_texts("item_id", "model"),
        **_counts("n_hints", "sample"),
        **_MARKS,
        "labels": pl.List(pl.Struct({"people": pl.Int64, "adjudicated": pl.Boolean, **_MARKS})),
    },
    "leaderboard": STORED,
    "pairs": {
        **_texts("model", "other"),
        **_counts("n_hints", "other_hints"),
        **dict.fromkeys(("better", "lower", "upper", "better_new", "lower_new", "upper_new"), pl.Float64),
    },
    "label_need": {**_counts("labels"), "half_width_now": pl.Float64, "half_width_then": pl.Float64},
    "judges": _texts("document"),
    "cost": {
        **_texts("provider", "model", "stage"),
        **_counts("requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
        **_texts("cost_usd", "unbatched_usd", "saved_usd", "price_source", "price_date"),
    },
}
"""Column types by table. Money is exact decimal text; scores in ``leaderboard`` are percent, as printed."""
