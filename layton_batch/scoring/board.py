"""From votes and labels, or from marks, to a ranked board: one row an entrant, best first.

Jury boards: ``rank_board``, or exactly as the layton-eval paper does.
Boards graded by rule: ``rank_marks``. All give the same :class:`BoardRow`, so that all leaderboards look alike.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.counting import Counted, count_votes, in_order
from layton_batch.scoring.evidence import Ballot, Entrant, ItemScores, Label
from layton_batch.scoring.law import VoteLaw, mark_law
from layton_batch.scoring.rules import HIERARCHICAL, PAPER, PAPER_LEVEL, Rules
from layton_batch.stats.joint import JointDraws
from layton_batch.stats.paper import PaperScore, paper_scores
from layton_batch.stats.posterior import ModelScore
from layton_batch.stats.ranks import paper_ranks, rank_ranges, score_ranks
from layton_batch.stats.strata import Flag, IntArray

RULE = "rule"
METHOD_WORDS = {RULE: "graded by rule", HIERARCHICAL: "jury corrected by labels", PAPER: "the published method"}
"""What a heading calls the ``method`` of a board's rows; the others by their names."""
_NEVER_JUDGED = ("abstained", "unparsed", "missing")

SHORT_JURY = "short_jury"
OTHER_JURY = "labels_of_another_jury"
OTHER_MODEL = "served_another_model"
OTHER_HINTS = "labels_of_other_hints"
UNKNOWN_MAKER = "maker_without_labels"
FLAGS = {
    "empty_gold_bin": "For at least one number of yes votes there is no human label.",
    "no_gold": "There is no human label for this row; its interval says almost nothing.",
    "unjudged": "Some answers have no readable verdict; whether they are correct is unknown.",
    "known_zeros": "Abstained, unreadable and missing answers count as wrong.",
    "monte_carlo": "The distribution was too large to enumerate and was drawn with the run's seed.",
    SHORT_JURY: "Some answers were judged by fewer judges than others; the same share of fewer votes says less.",
    OTHER_JURY: "The human labels are those of another jury; they say nothing sure about this one.",
    OTHER_MODEL: "Some of its answers came from another model than the one asked for, says the provider.",
    UNKNOWN_MAKER: "No answer of this model's maker has a label: if the judges favour that maker, nothing shows it, "
    "and the interval can miss the truth.",
    "borrowed_only": "None of this row's own answers has a label; all labels are borrowed.",
    OTHER_HINTS: "Some of the borrowed labels are other hints': on this model's answers at another hint level.",
}
"""What a row's ``flags`` mean, by name, in a sentence each."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One line of a leaderboard. Scores are percent as printed; None where ``flags`` says why there is none.

    ``score``, ``lower``..``upper``: these items; ``new_*``: new items of the same kind. ``rank_best``..``rank_worst``:
    the rank range, which holds all entrants' ranks together at ``level`` (in the paper's method the range that
    overlapping intervals leave open; graded by rule the range for new items). ``own_labels``, ``borrowed_labels``:
    human labels behind the row; ``smallest_gold_bin``: fewest borrowed labels behind a vote that its items have.
    ``labels_needed``: labels on the model's answers that would give ± 3 points, where the board has none at all.
    ``rounds``: how many samples of its answers the score is the mean of, with ``round_sd``, the sample standard
    deviation of their scores, in points; None where there is one.
    ``failures``: how often each kind occurs, in the rule's words, or (with a jury) of what never came before it; not a
    column of the run's table.
    """

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
    flags: tuple[str, ...]
    level: float
    new_score: float | None
    new_lower: float | None
    new_upper: float | None
    new_rank_best: int | None
    new_rank_worst: int | None
    own_labels: int
    borrowed_labels: int
    smallest_gold_bin: int | None
    n_abstained: int
    labels_needed: int | None = None
    rounds: int | None = None
    round_sd: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    def columns(self) -> dict[str, Any]:
        """Return the row as tables and files keep it: its flags are one text."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**values, "flags": ", ".join(self.flags)}


_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Scored:
    """What a method found out about one entrant, in percent as printed; ``new``: score, lower, upper."""

    score: float | None
    lower: float | None
    upper: float | None
    half_width: float | None
    new: tuple[float | None, float | None, float | None]
    labels: tuple[int, int, int | None]
    items: int
    unjudged: int
    flags: tuple[str, ...]


def rank_board(ballots: Sequence[Ballot], labels: Sequence[Label], rules: Rules) -> list[BoardRow]:
    """Score every entrant and rank them, best first; entrants without a score come last, unranked.

    Neither the order of the ballots nor ``rules.seed`` moves a range: what is drawn for it is always the same. Raises
    DataError for predictions or labels that contradict each other.
    """
    if not ballots:
        return []
    ballots = Ballots.of(ballots)
    if rules.method == PAPER:
        rows = _paper_board(count_votes(ballots, labels, by_seats=False), rules)
    else:
        rows = _with_other_hints(_jury_board(count_votes(in_order(ballots), labels), rules), labels)
    short = _with_a_short_jury(ballots, labels)
    flagged = (
        with_flag([row], SHORT_JURY) if (row.model, row.provider, row.n_hints) in short else [row] for row in rows
    )
    return [row for one in flagged for row in one]


def _with_other_hints(rows: Sequence[BoardRow], labels: Sequence[Label]) -> list[BoardRow]:
    """The rows; one whose model has labels at another hint level says so. The paper's method does not use these."""
    levels: dict[tuple[str, str], set[int]] = defaultdict(set)
    for label in labels:
        levels[label.entrant.model, label.entrant.provider].add(label.entrant.n_hints)
    found = [row for row in rows if levels[row.model, row.provider] - {row.n_hints}]
    return [flagged for row in rows for flagged in (with_flag([row], OTHER_HINTS) if row in found else [row])]


