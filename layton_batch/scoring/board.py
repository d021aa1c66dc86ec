"""From votes and labels, or from marks, to a ranked board: one row an entrant, best first.

Jury boards: ``rank_board``, or exactly as the layton-eval paper does. Boards graded by rule: ``rank_marks``. All give
the same frame (``scoring/leaderboard.py``), so that all leaderboards look alike.

With a jury every round of a model that is asked several times (all models' answers with one sample number) is a board
by itself, and a row is the mean of its rounds: also the ends of an interval, which are those of one round then; more
rounds never make it narrower than that.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import polars as pl

from layton_batch.files.table_columns import ESTIMATE, LEADERBOARD, NEW, SET, OverRounds
from layton_batch.scoring.boards import JuryBoard, RuleBoard
from layton_batch.scoring.evidence import ENTRANT, HAS_OUTCOME, NEEDS_NO_JURY, Entrant
from layton_batch.scoring.label_plan import labels_for
from layton_batch.scoring.leaderboard import (
    AIM_POINTS,
    BORROWED_ONLY,
    DRIFTED,
    FEW_VERDICTS,
    NEW_ITEMS,
    OTHER_HINTS,
    OTHER_JURY,
    PAPER,
    PAPER_LEVEL,
    PREFIX,
    SCHEMA,
    SHORT_JURY,
    THIS_SET,
    UNKNOWN_MAKER,
    best_first,
    flags_of,
    leaderboard,
    with_flag,
)
from layton_batch.stats.counts import Flag, fewest_labels, label_flags
from layton_batch.stats.paper import paper_scores
from layton_batch.stats.ranks import Estimates, Ranks, paper_ranks, rank_ranges, score_ranks

_NEVER_JUDGED = ("abstained", "unparsed", "missing")
_KINDS = {f"n_{kind}": (pl.col("kind") == kind).sum() for kind in _NEVER_JUDGED}
_UNJUDGED = str(Flag.UNJUDGED)
_Columns = Mapping[str, Any]


def rank_board(board: JuryBoard) -> pl.DataFrame:
    """Score every entrant and rank them, best first; entrants without a score come last, unranked.

    Without any label ``method`` is ``uncalibrated``: scores and intervals are those of votes alone, which hold if the
    judges are as good as the prior has it. ``labels_needed`` then says how many labels on the model's answers would
    give ± 3 points on these items, and an entrant that nobody judged has no score.

    Neither the order of the rows nor ``rules.seed`` moves a range: what is drawn for it is always the same. Raises
    DataError for predictions or labels that contradict each other.
    """
    if board.votes.is_empty():
        return leaderboard()
    if board.rules.method == PAPER:
        rows = _rows(board, _by_paper(board))
    elif board.labels.is_empty():
        rows = _unlabelled(board)
    else:
        rows = _by_labels(board)
    for flag, holds in ((OTHER_JURY, board.rules.other_jury), (DRIFTED, board.rules.drifted)):
        rows = with_flag(rows, flag) if holds and board.labels.height else rows
    return with_failures(best_first(_with_verdicts(rows, board)))


def rank(boards: RuleBoard | Sequence[JuryBoard], samples: Mapping[str, int]) -> pl.DataFrame:
    """Rank a board graded by rule, or a jury's, of which there is one for each round. ``samples``: number of each
    model's own rounds."""
    if isinstance(boards, RuleBoard):
        return rank_marks(boards)
    return mean_of_rounds([rank_board(board) for board in boards], samples)


def _rows(board: JuryBoard | RuleBoard, columns: _Columns) -> pl.DataFrame:
    """Return the entrants' rows in their order; columns that are not given are null."""
    count = len(board.entrants)
    same = {"method": board.method, "metric": board.rules.metric, "level": board.rules.level, "target": NEW_ITEMS}
    given: _Columns = {
        **{name: [getattr(entrant, name) for entrant in board.entrants] for name in ENTRANT},
        **{name: [value] * count for name, value in (same | {"flags": ""}).items()},
        **columns,
    }
    return pl.DataFrame({name: given.get(name, [None] * count) for name in SCHEMA}, schema=SCHEMA)


