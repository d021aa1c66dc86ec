"""What people's labels say by themselves: estimates by the chances with which answers were picked."""

from __future__ import annotations

import numpy as np
import pytest

from layton_batch.stats.planning import audit_labels
from layton_batch.stats.surveys import share_by_propensity


def test_equal_chances_give_the_plain_share() -> None:
    share, error = share_by_propensity(np.array([1, 1, 0, 1]), np.full(4, 0.1), np.zeros(4, dtype=np.int64))
    assert share == pytest.approx(0.75)
    assert error > 0


def test_labels_of_every_answer_leave_nothing_open() -> None:
    assert share_by_propensity(np.array([1, 0]), np.ones(2), np.zeros(2, dtype=np.int64)) == (0.5, 0.0)


def test_contested_answers_picked_first_do_not_bend_what_the_labels_say_alone() -> None:
    """Of 200 answers 40 are contested and asked for by three in four, the others by one in eight; people disagree with
    what the votes say as they please."""
    rng = np.random.default_rng(5)
    group = np.repeat([0, 1, 2], [100, 40, 60])
    inside, shares, errors = 0, [], []
    for _ in range(400):
        label = (rng.random(200) < np.array([0.2, 0.6, 0.9])[group]).astype(np.int64)
        asked = np.concatenate([
            rng.permutation(np.flatnonzero(group == g))[:n] for g, n in ((0, 12), (1, 30), (2, 8))
        ])  # fmt: skip
        chance = np.array([0.12, 0.75, 8 / 60])[group[asked]]
        share, error = share_by_propensity(label[asked], chance, group[asked])
        inside += abs(share - label.mean()) <= 1.96 * error
        shares.append(share - label.mean())
        errors.append(error)
    assert np.mean(shares) == pytest.approx(0, abs=0.01)
    assert inside / 400 >= 0.93
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.2)


def test_an_audit_asks_at_every_vote_before_it_asks_twice() -> None:
    given = audit_labels(np.array([100, 3, 0, 20]), 10)
    assert given.sum() == 10
    assert given[[0, 1, 3]].min() >= 1
    assert given[2] == 0
    assert given[0] > given[3] > given[1] - 1
    assert audit_labels(np.array([2, 1]), 9).tolist() == [2, 1]
