"""Boards: the recorded scores, intervals and boxes, both kinds of grading, and input that contradicts itself."""

from __future__ import annotations

import csv
import io
import random
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.errors import DataError
from layton_batch.scoring import board, leaderboard
from layton_batch.scoring.boards import JuryBoard, RuleBoard
from layton_batch.scoring.evidence import MARKS, Entrant
from layton_batch.scoring.leaderboard import (
    FLAGS,
    NEW_ITEMS,
    OTHER_HINTS,
    RULE,
    ScoringRules,
    alike,
)
from layton_batch.stats.counts import Flag
from tests.scoring.gold_tables import voted
from tests.support.evidence import Ballot, Label, Rows, frames, marks_frame
from tests.support.paths import SHARED_DATA

DATA = SHARED_DATA / "layton"
METRICS = ("both_correct", "answer_correct", "justification_correct")
CONTRACT = (
    "rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper", "half_width",
    "method", "metric", "n_items", "n_unparsed", "n_missing",
)  # fmt: skip
HOSTILE = (
    '=HYPERLINK("http://evil")',
    "[bold red]markup[/]",
    "line\nbreak | pipe",
    "\x1b[31mred\x07",
    "\u202egnp.exe",
    "<script>alert(1)</script>",
    "![x](http://evil) @everyone www.evil.example $x$",
    "x" * 300,
    "模型" * 30,
    "＝SUM(1)",
    "\n@SUM(1)",
    " ＋1",
)


def rank_board(votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules) -> Rows:
    return Rows(board.rank_board(JuryBoard(votes, labels, rules)))


def rank_marks(marks: list[pl.DataFrame], rules: ScoringRules) -> Rows:
    return Rows(board.rank_marks(RuleBoard(pl.concat([pl.DataFrame(schema=MARKS), *marks]), rules)))


def on_this_set(rows: Rows) -> Rows:
    return Rows(leaderboard.on_this_set(rows.frame))


def shown(document: Any) -> str:
    """Return the document as a terminal shows it."""
    with redirect_stdout(io.StringIO()) as out:
        document.show()
    return out.getvalue()


def made_up(models: int = 5, items: int = 60) -> tuple[list[Ballot], list[Label]]:
    rng = random.Random(8)
    ballots, labels = [], []
    for number in range(models):
        who = Entrant(f"model-{number}", f"provider-{number % 3}", 0)
        for item in range(items):
            right = rng.random() < 0.9 - 0.12 * number
            yes = rng.choice((1, 2)) if rng.random() < 0.1 else 3 * right
            ballots.append(Ballot(who, f"item-{item}", yes, 3, content=item))
            if rng.random() < 0.4 and number < 4:
                labels.append(Label(who, f"item-{item}", yes, 3, right, content=item))
    return ballots, labels


@cache
def made_up_board() -> Rows:
    """Return the board of :func:`made_up`, which tests only read."""
    return rank_board(*frames(*made_up()), ScoringRules())


def test_labels_of_the_same_model_at_another_hint_level_are_called_other_hints() -> None:
    ballots, labels = made_up()
    hinted = Entrant("model-0", "provider-0", 2)
    at_two_hints = [replace(one, entrant=hinted) for one in ballots if one.entrant.model == "model-0"]
    rows = rank_board(*frames([*ballots, *at_two_hints], labels), ScoringRules())
    by_level = {row.n_hints: row for row in rows if row.model == "model-0"}
    assert by_level[2].own_labels == 0
    assert by_level[2].flags == ("borrowed_only", OTHER_HINTS)
    assert OTHER_HINTS not in by_level[0].flags


def test_without_any_label_the_board_says_so_and_promises_little() -> None:
    ballots, labels = made_up()
    lone = [Ballot(Entrant("silent", "elsewhere", 0), "item-0", 0, 0)]
    *rows, silent = rank_board(*frames([*ballots, *lone], []), ScoringRules())
    labelled = {row.model: row for row in rank_board(*frames(ballots, labels), ScoringRules())}
    for row in rows:
        assert row.method == "uncalibrated"
        assert row.labels_needed > 0
        assert row.flags == ()
        assert row.lower < row.score < row.upper
        assert row.new.half_width > labelled[row.model].new.half_width
        assert row.this_set.half_width > labelled[row.model].this_set.half_width
        given = [one.yes / one.total for one in ballots if one.entrant.model == row.model]
        assert row.jury_vote == labelled[row.model].jury_vote == round(100 * sum(given) / len(given), 1)
        assert (row.own_labels, row.borrowed_labels, row.fewest_labels_per_vote) == (0, 0, 0)
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5]
    assert (silent.score, silent.rank, silent.lower, silent.flags) == (None, None, None, ("unjudged",))
    (paper, *_) = rank_board(*frames(ballots, []), ScoringRules(method="paper"))
    assert paper.score is None
    assert paper.rank is None


