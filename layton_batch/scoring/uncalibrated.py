"""A board of votes: calibrated by people's labels or, where there is none at all, the jury's raw share as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from layton_batch.files.leaderboard_columns import COUNTS, ESTIMATE, NEW, SET
from layton_batch.scoring.board import ceil_tenth, floor_tenth, rank_board, rank_marks, with_verdicts
from layton_batch.scoring.evidence import ENTRANT, NEEDS_NO_JURY, Entrant, ItemScores
from layton_batch.scoring.leaderboard import NEW_ITEMS, leaderboard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.shares import wilson_interval
from layton_batch.text import plural

UNCALIBRATED = "uncalibrated"
RAW_SHARE = (
    "Uncalibrated: the jury's raw share of yes. No human label counts here, so nobody knows how often it is right."
)
AIM_POINTS = 3
"""The half width, in points, for which an uncalibrated board says how many labels it takes."""
_MOST_PLANNED = 2_000  # models for which labels are planned: each is planned by itself


def rank_votes(votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules) -> pl.DataFrame:
    """Rank as ``rank_board`` does, but without any label by the raw share: how often the jury says yes.

    Nothing is known then of how often the jury is wrong. ``method`` is ``uncalibrated``, and a row is for new items
    alone: ``lower``..``upper`` is Wilson's binomial interval over the items, for the jury's own word on items of this
    kind, the rank range holds the ranks by that word, and ``labels_needed`` says how many labels on the model's answers
    would give ± 3 points on these items.
    The paper's method has no score then.
    """
    if labels.height or rules.method == "paper" or votes.is_empty():
        return rank_board(votes, labels, rules)
    needed = _labels_needed(votes, labels, rules)
    counts = votes.group_by(ENTRANT).agg(
        n_items=pl.len(),
        judged=_HAS_OUTCOME.sum(),
        share=_MARK.filter(_HAS_OUTCOME).mean(),
    )
    board = rank_marks(share_sheets(votes), rules)
    rows = {tuple(row[name] for name in ENTRANT): row for row in board.iter_rows(named=True)}
    silent = counts.filter(pl.col("judged") == 0).sort(ENTRANT).select(ENTRANT).rows()
    counts_by_entrant = {tuple(row[name] for name in ENTRANT): row for row in counts.iter_rows(named=True)}
    shares = leaderboard(
        _row(rows.get(entrant), needed.get(entrant), rules, counts_by_entrant[entrant]) for entrant in (*rows, *silent)
    )
    return with_verdicts(shares, votes, labels)


def need(labels: Sequence[int | None]) -> str:
    """Explain an uncalibrated board in words. ``labels``: the number of labels that each row needs."""
    needed = [count for count in labels if count is not None]
    if not sum(needed):
        return RAW_SHARE
    return (
        f"{RAW_SHARE} About {plural(sum(needed), 'label')} would give ± {AIM_POINTS} points for every model on these "
        f"items: `layton-batch label-plan RUN --this-set --half-width {AIM_POINTS}` says on which answers."
    )


def share_sheets(votes: pl.DataFrame) -> list[ItemScores]:
    """The jury's shares of yes as marks, of every entrant that has a judged answer."""
    marks = votes.filter(_HAS_OUTCOME).with_columns(mark=_MARK)
    return [
        ItemScores(
            entrant=Entrant(*entrant),
            item_ids=sheet["item_id"].to_list(),
            marks=sheet["mark"].to_list(),
            kinds=sheet["kind"].to_list(),
        )
        for entrant, sheet in marks.group_by(ENTRANT, maintain_order=True)
    ]


_HAS_OUTCOME = (pl.col("total") > 0) | NEEDS_NO_JURY
_MARK = pl.when(NEEDS_NO_JURY).then(0.0).otherwise(pl.col("yes") / pl.col("total"))


def _row(
    row: dict[str, Any] | None, needed: int | None, rules: ScoringRules, counts: Mapping[str, Any]
) -> dict[str, object]:
    """``row``: by the share of yes, None where nobody judged anything; ``counts``: counts of the entrant's answers."""
    names, items, unjudged = (
        {name: counts[name] for name in ENTRANT},
        counts["n_items"],
        counts["n_items"] - counts["judged"],
    )
    failures = [*(row["failures"] if row else ()), *([{"kind": "unjudged", "count": unjudged}] if unjudged else ())]
    same = {
        "method": UNCALIBRATED,
        "n_items": items,
        "n_unjudged": unjudged,
        "flags": "unjudged" if unjudged else "",
        "failures": failures,
    }
    if row is None:
        zeros = dict.fromkeys(("own_labels", "borrowed_labels", *COUNTS.values()), 0)
        return {**names, "metric": rules.metric, "level": rules.level, "target": NEW_ITEMS, **zeros, **same}
    low, high = wilson_interval(counts["share"], counts["judged"], rules.level)
    ends = {"lower": floor_tenth(low), "upper": ceil_tenth(high), "half_width": ceil_tenth((high - low) / 2)}
    unknown = dict.fromkeys(SET + name for name in ESTIMATE)
    return {**row, **same, **unknown, **{NEW + name: end for name, end in ends.items()}, "labels_needed": needed}


def _labels_needed(votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules) -> dict[tuple[object, ...], int]:
    """Return the number of labels for each entrant, as ``label-plan --this-set --half-width 3`` says."""
    from layton_batch.scoring.label_plan import LabelTarget, plan_next  # which boards with labels need not

    if votes.select(ENTRANT).n_unique() > _MOST_PLANNED:
        return {}
    plan = plan_next(votes, labels, LabelTarget(half_width=AIM_POINTS / 100, this_set=True), rules)
    return {
        (model_plan.model, model_plan.provider, model_plan.n_hints): model_plan.labels for model_plan in plan.models
    }