def _printed(prefix: str, estimates: Estimates, ranks: Ranks) -> _Columns:
    """Return ranks, scores, ends and half widths as printed: percent with one decimal, ends moved outwards."""
    low = np.floor(estimates.lower * 1000 + _NOISE) / 10
    high = np.ceil(estimates.upper * 1000 - _NOISE) / 10 + 0.0  # not -0.0
    half_width = np.ceil((high - low) * 5 - _NOISE) / 10 + 0.0
    values = ranks.rank, ranks.best, ranks.worst, [*map(_percent, estimates.score.tolist())], low, high, half_width
    return {prefix + name: value for name, value in zip(ESTIMATE, values, strict=True)}


_NOISE = 1e-9  # a fraction such as 157/200 must not fall a tenth short because it is not exact in binary


def _percent(fraction: float | None) -> float | None:
    """Round to one decimal, half to even, as numpy and Python do: for point estimates."""
    return None if fraction is None else round(fraction * 100, 1)


# ---- by a jury -----------------------------------------------------------------------------------------------------


def _by_labels(board: JuryBoard) -> pl.DataFrame:
    rows = _rows(board, _by_posterior(board))
    rows = with_flag(rows, BORROWED_ONLY, (pl.col("own_labels") == 0) & (pl.col("borrowed_labels") > 0))
    counts = board.counts
    is_unknown = ~np.isin(counts.predictions.maker, counts.maker[counts.is_labelled])
    rows = with_flag(rows, UNKNOWN_MAKER, pl.lit(pl.Series(is_unknown)))
    return with_flag(rows, OTHER_HINTS, _of(rows, _with_other_hints(board)))


def _by_posterior(board: JuryBoard) -> _Columns:
    columns: dict[str, Any] = {}
    for target, estimates in board.estimates.items():
        ranks = rank_ranges(estimates.draws, level=board.rules.level, rank=score_ranks(estimates.score))
        columns |= _printed(PREFIX[target], estimates, ranks)
    counts = board.counts
    own, borrowed = counts.own_labels, counts.borrowed_labels
    return columns | {
        **_counted(board),
        "flags": [", ".join(flags) for flags in label_flags(counts.n, borrowed + own, counts.unjudged)],
        "own_labels": own.sum(axis=1),
        "borrowed_labels": np.where(counts.n > 0, borrowed, 0).sum(axis=1),
        "fewest_labels_per_vote": fewest_labels(counts.n, borrowed),
    }


def _unlabelled(board: JuryBoard) -> pl.DataFrame:
    """Return the rows of a board without labels; what a row lacks for want of labels holds for the whole board."""
    judged = board.ranked
    silent = replace(board, votes=board.votes.filter(~HAS_OUTCOME.any().over(ENTRANT)))
    none = np.zeros(len(silent.entrants), dtype=np.int64)
    rows = [_rows(silent, {**_counted(silent), "own_labels": none, "borrowed_labels": none})]
    if judged.votes.height:
        more = {"flags": [""] * len(judged.entrants), "labels_needed": labels_for(judged, AIM_POINTS / 100)}
        rows.insert(0, _rows(judged, {**_by_posterior(judged), **more}))
    return with_flag(pl.concat(rows), _UNJUDGED, pl.col("n_unjudged") > 0)


def _by_paper(board: JuryBoard) -> _Columns:
    scores = paper_scores(board.counts)
    ranks = paper_ranks([score.score for score in scores], [score.half_width for score in scores])
    places = [[place or None for place in places.tolist()] for places in (ranks.rank, ranks.best, ranks.worst)]
    printed = [(score.score, _percent(score.lower), _percent(score.upper), score.half_width) for score in scores]
    here = zip(ESTIMATE, (*places, *zip(*printed, strict=True)), strict=True)
    return {
        **{SET + name: values for name, values in here},
        **_counted(board),
        "method": [PAPER] * len(scores),
        "target": [THIS_SET] * len(scores),
        "level": [PAPER_LEVEL] * len(scores),
        "flags": [", ".join(score.flags) for score in scores],
        "own_labels": [0] * len(scores),  # the paper does not use a provider's own labels
        "borrowed_labels": [score.borrowed_labels for score in scores],
        "fewest_labels_per_vote": [score.fewest_labels_per_vote for score in scores],
    }


