"""From votes and labels, or from marks, to a ranked board: one row an entrant, best first.

Jury boards: ``rank_board``, or exactly as the layton-eval paper does.
Boards graded by rule: ``rank_marks``. All give the same :class:`BoardRow`, so that all leaderboards look alike.
A row is for one target: new items of this kind, or this set (``on_this_set``).
"""

from __future__ import annotations

import math
import string
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import polars as pl

from layton_batch.scoring.counting import Counted, count_votes
from layton_batch.scoring.evidence import ENTRANT, Entrant, ItemScores
from layton_batch.scoring.law import VoteLaw, mark_law
from layton_batch.scoring.rules import HIERARCHICAL, PAPER, PAPER_LEVEL, Rules
from layton_batch.stats.joint import JointDraws
from layton_batch.stats.paper import PaperScore, paper_scores
from layton_batch.stats.posterior import ModelScore
from layton_batch.stats.ranks import paper_ranks, rank_ranges, score_ranks
from layton_batch.stats.strata import Flag

RULE = "rule"
METHOD_WORDS = {RULE: "graded by rule", HIERARCHICAL: "jury corrected by labels", PAPER: "the published method"}
"""Words of a heading for the ``method`` of a board's rows; other methods are called by their names."""
_NEVER_JUDGED = ("abstained", "unparsed", "missing")

SHORT_JURY = "short_jury"
OTHER_JURY = "labels_of_another_jury"
OTHER_MODEL = "served_another_model"
OTHER_HINTS = "labels_of_other_hints"
UNKNOWN_MAKER = "maker_without_labels"
BORROWED_ONLY = "borrowed_only"
NO_OWN = "*"
"""Marks a row none of whose own answers has a label, on a board that rests on labels."""
ASSUMES = "Assumes that labels are right and that the jury is the one that was labelled."
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
    BORROWED_ONLY: "None of this row's own answers has a label; all labels are borrowed.",
    OTHER_HINTS: "Some of the borrowed labels are other hints': on this model's answers at another hint level.",
}
"""What a row's ``flags`` mean, by name, in a sentence each."""


NEW_ITEMS, THIS_SET = "new items", "this set"
"""Targets of a row: new items of the same kind as these, or exactly these."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A model's score with its interval, in percent as printed, and its rank with the rank range, all on one target;
    all None where nothing is known. ``half_width`` is half of the printed interval, in points.

    The rank range holds all entrants' ranks together at the row's ``level`` (in the paper's method it is what
    overlapping intervals leave open).
    """

    rank: int | None = None
    rank_best: int | None = None
    rank_worst: int | None = None
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    half_width: float | None = None


UNKNOWN = Estimate()
_SHOWN = ("rank", "rank_best", "rank_worst", "score", "lower", "upper")


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One line of a leaderboard. Scores are percent as printed; None where ``flags`` says why there is none.

    ``target`` says which of ``new`` (new items of this kind) and ``this_set`` (exactly these items) the row shows.
    ``own_labels``, ``borrowed_labels``: human labels behind the row; ``smallest_gold_bin``: fewest borrowed labels
    behind a vote that its items have. ``labels_needed``: labels on the model's answers that would give ± 3 points on
    this set, where the board has none at all.
    ``rounds``: how many samples of its answers the score is the mean of, with ``round_sd``, the sample standard
    deviation of their scores, in points; None where there is one.
    ``failures``: how often each kind occurs, in the rule's words, or (with a jury) of what never came before it; not a
    column of the run's table.
    """

    model: str
    provider: str
    n_hints: int
    target: str
    new: Estimate
    this_set: Estimate
    method: str
    metric: str
    n_items: int
    n_unparsed: int
    n_missing: int
    n_unjudged: int
    flags: tuple[str, ...]
    level: float
    own_labels: int
    borrowed_labels: int
    smallest_gold_bin: int | None
    n_abstained: int
    labels_needed: int | None = None
    rounds: int | None = None
    round_sd: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def shown(self) -> Estimate:
        return self.this_set if self.target == THIS_SET else self.new

    @property
    def other(self) -> Estimate:
        """The target that the row does not show."""
        return self.new if self.target == THIS_SET else self.this_set

    @property
    def rank(self) -> int | None:
        return self.shown.rank

    @property
    def rank_best(self) -> int | None:
        return self.shown.rank_best

    @property
    def rank_worst(self) -> int | None:
        return self.shown.rank_worst

    @property
    def score(self) -> float | None:
        return self.shown.score

    @property
    def lower(self) -> float | None:
        return self.shown.lower

    @property
    def upper(self) -> float | None:
        return self.shown.upper

    @property
    def half_width(self) -> float | None:
        return self.shown.half_width

    def columns(self) -> dict[str, Any]:
        """Return the row as tables and files keep it: what it shows, then both targets under their names (``new_*``,
        ``set_*``); its flags are one text."""
        first = {name: getattr(self, name) for name in _FIRST}
        both = {f"new_{name}": getattr(self.new, name) for name in _SHOWN}
        both |= {f"set_{name}": getattr(self.this_set, name) for name in _SHOWN}
        names = [column.name for column in fields(self) if column.name not in (*_FIRST, *_BOTH)]
        rest = {name: getattr(self, name) for name in names}
        return {**first, "flags": ", ".join(self.flags), "level": self.level, "target": self.target, **both, **rest}


_FIRST = (
    "rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper", "half_width",
    "method", "metric", "n_items", "n_unparsed", "n_missing", "n_unjudged",
)  # fmt: skip
_BOTH = ("new", "this_set", "target", "flags", "level")


def on_this_set(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """The rows for exactly these items, best first; as they are where nothing is known of these (``uncalibrated``)."""
    if all(row.this_set.score is None for row in rows):
        return list(rows)
    return in_rank_order([replace(row, target=THIS_SET) for row in rows])


def columns_on_this_set(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Do the same as ``on_this_set`` with rows that were read from a table."""
    if all(row["set_score"] is None for row in rows):
        return [dict(row) for row in rows]
    swapped = [{**row, **{name: row[f"set_{name}"] for name in _SHOWN}, "target": THIS_SET} for row in rows]
    return sorted(swapped, key=lambda row: (row["rank"] is None, row["rank"] or 0))


