"""Mode `paper` is the limit of the reference's bootstrap, printed as the reference prints, and never NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layton_batch.stats import paper as paper_module
from layton_batch.stats.counts import Flag, count
from layton_batch.stats.paper import paper_draws, paper_scores, printed, printed_from_fractions
from layton_batch.stats.ranks import paper_ranks
from tests.support.oracle_values import oracle_values

from .boards import FIELDS, Board, make_counts
from .truth_worlds import WORLDS, draw

THIRDS = [(0, 1), (1, 3), (2, 3), (1, 1)]


@pytest.mark.shared_data
def test_the_published_table_comes_out_digit_for_digit(boards: dict[str, Board], expected: dict[str, Any]) -> None:
    board = boards["both_correct"]
    rows = paper_scores(board.counts)
    ranks = paper_ranks([r.score for r in rows], [r.half_width for r in rows])
    ours = [
        {"model": board.names[i], "score": rows[i].score, "W": rows[i].half_width, "rank": triple[0],
         "spread": f"{triple[1]} <--> {triple[2]}"}
        for i in ranks.order
        if (triple := ranks.of(i)) is not None
    ]  # fmt: skip
    published = [
        row for row in expected["published"] if row["model"] in board.names
    ]  # one model has no predictions here
    assert len(ours) == 9
    assert ours == published


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_equal_to_the_recorded_law_of_the_reference(
    boards: dict[str, Board], expected: dict[str, Any], field: str
) -> None:
    rows = paper_scores(boards[field].counts)
    ranks = paper_ranks([r.score for r in rows], [r.half_width for r in rows])
    for i, model in enumerate(expected["splits"]["llm"][field]["models"]):
        law, row = model["paper"], rows[i]
        assert (row.score, row.half_width) == (law["score"], law["W"])
        assert ranks.of(i) == (law["rank"], *law["spread"])
        assert [row.lower, row.upper] == pytest.approx([law["lo"], law["hi"]], abs=6e-7)
        drawn = law["kind"] != "exact"
        assert row.mean == pytest.approx(law["mean"], abs=5e-5 if drawn else 6e-7)
        assert (Flag.EMPTY_GOLD_BIN in row.flags) == drawn


def test_with_an_empty_gold_bin_one_draw_is_ppi_plus_plus_of_ppi_python() -> None:
    counts = make_counts(
        THIRDS, [[30, 6, 5, 40]], [(50, 2), (0, 0), (8, 5), (90, 88)], known_zeros=[3]
    )  # empty: 1 of 3
    ours = paper_draws(counts, 0, seed=5, draws=60)
    assert ours == pytest.approx(oracle_values("ppi_mean"), abs=1e-12)


def test_with_labels_in_every_bin_lambda_drops_out() -> None:
    counts = make_counts(THIRDS, [[30, 6, 5, 40]], [(50, 2), (4, 1), (8, 5), (90, 88)])
    for value in paper_draws(counts, 0, seed=1, draws=20):
        assert value * 81 == pytest.approx(round(value * 81), abs=1e-9)


def test_a_law_too_large_to_enumerate_is_drawn_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = make_counts(THIRDS, [[30, 6, 5, 40]], [(50, 2), (0, 0), (8, 5), (90, 88)])
    (exact,) = paper_scores(counts)
    monkeypatch.setattr(paper_module, "_MAX_WORK", 10)
    (drawn,) = paper_scores(counts, seed=3)
    assert exact.flags == (Flag.EMPTY_GOLD_BIN,)
    assert drawn.flags == (Flag.EMPTY_GOLD_BIN, Flag.MONTE_CARLO)
    assert drawn.mean == pytest.approx(exact.mean, abs=3e-4)
    assert [drawn.lower, drawn.upper] == pytest.approx([exact.lower, exact.upper], abs=3e-3)


def test_an_item_no_judge_saw_is_a_bin_and_never_nan() -> None:
    bins = [(0, 1), (1, 1), (0, 0)]
    labelled = make_counts(bins, [[10, 20, 4]], [(30, 0), (60, 60), (5, 2)])
    (row,) = paper_scores(labelled)
    assert row.mean == pytest.approx((20 + 4 * 0.4) / 34)
    assert row.flags == (Flag.UNJUDGED,)
    without = make_counts(bins, [[10, 20, 4]], [(30, 0), (60, 60), (0, 0)])
    (row,) = paper_scores(without)
    assert (row.score, row.half_width, row.mean) == (66.7, 0.1, pytest.approx(20 / 30))
    assert row.flags == (Flag.EMPTY_GOLD_BIN, Flag.UNJUDGED)
    both_missing = make_counts([(0, 1), (1, 2), (1, 1), (0, 0)], [[10, 3, 20, 4]], [(30, 0), (0, 0), (60, 60), (5, 2)])
    (row,) = paper_scores(both_missing)
    assert row.score is not None
    assert 0 < row.score < 100


def test_one_bin_models_get_a_number() -> None:
    counts = make_counts([(0, 1), (1, 1)], [[40, 0], [0, 40]], [(9, 0), (9, 9)])
    assert [(r.score, r.half_width) for r in paper_scores(counts)] == [(0.0, 0.1), (100.0, 0.1)]


def test_known_zeros_stay_in_the_denominator() -> None:
    counts = make_counts([(1, 1)], [[6], [0]], [(9, 9)], known_zeros=[2, 5])
    rows = paper_scores(counts)
    assert [r.score for r in rows] == [75.0, 0.0]
    assert [r.items for r in rows] == [8, 5]


def test_without_usable_labels_the_row_is_a_gap_with_its_reason() -> None:
    counts = make_counts([(0, 1), (1, 2), (1, 1)], [[0, 8, 0], [4, 0, 4]], [(5, 1), (0, 0), (5, 1)])
    none, fine = paper_scores(counts)
    assert (none.score, none.half_width, none.lower, none.upper, none.mean) == (None,) * 5
    assert none.reason is not None
    assert "no human label" in none.reason
    assert none.flags[0] == Flag.NO_GOLD
    assert fine.reason is None
    ranks = paper_ranks([r.score for r in (none, fine)], [r.half_width for r in (none, fine)])
    assert [ranks.of(i) for i in range(2)] == [None, (1, 1, 1)]
    with pytest.raises(ValueError, match="model 0: no human label"):
        paper_draws(counts, 0, seed=0, draws=1)


def test_printing_from_integers_equals_the_floats_of_the_reference_but_for_exact_ties() -> None:
    for n in (7, 16, 186, 317, 1001):
        low, high = (v.ravel() for v in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
        keep = (low <= high) & (high - low <= 60)
        low, high = low[keep], high[keep]
        score, width = printed(low, high, np.full(len(low), n))
        floats = np.round((high / n + low / n) / 2 * 100, 1)
        widths = (np.floor((high / n - low / n) / 2 * 100 * 10) + 1) / 10
        tie = 2 * ((low + high) * 500 % n) == n
        whole = ((high - low) * 500 % n == 0) & (high > low)
        assert (score == floats)[~tie].all()
        assert (width == widths)[~whole].all()
        if n in (186, 317):
            assert not tie.any()


def test_exact_ties_do_not_hang_on_the_last_bit_of_a_float() -> None:
    score, width = printed(np.array([167, 164]), np.array([170, 166]), np.array([200, 200]))
    assert score.tolist() == [84.2, 82.5]  # 84.25 is a tie, to even
    assert width.tolist() == [0.8, 0.6]  # 0.5 exactly is followed by 0.6, whatever 0.83 - 0.82 is in binary


def test_a_percentile_at_a_tie_of_the_cdf_counts_as_reached() -> None:
    (row,) = paper_scores(make_counts([(1, 1)], [[1]], [(40, 39)]))  # P(0) is exactly 1/40
    assert (row.lower, row.upper) == (0.0, 1.0)


def test_the_float_form_is_the_reference_s_own() -> None:
    assert printed_from_fractions(147 / 186, 149 / 186) == (79.6, 0.6)


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
