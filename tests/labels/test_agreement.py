"""Agreement among people: against statsmodels, and where chance explains everything."""

from __future__ import annotations

import numpy as np
import pytest

from layton_batch.scoring.annotations import Annotation, JoinedLabels
from layton_batch.scoring.annotator_agreement import annotator_agreement
from layton_batch.scoring.evidence import Entrant
from layton_batch.stats.raters import kappa
from layton_batch.stats.shares import wilson_interval


@pytest.mark.parametrize("seed", range(6))
def test_two_raters_have_cohen_s_kappa_and_its_interval(seed: int) -> None:
    oracle = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, 60)
    second = np.where(rng.random(60) < 0.3, 1 - first, first)
    table = np.zeros((2, 2))
    np.add.at(table, (first, second), 1)
    expected, found = oracle.cohens_kappa(table), kappa(np.stack([first, second], axis=1))
    assert found is not None
    assert (found.name, found.rated, found.raters) == ("Cohen", 60, 2)
    assert found.value == pytest.approx(expected.kappa)
    assert (found.lower, found.upper) == pytest.approx((expected.kappa_low, expected.kappa_upp))


@pytest.mark.parametrize("seed", range(6))
def test_several_raters_have_fleiss_kappa(seed: int) -> None:
    oracle = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (60, 1))
    ratings = np.where(rng.random((60, 4)) < 0.25, 1 - truth, truth)
    counts = np.stack([(ratings == 0).sum(axis=1), (ratings == 1).sum(axis=1)], axis=1)
    found = kappa(ratings)
    assert found is not None
    assert found.value == pytest.approx(oracle.fleiss_kappa(counts))
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < found.value < found.upper  # type: ignore[operator]


def test_the_interval_of_fleiss_kappa_holds_the_truth_about_as_often_as_it_says() -> None:
    rng, hits = np.random.default_rng(1), 0
    truth_kappa = (1 - 2 * 0.2) ** 2  # of raters who each err with probability 0.2 on balanced items
    for _ in range(300):
        truth = rng.integers(0, 2, (80, 1))
        found = kappa(np.where(rng.random((80, 3)) < 0.2, 1 - truth, truth))
        assert found is not None
        assert found.lower is not None
        assert found.upper is not None
        hits += found.lower <= truth_kappa <= found.upper
    assert hits >= 0.91 * 300


def test_rows_with_one_rating_and_raters_without_any_say_nothing() -> None:
    few = np.array([[1, -1, -1], [-1, 0, -1]])
    assert kappa(few) is None
    found = kappa(np.array([[1, -1, 1], [0, -1, 0], [1, -1, 0], [1, -1, -1]]))
    assert found is not None
    assert (found.name, found.rated, found.raters) == ("Cohen", 3, 2)


def test_raters_who_all_say_the_same_have_no_kappa() -> None:
    for width in (2, 3):
        found = kappa(np.ones((5, width), dtype=np.int64))
        assert found is not None
        assert (found.agreement, found.value, found.lower) == (1.0, None, None)


def test_raters_in_full_agreement_have_kappa_one_and_no_interval() -> None:
    for width in (2, 3):
        found = kappa(np.array([[1] * width, [0] * width, [1] * width]))
        assert found is not None
        assert (found.value, found.lower) == (1.0, None)


def test_annotators_are_counted_by_name_with_their_ties() -> None:
    who = Entrant("a", "p", 0)

    def says(name: str, mark: bool) -> Annotation:
        return Annotation("i", "a", answer_correct=mark, annotator=name)

    given = JoinedLabels(
        {
            (who, "i1"): {"ann": says("ann", True), "bob": says("bob", False)},
            (who, "i2"): {"ann": says("ann", True), "bob": says("bob", True)},
            (who, "i3"): {"ann": says("ann", True)},
        }
    )
    found = annotator_agreement(given, "answer_correct", 0.95)
    assert found is not None
    assert (found.labels, found.several, found.ties) == ({"ann": 3, "bob": 2}, 2, 1)
    assert annotator_agreement(given, "both_correct", 0.95) is None


@pytest.mark.parametrize(("share", "items"), [(0.0, 10), (0.35, 20), (0.5, 186), (1.0, 4)])
def test_the_interval_of_a_share_is_wilson_s(share: float, items: int) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    expected = proportion.proportion_confint(share * items, items, alpha=0.1, method="wilson")
    assert wilson_interval(share, items, 0.9) == pytest.approx(expected)
    assert wilson_interval(0.0, 0) == (0.0, 1.0)
