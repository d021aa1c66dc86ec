"""Votes are integers, labels land where they belong, and every item is at one vote or a known zero."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from layton_batch.stats.counts import Counts, Flag, LabelledAnswers, Predictions, count, fewest_labels, label_flags

from .boards import FIELDS, Board


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


PREDICTIONS = Predictions(
    model=ints(0, 0, 0, 1, 1, 1),
    item=ints(0, 1, 2, 0, 1, 2),
    yes=ints(3, 2, 0, 1, 2, 0),
    total=ints(3, 3, 0, 2, 2, 0),
    known_zero=np.array([False, False, False, False, False, True]),
    maker=ints(0, 1),
)
LABELS = LabelledAnswers(
    author=ints(0, 0, 1, -1, -1),
    maker=ints(0, 0, 1, 0, 2),
    yes=ints(3, 2, 2, 3, 1),
    total=ints(3, 3, 2, 3, 3),
    correct=ints(1, 0, 1, 1, 0),
    row=ints(0, 1, 4, -1, -1),
)


def place(counts: Counts, yes: int, total: int) -> int:
    return int(np.flatnonzero((counts.yes[counts.bins] == yes) & (counts.total[counts.bins] == total))[0])


def test_votes_are_ordered_by_share_and_every_item_is_at_one_vote_or_a_known_zero() -> None:
    counts = count(PREDICTIONS, LABELS)
    votes = list(zip(counts.yes.tolist(), counts.total.tolist(), strict=True))
    assert votes == [(1, 3), (1, 2), (2, 3), (2, 2), (3, 3), (0, 0)]
    assert counts.bins.tolist() == [1, 2, 3, 4, 5]  # one of three is a vote of labels only
    assert counts.n.tolist() == [[0, 1, 0, 1, 1], [1, 0, 1, 0, 0]]
    assert (counts.items.tolist(), counts.known_zeros.tolist(), counts.unjudged.tolist()) == ([3, 3], [0, 1], [1, 0])


def test_a_label_counts_where_it_belongs() -> None:
    other_votes = count(PREDICTIONS, dataclasses.replace(LABELS, yes=ints(0, 2, 2, 3, 1)))
    assert other_votes.own_labels[0, place(other_votes, 3, 3)] == 1  # at the vote of its prediction
    other_answer = count(PREDICTIONS, dataclasses.replace(LABELS, row=ints(-1, 1, 4, -1, -1)))
    three = place(other_answer, 3, 3)
    assert (other_answer.own_labels[0, three], other_answer.borrowed_labels[0, three]) == (0, 2)
    known_zero = count(PREDICTIONS, dataclasses.replace(LABELS, row=ints(0, 1, 5, -1, -1)))
    assert (known_zero.own_labels[1].sum(), known_zero.labels.sum()) == (0, 4)
    counts = count(PREDICTIONS, LABELS)
    authors = np.flatnonzero(counts.is_labelled)
    assert counts.maker[authors].tolist() == [0, 1, 0, 2]  # an author who is not scored keeps its maker
    assert authors[2:].min() >= counts.models


def test_flags_say_what_is_missing() -> None:
    counts = count(PREDICTIONS, LABELS)
    labels = counts.borrowed_labels + counts.own_labels
    assert label_flags(counts.n, labels, counts.unjudged) == [
        (Flag.EMPTY_GOLD_BIN, Flag.UNJUDGED),
        (Flag.EMPTY_GOLD_BIN,),
    ]
    assert label_flags(counts.n, 0 * labels, counts.unjudged)[0][0] == Flag.NO_GOLD
    assert fewest_labels(counts.n, labels) == [0, 0]


def test_no_labels_and_no_predictions_are_counts_of_zero() -> None:
    nothing = ints()
    none = LabelledAnswers(nothing, nothing, nothing, nothing, nothing, nothing)
    assert count(PREDICTIONS, none).labels.sum() == 0
    empty = Predictions(nothing, nothing, nothing, nothing, nothing == 1, ints(0, 1))
    assert count(empty, none).n.shape == (2, 0)


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_real_counts_equal_the_published_ones(boards: dict[str, Board], expected: dict[str, Any], field: str) -> None:
    board = boards[field]
    counts = board.counts
    for i, model in enumerate(expected["splits"]["llm"][field]["models"]):
        assert (board.names[i], counts.items[i]) == (model["model"], model["n"])
        ours = [
            [table[i, b] for table in (counts.n, counts.own_labels, counts.own_positives)]
            + [counts.borrowed_labels[i, b]]
            for b in np.flatnonzero(counts.n[i])
        ]
        theirs = [[b["n"], b["own"], b["own_pos"], b["m"] + b["same_provider"]] for b in model["bins"]]
        assert ours == theirs
