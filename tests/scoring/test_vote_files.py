"""Files of votes: the board of what they hold is the ordinary one, and a file that holds no votes is named."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.scoring.board import rank_board
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import Entrant, content_key
from layton_batch.scoring.leaderboard import ScoringRules, stored
from tests.scoring.gold_tables import JUSTIFICATION, Answer, gold_table, verdicts
from tests.support.evidence import Ballot, Label, frames

METRIC = "both_correct"


def made_up(models: int = 4, items: int = 15) -> tuple[list[Ballot], list[Label]]:
    """Some answers are unparsed, unjudged or judged by two; the first four models have labels on a third."""
    draw = random.Random(3)
    ballots, labels = [], []
    for number in range(models):
        who = Entrant(f"model-{number}", f"provider-{number % 3}", number % 2)
        for item in range(items):
            right, fate = draw.random() < 0.3 + 0.08 * number, draw.random()
            total = 0 if fate < 0.03 else 2 if fate < 0.06 else 3
            kind = "unparsed" if fate > 0.97 else "missing" if fate > 0.95 else "answered"
            yes = sum(draw.random() < (0.95 if right else 0.1) for _ in range(total))
            if kind != "answered":
                yes = total = 0
            content = content_key(f"{number} {item}", JUSTIFICATION)
            ballots.append(Ballot(who, f"item-{item:02d}", yes, total, content, kind))
            if number < 4 and total and draw.random() < 0.33:
                labels.append(Label(who, f"item-{item:02d}", yes, total, right, content))
    return ballots, labels


def write_votes(path: Path, ballots: Sequence[Ballot], sample: int = 1) -> Path:
    rows = [
        {"item_id": one.item_id, "model": one.entrant.model, "provider": one.entrant.provider,
         "n_hints": one.entrant.n_hints, "sample": sample, "metric": METRIC,
         "flag": one.kind if one.kind != "answered" else None, "yes": one.yes, "total": one.total,
         "content": one.content}
        for one in ballots
    ]  # fmt: skip
    pl.DataFrame(rows, schema_overrides={"flag": pl.String}, infer_schema_length=None).write_parquet(path)
    return path


def in_files(folder: Path, ballots: Sequence[Ballot]) -> Path:
    """Two models a file, in no order."""
    folder.mkdir()
    names = sorted({ballot.entrant for ballot in ballots})
    for number in range(0, len(names), 2):
        mine = [ballot for ballot in ballots if ballot.entrant in names[number : number + 2]]
        write_votes(folder / f"{number}.parquet", random.Random(1).sample(mine, len(mine)))
    return folder


def in_gold_set(path: Path, labels: Sequence[Label], text: str | None = None) -> str:
    """Write the labels, on other answers if they have another ``text``."""
    rows = []
    for label in labels:
        number, item = label.entrant.model.removeprefix("model-"), int(label.item_id.removeprefix("item-"))
        said = verdicts(label.yes, label.total)
        rows.append(Answer(label.entrant, label.item_id, said, label.correct, text or f"{number} {item}"))
    gold_table(rows).write_parquet(path)
    return str(path)


def test_the_board_of_files_is_that_of_their_votes_and_votes_on_what_is_wrong_without_a_jury_count_for_nothing(
    tmp_path: Path,
) -> None:
    ballots, labels = made_up()
    elsewhere = replace(labels[0], entrant=Entrant("model-0", "provider-0", 4))
    files = [
        in_gold_set(tmp_path / "labels.parquet", [*labels, elsewhere]),
        in_gold_set(tmp_path / "more.parquet", labels[1:2], "another answer"),
    ]
    said = [*labels, replace(elsewhere, content=-1), replace(labels[1], content=-2)]
    board = stored(rank_board(JuryBoard(*frames(ballots, said), ScoringRules())))
    voted = [replace(one, yes=2, total=2) if one.kind != "answered" else one for one in ballots]
    for name, cast in (("votes", ballots), ("others", voted)):
        assert lb.leaderboard(in_files(tmp_path / name, cast), labels=files).frame.equals(board)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, "no column model"),
        ({"yes": pl.when(pl.col("item_id") == "item-03").then(None).otherwise("yes")}, "has no yes"),
        ({"yes": pl.lit("three")}, "cannot be read as a Parquet file of votes"),
        ({"yes": pl.lit(9)}, "9 yes of"),
        ({}, "cannot be read as a Parquet file of votes"),
    ],
    ids=["no column", "a null", "a text", "more yes than votes", "cut off"],
)
def test_a_file_that_holds_no_votes_is_named(tmp_path: Path, changes: dict[str, pl.Expr | None], reason: str) -> None:
    folder = in_files(tmp_path / "votes", made_up(2)[0])
    path = write_votes(folder / "odd.parquet", made_up(1)[0])
    columns = {name: value for name, value in changes.items() if value is not None}
    dropped = [name for name in changes if name not in columns]
    pl.read_parquet(path).with_columns(**columns).drop(dropped).write_parquet(path)
    if not changes:
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=rf"odd\.parquet: .*{reason}"):
        lb.leaderboard(folder)


def test_what_is_a_source_of_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ballots, _ = made_up(1)
    for folder in (tmp_path / "votes", tmp_path / "run", tmp_path / "empty"):
        folder.mkdir()
    for path in (tmp_path / "votes.parquet", tmp_path / "votes" / "a.parquet", tmp_path / "run" / "votes.parquet"):
        write_votes(path, ballots)
    pl.DataFrame({"model": ["a"]}).write_parquet("other.parquet")
    Path("torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "run" / "run.json").write_text("{}", encoding="utf-8")
    assert [lb.leaderboard(name).frame.height for name in ("votes.parquet", "votes")] == [1, 1]
    for name in ("other.parquet", "torn.parquet", "run", "empty", "none"):
        with pytest.raises(LaytonBatchError) as refused:
            lb.leaderboard(name)
        assert (name in str(refused.value), "file of votes" in str(refused.value)) == (True, False)
