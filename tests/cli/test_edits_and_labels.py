"""Edits between runs, and labels: what moves, what is sent again, which label counts for which answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_harness import Desk, call, desk, plan_notes, refused

QUESTIONS = (("What is 2 + 2?", "4"), ("Colour of snow?", "white"), ("Gas in air?", "nitrogen"))
NEW = ("New?", "5")
GIVEN = 'name = "a"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
MANIFEST = GIVEN + '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'


def quiz(rows: Sequence[Sequence[str]], *columns: str) -> str:
    """Write a table of questions."""
    return "".join(f"{','.join(row)}\n" for row in (columns or ("question", "answer"), *rows))


def with_ids(*ids: str, rows: Sequence[Sequence[str]]) -> str:
    return quiz([(number, *row) for number, row in zip(ids, rows, strict=True)], "id", "question", "answer")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A run of three questions that is done."""
    with desk(tmp_path, monkeypatch) as found:
        found.write(quiz(QUESTIONS), "quiz.csv")
        assert call("run", found.write(MANIFEST), "--yes").code == 0
        yield found


def run_again() -> str:
    """Run the manifest once more, and return its messages."""
    end = call("run", "manifest.toml", "--yes")
    assert end.code == 0, end.err
    return end.err


def to_send() -> object:
    return call("plan", "manifest.toml", "--json").table()["to_send"]


def own_labels() -> list[int]:
    rows: Any = call("leaderboard", "a", "--format", "json").json
    return [row["own_labels"] for row in rows]


def label(there: Desk, *rows: str) -> None:
    there.write("".join(f"{row}\n" for row in ("item_id,model,answer_correct", *rows)), "labels.csv")
    assert call("label", "import", "a", "labels.csv").code == 0


def test_an_edit_of_the_questions_says_what_moves_and_sends_no_more_than_is_new(there: Desk) -> None:
    label(there, "1,g,true", "3,g,true")
    label(there, "3,g,false")  # which replaces the label before
    manifest = there.folder / "manifest.toml"
    there.write(quiz([QUESTIONS[0], NEW, *QUESTIONS[1:]]), "quiz.csv")
    words = "2 questions moved to another id, such as '2' to '3', because the rows' ids are their positions"
    notes = plan_notes(manifest)
    assert (words in notes, "1 of 2 labels counts with them. To keep the others" in notes) == (True, True)
    assert to_send() == 4  # the new question, and three judges of its answer
    billed = len(there.lab.billed())
    assert words in run_again()
    assert len(there.lab.billed()) == billed + 4

    there.write(with_ids("1", "4", "2", "3", rows=[QUESTIONS[0], NEW, *QUESTIONS[1:]]), "quiz.csv")
    assert to_send() == 0  # each question is back at the id that its answer and verdicts have
    assert "because their rows have new ids: 2 of 2 labels count with them" in plan_notes(manifest)

    there.write(quiz([QUESTIONS[0], ("New?", "6"), *QUESTIONS[1:]]), "quiz.csv")
    assert to_send() == 3  # verdicts again, because the reference changed
    there.write(quiz(QUESTIONS[:1]), "quiz.csv")
    assert "what was taken out (" in plan_notes(manifest)
    there.write(MANIFEST.replace('quiz.csv"\n', 'quiz.csv"\nsplit = "test"\n'))
    assert to_send() == 0


def test_a_label_counts_for_the_model_that_answered_under_any_name_and_for_no_other(there: Desk) -> None:
    label(there, "1,g,true", "2,g,true", "3,g,true")
    assert own_labels() == [3]
    for text, counted in (
        (MANIFEST.replace("larch-2-mini", "larch-2-nano"), 0),  # another model takes the name
        (MANIFEST.replace('"g"', '"h"').replace('"openai"', '"mistral"').replace("larch-2-mini", "sirocco-large"), 0),
        (MANIFEST.replace('"g"', '"renamed"'), 3),
    ):
        there.write(text)
        run_again()
        assert own_labels() == [counted]


def test_an_export_replaces_no_file_that_the_run_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        source = there.write(quiz(QUESTIONS), "leaderboard.csv")
        labels = there.write('{"item_id": "1", "model": "g", "answer_correct": true}\n', "labels.jsonl")
        gold = '[gold]\nannotations = "labels.jsonl"\n'
        manifest = there.write(MANIFEST.replace("quiz.csv", "leaderboard.csv") + gold, "a.toml")
        assert call("run", manifest, "--yes").code == 0
        files = (source, labels, manifest)
        before = [path.read_bytes() for path in files]
        for form, out, words in (
            ("results", "a.toml", "a.toml: the file there is the manifest of run a"),
            ("annotations", "labels.jsonl", "labels.jsonl: the file there is [gold] annotations of run a"),
            ("csv", ".", "leaderboard.csv: the file there is [items] source of run a"),
        ):
            assert words in refused("export", "a", "--to", form, "--out", out)
        assert [path.read_bytes() for path in files] == before
        assert not (tmp_path / "predictions.csv").exists()
        assert [call("export", "a", "--to", "results", "--out", "new.jsonl").code for _ in "ab"] == [0, 0]
