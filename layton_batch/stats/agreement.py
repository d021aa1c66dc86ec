"""Agreement between graders on yes/no verdicts, from vote counts: Fleiss' kappa, Krippendorff's alpha, Cohen's kappa.

Every coefficient is None where it is undefined (no item with two verdicts, or one answer only: then chance agrees too).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.strata import Ints


@dataclass(frozen=True, slots=True)
class Agreement:
    """`items` with two verdicts or more, `unanimous` share of them, kappa and alpha in [-1, 1]."""

    items: int
    unanimous: float | None
    fleiss_kappa: float | None
    krippendorff_alpha: float | None


def agreement(yes: Ints, total: Ints) -> Agreement:
    """Agreement among the graders of each item, from [R] yes votes and [R] verdicts; who voted does not matter.

    Fleiss (Psychol. Bull. 76, 1971) supposes equally many verdicts an item; with unequal ones every item's pairwise
    agreement counts once, and the chance rate is that of all verdicts. Krippendorff's nominal alpha weighs by verdicts.
    """
    pairable = total >= 2
    y, t = yes[pairable].astype(np.float64), total[pairable].astype(np.float64)
    if len(t) == 0:
        return Agreement(0, None, None, None)
    split = y * (t - y)
    agreeing = float((1 - 2 * split / (t * (t - 1))).mean())
    rate = float(y.sum() / t.sum())
    chance = rate**2 + (1 - rate) ** 2
    ones, zeros, all_ = float(y.sum()), float((t - y).sum()), float(t.sum())
    apart = float((split / (t - 1)).sum())
    constant = ones == 0 or zeros == 0
    return Agreement(
        items=len(t),
        unanimous=float((split == 0).mean()),
        fleiss_kappa=None if constant else (agreeing - chance) / (1 - chance),
        krippendorff_alpha=None if constant else 1 - (all_ - 1) * apart / (ones * zeros),
    )


def cohen_kappa(first: Ints, second: Ints) -> float | None:
    """Cohen's kappa of two graders' 0/1 verdicts on the same items, both [R]; e.g. two people, labelling blindly."""
    if len(first) == 0:
        return None
    a, b = float(np.mean(first)), float(np.mean(second))
    chance = a * b + (1 - a) * (1 - b)
    if chance >= 1:
        return None
    return (float(np.mean(first == second)) - chance) / (1 - chance)
