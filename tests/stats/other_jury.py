"""What labels are worth beside the votes of another jury: coverage with them, and with the labelled answers rejudged.

Of every answer it is drawn how this run's jury votes (0 to 3 yes), then whether people say yes, by the rate of that
vote. Another jury of three then votes on the same labelled answers, each judge by itself: yes with one chance where
people say yes, with another where they say no.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from layton_batch.stats.counts import LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import hierarchical_scores

SEATS = 3
RATES = (0.01, 0.24, 0.87, 0.972)  # of a person's yes at 0 to 3 votes
JURIES = {
    "alike": (0.88, 0.10),
    "stricter": (0.60, 0.02),
    "more lenient": (0.98, 0.45),
    "at random": (0.50, 0.50),
}
"""Chances of a yes of the other jury's judges: where people say yes, and where they say no."""
MODELS, ITEMS, LABELLED_MODELS, LABELS = 6, 186, 6, 90


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to use the labels: share of intervals (these items) that hold the truth, and their mean half width."""

    covered: float
    half_width: float


@cache
def measure(jury: str, boards: int, *, seed: int) -> dict[str, Trial]:
    """``trusted`` and ``rejudged`` over so many boards, whose models have no labels of their own."""
    rng = np.random.default_rng([seed, list(JURIES).index(jury)])
    found: dict[str, list[tuple[bool, float]]] = {"trusted": [], "rejudged": []}
    for _ in range(boards):
        votes, said = _answers(rng, MODELS, ITEMS)
        labelled_votes, labels = _answers(rng, LABELLED_MODELS, LABELS)
        chances = np.where(labels == 1, *JURIES[jury])
        for name, yes in (("trusted", rng.binomial(SEATS, chances)), ("rejudged", labelled_votes)):
            target, gold = _target(votes), _gold(yes, labels)
            rows = hierarchical_scores(fit(count(target, gold)))
            for one, truth in zip(rows, said.mean(axis=1), strict=True):
                held = one.lower - 1e-9 <= truth <= one.upper + 1e-9
                found[name].append((held, (one.upper - one.lower) / 2))
    return {name: Trial(*np.mean(rows, axis=0).tolist()) for name, rows in found.items()}


def _answers(
    rng: np.random.Generator, models: int, items: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """[models, items] yes votes of this run's jury, and what people say of the same answers."""
    strength = rng.uniform(0.35, 0.85, size=(models, 1))
    votes = rng.binomial(SEATS, rng.beta(6 * strength, 6 * (1 - strength), size=(models, items)))
    return votes, (rng.random((models, items)) < np.array(RATES)[votes]).astype(np.int64)


def _target(votes: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Predictions:
    models, items = votes.shape
    return Predictions(
        model=np.repeat(np.arange(models), items),
        item=np.tile(np.arange(items), models),
        yes=votes.ravel(),
        total=np.full(votes.size, SEATS),
        known_zero=np.zeros(votes.size, dtype=np.bool_),
        maker=np.arange(models),
    )


def _gold(
    votes: np.ndarray[tuple[int, int], np.dtype[np.int64]], labels: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> LabelledAnswers:
    models, items = votes.shape
    return LabelledAnswers(
        author=np.full(votes.size, -1),
        maker=np.repeat(np.arange(models) + MODELS, items),
        yes=votes.ravel(),
        total=np.full(votes.size, SEATS),
        correct=labels.ravel(),
        row=np.full(votes.size, -1),
    )
