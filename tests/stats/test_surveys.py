"""What people's labels say by themselves, and how often the audit of corrected scores is right."""

from __future__ import annotations

import numpy as np
import pytest

from layton_batch.stats.planning import audit_labels
from layton_batch.stats.strata import FloatArray, IntArray
from layton_batch.stats.surveys import Audit, SampledLabels, audit_scores, detectable_alone


def picks(
    open_answers: list[int], picked: list[int], right: list[int], settled: int = 0, more: int = 0
) -> SampledLabels:
    """One model; `more`: answers that were labelled otherwise, or are wrong without a jury."""
    return SampledLabels(
        open=np.array([open_answers]),
        picked=np.array([picked]),
        right=np.array([right]),
        settled=np.array([settled]),
        items=np.array([sum(open_answers) + more]),
    )


SHARES = [
    ("every label stands for as many answers as there are for one", picks([40, 20], [4, 10], [1, 5]), 20 / 60),
    ("answers that were labelled otherwise stand for themselves", picks([40, 20], [4, 10], [1, 5], 9, 10), 29 / 70),
    ("answers that are wrong without a jury count", picks([40, 20], [4, 10], [1, 5], 0, 40), 20 / 100),
    ("votes at which all is labelled otherwise need no pick", picks([0, 20], [0, 10], [0, 5], 3, 3), 13 / 23),
]


@pytest.mark.parametrize(("why", "labels", "share"), SHARES)
def test_what_labels_say_alone(why: str, labels: SampledLabels, share: float) -> None:
    assert labels.covered.tolist() == [True], why
    assert labels.shares() == pytest.approx([share]), why


def test_a_model_without_a_pick_at_some_vote_or_without_an_open_answer_has_no_audit() -> None:
    for labels in (picks([40, 20], [0, 10], [0, 5]), picks([4, 2], [4, 2], [1, 2])):
        assert labels.covered.tolist() == [False]
        assert audit_scores(labels, np.full((10, 1), 0.5), np.array([[0.5, 0.5]])) is None
        assert detectable_alone(labels, np.array([0.5, 0.5])) is None


def two_rounds(rng: np.random.Generator, right: IntArray) -> SampledLabels:
    """Two plans, one after the other, of [K, I] answers at three votes: the second draws from what the first left."""
    vote = np.repeat([0, 1, 2], [100, 40, 60])
    models = len(right)
    counts = np.zeros((3, models, 3), dtype=np.int64)
    for k in range(models):
        for b, asked in enumerate(((6, 10), (10, 20), (3, 9))):
            rows = rng.permutation(np.flatnonzero(vote == b))
            first, second = rows[: asked[0]], rows[asked[0] : sum(asked)]
            counts[:, k, b] = len(rows), sum(asked), right[k, first].sum() + right[k, second].sum()
    return SampledLabels(counts[0], counts[1], counts[2], np.zeros(models, dtype=np.int64), np.full(models, 200))


def test_two_rounds_do_not_bend_what_the_labels_say_alone_and_their_variance_is_theirs() -> None:
    rng = np.random.default_rng(5)
    rate = np.repeat([0.2, 0.6, 0.9], [100, 40, 60])
    gaps, variance = [], []
    for _ in range(500):
        right = (rng.random((1, 200)) < rate).astype(np.int64)
        labels = two_rounds(rng, right)
        gaps.append(float(labels.shares()[0] - right.mean()))
        variance.append(float(labels.variance(labels.rates)[0]))
    assert np.mean(gaps) == pytest.approx(0, abs=3 * np.std(gaps) / 500**0.5)
    assert np.mean(variance) ** 0.5 == pytest.approx(np.std(gaps), rel=0.1)


def audited(rng: np.random.Generator) -> tuple[SampledLabels, FloatArray, FloatArray]:
    """Four models whose rates are known as from 60 labels of others a vote: labels of two rounds, draws of the scores
    that these correct, and the rates that the scores are made of."""
    known_yes, known_no = np.array([12, 36, 54]), np.array([48, 24, 6])
    right = (rng.random((4, 200)) < np.repeat(rng.beta(known_yes, known_no), [100, 40, 60])).astype(np.int64)
    labels = two_rounds(rng, right)
    alpha, beta = known_yes + labels.right.sum(axis=0), known_no + (labels.picked - labels.right).sum(axis=0)
    drawn = rng.beta(alpha, beta, (400, 3))
    theta = (labels.right + rng.binomial(labels.open - labels.picked, drawn[:, None, :])).sum(axis=2) / 200
    return labels, theta, alpha / (alpha + beta)


def test_the_audit_errs_as_rarely_and_sees_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    differs: dict[int, list[bool]] = {0: [], 1: [], -1: []}
    for _ in range(300):
        labels, theta, rates = audited(rng)
        detectable = required(audit_scores(labels, theta, rates)).detectable
        for shift, found in differs.items():
            found.append(required(audit_scores(labels, theta + shift * detectable, rates)).p_value <= 0.05)
    assert 0.025 <= np.mean(differs[0]) <= 0.075
    assert 0.72 <= np.mean(differs[1]) <= 0.88
    assert 0.72 <= np.mean(differs[-1]) <= 0.88


def required(audit: Audit | None) -> Audit:
    assert audit is not None
    return audit


def test_pooling_over_models_sees_smaller_errors_than_one_of_them() -> None:
    rng = np.random.default_rng(2)
    right = (rng.random((9, 200)) < 0.7).astype(np.int64)
    nine, one = (two_rounds(rng, rows) for rows in (right, right[:1]))
    rates = np.full(3, 0.7)
    assert (detectable_alone(nine, rates) or 0) == pytest.approx((detectable_alone(one, rates) or 0) / 3, rel=0.01)


def test_an_audit_picks_from_every_group_first_and_then_in_proportion() -> None:
    order = audit_labels(np.array([50, 0, 10, 1]), 12)
    assert sorted(order[:3].tolist()) == [0, 2, 3]
    assert np.bincount(order, minlength=4).tolist() == [9, 0, 2, 1]
    assert len(audit_labels(np.array([2, 1]), 10)) == 3
