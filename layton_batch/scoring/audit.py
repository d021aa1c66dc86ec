"""The audit of a board: corrected scores against what labels say alone that plans picked at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layton_batch.scoring.counting import CountedVotes
from layton_batch.stats.strata import IntArray
from layton_batch.stats.surveys import SampledLabels


def picked_labels(counted: CountedVotes) -> SampledLabels:
    """Count the own labels of every model that came with a propensity, and those that came without one."""
    strata, gold = counted.strata, counted.gold
    own = gold.own_target_row >= 0
    rows = gold.own_target_row[own]
    by_plan = counted.labels["propensity"].is_not_null().to_numpy()[own]
    counts = by_plan & (strata.row_bin[rows] >= 0)
    at = counted.target.model[rows[counts]], strata.row_bin[rows[counts]]
    picked, right = np.zeros_like(strata.n), np.zeros_like(strata.n)
    np.add.at(picked, at, 1)
    np.add.at(right, at, gold.label[own][counts])
    return SampledLabels(
        open=strata.n - (strata.own_labels - picked),
        picked=picked,
        right=right,
        settled=(strata.own_positives - right).sum(axis=1),
        items=strata.items,
    )


def with_planned(picks: SampledLabels, more: IntArray) -> SampledLabels:
    """The labels with `more` [K, B] picks, whose outcomes are not known."""
    return replace(picks, picked=picks.picked + more)
