"""Edits between runs, and labels: what moves, what is sent again, which label counts for which answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli_harness import Desk, call, desk, plan_notes, refused, write

QUESTIONS = (("What is 2 + 2?", "4"), ("Colour of snow?", "white"), ("Gas in air?", "nitrogen"))


def quiz(rows: Sequence[Sequence[str]], *columns: str) -> str:
    """A table of questions."""
    return "".join(f"{','.join(row)}\n" for row in (columns or ("question", "answer"), *rows))


MANIFEST = (
    'name = "a"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
    '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'
)


GIVEN = MANIFEST[: MANIFEST.index("[[models]]")]


@contextmanager
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, Path]]:
    """A run of three questions that is done, and its manifest."""
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        manifest = there.write(MANIFEST)
        assert call("run", manifest, "--yes").code == 0
        yield there, manifest


def test_an_edit_of_the_questions_says_what_moves_and_the_plan_counts_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        there.write(quiz([("New?", "5"), *QUESTIONS]), "quiz.csv")
        words = "3 questions moved to another id, such as '1' to '2', because the rows' ids are their positions"
        planned = call("plan", manifest, "--json").table()
        assert words in str(planned["caveats"])
        assert planned["to_send"] == 4  # the new question, and three judges of its answer
        message = call("run", manifest, "--yes").err
        assert words in message
        assert "12 answered already, 4 to send" in message

        ids = ("4", "1", "2", "3")
        back = [(number, *row) for number, row in zip(ids, [("New?", "5"), *QUESTIONS], strict=True)]
        there.write(quiz(back, "id", "question", "answer"), "quiz.csv")
        planned = call("plan", manifest, "--json").table()
        assert planned["to_send"] == 0  # each question is back at the id that its answer and verdicts have

        there.write(quiz(QUESTIONS[:2]), "quiz.csv")
        assert call("run", manifest, "--yes").code == 0
        there.write(MANIFEST.replace('quiz.csv"\n', 'quiz.csv"\nsplit = "test"\n'))
        planned = call("plan", manifest, "--json").table()
        assert planned["to_send"] == 0
        assert "since the run last planned" not in str(planned["caveats"])
        there.write(quiz([("7", *QUESTIONS[1])], "id", "question", "answer"), "quiz.csv")
        assert "'2' to '7', because their rows have new ids" in plan_notes(manifest)
        there.write(quiz(QUESTIONS[:1]), "quiz.csv")
        assert "items: 1 taken out since the run last planned; what was taken out ('2') keeps" in plan_notes(manifest)


def test_a_model_that_comes_back_after_an_edit_is_never_judged_for_more_than_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = f'{MANIFEST}[[models]]\nname = "h"\nprovider = "mistral"\nmodel = "sirocco-large"\n'
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        manifest = there.write(both)
        assert call("run", manifest, "--yes").code == 0
        there.write(MANIFEST)
        there.write(quiz([("What is 2 + 2?", "four"), *QUESTIONS[1:]]), "quiz.csv")
        assert call("run", manifest, "--yes").code == 0
        there.write(both)
        planned, before = call("plan", manifest, "--json").table()["to_send"], len(there.lab.billed())
        assert call("run", manifest, "--yes").code == 0
        sent = len(there.lab.billed()) - before
        assert isinstance(planned, int)
        assert 0 < sent <= planned


def test_after_a_row_on_top_the_run_says_what_it_sends_pays_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n", "labels.csv")
        assert call("label", "import", manifest, labels).code == 0
        there.write(quiz([("New?", "5"), *QUESTIONS]), "quiz.csv")
        ending = call("run", manifest, "--yes")
        assert "12 answered already, 4 to send: expected" in ending.err  # no verdict is given again
        assert "reused" not in ending.out + ending.err  # the bill has what this run paid
        assert "1 label not used: of an answer that the model did not give here" in ending.err
        assert "No answer has a person's label that counts yet; " in ending.err
        there.write(quiz([("New?", "6"), *QUESTIONS]), "quiz.csv")
        words = "3 to send (3 verdicts again, because the item or the answer changed)"
        assert words in call("run", manifest, "--yes").err


def test_labels_that_count_with_the_ids_of_an_edit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n3,g,false\n", "labels.csv")
        assert call("label", "import", manifest, labels).code == 0

        there.write(quiz([QUESTIONS[0], ("New?", "5"), *QUESTIONS[1:]]), "quiz.csv")
        words = "their positions: 1 of 2 labels counts with them. To keep the others, give the rows a column `id`"
        assert words in call("run", manifest, "--yes").err
        ids = ("1", "4", "2", "3")
        back = [(number, *row) for number, row in zip(ids, [QUESTIONS[0], ("New?", "5"), *QUESTIONS[1:]], strict=True)]
        there.write(quiz(back, "id", "question", "answer"), "quiz.csv")
        message = plan_notes(manifest)
        assert "because their rows have new ids: 2 of 2 labels count with them" in message
        assert "To keep" not in message


def given_run(folder: Path) -> None:
    """A run whose answers were given, so that no server is needed."""
    write(folder, quiz(QUESTIONS), "quiz.csv")
    write(folder, "item_id,answer\n1,4\n2,blue\n3,oxygen\n", "p.csv")
    assert call("import", write(folder, GIVEN), "--model", "finch", "--predictions", "p.csv").code == 0


def test_labels_in_a_spreadsheet_are_true_and_false_as_people_write_them(offline: Path) -> None:
    given_run(offline)
    write(offline, "\ufeffItem_ID; Model;Answer_correct\n 1;finch ;yes\n2;finch;0\n3;finch;FALSCH\n", "labels.csv")
    assert "3 labels added" in call("label", "import", "a", "labels.csv").err
    rows = [
        json.loads(line) for path in (offline / "runs/a/labels").glob("*") for line in path.read_text().splitlines()
    ]
    assert [row["answer_correct"] for row in rows] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item_id,model,answer_correct\n1,finch,maybe\n2,finch,?\n3,finch,x\n", "; 2 more wrong rows: line 3, line 4"),
        ("item_id,model,answer_correct\n1,finch,yes\n2,finch,\n", "line 3: has no label: fill it in, or take the"),
        ("item_id,model,answer_correct\n1.0,finch,1\n", "there is no item '1.0'; the items are 1, 2, 3"),
    ],
)  # fmt: skip
def test_labels_that_are_wrong_are_named_with_all_their_rows(offline: Path, text: str, words: str) -> None:
    given_run(offline)
    write(offline, text, "labels.csv")
    assert words in refused("label", "import", "a", "labels.csv")


def test_a_tie_of_two_people_is_said_below_the_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        assert call("run", there.write(MANIFEST), "--yes").code == 0
        there.write("item_id,model,answer_correct,annotator\n1,g,yes,ann\n1,g,no,bob\n2,g,yes,ann\n", "labels.csv")
        assert call("label", "import", "a", "labels.csv").code == 0
        words = "1 answer on which as many people say right as wrong: a tie is no label; `layton-batch label a` shows"
        assert words in call("leaderboard", "a").err


def test_a_label_does_not_count_for_another_model_that_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n2,g,false\n", "labels.csv")

        def own_labels() -> object:
            return call("leaderboard", "a", "--format", "json").json[0]["own_labels"]

        assert "2 labels added" in call("label", "import", manifest, labels).err
        assert own_labels() == 2

        there.write(MANIFEST.replace("larch-2-mini", "larch-2-nano"))
        ending = call("run", manifest, "--yes")
        assert ending.code == 0, ending.err
        assert own_labels() == 0
        assert "2 labels not used: of a model that has no answers here" in ending.out + ending.err
        again = call("label", "import", manifest, labels).err
        assert "0 labels added, 0 changed, 2 unchanged" in again


def test_a_label_does_not_count_for_another_model_that_gives_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz([*QUESTIONS, ("What is 3 + 3?", "6"), ("What is 1 + 1?", "2")]), "quiz.csv")
        manifest = there.write(MANIFEST)
        assert call("run", manifest, "--yes").code == 0
        rows = "".join(f"{number},g,true\n" for number in range(1, 6))
        labels = there.write(f"item_id,model,answer_correct\n{rows}", "labels.csv")
        assert call("label", "import", manifest, labels).code == 0
        for other in (
            MANIFEST.replace("larch-2-mini", "larch-2-nano"),
            MANIFEST.replace('"g"', '"h"').replace('"openai"', '"mistral"').replace("larch-2-mini", "sirocco-large"),
        ):
            there.write(other)
            assert call("run", manifest, "--yes").code == 0
            assert [row["own_labels"] for row in call("leaderboard", "a", "--format", "json").json] == [0]
        there.write(MANIFEST.replace('"g"', '"renamed"'))
        assert call("run", manifest, "--yes").code == 0
        assert [row["own_labels"] for row in call("leaderboard", "a", "--format", "json").json] == [5]


def test_labels_of_a_run_count_for_the_same_answers_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n2,g,false\n", "labels.csv")
        assert call("label", "import", manifest, labels).code == 0
        assert call("export", manifest, "--to", "annotations", "--out", "given.jsonl").code == 0
        assert call("export", manifest, "--to", "parquet", "--out", "out").code == 0
        other = there.write(GIVEN.replace('"a"', '"b"'), "other.toml")
        predictions = ("--model", "g", "--predictions", "out/predictions.parquet")
        assert call("import", other, *predictions).code == 0
        assert call("run", other, "--yes").code == 0
        assert "2 labels added" in call("label", "import", other, "given.jsonl").err
        assert [row["own_labels"] for row in call("leaderboard", "b", "--format", "json").json] == [2]


def test_an_export_replaces_no_file_that_the_run_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        source = there.write(quiz(QUESTIONS), "leaderboard.csv")
        labels = there.write('{"item_id": "1", "model": "g", "answer_correct": true}\n', "labels.jsonl")
        gold = '[gold]\nannotations = "labels.jsonl"\n'
        manifest = there.write(MANIFEST.replace("quiz.csv", "leaderboard.csv") + gold, "a.toml")
        assert call("run", manifest, "--yes").code == 0
        files = (source, labels, manifest)
        before = [path.read_bytes() for path in files]
        for form, out, what in (
            ("results", "a.toml", "a.toml: the file there is the manifest of run a"),
            ("annotations", "labels.jsonl", "labels.jsonl: the file there is [gold] annotations of run a"),
            ("csv", ".", "leaderboard.csv: the file there is [items] source of run a"),
        ):
            assert what in refused("export", "a", "--to", form, "--out", out)
        assert [path.read_bytes() for path in files] == before
        assert not (tmp_path / "predictions.csv").exists()
        assert [call("export", "a", "--to", "results", "--out", "new.jsonl").code for _ in "ab"] == [0, 0]


def test_a_blank_answer_is_named_by_its_row_and_taken_once_it_is_filled_in(offline: Path) -> None:
    columns = ("item_id", "question", "reference", "answer", "model")
    rows = quiz(
        [
            ("1", "Peru?", "Lima", "Lima", "finch"),
            ("2", "Italy?", "Rome", "", "finch"),
            ("3", "Iran?", "X", "Y", "finch"),
        ],
        *columns,
    )
    write(offline, rows, "a.csv")
    ending = call("judge", "a.csv", "--sandbox", "--yes")
    assert ending.code == 5
    assert "a.csv, line 3 (item 2): no answer, which counts as wrong; fill it in and give" in ending.err
    missing = "1 answer is missing in a.csv (finch) and counted as wrong; nobody is asked for answers of a file"
    assert missing in ending.err
    assert "imported said" not in ending.err
    assert "layton-batch retry" not in ending.err
    assert f"Nothing to retry; {missing}" in call("retry", "a-judged", "--runs", "runs-sandbox").err
    write(offline, rows.replace("Rome,", "Rome,Rome"), "a.csv")
    ending = call("judge", "a.csv", "--sandbox", "--yes")
    assert (ending.code, "9 requests, of which 6 answered already, 3 to send" in ending.err) == (0, True), ending.err
    again = call("judge", "a.csv", "--sandbox", "--yes")
    assert (again.code, "to send" in again.err.replace("0 to send", "")) == (0, False), again.err
    (row,) = json.loads(call("leaderboard", "runs-sandbox/a-judged", "--format", "json").out)
    assert (row["n_items"], row["n_missing"]) == (3, 0)
    assert call("verify", "a-judged", "--runs", "runs-sandbox").code == 0
    write(offline, rows, "a.csv")
    assert "the run has other predictions of a model called 'finch'" in refused("judge", "a.csv", "--sandbox")


def test_answers_that_were_cut_are_named_at_the_end_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        text = MANIFEST.replace("[[models]]", "[task_options]\njustification = true\n[[models]]")
        manifest = there.write(f"{text}max_output_tokens = 20\n")
        words = "3 of 3 answers of g were cut at max_output_tokens = 20: raise it in the manifest and `run` again"
        assert words in call("run", manifest, "--yes").err
        there.write(f"{text}max_output_tokens = 2000\n")
        ending = call("run", manifest, "--yes")
        assert (ending.code, " cut at " in ending.err) == (0, False), ending.err
