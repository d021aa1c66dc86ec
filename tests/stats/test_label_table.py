"""Counts of votes and labels by author, from which the posterior is learnt."""

from __future__ import annotations

import numpy as np

from layton_batch.stats.label_table import label_table
from layton_batch.stats.strata import GoldPredictions, TargetPredictions, build_strata

TARGET = TargetPredictions(
    model=np.array([0, 0, 1]),
    item=np.array([0, 1, 0]),
    yes=np.array([1, 0, 1]),
    total=np.array([1, 0, 1]),
    known_zero=np.array([False, True, False]),
    provider=np.array([0, 1]),
)


def test_a_label_on_an_answer_that_is_wrong_without_a_jury_is_not_counted() -> None:
    own = np.array([0, 1])
    gold = GoldPredictions(
        np.zeros(2, int), np.zeros(2, int), np.array([1, 0]), np.array([1, 0]), np.array([1, 0]), own
    )
    table = label_table(TARGET, gold, build_strata(TARGET, gold, by_seats=True))
    assert (table.labels.sum(), table.positives.sum()) == (1, 1)


def test_an_author_who_is_not_scored_keeps_its_maker() -> None:
    elsewhere = np.full(2, -1)
    gold = GoldPredictions(elsewhere, np.array([1, 4]), np.array([1, 1]), np.array([1, 1]), np.array([1, 0]), elsewhere)
    table = label_table(TARGET, gold, build_strata(TARGET, gold, by_seats=True))
    authors = np.flatnonzero(table.labels.sum(axis=1))
    assert (authors >= 2).all()
    assert sorted(table.maker[authors]) == [1, 4]
    assert table.maker[:2].tolist() == [0, 1]
