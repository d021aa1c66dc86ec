"""Mode `paper` is the limit of the reference's bootstrap, printed as the reference prints, and never NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layton_batch.stats.counts import Counts, Flag, FloatArray, count
from layton_batch.stats.paper import NO_LABEL, gold_bins, paper_scores, ppi_estimate, printed
from layton_batch.stats.ranks import paper_ranks
from tests.support.oracle_values import oracle_values

from .boards import FIELDS, Board, make_counts, placed
from .truth_worlds import WORLDS, draw

THIRDS = [(0, 1), (1, 3), (2, 3), (1, 1)]


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_equal_to_the_recorded_law_of_the_reference(
    boards: dict[str, Board], expected: dict[str, Any], field: str
) -> None:
    rows = paper_scores(boards[field].counts)
    ranks = paper_ranks([r.score for r in rows], [r.half_width for r in rows])
    models = expected["splits"]["llm"][field]["models"]
    for i, (model, row, place) in enumerate(zip(models, rows, placed(ranks), strict=True)):
        counts = boards[field].counts
        columns = (counts.n, counts.own_labels, counts.own_positives, counts.borrowed_labels)
        assert [[int(column[i, b]) for column in columns] for b in np.flatnonzero(counts.n[i])] == [
            [b["n"], b["own"], b["own_pos"], b["m"] + b["same_provider"]] for b in model["bins"]
        ]
        law = model["paper"]
        assert (row.score, row.half_width) == (law["score"], law["W"])
        assert place == (law["rank"], *law["spread"])
        assert [row.lower, row.upper] == pytest.approx([law["lo"], law["hi"]], abs=6e-7)
        drawn = law["kind"] != "exact"
        assert row.mean == pytest.approx(law["mean"], abs=5e-5 if drawn else 6e-7)
        assert (Flag.EMPTY_GOLD_BIN in row.flags) == drawn


def drawn(counts: Counts, seed: int, draws: int) -> FloatArray:
    """Estimates of the first model by the reference's bootstrap."""
    (bins,) = gold_bins(counts)
    has_label = bins.labels > 0
    rates = bins.positives[has_label] / bins.labels[has_label]
    positives = np.random.default_rng(seed).binomial(bins.n[has_label], rates, (draws, has_label.sum()))
    return ppi_estimate(bins, positives.sum(axis=1), positives @ (bins.yes / bins.total)[has_label])


def test_with_an_empty_gold_bin_one_draw_is_ppi_plus_plus_of_ppi_python() -> None:
    counts = make_counts(
        THIRDS, [[30, 6, 5, 40]], [(50, 2), (0, 0), (8, 5), (90, 88)], known_zeros=[3]
    )  # empty: 1 of 3
    assert drawn(counts, 5, 60) == pytest.approx(oracle_values("ppi_mean"), abs=1e-12)


@pytest.mark.parametrize("labels_of_a_third", [(0, 0), (4, 1)])
def test_the_law_is_that_of_the_bootstrap_whether_or_not_each_bin_has_labels(
    labels_of_a_third: tuple[int, int],
) -> None:
    counts = make_counts(THIRDS, [[30, 6, 5, 40]], [(50, 2), labels_of_a_third, (8, 5), (90, 88)])
    (row,), sample = paper_scores(counts), drawn(counts, 1, 40_000)
    assert row.flags == (() if labels_of_a_third[0] else (Flag.EMPTY_GOLD_BIN,))
    assert row.mean == pytest.approx(sample.mean(), abs=6e-4)
    assert row.lower is not None
    assert row.upper is not None
    assert (sample < row.lower - 1e-9).mean() < 0.0275
    assert (sample <= row.upper + 1e-9).mean() > 0.9725
    if labels_of_a_third[0]:  # lambda drops out
        assert sample * 81 == pytest.approx(np.round(sample * 81), abs=1e-9)


LABELLED = [(30, 0), (60, 60), (5, 2)]


@pytest.mark.parametrize(
    "case",
    [
        ([(0, 1), (1, 1), (0, 0)], [10, 20, 4], LABELLED, 0, 21.6 / 34, (Flag.UNJUDGED,)),
        (
            [(0, 1), (1, 1), (0, 0)],
            [10, 20, 4],
            [*LABELLED[:2], (0, 0)],
            0,
            2 / 3,
            (Flag.EMPTY_GOLD_BIN, Flag.UNJUDGED),
        ),
        ([(0, 1), (1, 1)], [0, 40], [(9, 0), (9, 9)], 0, 1.0, ()),
        ([(1, 1)], [6], [(9, 9)], 2, 0.75, ()),
        ([(0, 1), (1, 2), (1, 1)], [0, 8, 0], [(5, 1), (0, 0), (5, 1)], 0, None, (Flag.NO_GOLD, Flag.EMPTY_GOLD_BIN)),
    ],
    ids=["unjudged", "unjudged without a label", "one vote", "known zeros", "no label on its votes"],
)
def test_every_row_has_a_score_or_a_gap_with_its_reason(case: tuple[Any, ...]) -> None:
    bins, n, labels, zeros, mean, flags = case
    (row,) = paper_scores(make_counts(bins, [n], labels, known_zeros=[zeros]))
    assert (row.mean, row.flags) == (mean and pytest.approx(mean), (*flags, *(() if mean else (NO_LABEL,))))
    assert (row.score is None, row.lower is None) == (mean is None, mean is None)
    assert placed(paper_ranks([row.score], [row.half_width])) == [None if mean is None else (1, 1, 1)]


def test_exact_ties_do_not_hang_on_the_last_bit_of_a_float() -> None:
    # 84.25 is a tie, to even; 0.5 exactly is followed by 0.6, whatever 0.83 - 0.82 is in binary
    assert [printed(167, 170, 200), printed(164, 166, 200)] == [(84.2, 0.8), (82.5, 0.6)]


@pytest.mark.parametrize("world", ["honest", "noisy .75"])
def test_the_paper_s_interval_does_not_keep_its_promise(world: str) -> None:
    rng, held = np.random.default_rng(5), []
    for _ in range(20):
        board = draw(WORLDS[world], rng)
        rows = paper_scores(count(board.target, board.gold))
        held += [
            row.lower <= truth <= row.upper
            for row, truth in zip(rows, board.here, strict=True)
            if row.lower is not None and row.upper is not None
        ]
    assert np.mean(held) < 0.8