def _counted(board: JuryBoard) -> _Columns:
    """Count each entrant's items, and answers of a kind."""
    counts = board.predictions.group_by("who").agg(n_items=pl.len(), **_KINDS).sort("who").drop("who")
    return counts.to_dict() | {"n_unjudged": board.counts.unjudged}


def _of(rows: pl.DataFrame, entrants: Collection[tuple[Any, ...]]) -> pl.Expr:
    return pl.lit(pl.Series([entrant in entrants for entrant in rows.select(ENTRANT).iter_rows()], dtype=pl.Boolean))


def _with_other_hints(board: JuryBoard) -> set[tuple[Any, ...]]:
    """Entrants whose model has labels at another hint level. The paper's method does not use these."""
    levels: dict[tuple[str, str], set[int]] = defaultdict(set)
    for model, provider, n_hints in board.labels.select(ENTRANT).unique().iter_rows():
        levels[model, provider].add(n_hints)
    entrants = (astuple(entrant) for entrant in board.entrants)
    return {entrant for entrant in entrants if levels[entrant[:2]] - {entrant[2]}}


def _with_verdicts(rows: pl.DataFrame, board: JuryBoard) -> pl.DataFrame:
    """Add the jury's share of yes to each row, count the verdicts that the row could stand on and those of them that
    are missing, and flag what is short.

    If nobody knows how many judges were asked, it is as many as judged any answer of the entrant. A jury is also short
    if it lacks more than the one judge who leaves before its own family's answers.
    """
    judges, total, is_judged = pl.col("judges"), pl.col("total"), ~NEEDS_NO_JURY
    most = pl.concat([board.votes["total"], board.labels["total"]]).max() or 0
    size = judges.fill_null(total.max().over(ENTRANT))
    mark = pl.when(NEEDS_NO_JURY).then(0.0).otherwise(pl.col("yes") / total)
    counts = (
        board.votes.with_columns(judges=pl.when(is_judged).then(size).otherwise(0))
        .group_by(ENTRANT)
        .agg(
            n_verdicts=judges.sum(),
            n_verdicts_missing=(judges - total).filter(is_judged).sum(),
            jury_vote=(100 * mark.filter(HAS_OUTCOME).mean()).round(1),
            is_short=((total > 0) & ((total < judges) | (total < most - 1))).any(),  # type: ignore[operator]
        )
    )
    missing = pl.col("n_verdicts_missing")
    is_few = (missing > 0) & (2 * missing >= pl.col("n_verdicts"))
    is_short = set(counts.filter(pl.col("is_short") & ~is_few).select(ENTRANT).iter_rows())
    rows = with_flag(rows.update(counts.drop("is_short"), on=ENTRANT), FEW_VERDICTS, is_few)
    return with_flag(rows, SHORT_JURY, _of(rows, is_short))


def with_failures(board: pl.DataFrame) -> pl.DataFrame:
    """Add the column ``failures``, also to a board as it is stored: it follows from the counts of answers that were
    never judged, where no rule has words of its own."""
    counts = (
        pl.when(pl.col(f"n_{kind}") > 0).then(pl.struct(kind=pl.lit(kind), count=f"n_{kind}"))
        for kind in (*_NEVER_JUDGED, "unjudged")
    )
    failures = pl.concat_list(*counts).list.drop_nulls()
    return board.with_columns(failures=pl.coalesce("failures", failures) if "failures" in board.columns else failures)


# ---- by a rule -----------------------------------------------------------------------------------------------------


