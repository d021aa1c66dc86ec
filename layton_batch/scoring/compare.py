"""Two entrants of a board beside each other: which is better, how surely, and what it would take to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.errors import DataError
from layton_batch.scoring.counting import count_votes, in_order
from layton_batch.scoring.evidence import Ballot, Entrant, ItemScores, Label
from layton_batch.scoring.law import VoteLaw, mark_law
from layton_batch.scoring.rules import Rules
from layton_batch.stats.joint import JointDraws, differences, items_to_resolve, resolvable_difference
from layton_batch.stats.planning import Separation, labels_to_separate
from layton_batch.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Standing:
    """First minus second, in points, with its interval; ``better``: probability that the first is the better one.

    ``minimum_detectable_difference``: the smallest that would separate typical neighbours of the board with chance 0.8,
    None above 100 points.
    """

    target: str
    difference: float
    lower: float
    upper: float
    better: float
    minimum_detectable_difference: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``standings`` on these items (left out where the score there is exact) and on new ones.

    ``labels``: more human labels that are expected to separate the two on these items, None where their scores are
    equal or no jury judged; ``items``: how many items of this kind would be needed for new ones, None likewise and
    where they are so many that nothing here can say.
    """

    first: Entrant
    second: Entrant
    metric: str
    level: float
    standings: tuple[Standing, ...]
    labels: Separation | None
    items: int | None
    n_items: int


def find_entrant(entrants: Sequence[Entrant], name: str) -> Entrant:
    """The entrant that ``MODEL``, ``PROVIDER/MODEL``, ``MODEL@HINTS`` or ``PROVIDER/MODEL@HINTS`` names.

    Raises DataError where none or several are meant, naming what there is.
    """
    found = [entrant for entrant in entrants if name in _spellings(entrant)]
    if len(found) == 1:
        return found[0]
    if found:
        longest = ", ".join(_spellings(entrant)[-1] for entrant in found)
        raise DataError(f"{name!r} is ambiguous: give one of {longest}")
    hint = did_you_mean(name, (entrant.model for entrant in entrants), 0.3)
    raise DataError(f"no model {name!r} among the {len(entrants)} models of these sources{hint}")


def _spellings(entrant: Entrant) -> tuple[str, ...]:
    long = f"{entrant.provider}/{entrant.model}"
    return entrant.model, long, f"{entrant.model}@{entrant.n_hints}", f"{long}@{entrant.n_hints}"


def compare_votes(
    ballots: Sequence[Ballot], labels: Sequence[Label], names: tuple[str, str], rules: Rules
) -> Comparison:
    """Two entrants of a jury board. Raises DataError for names that are not clear or are the same entrant."""
    counted = count_votes(in_order(ballots), labels)
    pair = _pair(counted.entrants, names)
    law = VoteLaw(counted, rules)
    here, new = law.draws()
    items = int(min(counted.strata.items[list(pair)]))
    return Comparison(
        first=counted.entrants[pair[0]],
        second=counted.entrants[pair[1]],
        metric=rules.metric,
        level=rules.level,
        standings=(_standing("these", here, pair, rules.level), _standing("new", new, pair, rules.level)),
        labels=labels_to_separate(counted.strata, *pair, level=rules.level, post=law.posterior),
        items=_items(new, items, pair, rules.level),
        n_items=items,
    )


def compare_marks(sheets: Sequence[ItemScores], names: tuple[str, str], rules: Rules) -> Comparison:
    """Two entrants of a board graded by rule, on new items; on these their scores are exact."""
    sheets = sorted(sheets, key=lambda sheet: sheet.entrant)
    entrants = [sheet.entrant for sheet in sheets]
    pair = _pair(entrants, names)
    new = mark_law(sheets, rules.level).draws
    items = min(len(sheets[i].item_ids) for i in pair)
    standing = _standing("new", new, pair, rules.level)
    needed = _items(new, items, pair, rules.level)
    first, second = (entrants[i] for i in pair)
    return Comparison(first, second, rules.metric, rules.level, (standing,), None, needed, items)


def _pair(entrants: Sequence[Entrant], names: tuple[str, str]) -> tuple[int, int]:
    first, second = (entrants.index(find_entrant(entrants, name)) for name in names)
    if first == second:
        raise DataError(f"{names[0]!r} and {names[1]!r} are the same model: give two different models")
    return first, second


def _standing(target: str, draws: JointDraws, pair: tuple[int, int], level: float) -> Standing:
    (gap,) = differences(draws, [pair], level=level)
    least = resolvable_difference(draws, level=level)
    percent = None if least is None else 100 * least
    return Standing(target, 100 * gap.mean, 100 * gap.lower, 100 * gap.upper, gap.better, percent)


def _items(new: JointDraws, items: int, pair: tuple[int, int], level: float) -> int | None:
    """Items that would resolve the two, were their difference what it seems to be."""
    columns = [int(column) for column in pair]
    two = JointDraws(new.theta[:, columns], new.models[columns])
    lead = abs(float(two.theta.mean(axis=0)[0] - two.theta.mean(axis=0)[1]))
    return items_to_resolve(two, items, lead, level=level) if lead > 1e-9 else None
