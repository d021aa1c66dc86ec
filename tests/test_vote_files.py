"""Files of votes: the board of a run comes back, very many models get the same scores from counts, and a refresh reads
what is new."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from layton_batch.cli.board_sources import Asked, read_sources, rows_of
from layton_batch.cli.vote_sources import large_frame, shown_of
from layton_batch.errors import DataError, ManifestError
from layton_batch.files.kept_frames import KeptFrames
from layton_batch.scoring import large_board
from layton_batch.scoring.board import FAR_RANGES, BoardRow
from layton_batch.scoring.evidence import Ballot, Entrant, Label
from layton_batch.scoring.rules import Rules
from layton_batch.scoring.uncalibrated import rank_votes
from layton_batch.scoring.vote_counts import counts_of
from layton_batch.scoring.vote_files import CONTENT_OF_FILE, SCHEMA, VoteFile, is_votes, rounds, vote_files
from layton_batch.settings import Settings

METRIC = "both_correct"
PRINTED = ("score", "lower", "upper", "half_width", "new_score", "new_lower", "new_upper", "own_labels",
           "borrowed_labels", "smallest_gold_bin", "n_items", "n_unjudged", "n_unparsed", "n_missing", "n_abstained",
           "method", "level", "rank")  # fmt: skip


def made_up(models: int = 7, items: int = 40) -> tuple[list[Ballot], list[Label]]:
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
            ballots.append(Ballot(who, f"item-{item:02d}", yes, total, 100 * number + item, kind != "answered", kind))
            if number < 4 and total and draw.random() < 0.33:
                labels.append(Label(who, f"item-{item:02d}", yes, total, right, 100 * number + item))
    elsewhere = replace(labels[0], entrant=Entrant("model-0", "provider-0", 4), content=-1)
    other_answer = replace(labels[1], content=-2)
    return ballots, [*labels, elsewhere, other_answer]


def write_votes(path: Path, ballots: Sequence[Ballot], digest: str | None = None, sample: int = 1) -> Path:
    rows = [
        {"item_id": one.item_id, "model": one.entrant.model, "provider": one.entrant.provider,
         "n_hints": one.entrant.n_hints, "sample": sample, "metric": METRIC,
         "flag": one.kind if one.known_zero else None, "yes": one.yes, "total": one.total, "content": one.content}
        for one in ballots
    ]  # fmt: skip
    about = {} if digest is None else {CONTENT_OF_FILE: digest}
    pl.DataFrame(rows, schema=SCHEMA).write_parquet(path, metadata=about)
    return path


def in_files(folder: Path, ballots: Sequence[Ballot]) -> list[VoteFile]:
    """Two models a file, the last file in no order."""
    folder.mkdir()
    names = sorted({one.entrant for one in ballots})
    for number in range(0, len(names), 2):
        mine = [one for one in ballots if one.entrant in names[number : number + 2]]
        if number + 2 >= len(names):
            random.Random(1).shuffle(mine)
        write_votes(folder / f"{number}.parquet", mine, f"digest of {number}")
    return vote_files(str(folder))


def board_of(
    files: Sequence[VoteFile], labels: Sequence[Label], kept: Path, rules: Rules | None = None
) -> dict[str, BoardRow]:
    with ThreadPoolExecutor(2) as executor:
        board = large_board.large_board(files, labels, rules or Rules(), KeptFrames(kept), executor)
    rows, _ = shown_of(board, "json")
    return {row.model: row for row in rows}


def by_name(rows: Sequence[BoardRow]) -> dict[str, BoardRow]:
    return {row.model: row for row in rows}


def flags(row: BoardRow) -> set[str]:
    return set(row.flags.split(", ")) - {"", FAR_RANGES}


@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "none"])
def test_a_board_from_counts_has_the_digits_of_the_ordinary_one_and_wider_ranges(
    tmp_path: Path, labelled: bool
) -> None:
    ballots, labels = made_up()
    labels = labels if labelled else []
    ordinary = by_name(rank_votes(ballots, labels, Rules()))
    counted = board_of(in_files(tmp_path / "votes", ballots), labels, tmp_path / "kept")
    assert counted.keys() == ordinary.keys()
    for name, row in ordinary.items():
        mine = counted[name]
        assert {one: getattr(mine, one) for one in PRINTED} == {one: getattr(row, one) for one in PRINTED}
        assert flags(mine) == flags(row)
        assert mine.failures == row.failures
        assert mine.rank_best is not None
        assert mine.rank_worst is not None
        assert mine.rank is not None
        assert 1 <= mine.rank_best <= mine.rank <= mine.rank_worst <= len(ordinary)
        assert FAR_RANGES in mine.flags


def test_a_model_that_nobody_judged_has_no_rank_and_is_in_nobody_s_way(tmp_path: Path) -> None:
    silent = [Ballot(Entrant("silent", "p", 0), f"item-{n}", 0, 0) for n in range(3)]
    said = [Ballot(Entrant("said", "p", 0), f"item-{n}", 3, 3) for n in range(3)]
    ordinary = by_name(rank_votes([*silent, *said], [], Rules()))
    counted = board_of(in_files(tmp_path / "votes", [*silent, *said]), [], tmp_path / "kept")
    for name, row in ordinary.items():
        assert (counted[name].rank, counted[name].score, counted[name].n_unjudged) == (
            row.rank, row.score, row.n_unjudged)  # fmt: skip
    assert counted["silent"].rank_best is None
    assert (counted["said"].rank_best, counted["said"].rank_worst) == (1, 1)


def test_votes_on_what_is_wrong_without_a_jury_count_for_nothing(tmp_path: Path) -> None:
    ballots, labels = made_up()
    files = in_files(tmp_path / "votes", ballots)
    voted = [replace(one, yes=2, total=2) if one.known_zero else one for one in ballots]
    others = in_files(tmp_path / "others", voted)
    for given in (labels, []):
        assert board_of(others, given, tmp_path / "kept") == board_of(files, given, tmp_path / "kept")
    (small,), _ = rounds(others, METRIC)
    assert [(one.yes, one.total) for one in small if one.known_zero] == [(0, 0)] * sum(one.known_zero for one in voted)


def test_a_refresh_reads_and_scores_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ballots, labels = made_up(8)
    files = in_files(tmp_path / "votes", [one for one in ballots if one.entrant.model != "model-7"])
    read: list[str] = []
    whole = VoteFile.read

    def noted(self: VoteFile, metric: str, columns: Sequence[str]) -> pl.DataFrame:
        read.append(self.path.name)
        return whole(self, metric, columns)

    monkeypatch.setattr(VoteFile, "read", noted)
    first = board_of(files, labels, tmp_path / "kept")
    read.clear()
    assert board_of(files, labels, tmp_path / "kept") == first
    assert read == []
    new = [one for one in ballots if one.entrant.model == "model-7"]
    write_votes(tmp_path / "votes" / "new.parquet", new, "digest of the new one")
    grown = board_of(vote_files(str(tmp_path / "votes")), labels, tmp_path / "kept")
    assert set(read) == {"new.parquet"}
    monkeypatch.undo()
    assert grown == board_of(vote_files(str(tmp_path / "votes")), labels, tmp_path / "nothing kept")
    fewer = board_of(files, labels[3:], tmp_path / "kept")
    assert fewer == board_of(files, labels[3:], tmp_path / "nothing kept")
    assert fewer != first


def test_a_file_that_was_edited_is_another_one_also_where_its_digest_was_copied(tmp_path: Path) -> None:
    ballots, _ = made_up(1)
    path = write_votes(tmp_path / "a.parquet", ballots, "a digest")
    edited = [replace(ballots[0], yes=0 if ballots[0].yes else ballots[0].total), *ballots[1:]]
    (before,) = vote_files(str(path))
    write_votes(path, edited, "a digest")
    (after,) = vote_files(str(path))
    assert before.key != after.key
    same = write_votes(tmp_path / "b.parquet", ballots), write_votes(tmp_path / "c.parquet", ballots)
    assert len({vote_files(str(one))[0].key for one in same}) == 1, "without a digest the whole file tells"


def test_what_was_kept_and_is_damaged_or_cannot_be_kept_is_made_again(tmp_path: Path) -> None:
    ballots, labels = made_up()
    files = in_files(tmp_path / "votes", ballots)
    first = board_of(files, labels, tmp_path / "kept")
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(b"PAR1 torn")
    assert board_of(files, labels, tmp_path / "kept") == first
    (tmp_path / "a file").write_text("in the way", encoding="utf-8")
    assert board_of(files, labels, tmp_path / "a file") == first


def test_frames_of_earlier_labels_are_swept_at_last(tmp_path: Path) -> None:
    kept = KeptFrames(tmp_path)
    for number in range(30):
        kept.put(f"old-{number}", pl.DataFrame({"a": [number]}))
    later = KeptFrames(tmp_path)
    later.made("new", lambda: pl.DataFrame({"a": [1]}))
    later.sweep(31)
    assert len(list(tmp_path.iterdir())) == 31
    later.sweep(30)
    assert [path.stem for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("form", ["in order", "in none"])
def test_an_answer_that_is_there_twice_is_named(tmp_path: Path, form: str) -> None:
    ballots, _ = made_up(2)
    again = [*ballots, ballots[5]] if form == "in none" else [*ballots[:6], *ballots[5:]]
    (file,) = vote_files(str(write_votes(tmp_path / "a.parquet", again)))
    with pytest.raises(DataError, match=r"a\.parquet: item 'item-05' of model 'model-0' is there twice"):
        counts_of(file, METRIC)


def test_a_model_in_two_files_is_named_with_both(tmp_path: Path) -> None:
    ballots, labels = made_up(2)
    files = in_files(tmp_path / "votes", ballots)
    write_votes(tmp_path / "votes" / "z.parquet", ballots[:3])
    with pytest.raises(DataError, match=r"model 'model-0' \(hint level 0\) is in .*0\.parquet and .*z\.parquet"):
        board_of(vote_files(str(tmp_path / "votes")), labels, tmp_path / "kept")
    assert files


def broken(path: Path, what: str) -> Path:
    ballots, _ = made_up(1)
    write_votes(path, ballots)
    table = pl.read_parquet(path)
    changed = {
        "no column": table.drop("model"),
        "a null": table.with_columns(yes=pl.when(pl.col("item_id") == "item-03").then(None).otherwise("yes")),
        "a text": table.with_columns(yes=pl.lit("three")),
        "more yes than votes": table.with_columns(yes=pl.lit(9)),
    }.get(what)
    if changed is None:
        path.write_bytes(path.read_bytes()[:-20])
    else:
        changed.write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no column", "no column model"),
        ("a null", "a row on 'both_correct' has no yes"),
        ("a text", "cannot be read as a Parquet file of votes"),
        ("more yes than votes", "9 yes of"),
        ("cut off", "cannot be read as a Parquet file of votes"),
    ],
)
def test_a_file_that_holds_no_votes_is_told_with_its_name(tmp_path: Path, what: str, said: str) -> None:
    folder = tmp_path / "votes"
    folder.mkdir()
    path = broken(folder / "odd.parquet", what)
    (file,) = vote_files(str(path))
    with pytest.raises(DataError, match=said) as told:
        counts_of(file, METRIC)
    assert "odd.parquet" in str(told.value)
    settings = Settings.from_environment({"LAYTON_BATCH_COPIES": str(tmp_path / "kept")}, tmp_path)
    with pytest.raises(DataError, match=r"odd\.parquet"):
        read_sources([str(folder)], tmp_path, settings, Asked())


def test_the_first_of_several_samples_counts_on_a_large_board_and_all_of_them_on_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballots, _ = made_up(3)
    parts = [write_votes(tmp_path / f"{n}.parquet", ballots, sample=n) for n in (1, 2)]
    folder = tmp_path / "votes"
    folder.mkdir()
    pl.concat([pl.read_parquet(part) for part in parts]).write_parquet(folder / "both.parquet")
    settings = Settings.from_environment({"LAYTON_BATCH_COPIES": str(tmp_path / "kept")}, tmp_path)
    small = rows_of(read_sources([str(folder)], tmp_path, settings, Asked()))
    assert {row.rounds for row in small} == {2}
    monkeypatch.setattr(large_board, "LARGE", 2)
    large = large_frame([str(folder)], settings, Asked())
    assert large is not None
    board, notes = large
    assert notes == ["Of several answers of a model to an item the first counts."]
    assert dict(board.select("model", "score").iter_rows()) == {row.model: row.score for row in small}


def test_beside_very_many_models_only_votes_are_ranked_and_only_by_the_default_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_board, "LARGE", 2)
    ballots, _ = made_up(3)
    in_files(tmp_path / "votes", ballots)
    settings = Settings.from_environment({"LAYTON_BATCH_COPIES": str(tmp_path / "kept")}, tmp_path)
    with pytest.raises(ManifestError, match="give labels with --labels FILE"):
        large_frame([str(tmp_path / "votes"), "a-run"], settings, Asked())
    with pytest.raises(ManifestError, match="ranked by calibrated"):
        large_frame([str(tmp_path / "votes")], settings, Asked(method="paper"))
    found = large_frame([str(tmp_path / "votes")], settings, Asked())
    assert found is not None
    rows, cut = shown_of(found[0], "table")
    assert (len(rows), cut) == (3, [])


def test_what_is_a_source_of_votes(tmp_path: Path) -> None:
    ballots, _ = made_up(1)
    votes = write_votes(tmp_path / "votes.parquet", ballots)
    other = tmp_path / "other.parquet"
    pl.DataFrame({"model": ["a"]}).write_parquet(other)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}", encoding="utf-8")
    write_votes(run / "votes.parquet", ballots)
    empty = tmp_path / "empty"
    empty.mkdir()
    told = {path.name: is_votes(str(path)) for path in (votes, other, torn, run, empty, tmp_path, tmp_path / "none")}
    assert told == {"votes.parquet": True, "other.parquet": False, "torn.parquet": False, "run": False,
                    "empty": False, tmp_path.name: True, "none": False}  # fmt: skip