def test_contradictions_name_the_model_and_the_item() -> None:
    ballots, labels = made_up()
    with pytest.raises(DataError, match=r"item 'item-0' of model 'model-0' .* twice"):
        rank_board(*frames([*ballots, ballots[0]], labels), ScoringRules())
    other = replace(labels[0], correct=not labels[0].correct)
    with pytest.raises(DataError, match="2 human labels, half of them yes"):
        rank_board(*frames(ballots, [*labels, other]), ScoringRules())


def test_equal_marks_share_a_rank_and_close_ones_a_box() -> None:
    rows = rank_marks([marks_frame(name, [1.0, 0.0, 1.0, 0.5]) for name in "abc"], ScoringRules())
    assert [row.rank for row in rows] == [1, 1, 1]
    assert {(row.rank_best, row.rank_worst) for row in rows} == {(1, 3)}


def test_kinds_are_counted_and_bad_marks_refused() -> None:
    (row,) = rank_marks([marks_frame("a", [1.0, 0.0, 0.0], kinds=["answered", "unparsed", "missing"])], ScoringRules())
    assert (row.n_unparsed, row.n_missing, row.n_abstained) == (1, 1, 0)
    for mark in (float("nan"), None):
        with pytest.raises(DataError, match=r"'a'.*no number"):
            rank_marks([marks_frame("a", [mark])], ScoringRules())
    with pytest.raises(DataError, match="more than one mark"):
        rank_marks([marks_frame("a", [1.0]), marks_frame("a", [1.0])], ScoringRules())
    assert rank_marks([], ScoringRules()) == []


def test_failures_are_counted_in_the_rules_words_and_shown_under_the_board() -> None:
    kinds = [f"a_kind_of_length_{letter}" for times, letter in enumerate("abcdefghij", 1) for _ in range(times)]
    of_few = ["no_answer", *[None] * 54]
    rows = [
        {"model": model, "item_id": f"i{number}", "score": float(kind is None), "flag": kind}
        for model, failures in (("a" * 70, kinds), ("b", of_few))
        for number, kind in enumerate(failures)
    ]
    board = lb.leaderboard(rows)
    assert [row["failures"] for row in board.as_json()] == [  # type: ignore[attr-defined]
        {"no_answer": 1},
        {f"a_kind_of_length_{letter}": times for times, letter in enumerate("abcdefghij", 1)},
    ]
    lines = shown(board).partition("not right, by kind\n")[2].splitlines()
    assert max(map(len, lines)) <= 80  # what does not fit is one column
    assert sum(int(part) for line in lines for part in line.split() if part.isdigit()) == len(kinds) + 1
    assert "other" in " ".join(lines)


def test_two_annotators_who_agree_are_one_label_and_three_are_their_majority() -> None:
    ballots, labels = made_up()
    before = made_up_board()
    assert rank_board(*frames(ballots, [*labels, labels[0]]), ScoringRules()) == before
    other = replace(labels[0], correct=not labels[0].correct)
    assert rank_board(*frames(ballots, [other, *labels, labels[0]]), ScoringRules()) == before


def test_a_jury_of_one_is_short_beside_a_jury_of_three() -> None:
    ballots, labels = made_up()
    alone = ballots[0].entrant
    ballots = [replace(one, yes=min(one.yes, 1), total=1) if one.entrant == alone else one for one in ballots]
    flagged = {row.model for row in rank_board(*frames(ballots, labels), ScoringRules()) if "short_jury" in row.flags}
    assert flagged == {alone.model}
    recused = [replace(one, yes=min(one.yes, 2), total=2) if one.entrant == alone else one for one in made_up()[0]]
    assert not any("short_jury" in row.flags for row in rank_board(*frames(recused, labels), ScoringRules()))