def _with_a_short_jury(ballots: Ballots, labels: Sequence[Label]) -> set[tuple[str, str, int]]:
    """Entrants of whom some answers have fewer verdicts than others of theirs, or by more than the one judge who leaves
    before its own family's answers fewer than any answer of the board or of the labels."""
    sizes = ballots.jury_sizes()
    most = max([*map(max, sizes.values()), *(label.total for label in labels)], default=0)
    short = (one for one, totals in sizes.items() if len(totals) > 1 or min(totals) < most - 1)
    return {(one.model, one.provider, one.n_hints) for one in short}


def with_flag(rows: Sequence[BoardRow], flag: str, models: Collection[str] | None = None) -> list[BoardRow]:
    """The rows, each of which says so as well; with ``models`` only theirs."""
    return [replace(row, flags=(*row.flags, flag)) if models is None or row.model in models else row for row in rows]


def _paper_board(counted: Counted, rules: Rules) -> list[BoardRow]:
    strata = counted.strata
    behind = np.where(strata.n > 0, strata.pool_labels, 0).sum(axis=1).tolist()
    unjudged = strata.unjudged.tolist()
    scores = paper_scores(strata, seed=rules.seed)
    scored = [_paper_print(one, behind[i], unjudged[i]) for i, one in enumerate(scores)]
    ranks = paper_ranks([one.score for one in scored], [one.half_width for one in scored])
    kinds = counted.ballots.kinds_of()
    rows = []
    for i in ranks.order.tolist():
        rank, best, worst = ranks.of(i) or (None, None, None)
        found = None if best is None or worst is None else (best, worst)
        rows.append(_row(counted.entrants[i], scored[i], rank, (found, None), kinds, rules))
    return rows


def _paper_print(one: PaperScore, behind: int, unjudged: int) -> _Scored:
    lower = None if one.lower is None else round_tenth(one.lower)
    upper = None if one.upper is None else round_tenth(one.upper)
    flags = _flags(one.flags, one.reason)
    labels = (0, behind, one.smallest_gold_bin)  # the paper does not use a provider's own labels
    return _Scored(one.score, lower, upper, one.half_width, (None, None, None), labels, one.items, unjudged, flags)


def _jury_board(counted: Counted, rules: Rules) -> list[BoardRow]:
    law = VoteLaw(counted, rules)
    scores = law.scores()
    unjudged = counted.strata.unjudged.tolist()
    scored = [_print(one, unjudged[i]) for i, one in enumerate(scores)]
    without = ~np.isin(counted.target.provider, counted.gold.provider)
    scored = [replace(one, flags=(*one.flags, UNKNOWN_MAKER)) if without[i] else one for i, one in enumerate(scored)]
    rank = score_ranks([one.score for one in scores])
    draws_here, draws_new = law.draws()
    here, new = _ranges(draws_here, rank, rules.level), _ranges(draws_new, rank, _two_sided(rules.level))
    kinds = counted.ballots.kinds_of()
    return [
        _row(counted.entrants[i], scored[i], int(rank[i]), (here[i], new[i]), kinds, rules)
        for i in np.argsort(rank, kind="stable").tolist()
    ]


def _two_sided(level: float) -> float:
    """The level of rank ranges for new items: two models are told apart only where ``compare`` tells them apart, whose
    interval leaves half as much out on either side. Else a lead on three of a hundred items would do."""
    return (1 + level) / 2


