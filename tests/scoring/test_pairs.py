"""Every two models beside each other, and what labels would do for the intervals."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import layton_batch as lb
from layton_batch.errors import DataError
from layton_batch.scoring.evidence import Entrant
from tests.scoring.gold_tables import voted
from tests.support.evidence import Ballot, Label
from tests.support.lab import lab, manifest_text, several, write_few_labels
from tests.support.pages import without_pages as without_pages

ITEMS = 40


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


def standings(source: object, first: str, second: str, **asked: object) -> dict[str, dict[str, Any]]:
    """Return the two rows of a comparison, on new items and on this set."""
    frame = lb.compare(source, first, second, **asked).frame  # type: ignore[arg-type]
    return {row["target"]: row for row in frame.iter_rows(named=True)}


@pytest.mark.usefixtures("without_pages")
def test_pairs_comparisons_and_the_board_say_the_same(tmp_path: Path) -> None:
    write_few_labels(tmp_path)
    text = manifest_text(("openai", "anthropic", "gemini"), limit=3, top='[gold]\nsource = "gold.jsonl"')
    with lab(tmp_path) as there:
        there.finish(text)
        board, pairs = (there.table(text, name).to_dicts() for name in ("leaderboard", "pairs"))
        compared = [standings("lab", pair["model"], pair["other"], runs=there.runs) for pair in pairs]
    rows, least = {row["model"]: row for row in board}, set()
    for pair, of_pair in zip(pairs, compared, strict=True):
        for (target, of_board), row in zip((("_new", "new_"), ("", "set_")), of_pair.values(), strict=True):
            first, second = (rows[pair[name]][f"{of_board}score"] for name in ("model", "other"))
            assert row["difference"] == pytest.approx(first - second, abs=0.11)
            assert row["lower"] <= row["difference"] <= row["upper"]
            assert row["better"] == pytest.approx(pair[f"better{target}"], abs=1e-3)
        least.add(of_pair["new items"]["minimum_detectable_difference"])
    assert (len(pairs), len(least)) == (3, 3)  # each pair has a detectable difference of its own


@pytest.mark.parametrize("this_set", [False, True])
def test_a_pair_whose_interval_leaves_0_out_is_called_separated(
    this_set: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    table = voted(*evidence(4))
    for pair, is_separated in ((("m3", "m0"), True), (("m1", "m0"), False)):
        compared = lb.compare(table, *pair, this_set=this_set)
        assert [lower > 0 or upper < 0 for lower, upper in compared.frame.select("lower", "upper").iter_rows()] == [
            is_separated
        ] * 2
        compared.show()
        assert ("separated" in capsys.readouterr().out) == is_separated


def test_without_labels_a_comparison_is_uncalibrated_and_agrees_with_the_board() -> None:
    ballots, _ = evidence()
    table = voted([*ballots, Ballot(Entrant("quiet", "p9", 0), "i0", 0, 0)])  # of whom nobody judged an answer
    rows = {row["model"]: row for row in lb.leaderboard(table).frame.iter_rows(named=True)}
    for row, prefix in zip(standings(table, "m2", "m0").values(), ("new_", "set_"), strict=True):
        assert row["method"] == "uncalibrated"
        first, second = (rows[model][f"{prefix}score"] for model in ("m2", "m0"))
        assert row["difference"] == pytest.approx(first - second, abs=0.11)
    with pytest.raises(DataError, match="'quiet'"):
        lb.compare(table, "m0", "quiet")


@pytest.mark.parametrize("maker", ["p0", "another"])
@pytest.mark.parametrize("labelled", [False, True])
def test_of_two_models_with_the_same_votes_each_is_as_likely_the_better_one(labelled: bool, maker: str) -> None:
    ballots, labels = evidence()
    twin = Entrant("twin", maker, 0)
    ballots += [replace(one, entrant=twin) for one in ballots if one.entrant == entrant(0)]
    labels += [replace(one, entrant=twin) for one in labels if one.entrant == entrant(0)]
    for row in standings(voted(ballots, labels if labelled else ()), "m0", "twin").values():
        assert (row["better"], row["difference"]) == (0.5, pytest.approx(0, abs=1e-9))


@pytest.mark.nightly
def test_a_board_of_too_many_has_no_pairs(tmp_path: Path) -> None:
    text = several(61).replace("limit = 3", "limit = 1")
    with lab(tmp_path) as there:
        there.finish(text)
        assert [there.table(text, name).height for name in ("leaderboard", "pairs")] == [61, 0]