@pytest.mark.parametrize("has_labels", [True, False])
def test_a_row_says_how_many_verdicts_of_its_jury_are_missing(has_labels: bool) -> None:
    ballots, labels = made_up()
    read = {"model-1": 2, "model-2": 1, "model-3": 0}
    ballots = [
        replace(one, yes=min(one.yes, total), total=total, judges=3)
        for one in ballots
        for total in [read.get(one.entrant.model, 3)]
    ]
    ballots[0] = replace(ballots[0], yes=0, total=0, judges=0, kind="missing")  # no judge is asked about this answer
    rows = {row.model: row for row in rank_board(*frames(ballots, labels if has_labels else []), ScoringRules())}
    missing = {name: (row.n_verdicts, row.n_verdicts_missing) for name, row in rows.items()}
    full = {"model-0": (177, 0), "model-4": (180, 0)}
    assert missing == full | {"model-1": (180, 60), "model-2": (180, 120), "model-3": (180, 180)}
    short = {name: {"short_jury", "few_verdicts"}.intersection(row.flags) for name, row in rows.items()}
    assert short["model-0"] == short["model-4"] == set()
    assert short["model-1"] == {"short_jury"}
    assert short["model-2"] == short["model-3"] == {"few_verdicts"}


@cache
def hostile_board() -> Any:
    ballots, labels = made_up(len(HOSTILE), 20)
    names = {f"model-{number}": text for number, text in enumerate(HOSTILE)}
    renamed = [replace(b, entrant=Entrant(names[b.entrant.model], names[b.entrant.model], 0)) for b in ballots]
    of_renamed = [replace(b, entrant=Entrant(names[b.entrant.model], names[b.entrant.model], 0)) for b in labels]
    return lb.leaderboard(voted(renamed, of_renamed))


def test_hostile_names_are_harmless_in_the_table_and_whole_in_json() -> None:
    table = shown(hostile_board())
    assert "[bold red]markup[/]" in table
    assert not any(bad in table for bad in ("\x1b", "\x07", "\u202e"))
    assert not any(line.startswith("break") for line in table.splitlines())
    rows: list[dict[str, object]] = hostile_board().as_json()
    assert {row["model"] for row in rows} == set(HOSTILE)
    assert set(CONTRACT) <= set(rows[0])


def test_hostile_names_are_harmless_in_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(hostile_board().text("csv"))))
    assert len(rows) == len(HOSTILE)
    for row in rows:
        assert not row["model"].lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
        assert "\x1b" not in row["model"]
        assert "\n" not in row["model"]
    assert {row["score"] for row in rows} != {""}


def test_hostile_names_are_harmless_in_markdown() -> None:
    lines = hostile_board().text("md").splitlines()
    assert len(lines) == 2 + len(HOSTILE)
    for line in lines[2:]:
        assert line.replace("\\|", "").count("|") == 12
        for bad in ("<script", "![", "http://", "www.e", "\x1b", "\u202e", " @everyone"):
            assert bad not in line.replace("\\<", "").replace("\\[", "")


def test_a_row_whose_maker_has_no_label_says_that_nothing_shows_favour() -> None:
    ballots, labels = made_up()
    known = [label for label in labels if label.entrant.provider != "provider-1"]
    board = lb.leaderboard(voted(ballots, known))
    flagged = board.frame.filter(pl.col("flags").str.contains("maker_without_labels"))
    assert set(flagged["provider"]) == {"provider-1"}
    assert not any("maker_without_labels" in row.flags for row in made_up_board())
    assert FLAGS["maker_without_labels"] in " ".join(shown(board).split())


# ---- one target a row ----------------------------------------------------------------------------------------------


def test_marks_are_exact_on_this_set() -> None:
    marks = [marks_frame("b", [1.0] * 10 + [0.0] * 30), marks_frame("a", [1.0] * 30 + [0.0] * 10)]
    rows = rank_marks(marks, ScoringRules(metric="acc"))
    assert (rows[0].lower, rows[0].upper) == (60.1, 86.4)  # Jeffreys: Beta(30.5, 10.5), rounded outwards
    for row in rows:
        assert (row.method, row.metric, row.target) == (RULE, "acc", NEW_ITEMS)
        assert row.rank_best == row.rank_worst == row.rank
        assert (row.own_labels, row.borrowed_labels, row.fewest_labels_per_vote) == (0, 0, None)
    here = on_this_set(rows)
    assert [
        (row.model, row.score, row.lower, row.upper, row.half_width, row.rank_best, row.rank_worst) for row in here
    ] == [
        ("a", 75.0, 75.0, 75.0, 0.0, 1, 1),
        ("b", 25.0, 25.0, 25.0, 0.0, 2, 2),
    ]


