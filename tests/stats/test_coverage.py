"""Nominal 95 % intervals hold the truth 95 % of the time on boards whose truth is known, and not by being huge."""

from __future__ import annotations

import pytest

from tests.stats.coverage import RATES, Coverage, grid, measure, measure_ranks
from tests.stats.simulated_boards import Design, draw_boards

CELLS = {
    "as good a judge as the text split's": Design(RATES["sharp"]),
    "half the labels, shift, correlated errors": Design(RATES["fair"], gold=0.5, shift=0.25, correlation=0.75),
    "a poor judge and a shift": Design(RATES["adverse"], shift=0.4),
    "a quarter of the labels": Design(RATES["fair"], gold=0.25),
}


def by_method(design: Design, boards: int = 120) -> dict[tuple[str, str, str], Coverage]:
    return {(c.method, c.target, c.group): c for c in measure(design, boards, seed=2024)}


@pytest.mark.parametrize("name", CELLS)
def test_calibrated_covers_these_items_and_new_ones(name: str) -> None:
    table = by_method(CELLS[name])
    here = table["calibrated", "these", "own labels"]
    assert here.covered > 0.945 - 3 * here.error
    new = table["calibrated, new items", "new", "own labels"]
    assert new.covered > 0.935 - 3 * new.error
    for row in (here, new):  # two-sided: misses on both sides, none of them the whole of it
        assert row.below < 0.05
        assert row.above < 0.05
        assert row.share == 1.0


@pytest.mark.parametrize("name", CELLS)
def test_calibrated_is_not_wide_for_nothing(name: str) -> None:
    table = by_method(CELLS[name])
    here, double = table["calibrated", "these", "own labels"], table["double bootstrap", "these", "own labels"]
    assert here.half_width < 1.6 * double.half_width  # the double bootstrap, which covers less, is the yardstick
    new, stratified = (table[m, "new", "own labels"] for m in ("calibrated, new items", "stratified PPI"))
    assert new.half_width < 1.10 * stratified.half_width


def test_the_paper_s_interval_does_not_keep_its_promise() -> None:
    table = by_method(CELLS["a quarter of the labels"])
    paper = table["paper", "these", "own labels"]
    assert paper.covered + 4 * paper.error < 0.95
    assert table["paper", "new", "own labels"].covered < 0.75
    assert table["paper as printed", "these", "own labels"].covered <= paper.covered + 0.01


def test_the_rank_box_holds_all_ranks_at_once() -> None:
    rows = {r.method: r for r in measure_ranks(Design(RATES["fair"]), 60, seed=5, draws=400)}
    assert rows["rank box"].joint >= 0.90
    assert rows["rank box"].marginal >= 0.98
    assert rows["rank box"].size < rows["paper's overlap"].size


def test_simulated_boards_are_what_their_design_says() -> None:
    truths = draw_boards(Design(RATES["fair"], gold=0.5), 200, seed=1)
    strata = truths.strata
    assert (strata.items == 186).all()
    assert abs(float((truths.here - truths.new).mean())) < 0.004
    share = strata.own_labels.sum(axis=1).reshape(200, -1).mean(axis=0) / 186
    assert share[:7] == pytest.approx(0.215, abs=0.01)
    assert (share[7:] == 0).all()
    board = truths.board(3)
    assert (board.borrowed_labels + board.own_labels == board.all_labels).all()


def test_the_grid_is_declared_in_full() -> None:
    cells = dict(grid())
    assert len(cells) == 3 * 4 * 4 * 2
    assert {w.gold for w in cells.values()} == {1.0, 0.5, 0.25, 0.1}
    assert max(w.shift for w in cells.values()) == 0.8
