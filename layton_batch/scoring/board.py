"""From votes and labels, or from marks, to a ranked board: one row an entrant, best first.

Jury boards: ``rank_board``, or exactly as the layton-eval paper does. Boards graded by rule: ``rank_marks``. All give
the same frame (``scoring/leaderboard.py``), so that all leaderboards look alike.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import polars as pl

from layton_batch.files.table_columns import ESTIMATE, NEW, SET
from layton_batch.scoring.evidence import ENTRANT, HAS_OUTCOME, NEEDS_NO_JURY, Entrant
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.label_plan import labels_for
from layton_batch.scoring.leaderboard import (
    AIM_POINTS,
    BORROWED_ONLY,
    DRIFTED,
    FEW_VERDICTS,
    NEW_ITEMS,
    OTHER_HINTS,
    OTHER_JURY,
    RULE,
    SHORT_JURY,
    THIS_SET,
    UNCALIBRATED,
    UNKNOWN_MAKER,
    leaderboard,
    with_flag,
)
from layton_batch.scoring.rule_board import RuleBoard
from layton_batch.scoring.rules import PAPER, PAPER_LEVEL, ScoringRules
from layton_batch.stats.counts import Flag, FloatArray, fewest_labels, label_flags
from layton_batch.stats.paper import paper_scores
from layton_batch.stats.ranks import paper_ranks, rank_ranges, score_ranks

_NEVER_JUDGED = ("abstained", "unparsed", "missing")
_Row = dict[str, Any]


def rank_board(board: JuryBoard) -> pl.DataFrame:
    """Score every entrant and rank them, best first; entrants without a score come last, unranked.

    Without any label ``method`` is ``uncalibrated``: scores and intervals are those of votes alone, which hold if the
    judges are as good as the prior has it. ``labels_needed`` then says how many labels on the model's answers would
    give ± 3 points on these items, and an entrant that nobody judged has no score.

    Neither the order of the rows nor ``rules.seed`` moves a range: what is drawn for it is always the same. Raises
    DataError for predictions or labels that contradict each other.
    """
    if board.votes.is_empty():
        return leaderboard(())
    if board.rules.method == PAPER:
        rows = leaderboard(_paper_rows(board))
    elif board.labels.is_empty():
        rows = leaderboard(_unlabelled_rows(board))
    else:
        rows = leaderboard(_jury_rows(board))
        rows = with_flag(rows, OTHER_HINTS, _of(rows, _with_other_hints(board)))
    for flag, holds in ((OTHER_JURY, board.rules.other_jury), (DRIFTED, board.rules.drifted)):
        rows = with_flag(rows, flag) if holds and board.labels.height else rows
    return with_failures(_with_verdicts(rows, board.votes, board.labels))


def _of(rows: pl.DataFrame, entrants: set[tuple[Any, ...]]) -> pl.Expr:
    return pl.lit(pl.Series([entrant in entrants for entrant in rows.select(ENTRANT).iter_rows()], dtype=pl.Boolean))


def _with_other_hints(board: JuryBoard) -> set[tuple[Any, ...]]:
    """Entrants whose model has labels at another hint level. The paper's method does not use these."""
    levels: dict[tuple[str, str], set[int]] = defaultdict(set)
    for model, provider, n_hints in board.labels.select(ENTRANT).unique().iter_rows():
        levels[model, provider].add(n_hints)
    entrants = (astuple(entrant) for entrant in board.entrants)
    return {entrant for entrant in entrants if levels[entrant[:2]] - {entrant[2]}}