def test_two_models_share_a_letter_exactly_where_their_rank_ranges_overlap() -> None:
    published = [(1, 5), (1, 5), (1, 5), (1, 6), (1, 6), (5, 8), (6, 8), (6, 9), (8, 9)]
    assert alike(published) == ["A", "A", "A", "AB", "AB", "A–C", "BC", "BC", "C"]
    assert alike([(1, 1), (2, 2), (None, None), (3, 3)]) == ["A", "B", "", "C"]
    assert alike([(rank, rank) for rank in range(1, 30)])[24:28] == ["Y", "Z", "AA", "AB"]
    rng = random.Random(4)
    for _ in range(200):
        ranges = [tuple(sorted(rng.choices(range(1, 8), k=2))) for _ in range(6)]
        letters = [spelt(one) for one in alike([(best, worst) for best, worst in ranges])]
        for (best, worst), one in zip(ranges, letters, strict=True):
            for (other_best, other_worst), other in zip(ranges, letters, strict=True):
                assert bool(one & other) == (best <= other_worst and other_best <= worst)


def spelt(text: str) -> set[str]:
    first, dash, last = text.partition("–")
    return {chr(code) for code in range(ord(first), ord(last) + 1)} if dash else set(text)


# ---- tiny boards ---------------------------------------------------------------------------------------------------


def ends_of_ranks(rows: Rows) -> set[tuple[int | None, int | None]]:
    assert {row.target for row in rows} == {NEW_ITEMS}
    return {(row.rank_best, row.rank_worst) for row in rows}


@pytest.mark.parametrize(
    ("items", "first", "second", "apart"),
    [(1, 1, 0, False), (4, 3, 1, False), (100, 100, 97, False), (20, 15, 5, True), (100, 20, 5, True)],
)
def test_few_items_tell_no_ranks_on_new_items(items: int, first: int, second: int, apart: bool) -> None:
    """Items, right answers of two models, and whether that tells them apart on new items."""
    expected = {(1, 1), (2, 2)} if apart else {(1, 2)}
    models = {"one": first, "other": second}
    sheets = [marks_frame(name, [float(item < right) for item in range(items)]) for name, right in models.items()]
    assert ends_of_ranks(rank_marks(sheets, ScoringRules(metric="acc"))) == expected
    ballots = [
        Ballot(Entrant(name, name, 0), f"i{item}", 3 * (item < right), 3, content=item)
        for name, right in models.items()
        for item in range(items)
    ]
    unlabelled = ends_of_ranks(rank_board(*frames(ballots, []), ScoringRules()))
    assert unlabelled in ({(1, 2)}, expected)  # nobody knows whether judges favour one of the makers
    own = [Label(one.entrant, one.item_id, one.yes, 3, one.yes == 3, one.content) for one in ballots]
    assert ends_of_ranks(rank_board(*frames(ballots, own), ScoringRules())) == expected
    stranger = Entrant("third", "third", 0)
    others = [Label(stranger, f"z{item}", 3 * (item % 2), 3, item % 2 == 1, 1000 + item) for item in range(200)]
    assert ends_of_ranks(rank_board(*frames(ballots, others), ScoringRules())) == expected


def test_a_jury_whose_size_is_unknown_is_as_large_as_the_largest_on_any_answer() -> None:
    who = Entrant("m", "p", 0)
    ballots = [Ballot(who, f"item-{number}", 0, total) for number, total in enumerate((3, 2, 1, 0))]
    (row,) = rank_board(*frames(ballots, []), ScoringRules())
    assert (row.n_verdicts, row.n_verdicts_missing) == (12, 6)
    assert "few_verdicts" in row.flags


def test_every_flag_the_statistics_know_has_words() -> None:
    assert {str(flag) for flag in Flag} < set(FLAGS)
