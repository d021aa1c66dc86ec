"""Every two entrants beside each other, and what labels would do for the intervals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from layton_batch.commands.compare import ComparisonDocument
from layton_batch.errors import DataError
from layton_batch.scoring import compare
from layton_batch.scoring.board import rank_board
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.compare import all_pairs, compare_models
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.leaderboard import ScoringRules
from tests.support.evidence import Ballot, Label, Rows, frames

ITEMS = 40
RULES = ScoringRules()


def entrant(index: int) -> Entrant:
    return Entrant(f"m{index}", f"p{index}", 0)


def evidence(models: int = 3) -> tuple[list[Ballot], list[Label]]:
    """A board on which every fifth prediction has a label."""
    dice = random.Random(1)
    ballots, labels = [], []
    for model in range(models):
        for item in range(ITEMS):
            yes, content = sum(dice.random() < 0.4 + 0.15 * model for _ in range(3)), 100 * model + item
            ballots.append(Ballot(entrant(model), f"i{item}", yes, 3, content, kind="answered"))
            if dice.random() < 0.2:
                labels.append(Label(entrant(model), f"i{item}", yes, 3, dice.random() < yes / 3, content))
    return ballots, labels


def board(ballots: list[Ballot], labels: Sequence[Label] = ()) -> JuryBoard:
    return JuryBoard(*frames(ballots, labels), RULES)


def test_pairs_comparisons_and_the_board_say_the_same() -> None:
    found = board(*evidence())
    rows, pairs = {row.model: row for row in Rows(rank_board(found))}, all_pairs(found)
    least = set()
    for pair in pairs:
        standings = compare_models(found, (pair.model, pair.other)).standings
        scores = [getattr(rows[pair.model], target).score - getattr(rows[pair.other], target).score
                  for target in ("new", "this_set")]  # fmt: skip
        for standing, better, difference in zip(standings, (pair.better_new, pair.better), scores, strict=True):
            assert standing.better == pytest.approx(better, abs=1e-3)
            assert standing.difference == pytest.approx(difference, abs=0.11)
            assert standing.lower <= standing.difference <= standing.upper
        least.add(standings[0].minimum_detectable_difference)
    assert (len(pairs), len(least)) == (3, 3)  # each pair has a detectable difference of its own


@pytest.mark.parametrize("target", ["new items", "this set"])
def test_a_pair_whose_interval_leaves_0_out_is_called_separated(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = board(*evidence(4))
    for pair, is_separated in ((("m3", "m0"), True), (("m1", "m0"), False)):
        comparison = compare_models(found, pair)
        assert [standing.separated for standing in comparison.standings] == [is_separated] * 2
        ComparisonDocument(comparison, target, None).show()
        assert ("The two are separated" in capsys.readouterr().out) == is_separated


def test_without_labels_a_comparison_is_uncalibrated_and_agrees_with_the_board() -> None:
    ballots, _ = evidence()
    rows = {row.model: row for row in Rows(rank_board(board(ballots)))}
    found = compare_models(board(ballots), ("m2", "m0"))
    assert found.method == "uncalibrated"
    for standing, target in zip(found.standings, ("new", "this_set"), strict=True):
        first, second = (getattr(rows[model], target).score for model in ("m2", "m0"))
        assert standing.difference == pytest.approx(first - second, abs=0.11)
    silent = Ballot(Entrant("quiet", "p9", 0), "i0", 0, 0)
    with pytest.raises(DataError, match="no judge gave a verdict"):
        compare_models(board([*ballots, silent]), ("m0", "quiet"))


@pytest.mark.parametrize("maker", ["p0", "another"])
@pytest.mark.parametrize("labelled", [False, True])
def test_of_two_models_with_the_same_votes_each_is_as_likely_the_better_one(labelled: bool, maker: str) -> None:
    ballots, labels = evidence()
    twin = Entrant("twin", maker, 0)
    ballots += [replace(one, entrant=twin) for one in ballots if one.entrant == entrant(0)]
    labels += [replace(one, entrant=twin) for one in labels if one.entrant == entrant(0)]
    found = board(ballots, labels if labelled else ())
    for standing in compare_models(found, ("m0", "twin")).standings:
        assert (standing.better, standing.difference) == (0.5, pytest.approx(0, abs=1e-9))


# ---- what labels would do ------------------------------------------------------------------------------------------


def test_a_board_of_one_or_of_too_many_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all_pairs(board(*evidence(1))) == []
    monkeypatch.setattr(compare, "MOST_COMPARED", 2)
    assert all_pairs(board(*evidence(3))) == []