def _with_verdicts(rows: pl.DataFrame, votes: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Add the jury's share of yes to each row, count the verdicts that the row could stand on and those of them that
    are missing, and flag what is short.

    If nobody knows how many judges were asked, it is as many as judged any answer of the entrant. A jury is also short
    if it lacks more than the one judge who leaves before its own family's answers.
    """
    judges, total, is_judged = pl.col("judges"), pl.col("total"), ~NEEDS_NO_JURY
    most = pl.concat([votes["total"], labels["total"]]).max() or 0
    size = judges.fill_null(total.max().over(ENTRANT))
    counts = (
        votes.with_columns(judges=pl.when(is_judged).then(size).otherwise(0))
        .group_by(ENTRANT)
        .agg(
            n_verdicts=judges.sum(),
            n_verdicts_missing=(judges - total).filter(is_judged).sum(),
            jury_vote=(100 * _MARK.filter(HAS_OUTCOME).mean()).round(1),
            is_short=((total > 0) & ((total < judges) | (total < most - 1))).any(),  # type: ignore[operator]
        )
    )
    missing = pl.col("n_verdicts_missing")
    is_few = (missing > 0) & (2 * missing >= pl.col("n_verdicts"))
    is_short = set(counts.filter(pl.col("is_short") & ~is_few).select(ENTRANT).iter_rows())
    rows = with_flag(rows.update(counts.drop("is_short"), on=ENTRANT), FEW_VERDICTS, is_few)
    return with_flag(rows, SHORT_JURY, _of(rows, is_short))


_MARK = pl.when(NEEDS_NO_JURY).then(0.0).otherwise(pl.col("yes") / pl.col("total"))


def _paper_rows(board: JuryBoard) -> Iterable[_Row]:
    scores = paper_scores(board.counts)
    ranks = paper_ranks([score.score for score in scores], [score.half_width for score in scores])
    counts = _counts(board)
    for i in ranks.order.tolist():
        score = scores[i]
        ends = [None if end is None else round_tenth(end) for end in (score.lower, score.upper)]
        yield _row(
            board.entrants[i],
            board.rules,
            this_set=(*(ranks.of(i) or (None, None, None)), score.score, *ends, score.half_width),
            target=THIS_SET,
            level=PAPER_LEVEL,
            flags=[*score.flags, *([score.reason] if score.reason else [])],
            own_labels=0,  # the paper does not use a provider's own labels
            borrowed_labels=score.borrowed_labels,
            fewest_labels_per_vote=score.fewest_labels_per_vote,
            **counts[i],
        )


def _jury_rows(board: JuryBoard) -> Iterable[_Row]:
    rules, posterior = board.rules, board.posterior
    scores = posterior.scores
    here_ranks = _ranked([score.score for score in scores], posterior.draws_on_these, rules.level)
    new_ranks = _ranked([score.new_score for score in scores], posterior.draws_on_new, rules.level)
    counts, rows = board.counts, _counts(board)
    own, borrowed = counts.own_labels.sum(axis=1).tolist(), counts.borrowed_labels
    behind, fewest = np.where(counts.n > 0, borrowed, 0).sum(axis=1).tolist(), fewest_labels(counts.n, borrowed)
    flags = label_flags(counts.n, borrowed + counts.own_labels, counts.unjudged)
    is_unknown = ~np.isin(counts.predictions.maker, counts.maker[counts.is_labelled])
    for i, score in enumerate(scores):
        more = [BORROWED_ONLY] if own[i] == 0 and behind[i] > 0 else []
        more += [UNKNOWN_MAKER] if is_unknown[i] else []
        yield _row(
            board.entrants[i],
            rules,
            new=(*new_ranks[i], *_estimate(score.new_score, score.new_lower, score.new_upper)),
            this_set=(*here_ranks[i], *_estimate(score.score, score.lower, score.upper)),
            flags=[*flags[i], *more],
            own_labels=own[i],
            borrowed_labels=behind[i],
            fewest_labels_per_vote=fewest[i],
            **rows[i],
        )


def _unlabelled_rows(board: JuryBoard) -> Iterable[_Row]:
    """Yield the rows of a board without labels; what a row lacks for want of labels holds for the whole board."""
    is_judged = HAS_OUTCOME.any().over(ENTRANT)
    silent = replace(board, votes=board.votes.filter(~is_judged))
    judged = replace(board, votes=board.votes.filter(is_judged)) if silent.votes.height else board
    if judged.votes.height:
        needed = labels_for(judged, AIM_POINTS / 100).tolist()
        for row, number in zip(_jury_rows(judged), needed, strict=True):
            flags = _UNJUDGED if row["n_unjudged"] else ""
            yield row | {"method": UNCALIBRATED, "flags": flags, "labels_needed": number}
    for entrant, counts in zip(silent.entrants, _counts(silent), strict=True):
        row = _row(entrant, board.rules, flags=[_UNJUDGED], own_labels=0, borrowed_labels=0, **counts)
        yield row | {"method": UNCALIBRATED}


_UNJUDGED = str(Flag.UNJUDGED)


def _counts(board: JuryBoard) -> list[_Row]:
    """Count each entrant's items, and answers of a kind."""
    kinds: dict[int, Counter[str]] = defaultdict(Counter)
    for position, kind, count in board.predictions.group_by("who", "kind").len().iter_rows():
        kinds[position][kind] = count
    return [_counts_of(kinds[position], unjudged) for position, unjudged in enumerate(board.counts.unjudged.tolist())]


def _ranked(scores: Sequence[float], draws: FloatArray, level: float) -> list[tuple[int, int, int]]:
    """Rank by score, best and worst rank. Every entrant of a board has a prediction, so each is in the draws."""
    rank = score_ranks(scores)
    sets = rank_ranges(draws, level=level, rank=rank)
    return list(zip(rank.tolist(), sets.best.tolist(), sets.worst.tolist(), strict=True))


def _estimate(score: float, lower: float, upper: float) -> tuple[float, float, float, float]:
    """Return score, ends and half width as printed, from fractions; the ends are moved outwards."""
    low, high = floor_tenth(lower), ceil_tenth(upper)
    return round_tenth(score), low, high, math.ceil((high - low) * 5 - 1e-9) / 10


def rank_marks(board: RuleBoard) -> pl.DataFrame:
    """Rank entrants by their mean mark, in percent, best first: no jury, no labels.

    On these items score and rank are exact, so their ranges are themselves; the interval and the rank range for new
    items come from weights on the items that all entrants share (``mark_draws``). Failures of all samples count.
    """
    if board.marks.is_empty():
        return leaderboard(())
    scores = board.scores
    means = np.round(scores.mean, 12)  # sums of equal marks in another order are equal
    answers = board.marks.sort(ENTRANT, maintain_order=True).partition_by(ENTRANT, maintain_order=True)
    rows = []
    for i, ranks in enumerate(_ranked(means.tolist(), board.draws, board.rules.level)):
        new = _estimate(float(scores.mean[i]), float(scores.new_lower[i]), float(scores.new_upper[i]))
        rank, score = ranks[0], new[0]
        rows.append(
            _row(
                board.entrants[i],
                board.rules,
                new=(*ranks, *new),
                this_set=(rank, rank, rank, score, score, score, 0.0),
                method=RULE,
                own_labels=0,
                borrowed_labels=0,
                **_counts_of_marks(answers[i]),
            )
        )
    return with_failures(leaderboard(rows))


def _counts_of_marks(answers: pl.DataFrame) -> _Row:
    """Count items, and kinds and failures over all answers of an entrant."""
    counts = _counts_of(Counter(answers["kind"].to_list()), 0) | {"n_items": answers["item_id"].n_unique()}
    if answers["failure"].count():
        failures = Counter(failure for failure in answers["failure"] if failure)
        counts["failures"] = [{"kind": kind, "count": count} for kind, count in failures.items()]
    means = answers.group_by("sample", maintain_order=True).agg(mean=100 * pl.mean("mark"))["mean"].to_list()
    return counts | ({"rounds": len(means), "round_sd": spread(means)} if len(means) > 1 else {})


def spread(scores: Sequence[float]) -> float:
    """The sample standard deviation (n - 1) of the rounds' scores, as printed."""
    return round(statistics.stdev(scores), 3)


def _counts_of(kinds: Counter[str], unjudged: int) -> _Row:
    never = {f"n_{kind}": kinds[kind] for kind in _NEVER_JUDGED}
    return never | {"n_items": kinds.total(), "n_unjudged": unjudged}


def with_failures(board: pl.DataFrame) -> pl.DataFrame:
    """Add the column ``failures``, also to a board as it is stored: it follows from the counts of answers that were
    never judged, where no rule has words of its own."""
    counts = (
        pl.when(pl.col(f"n_{kind}") > 0).then(pl.struct(kind=pl.lit(kind), count=f"n_{kind}"))
        for kind in (*_NEVER_JUDGED, "unjudged")
    )
    failures = pl.concat_list(*counts).list.drop_nulls()
    return board.with_columns(failures=pl.coalesce("failures", failures) if "failures" in board.columns else failures)


_UNKNOWN = (None,) * len(ESTIMATE)


def _row(
    entrant: Entrant,
    rules: ScoringRules,
    *,
    new: Sequence[object] = _UNKNOWN,
    this_set: Sequence[object] = _UNKNOWN,
    flags: Sequence[str] = (),
    **columns: Any,
) -> _Row:
    """One row; ``new``, ``this_set``: values of ``ESTIMATE``."""
    both = {prefix + name: value for prefix, values in ((NEW, new), (SET, this_set))
            for name, value in zip(ESTIMATE, values, strict=True)}  # fmt: skip
    method_columns = {"method": rules.method, "metric": rules.metric, "level": rules.level, "target": NEW_ITEMS}
    name_columns = {"model": entrant.model, "provider": entrant.provider, "n_hints": entrant.n_hints}
    return {**name_columns, **method_columns, **both, "flags": ", ".join(flags), **columns}


# ---- printed percent: the only place where a score is rounded ------------------------------------------------------


_NOISE = 1e-9  # a fraction such as 157/200 must not fall a tenth short because it is not exact in binary


def floor_tenth(fraction: float) -> float:
    """Percent rounded down to one decimal: for lower ends, which may only move outwards."""
    return math.floor(fraction * 1000 + _NOISE) / 10


def ceil_tenth(fraction: float) -> float:
    """Percent rounded up to one decimal: for upper ends."""
    return math.ceil(fraction * 1000 - _NOISE) / 10


def round_tenth(fraction: float) -> float:
    """Percent rounded to one decimal, half to even, as numpy and Python do: for point estimates."""
    return round(fraction * 100, 1)
