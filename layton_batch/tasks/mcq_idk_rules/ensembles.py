"""Several models as one: a vote on every item that all of them replied to.

The published vote is on outcomes (right, wrong, neither), which nobody could hold without the gold letters: two wrong
models outvote a right one even where their letters differ. ``by_letter`` votes on what the models said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeVar

from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, Estimate, Marks

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The vote by item, +1 right, -1 wrong, 0 neither; ``agreement``: share of the members that voted that way."""

    votes: Mapping[str, int]
    agreement: Mapping[str, float]

    def estimates(self) -> Mapping[str, Estimate]:
        """As the published table has them: abstentions include ties and unreadable replies, nothing fails to extract,
        and standard errors come from the population's variance (n), unlike a single model's."""
        values = list(self.votes.values())
        if not values:
            return {}
        n, right, wrong = len(values), values.count(1), values.count(-1)
        mean = (right - wrong) / n
        spread = (right * (1 - mean) ** 2 + wrong * (-1 - mean) ** 2 + (n - right - wrong) * mean**2) / n
        return dict(
            zip(
                METRICS,
                (_share(right, n), Estimate(mean, sqrt(spread / n)), _share(n - right - wrong, n), Estimate(0.0, 0.0)),
                strict=True,
            )
        )


def by_outcome(members: Sequence[Mapping[str, Marks]]) -> Ensemble:
    """The published vote. ``members``: each model's marks by item; an unreadable reply votes 0, not -1."""
    return _vote(
        [{item: 0 if marks.extract_fail else marks.idk_score for item, marks in one.items()} for one in members],
        otherwise=0,
    )


def by_letter(members: Sequence[Mapping[str, str | None]], gold: Mapping[str, str], idk: Mapping[str, str]) -> Ensemble:
    """The vote on letters. ``members``: each model's letter by item; an unreadable reply votes to abstain.

    ``gold`` and ``idk``: by item, the right letters and the letter that abstains.
    """
    ballots = [
        {item: None if letter is None or letter == idk[item] else letter for item, letter in one.items()}
        for one in members
    ]
    choice = _winners(ballots, otherwise=None)
    return Ensemble(
        {item: 0 if letter is None else 1 if letter in gold[item] else -1 for item, (letter, _) in choice.items()},
        {item: share for item, (_, share) in choice.items()},
    )


def _vote(ballots: Sequence[Mapping[str, int]], otherwise: int) -> Ensemble:
    choice = _winners(ballots, otherwise)
    return Ensemble(
        {item: vote for item, (vote, _) in choice.items()}, {item: share for item, (_, share) in choice.items()}
    )


def _winners(ballots: Sequence[Mapping[str, T]], otherwise: T) -> dict[str, tuple[T, float]]:
    """By item that all members have, in the first one's order: the vote with more than any other, and its share."""
    if not ballots:
        return {}
    shared = [item for item in ballots[0] if all(item in ballot for ballot in ballots[1:])]
    return {item: _plurality([ballot[item] for ballot in ballots], otherwise) for item in shared}


def _plurality(votes: Sequence[T], otherwise: T) -> tuple[T, float]:
    ranked = Counter(votes).most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return otherwise, votes.count(otherwise) / len(votes)
    return ranked[0][0], ranked[0][1] / len(votes)


def _share(count: int, n: int) -> Estimate:
    share = count / n
    return Estimate(share, sqrt(share * (1 - share) / n))
