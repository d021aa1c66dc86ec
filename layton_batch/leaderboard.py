"""From votes and labels to a ranked board: the bridge between predictions and the statistics.

It knows nothing of runs or files: entrants, ballots (a jury's count of yes on one prediction) and labels (a person's
word on one prediction) in, one row per entrant out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.stats.calibrated import PROVIDER_SHIFT, CalibratedScore, calibrated_scores
from layton_batch.stats.paper import PaperScore, paper_scores
from layton_batch.stats.printing import ceil_tenth, floor_tenth, round_tenth
from layton_batch.stats.ranks import Ranks, paper_ranks
from layton_batch.stats.strata import Flag, GoldPredictions, Strata, TargetPredictions, build_strata

METHODS = ("calibrated", "paper")


@dataclass(frozen=True, slots=True)
class Entrant:
    """Who is ranked: a model at a hint level. Two hint levels of one model are two entrants."""

    model: str
    provider: str
    n_hints: int


@dataclass(frozen=True, slots=True)
class Ballot:
    """A prediction and its votes: ``yes`` of ``total`` verdicts; ``known_zero``: wrong without a jury.

    ``content`` identifies what was said, so that a label can be known to belong to exactly this prediction.
    """

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    content: int = 0
    known_zero: bool = False
    kind: str = "answered"


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on a prediction (perhaps of an earlier run), with the votes the jury gave it."""

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    correct: bool
    content: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a leaderboard. Scores are percent as printed; None where ``flags`` says why there is none."""

    rank: int | None
    rank_best: int | None
    rank_worst: int | None
    model: str
    provider: str
    n_hints: int
    score: float | None
    lower: float | None
    upper: float | None
    half_width: float | None
    method: str
    metric: str
    n_items: int
    n_unparsed: int
    n_missing: int
    n_unjudged: int
    flags: str


@dataclass(frozen=True, slots=True)
class Rules:
    """How a board is scored. ``level`` applies to ``calibrated``; the paper's is 0.95 by definition."""

    method: str = "calibrated"
    metric: str = "both_correct"
    level: float = 0.95
    seed: int = 0
    provider_shift: float = PROVIDER_SHIFT


def content_key(answer: str | None, justification: str | None) -> int:
    """What makes two predictions the same one; equal within this process only."""
    return hash((answer, justification))


def rank_board(ballots: Sequence[Ballot], labels: Sequence[Label], rules: Rules) -> list[Row]:
    """Score every entrant and rank them, best first; entrants without a score come last, unranked."""
    entrants = list(dict.fromkeys(ballot.entrant for ballot in ballots))
    if not entrants:
        return []
    strata = _strata(entrants, ballots, labels)
    if rules.method == "paper":
        scored = [_paper_print(one) for one in paper_scores(strata, seed=rules.seed)]
    else:
        calibrated = calibrated_scores(strata, level=rules.level, provider_shift=rules.provider_shift)
        scored = [_calibrated_print(one) for one in calibrated]
    ranks = _ranks(scored, rules.method)
    kinds = Counter((ballot.entrant, ballot.kind) for ballot in ballots)
    return [_row(entrants[i], scored[i], ranks.of(i), kinds, strata, i, rules) for i in ranks.order.tolist()]


@dataclass(frozen=True, slots=True)
class _Printed:
    score: float | None
    lower: float | None
    upper: float | None
    half_width: float | None
    items: int
    flags: str


def _paper_print(one: PaperScore) -> _Printed:
    lower = None if one.lower is None else round_tenth(one.lower)
    upper = None if one.upper is None else round_tenth(one.upper)
    return _Printed(one.score, lower, upper, one.half_width, one.items, _flags(one.flags, one.reason))


def _calibrated_print(one: CalibratedScore) -> _Printed:
    if one.score is None or one.lower is None or one.upper is None:
        return _Printed(None, None, None, None, one.items, _flags(one.flags, one.reason))
    lower, upper = floor_tenth(one.lower), ceil_tenth(one.upper)
    half = math.ceil((upper - lower) * 5 - 1e-9) / 10
    return _Printed(round_tenth(one.score), lower, upper, half, one.items, _flags(one.flags, one.reason))


def _flags(flags: Sequence[object], reason: str | None) -> str:
    told = [str(flag) for flag in flags if flag is not Flag.KNOWN_ZEROS]  # unparsed and missing have their own columns
    return ", ".join(told + ([reason] if reason else []))


def _ranks(scored: Sequence[_Printed], method: str) -> Ranks:
    """Ranks by printed score, spreads by overlap of the printed intervals."""
    plain = paper_ranks([one.score for one in scored], [one.half_width for one in scored])
    if method == "paper":
        return plain
    # an interval of the calibrated kind need not be centred on its score: overlap goes by its own ends
    middle = [None if one.lower is None or one.upper is None else (one.lower + one.upper) / 2 for one in scored]
    half = [None if one.lower is None or one.upper is None else (one.upper - one.lower) / 2 for one in scored]
    overlap = paper_ranks(middle, half)
    best, worst = np.minimum(overlap.best, plain.rank), np.maximum(overlap.worst, plain.rank)
    return Ranks(plain.rank, best, worst, plain.order)


def _row(
    entrant: Entrant,
    printed: _Printed,
    ranks: tuple[int, int, int] | None,
    kinds: Counter[tuple[Entrant, str]],
    strata: Strata,
    index: int,
    rules: Rules,
) -> Row:
    rank, best, worst = ranks or (None, None, None)
    return Row(
        rank=rank,
        rank_best=best,
        rank_worst=worst,
        model=entrant.model,
        provider=entrant.provider,
        n_hints=entrant.n_hints,
        score=printed.score,
        lower=printed.lower,
        upper=printed.upper,
        half_width=printed.half_width,
        method=rules.method,
        metric=rules.metric,
        n_items=printed.items,
        n_unparsed=kinds[entrant, "unparsed"],
        n_missing=kinds[entrant, "missing"],
        n_unjudged=int(strata.unjudged[index]),
        flags=printed.flags,
    )


def _strata(entrants: Sequence[Entrant], ballots: Sequence[Ballot], labels: Sequence[Label]) -> Strata:
    entrant_index = {entrant: i for i, entrant in enumerate(entrants)}
    items: dict[str, int] = {}
    providers: dict[str, int] = {}
    rows = {(ballot.entrant, ballot.item_id, ballot.content): i for i, ballot in enumerate(ballots)}
    target = TargetPredictions(
        model=_ints([entrant_index[ballot.entrant] for ballot in ballots]),
        item=_ints([items.setdefault(ballot.item_id, len(items)) for ballot in ballots]),
        yes=_ints([ballot.yes for ballot in ballots]),
        total=_ints([ballot.total for ballot in ballots]),
        known_zero=np.array([ballot.known_zero for ballot in ballots], dtype=np.bool_),
        provider=_ints([providers.setdefault(entrant.provider, len(providers)) for entrant in entrants]),
    )
    gold = GoldPredictions(
        model=_ints([entrant_index.get(label.entrant, -1) for label in labels]),
        provider=_ints([providers.setdefault(label.entrant.provider, len(providers)) for label in labels]),
        yes=_ints([label.yes for label in labels]),
        total=_ints([label.total for label in labels]),
        label=_ints([int(label.correct) for label in labels]),
        own_target_row=_ints([rows.get((label.entrant, label.item_id, label.content), -1) for label in labels]),
    )
    return build_strata(target, gold)


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)