def rank_marks(board: RuleBoard) -> pl.DataFrame:
    """Rank entrants by their mean mark, in percent, best first: no jury, no labels.

    On these items score and rank are exact, so their ranges are themselves; the interval and the rank range for new
    items come from weights on the items that all entrants share (``mark_estimates``). Failures of all samples count.
    """
    if board.marks.is_empty():
        return leaderboard()
    estimates = board.estimates[NEW_ITEMS]
    rank = score_ranks(np.round(estimates.score, 12))  # sums of equal marks in another order are equal
    new = _printed(NEW, estimates, rank_ranges(estimates.draws, level=board.rules.level, rank=rank))
    score = new[NEW + "score"]
    here = zip(ESTIMATE, (rank, rank, rank, score, score, score, np.zeros(len(score))), strict=True)
    answers = board.marks.sort(ENTRANT, maintain_order=True).partition_by(ENTRANT, maintain_order=True)
    counts = board.marks.group_by(ENTRANT).agg(n_items=pl.col("item_id").n_unique(), **_KINDS).sort(ENTRANT)
    more = [_rounds_and_failures(of_entrant) for of_entrant in answers]
    none = np.zeros(len(score), dtype=np.int64)
    return with_failures(best_first(_rows(board, {
        **new,
        **{SET + name: values for name, values in here},
        **counts.drop(ENTRANT).to_dict(),
        **dict.fromkeys(("n_unjudged", "own_labels", "borrowed_labels"), none),
        **dict(zip(("rounds", "round_sd", "failures"), zip(*more, strict=True), strict=True)),
    })))  # fmt: skip


def _rounds_and_failures(answers: pl.DataFrame) -> tuple[int | None, float | None, list[dict[str, object]] | None]:
    """Return the number of rounds and the spread of their scores, of several, and the failures over all answers."""
    failures = Counter(filter(None, answers["failure"]))
    named = [{"kind": kind, "count": count} for kind, count in failures.items()]
    counts = named if answers["failure"].count() else None
    means = answers.group_by("sample", maintain_order=True).agg(mean=100 * pl.mean("mark"))["mean"].to_list()
    return (len(means), _spread(means), counts) if len(means) > 1 else (None, None, counts)


def _spread(scores: Sequence[float]) -> float:
    """The sample standard deviation (n - 1) of the rounds' scores, as printed."""
    return round(statistics.stdev(scores), 3)


# ---- rounds of a jury ----------------------------------------------------------------------------------------------


_Row = dict[str, Any]


def mean_of_rounds(boards: Sequence[pl.DataFrame], samples: Mapping[str, int]) -> pl.DataFrame:
    """Average the boards of all rounds. ``samples``: number of a model's own rounds, which are the first."""
    if len(boards) == 1:
        return boards[0]
    rows_by_entrant: dict[Entrant, list[_Row]] = defaultdict(list)
    for row in (row for board in boards for row in board.iter_rows(named=True)):
        rows_by_entrant[Entrant.of(row)].append(row)
    rows = [_mean_row(rounds, samples.get(entrant.model, 1)) for entrant, rounds in rows_by_entrant.items()]
    for prefix in (NEW, SET):
        _rank_again(rows, prefix)
    return with_failures(best_first(pl.DataFrame(rows, schema=SCHEMA)))


def _mean_row(rounds: Sequence[_Row], samples: int) -> _Row:
    """``rounds``: in their order; a model with fewer samples than others is in some of them again."""
    own = rounds[:samples]
    scores = [row["score"] for row in own if row["score"] is not None]
    flags = dict.fromkeys(flag for row in own for flag in flags_of(row["flags"]))
    combined = {name: _combined(column.over_rounds, name, rounds, own) for name, column in LEADERBOARD.items()}
    return combined | {
        "flags": ", ".join(flags),
        "failures": None,
        "rounds": samples if samples > 1 else None,
        "round_sd": _spread(scores) if len(scores) > 1 else None,
    }


def _combined(rule: OverRounds, name: str, rounds: Sequence[_Row], own: Sequence[_Row]) -> Any:
    present = [row[name] for row in rounds if row[name] is not None]
    match rule:
        case OverRounds.LEAST:
            return min(present, default=None)
        case OverRounds.MOST:
            return max(present, default=None)
        case OverRounds.SUM:
            return sum(row[name] for row in own)
        case OverRounds.MEAN:
            values = [row[name] for row in own]
            return None if None in values else round(sum(values) / len(values), 1)
    return rounds[0][name]


def _rank_again(rows: Sequence[_Row], prefix: str) -> None:
    """Give each row the rank of its mean, which is within its range."""
    for row, rank in zip(rows, score_ranks([row[prefix + "score"] for row in rows]).tolist(), strict=True):
        row[prefix + "rank"] = rank or None
        best, worst = row[prefix + "rank_best"], row[prefix + "rank_worst"]
        if rank and best is not None and worst is not None:
            row |= {prefix + "rank_best": min(rank, best), prefix + "rank_worst": max(rank, worst)}