def _ranges(draws: JointDraws, rank: IntArray, level: float) -> list[_Range]:
    """Every entrant of a board has a prediction, so each is in the draws."""
    sets = rank_ranges(draws, level=level, rank=rank)
    return list(zip(sets.best.tolist(), sets.worst.tolist(), strict=True))


def _print(one: ModelScore, unjudged: int) -> _Scored:
    behind = (one.own_labels, one.borrowed_labels, one.smallest_gold_bin)
    flags = _flags(one.flags, one.reason)
    if one.own_labels == 0 and one.borrowed_labels > 0:
        flags = (*flags, "borrowed_only")
    if one.score is None or one.lower is None or one.upper is None or one.new_score is None:
        return _Scored(None, None, None, None, (None, None, None), behind, one.items, unjudged, flags)
    lower, upper = floor_tenth(one.lower), ceil_tenth(one.upper)
    half = math.ceil((upper - lower) * 5 - 1e-9) / 10
    new = (round_tenth(one.new_score), floor_tenth(one.new_lower or 0.0), ceil_tenth(one.new_upper or 0.0))
    return _Scored(round_tenth(one.score), lower, upper, half, new, behind, one.items, unjudged, flags)


def _flags(flags: Sequence[object], reason: str | None) -> tuple[str, ...]:
    named = [str(flag) for flag in flags if flag is not Flag.KNOWN_ZEROS]  # their counts have columns of their own
    return (*named, reason) if reason else tuple(named)


def rank_marks(sheets: Sequence[ItemScores], rules: Rules) -> list[BoardRow]:
    """Rank entrants by their mean mark, in percent, best first: no jury, no labels.

    On these items the score is exact, so its interval is itself; the interval and the rank range for new items come
    from weights on the items that all entrants share (``mark_draws``). Raises DataError for marks that are no numbers.
    """
    if not sheets:
        return []
    sheets = sorted(sheets, key=lambda sheet: sheet.entrant)
    law = mark_law(sheets, rules.level)
    scores = law.scores
    rank = score_ranks(np.round(scores.mean, 12))  # sums of equal marks in another order are equal
    ranges = _ranges(law.draws, rank, _two_sided(rules.level))
    rows = []
    for i in np.argsort(rank, kind="stable").tolist():
        score = round_tenth(float(scores.mean[i]))
        new = (score, floor_tenth(float(scores.new_lower[i])), ceil_tenth(float(scores.new_upper[i])))
        scored = _Scored(score, score, score, 0.0, new, (0, 0, None), len(sheets[i].item_ids), 0, ())
        entrant = sheets[i].entrant
        kinds = Counter((entrant, kind) for kind in sheets[i].kinds)
        row = _row(entrant, scored, int(rank[i]), (ranges[i], ranges[i]), kinds, rules, RULE)
        failures = Counter(failure for failure in sheets[i].failures if failure is not None)
        rows.append(replace(row, failures=dict(failures)) if sheets[i].failures else row)
    return rows


def _row(
    entrant: Entrant,
    scored: _Scored,
    rank: int | None,
    ranges: tuple[_Range | None, _Range | None],
    kinds: Counter[tuple[Entrant, str]],
    rules: Rules,
    method: str | None = None,
) -> BoardRow:
    (best, worst), (new_best, new_worst) = (found or (None, None) for found in ranges)
    own, borrowed, least = scored.labels
    new_score, new_lower, new_upper = scored.new
    never = {name: count for name in _NEVER_JUDGED if (count := kinds[entrant, name])}
    return BoardRow(
        rank=rank,
        rank_best=best,
        rank_worst=worst,
        model=entrant.model,
        provider=entrant.provider,
        n_hints=entrant.n_hints,
        score=scored.score,
        lower=scored.lower,
        upper=scored.upper,
        half_width=scored.half_width,
        method=method or rules.method,
        metric=rules.metric,
        n_items=scored.items,
        n_unparsed=kinds[entrant, "unparsed"],
        n_missing=kinds[entrant, "missing"],
        n_unjudged=scored.unjudged,
        flags=scored.flags,
        level=PAPER_LEVEL if rules.method == PAPER and method is None else rules.level,
        new_score=new_score,
        new_lower=new_lower,
        new_upper=new_upper,
        new_rank_best=new_best,
        new_rank_worst=new_worst,
        own_labels=own,
        borrowed_labels=borrowed,
        smallest_gold_bin=least,
        n_abstained=kinds[entrant, "abstained"],
        failures=never | ({"unjudged": scored.unjudged} if scored.unjudged else {}),
    )


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
