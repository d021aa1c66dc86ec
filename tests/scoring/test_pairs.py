"""Every two entrants beside each other, and what labels would do for the intervals."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.commands.compare import ComparisonDocument
from layton_batch.errors import DataError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring import compare
from layton_batch.scoring.board import rank_board
from layton_batch.scoring.compare import compare_marks, compare_votes, pairs_by_marks, pairs_by_votes
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.label_plan import LabelTarget, outlook, plan_next
from layton_batch.scoring.rule_board import ItemScores, RuleBoard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.site.board import label_need
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


def test_a_pair_says_what_comparing_the_two_says() -> None:
    ballots, labels = evidence()
    found = pairs_by_votes(JuryBoard(*frames(ballots, labels), RULES))
    assert len(found) == 3
    for pair in found:
        new, here = compare_votes(JuryBoard(*frames(ballots, labels), RULES), (pair.model, pair.other)).standings
        assert pair.better == pytest.approx(here.better, abs=1e-3)
        assert pair.better_new == pytest.approx(new.better, abs=1e-3)


def test_a_comparison_has_the_difference_of_the_board_s_scores_and_its_own_detectable_difference() -> None:
    ballots, labels = evidence()
    rows = {row.model: row for row in Rows(rank_board(JuryBoard(*frames(ballots, labels), RULES)))}
    least = set()
    for one, other in (("m0", "m1"), ("m0", "m2"), ("m1", "m2")):
        new, here = compare_votes(JuryBoard(*frames(ballots, labels), RULES), (one, other)).standings
        assert here.difference == pytest.approx(
            (rows[one].this_set.score or 0) - (rows[other].this_set.score or 0), abs=0.11
        )
        assert new.difference == pytest.approx((rows[one].score or 0) - (rows[other].score or 0), abs=0.11)
        for standing in (here, new):
            assert standing.lower <= standing.difference <= standing.upper
        least.add(new.minimum_detectable_difference)
    assert len(least) == 3


@pytest.mark.parametrize("target", ["new items", "this set"])
def test_a_pair_whose_interval_leaves_0_out_is_said_to_be_separated(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ballots, labels = evidence(4)
    apart, together = (
        compare_votes(JuryBoard(*frames(ballots, labels), RULES), pair) for pair in (("m3", "m0"), ("m1", "m0"))
    )
    assert all(standing.separated for standing in apart.standings)
    assert not any(standing.separated for standing in together.standings)
    for comparison in (apart, together):
        ComparisonDocument(comparison, target, None).show()
        shown = capsys.readouterr().out
        assert ("The two are separated" in shown) == (comparison is apart)


def test_without_labels_a_comparison_is_uncalibrated_and_agrees_with_the_board() -> None:
    ballots, _ = evidence()
    rows = {row.model: row for row in Rows(rank_board(JuryBoard(*frames(ballots, []), RULES)))}
    found = compare_votes(JuryBoard(*frames(ballots, []), RULES), ("m2", "m0"))
    assert found.method == "uncalibrated"
    for standing, target in zip(found.standings, ("new", "this_set"), strict=True):
        first, second = (getattr(rows[model], target).score for model in ("m2", "m0"))
        assert standing.difference == pytest.approx(first - second, abs=0.11)
    silent = [Ballot(Entrant("quiet", "p9", 0), "i0", 0, 0)]
    with pytest.raises(DataError, match="no judge gave a verdict"):
        compare_votes(JuryBoard(*frames([*ballots, *silent], []), RULES), ("m0", "quiet"))


@pytest.mark.parametrize("maker", ["p0", "another"])
@pytest.mark.parametrize("labelled", [False, True])
def test_of_two_models_with_the_same_votes_each_is_as_likely_the_better_one(labelled: bool, maker: str) -> None:
    ballots, labels = evidence()
    twin = Entrant("twin", maker, 0)
    ballots += [replace(one, entrant=twin) for one in ballots if one.entrant == entrant(0)]
    labels += [replace(one, entrant=twin) for one in labels if one.entrant == entrant(0)]
    for standing in compare_votes(
        JuryBoard(*frames(ballots, labels if labelled else []), RULES), ("m0", "twin")
    ).standings:
        assert (standing.better, standing.difference) == (0.5, pytest.approx(0, abs=1e-9))


def test_a_pair_graded_by_rule_is_exact_here_and_likely_on_new_items() -> None:
    names = [f"i{item}" for item in range(ITEMS)]
    marks = [[float(item % 4 < model + 1) for item in range(ITEMS)] for model in range(2)]
    kinds = ["answered"] * ITEMS
    sheets = [ItemScores(entrant(model), names, marks[model], kinds, [None] * ITEMS) for model in range(2)]
    (pair,) = pairs_by_marks(RuleBoard(sheets, RULES))
    (new,) = compare_marks(RuleBoard(sheets, RULES), (pair.model, pair.other)).standings
    assert pair.better is None
    assert pair.better_new == pytest.approx(new.better, abs=1e-3)


def test_a_board_of_one_or_of_too_many_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pairs_by_votes(JuryBoard(*frames(*evidence(1)), RULES)) == []
    monkeypatch.setattr(compare, "MOST_COMPARED", 2)
    assert pairs_by_votes(JuryBoard(*frames(*evidence(3)), RULES)) == []


def test_as_many_labels_as_are_said_to_be_enough_make_intervals_about_as_short_as_labels_can() -> None:
    ballots, labels = evidence()
    enough = outlook(JuryBoard(*frames(ballots, labels), RULES), length=0).enough
    assert 0 < enough.labels <= len(ballots) - len(labels)
    plan = plan_next(JuryBoard(*frames(ballots, labels), RULES), LabelTarget(half_width=0.0))
    assert len(plan.rows) == enough.labels
    for model in plan.models:
        assert 0 < model.half_width_least <= model.half_width_then <= 1.06 * model.half_width_least
        assert model.half_width_then <= model.half_width_now


def test_what_a_plan_says_of_now_is_the_interval_for_new_items_that_the_board_shows() -> None:
    ballots, labels = evidence()
    shown = {row.model: row for row in Rows(rank_board(JuryBoard(*frames(ballots, labels), RULES)))}
    for model in plan_next(JuryBoard(*frames(ballots, labels), RULES), LabelTarget(labels=0)).models:
        row = shown[model.model]
        assert row.lower is not None
        assert row.upper is not None
        assert 2 * model.half_width_now == pytest.approx(row.upper - row.lower, abs=0.2)


def test_no_half_width_of_a_plan_is_wider_than_the_scale() -> None:
    ballots, _ = evidence()
    few = [ballot for ballot in ballots if ballot.item_id in {ballot.item_id for ballot in ballots[:2]}]
    models = plan_next(JuryBoard(*frames(few, []), RULES), LabelTarget(half_width=0.03, this_set=True)).models
    assert max(model.half_width_now for model in models) == 50.0


def test_where_every_answer_has_a_label_nothing_is_asked_for() -> None:
    ballots, _ = evidence()
    everything = [Label(one.entrant, one.item_id, one.yes, one.total, one.yes > 1, one.content) for one in ballots]
    assert outlook(JuryBoard(*frames(ballots, everything), RULES), length=0).enough.labels == 0


def test_the_sentence_names_the_command(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert label_need(folder, "lab") == ""
    need = {"labels": 1200, "half_width_now": 8.14, "half_width_then": 6.3}
    tables.write(folder.part("label_need", "label_need"), tables.frame("label_need", [need]))
    assert label_need(folder, "lab") == (
        "1,200 labels would bring the intervals for new items from ±8.1 to ±6.3 on average, and only more items make "
        "them shorter: layton-batch label lab"
    )
    tables.write(folder.part("label_need", "label_need"), tables.frame("label_need", [need | {"half_width_now": 6.4}]))
    assert label_need(folder, "lab") == (
        "Only more items make the intervals for new items (±6.4 on average) much shorter; 1,200 labels would help a "
        "little: layton-batch label lab"
    )
    tables.write(folder.part("label_need", "label_need"), tables.frame("label_need", [need | {"half_width_now": None}]))
    assert label_need(folder, "lab") == (
        "No answer has a person's label that counts yet; 1,200 labels would give intervals for new items of ±6.3: "
        "layton-batch label lab"
    )