def in_rank_order(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Best first by what they show, those without a rank last."""
    return sorted(rows, key=lambda row: (row.rank is None, row.rank or 0))


def alike(ranges: Sequence[tuple[int | None, int | None]]) -> list[str]:
    """Letters for rank ranges: two of them share one exactly where they overlap, so that the two models cannot be told
    apart. "A–C" is A, B and C; empty where there is no range."""
    rank_ranges = [(best, worst) for best, worst in ranges if best is not None and worst is not None]
    starts, shared, before = sorted({best for best, _ in rank_ranges}), [], 0
    for end in sorted({worst for _, worst in rank_ranges}):
        # one group for each end before which another range starts: it is of those that are open there
        if bisect_right(starts, end) > bisect_right(starts, before):
            shared.append(end)
        before = end
    return [
        "" if best is None or worst is None else _letters(bisect_left(shared, best), bisect_right(shared, worst) - 1)
        for best, worst in ranges
    ]


def _letters(first: int, last: int) -> str:
    if last - first > 1:
        return f"{_letter(first)}–{_letter(last)}"
    return _letter(first) + (_letter(last) if last > first else "")


def _letter(number: int) -> str:
    return (_letter(number // 26 - 1) if number >= 26 else "") + string.ascii_uppercase[number % 26]


_Rank = tuple[int, int, int]
"""Rank by score, best and worst rank."""


@dataclass(frozen=True, slots=True)
class _Scored:
    """Scores of one entrant by a method: its estimates, still without ranks."""

    new: Estimate
    this_set: Estimate
    labels: tuple[int, int, int | None]
    items: int
    unjudged: int
    flags: tuple[str, ...]


def rank_board(votes: pl.DataFrame, labels: pl.DataFrame, rules: Rules) -> list[BoardRow]:
    """Score every entrant and rank them, best first; entrants without a score come last, unranked.

    Neither the order of the rows nor ``rules.seed`` moves a range: what is drawn for it is always the same. Raises
    DataError for predictions or labels that contradict each other.
    """
    if votes.is_empty():
        return []
    if rules.method == PAPER:
        rows = _paper_board(count_votes(votes, labels, by_seats=False), rules)
    else:
        rows = _with_other_hints(_jury_board(count_votes(votes, labels), rules), labels)
    short = _with_a_short_jury(votes, labels)
    return [with_flags(row, SHORT_JURY) if (row.model, row.provider, row.n_hints) in short else row for row in rows]


def _with_other_hints(rows: Sequence[BoardRow], labels: pl.DataFrame) -> list[BoardRow]:
    """The rows; one whose model has labels at another hint level says so. The paper's method does not use these."""
    levels: dict[tuple[str, str], set[int]] = defaultdict(set)
    for model, provider, n_hints in labels.select(ENTRANT).unique().iter_rows():
        levels[model, provider].add(n_hints)
    return [with_flags(row, OTHER_HINTS) if levels[row.model, row.provider] - {row.n_hints} else row for row in rows]


def _with_a_short_jury(votes: pl.DataFrame, labels: pl.DataFrame) -> set[tuple[str, str, int]]:
    """Entrants of whom some answers have fewer verdicts than others of theirs, or by more than the one judge who leaves
    before its own family's answers fewer than any answer of the board or of the labels."""
    total = pl.col("total")
    sizes = votes.filter(total > 0).group_by(ENTRANT).agg(least=total.min(), most=total.max())
    most = pl.concat([sizes["most"], labels["total"]]).max() or 0
    short = sizes.filter((pl.col("least") < pl.col("most")) | (pl.col("least") < most - 1))  # type: ignore[operator]
    return set(short.select(ENTRANT).iter_rows())


def with_flags(row: BoardRow, *flags: str) -> BoardRow:
    return replace(row, flags=(*row.flags, *flags))


def with_flag(rows: Sequence[BoardRow], flag: str, models: Collection[str] | None = None) -> list[BoardRow]:
    """The rows, each of which says so as well; with ``models`` only theirs."""
    return [with_flags(row, flag) if models is None or row.model in models else row for row in rows]


def _paper_board(counted: Counted, rules: Rules) -> list[BoardRow]:
    strata = counted.strata
    behind = np.where(strata.n > 0, strata.pool_labels, 0).sum(axis=1).tolist()
    unjudged = strata.unjudged.tolist()
    scores = paper_scores(strata, seed=rules.seed)
    scored = [_paper_print(score, behind[i], unjudged[i]) for i, score in enumerate(scores)]
    ranks = paper_ranks([score.score for score in scores], [score.half_width for score in scores])
    kinds = _kinds(counted)
    rows = []
    for i in ranks.order.tolist():
        rank, best, worst = ranks.of(i) or (None, None, None)
        placed = replace(scored[i].this_set, rank=rank, rank_best=best, rank_worst=worst)
        rows.append(_row(counted.entrants[i], replace(scored[i], this_set=placed), kinds, rules))
    return rows


def _paper_print(one: PaperScore, behind: int, unjudged: int) -> _Scored:
    lower = None if one.lower is None else round_tenth(one.lower)
    upper = None if one.upper is None else round_tenth(one.upper)
    flags = _flags(one.flags, one.reason)
    labels = (0, behind, one.smallest_gold_bin)  # the paper does not use a provider's own labels
    estimate = Estimate(score=one.score, lower=lower, upper=upper, half_width=one.half_width)
    return _Scored(UNKNOWN, estimate, labels, one.items, unjudged, flags)


def _jury_board(counted: Counted, rules: Rules) -> list[BoardRow]:
    law = VoteLaw(counted, rules)
    scores = law.scores()
    unjudged = counted.strata.unjudged.tolist()
    scored = [_print(score, unjudged[i]) for i, score in enumerate(scores)]
    for i in np.flatnonzero(~np.isin(counted.target.provider, counted.gold.provider)).tolist():
        scored[i] = replace(scored[i], flags=(*scored[i].flags, UNKNOWN_MAKER))
    if not len(counted.gold.label):
        return _board_without_labels(counted, scored, rules)
    draws_here, draws_new = law.draws()
    here = _ranked([score.score for score in scores], draws_here, rules.level)
    new = _ranked([score.new_score for score in scores], draws_new, _two_sided(rules.level))
    kinds = _kinds(counted)
    placed = [_placed(scores_of, new[i], here[i]) for i, scores_of in enumerate(scored)]
    rows = [_row(entrant, scores_of, kinds, rules) for entrant, scores_of in zip(counted.entrants, placed, strict=True)]
    return in_rank_order(rows)


def _board_without_labels(counted: Counted, scored: Sequence[_Scored], rules: Rules) -> list[BoardRow]:
    """Return rows without a score: votes alone do not say how often people agree with them. Only answers that are known
    to be wrong bound the share of right ones."""
    strata, kinds, rows = counted.strata, _kinds(counted), []
    highest = strata.n.sum(axis=1) / np.maximum(strata.items, 1)
    for entrant, scores, upper in zip(counted.entrants, scored, highest.tolist(), strict=True):
        bounds = Estimate(lower=0.0, upper=ceil_tenth(upper))
        rows.append(_row(entrant, replace(scores, new=Estimate(lower=0.0, upper=100.0), this_set=bounds), kinds, rules))
    return rows


def _kinds(counted: Counted) -> Counter[tuple[Entrant, str]]:
    """How often what became of each entrant's replies."""
    times = counted.votes.group_by("who", "kind").len()
    return Counter({(counted.entrants[who], kind): count for who, kind, count in times.iter_rows()})


def _placed(scores: _Scored, new: _Rank, here: _Rank) -> _Scored:
    return replace(scores, new=_at(scores.new, new), this_set=_at(scores.this_set, here))


def _at(estimate: Estimate, place: _Rank) -> Estimate:
    return replace(estimate, rank=place[0], rank_best=place[1], rank_worst=place[2])


def _two_sided(level: float) -> float:
    """The level of rank ranges for new items: two models are told apart only where ``compare`` tells them apart, whose
    interval leaves half as much out on either side."""
    return (1 + level) / 2


def _ranked(scores: Sequence[float | None], draws: JointDraws, level: float) -> list[_Rank]:
    """Rank by score, best and worst rank. Every entrant of a board has a prediction, so each is in the draws."""
    rank = score_ranks(scores)
    sets = rank_ranges(draws, level=level, rank=rank)
    return list(zip(rank.tolist(), sets.best.tolist(), sets.worst.tolist(), strict=True))


def _print(score: ModelScore, unjudged: int) -> _Scored:
    behind = (score.own_labels, score.borrowed_labels, score.smallest_gold_bin)
    flags = _flags(score.flags, score.reason)
    if score.own_labels == 0 and score.borrowed_labels > 0:
        flags = (*flags, BORROWED_ONLY)
    if score.score is None or score.lower is None or score.upper is None or score.new_score is None:
        return _Scored(UNKNOWN, UNKNOWN, behind, score.items, unjudged, flags)
    here = estimate(score.score, score.lower, score.upper)
    new = estimate(score.new_score, score.new_lower or 0.0, score.new_upper or 0.0)
    return _Scored(new, here, behind, score.items, unjudged, flags)


def estimate(score: float, lower: float, upper: float) -> Estimate:
    """Return fractions as an estimate without a rank: as printed, the ends moved outwards."""
    low, high = floor_tenth(lower), ceil_tenth(upper)
    half = math.ceil((high - low) * 5 - 1e-9) / 10
    return Estimate(score=round_tenth(score), lower=low, upper=high, half_width=half)


def _flags(flags: Sequence[object], reason: str | None) -> tuple[str, ...]:
    named = [str(flag) for flag in flags if flag is not Flag.KNOWN_ZEROS]  # their counts have columns of their own
    return (*named, reason) if reason else tuple(named)


def rank_marks(sheets: Sequence[ItemScores], rules: Rules) -> list[BoardRow]:
    """Rank entrants by their mean mark, in percent, best first: no jury, no labels.

    On these items score and rank are exact, so their ranges are themselves; the interval and the rank range for new
    items come from weights on the items that all entrants share (``mark_draws``). Raises DataError for marks that are
    no numbers.
    """
    if not sheets:
        return []
    sheets = sorted(sheets, key=lambda sheet: sheet.entrant)
    law = mark_law(sheets, rules.level)
    scores = law.scores
    means = np.round(scores.mean, 12)  # sums of equal marks in another order are equal
    places = _ranked(means.tolist(), law.draws, _two_sided(rules.level))
    rows = []
    for i, (rank, _, _) in enumerate(places):
        new = estimate(float(scores.mean[i]), float(scores.new_lower[i]), float(scores.new_upper[i]))
        score = new.score
        here = Estimate(rank, rank, rank, score, score, score, 0.0)
        scored = _Scored(_at(new, places[i]), here, (0, 0, None), len(sheets[i].item_ids), 0, ())
        entrant = sheets[i].entrant
        kinds = Counter((entrant, kind) for kind in sheets[i].kinds)
        row = _row(entrant, scored, kinds, rules, RULE)
        failures = Counter(failure for failure in sheets[i].failures if failure is not None)
        rows.append(replace(row, failures=dict(failures)) if sheets[i].failures else row)
    return in_rank_order(rows)


def _row(
    entrant: Entrant,
    scored: _Scored,
    kinds: Counter[tuple[Entrant, str]],
    rules: Rules,
    method: str | None = None,
) -> BoardRow:
    own, borrowed, least = scored.labels
    never = {name: count for name in _NEVER_JUDGED if (count := kinds[entrant, name])}
    by_paper = rules.method == PAPER and method is None
    return BoardRow(
        model=entrant.model,
        provider=entrant.provider,
        n_hints=entrant.n_hints,
        target=THIS_SET if by_paper else NEW_ITEMS,
        new=scored.new,
        this_set=scored.this_set,
        method=method or rules.method,
        metric=rules.metric,
        n_items=scored.items,
        n_unparsed=kinds[entrant, "unparsed"],
        n_missing=kinds[entrant, "missing"],
        n_unjudged=scored.unjudged,
        flags=scored.flags,
        level=PAPER_LEVEL if by_paper else rules.level,
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
