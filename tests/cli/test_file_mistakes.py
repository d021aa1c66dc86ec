"""Files that a newcomer writes or is given, and edits between runs: each mistake is named, or done right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from layton_batch.files.sources import read_rows
from layton_batch.manifest.item_notes import first_is_never_right, item_notes, option_faults
from layton_batch.settings import Settings
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import TaskOptions
from tests.support.cli_harness import Desk, call, desk, write

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


def notes(manifest: Path) -> str:
    """The notes of a plan, in one line."""
    caveats = call("plan", manifest, "--offline", "--json").table()["caveats"]
    assert isinstance(caveats, list)
    return " · ".join(map(str, caveats))


def refused(*arguments: str | Path) -> str:
    """Give a command that is refused; return its message."""
    ending = call(*arguments)
    assert (ending.code, "Traceback" in ending.err) == (2, False), ending.err
    return ending.err


# ---- before a run pays -----------------------------------------------------------------------------------------------


def test_items_without_a_reference_are_named_before_anything_is_sent(offline: Path) -> None:
    write(offline, quiz([("a?", "1"), ("b?", ""), ("c?", ""), ("d?", "n/a")]), "quiz.csv")
    manifest = write(offline, MANIFEST)
    words = "2 of 4 items without a reference ('2', '3'; the first is 'b?'): judges go by what they know there"
    assert words in notes(manifest)
    assert "judges take the reference 'n/a' for the right answer, in 1 item ('4'); write the answer" in notes(manifest)
    assert words in call("run", manifest, "--max-usd", "0", "--offline").err
    table = " ".join(call("items", "check", "quiz.csv").out.split())
    assert "judges take 'n/a' for the right answer" in table


def test_questions_that_are_there_twice_are_named_before_anything_is_sent(offline: Path) -> None:
    write(
        offline,
        quiz([("7", "Who  wrote it?", "me"), ("8", "who wrote it?", "me")], "id", "question", "answer"),
        "quiz.csv",
    )
    assert "item '8' asks the same as '7': it counts twice; take one out" in notes(write(offline, MANIFEST))


def test_a_file_of_several_splits_says_which_rows_are_left_out(offline: Path) -> None:
    write(offline, "question,answer,split\na?,1,train\nb?,2,test\nc?,3,test\n", "quiz.csv")
    message = call("run", "quiz.csv", "--model", "openai:x", "--max-usd", "0", "--offline").err
    assert "quiz.csv: of its splits only 'test' is asked, and rows of others are left out: train (1)" in message
    assert call("items", "check", "quiz.csv").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["A) Rome", "B) Paris"], "begin with letters of their own ('A) Rome')"),
        (["Rome", "I don't know"], 'option "I don\'t know" stands beside the one that the task adds'),
        (["Rome", "Paris", "All of the above"], "depends on the order of the options, which models see shuffled"),
        (["Rome", "Rome", "Oslo"], "option 'Rome' is there twice"),
        (["Rome", "Paris", "A. Berlin"], ""),
    ],
)
def test_options_that_a_shuffle_or_the_task_spoils_are_named(options: list[str], words: str) -> None:
    task = load_task("mcq_idk", TaskOptions("llm"))
    items = task.items([{"id": "1", "question": "Which?", "options": options, "answer": 0}])
    assert words in " · ".join(option_faults(items[0]))
    assert bool(words) == bool(item_notes(items, task))


@pytest.mark.parametrize(("rows", "first", "is_told"), [(3, 1, True), (2, 1, False), (12, 0, False)])
def test_answers_that_may_be_counted_from_1_are_told(offline: Path, rows: int, first: int, is_told: bool) -> None:
    lines = [
        json.dumps({"question": f"Number {n}?", "options": ["w", "x", "y", "z"], "answer": first + n % 3})
        for n in range(rows)
    ]
    write(offline, "\n".join(lines), "mcq.jsonl")
    task = load_task("mcq_idk", TaskOptions("llm"))
    assert first_is_never_right(task.items([json.loads(line) for line in lines])) is is_told
    words = "the first option of its row is right in no item: numbers in `answer` count from 0, so that 2 is the third"
    assert (words in " ".join(call("items", "check", "mcq.jsonl").out.split())) is is_told
    write(offline, '{"question": "a?", "options": ["w", "x"], "answer": 2}\n', "one.jsonl")
    table = " ".join(call("items", "check", "one.jsonl", "--task", "mcq_idk").out.split())
    assert "or the index, 0 to 1: do they count from 1?" in table


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_a_message_on_a_wrong_row_says_how_many_more_there_are(offline: Path) -> None:
    write(offline, quiz([("a?", "1"), ("", "2"), ("c?", "3"), ("", "4"), ("", "5")]), "quiz.csv")
    words = "line 3: column 'question' is empty; 2 more wrong rows: line 5, line 6"
    assert words in refused("plan", write(offline, MANIFEST), "--offline")


@pytest.mark.parametrize("answer", ["b", "B)", "b.", "(B)", "paris", "Paris", "B"])
def test_a_letter_or_text_is_read_as_people_write_it(offline: Path, answer: str) -> None:
    item = load_task("mcq_idk", TaskOptions("llm")).items(
        [{"question": "a?", "A": "Rome", "B": "Paris", "answer": answer}]
    )
    assert item[0].answer == "Paris"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("q.csv", "question,A,B,C,answer\na?,x,y,z,\"A,C\"\nb?,x,y,z,A\n", "one option is right, not several; write"),
        ("q.csv", "question,A,B,C,answer\na?,x,,z,A\n", "no task takes these rows: line 2: option 2 is blank"),
        ("q.csv", "My quiz,\nquestion,answer\na?,1\n", "if this line is a title, remove the lines above"),
        ("q.csv", "My quiz\nquestion,answer\na?,1\n", "the first line must be the columns' names: is there a title"),
        ("q.csv", "question,answer,answer\na?,1,2\n", "a column twice: 'answer'; rename or remove one of the two"),
        ("q.csv", "question,answer\n“a, b?”,1\n", 'into quotation marks ("), not into curly ones'),
        ("q.csv", "id,question,answer\n2,a?,1\n,b?,2\n", "ids must be unique"),
        ("q.csv", "question,answer,images\na?,1,https://a.example/b.png\n", "download the picture and write the name"),
        ("q.csv", "question,answer,images\na?,1,b\\c.png\n", "with / between folders, such as pictures/cat.png"),
        ("q.csv", "question,answer,images\na?,1,cat\n", "its name must end in .png, .jpg, .gif or .webp, not 'cat'"),
        ("q.csv", "item_id,model,answer_correct\n1,g,true\n", "they are labels, not questions: `layton-batch import"),
        ("q.csv", "model,item_id,score\ng,1,1\n", "they are scores, not questions: `layton-batch leader"),
        ("q.jsonl", '{"question": "a?", "answer": NaN}\n', "JSON has no NaN: write null where nothing is"),
        ("q.jsonl", '{\n"question": "a?"}\n', "write one object a line, or a list of them, [{…}, …], into a file"),
        ("q.jsonl", '{"question": "a?", "answer": ["b", "c"]}\n', "not list; write one text, such as 'Paris or Rome'"),
        ("q.jsonl", '{"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]}\n',
         "in chat format: write the user's text as 'question' and the assistant's as 'answer', with no list around"),
        ("q.txt", "What is 2 + 2?\nWhat is 3 + 3?\n", "with the names of the columns in its first line"),
        ("q.toml", "", "q.toml is a manifest: `layton-batch plan q.toml` checks it and its items"),
    ],
)  # fmt: skip
def test_a_file_of_questions_that_is_wrong_says_what_to_write(offline: Path, name: str, text: str, words: str) -> None:
    write(offline, text, name)
    ending = call("items", "check", name)
    assert ending.code == 2
    assert words in " ".join((ending.out + ending.err).split())


def test_a_separator_behind_the_last_column_does_no_harm(offline: Path) -> None:
    write(offline, "question,answer,\na?,1,\nb?,2,\n,,\n", "q.csv")
    checked = call("items", "check", "q.csv", "--json").table()
    assert (checked["rows"], checked["unread"]) == (2, [])


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (
            'question, answer, category\n"Bigger, 2 or 3?", "3, three", numbers\nPeru?, "Lima", places\n',
            "3, three|Lima",
        ),
        ('"question"; "answer; reference"; answer\n"a?"; "b; c"; "d"\n', "d"),
        ('question, answer,\n"a?", "b",\n', "b"),
        ('question, answer\na?,b\nc?," d"\n', "b| d"),
        ("question,answer\na?, b\n", " b"),
    ],
)
def test_blanks_behind_separators_belong_to_no_cell_where_the_header_has_them(
    offline: Path, text: str, answers: str
) -> None:
    rows = read_rows(str(write(offline, text, "q.csv")), offline, Settings(offline))
    assert [row["answer"] for row in rows] == answers.split("|")


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (
            "id,question,answer\n3,a?,1\n4,b?,2\n,c?,3\n,d?,4\n",
            [(4, "same id", "line 2 has this id too; ids must"), (5, "same id", "line 3 has this id too; ids must")],
        ),
        (
            "ID,question,answer\n1,a?,1\n2,b?,2\n,c?,3\n,d?,4\n",
            [(4, "missing", "others have one"), (5, "missing", "others have one")],
        ),
        (
            "item_id,question,A,B,answer\n1,a?,x,y,A\n,b?,z,w,A\n",
            [(3, "missing", "others have one")],
        ),
        ("id,question,answer\n,a?,1\n,b?,2\n", []),
        ("item_id,question,answer\n1,a?,1\n,b?,2\n", []),
    ],
)
def test_a_row_without_an_id_among_rows_with_one_is_named(
    offline: Path, text: str, findings: list[tuple[int, str, str]]
) -> None:
    write(offline, text, "q.csv")
    found = call("items", "check", "q.csv", "--json").table()["findings"]
    assert isinstance(found, list)
    assert [(row["line"], row["kind"]) for row in found] == [(line, kind) for line, kind, _ in findings]
    for row, (_, _, words) in zip(found, findings, strict=True):
        assert row["text"].startswith("the id is empty, so the row's number is its id: give every row an id; ")
        assert words in row["text"]


def test_columns_that_may_be_meant_for_others_are_named(offline: Path) -> None:
    write(offline, "No.,question,correct_answer,image\n7,a?,1,cat\n", "q.csv")
    message = call("run", "q.csv", "--model", "openai:x", "--max-usd", "0", "--offline").err
    for column, wanted in (("correct_answer", "answer"), ("image", "images"), ("No.", "id")):
        assert f"if {column!r} has the {wanted}, rename it to {wanted!r}" in message
    assert "no item has a reference: judges go by what they know there" in message


# ---- workbooks -------------------------------------------------------------------------------------------------------


def test_the_first_visible_sheet_is_read_with_dates_and_truth_values(offline: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    hidden, shown = book.active, book.create_sheet("Quiz")
    hidden.append(["question", "answer"])
    hidden.append(["An old one?", "no"])
    hidden.sheet_state = "hidden"
    for row in (["question", "answer"], ["Is it so?", True], ["When?", date(2024, 3, 1)]):
        shown.append(row)
    book.save(offline / "q.xlsx")
    assert [row["answer"] for row in read_rows("q.xlsx", offline, Settings(offline))] == [True, "2024-03-01"]
    assert "2 items" in call("plan", write(offline, MANIFEST.replace("quiz.csv", "q.xlsx")), "--offline").out


def test_a_formula_without_a_value_is_refused_with_its_line(offline: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["question", "answer"], ["a?", "=1+1"]):
        book.active.append(row)
    book.save(offline / "q.xlsx")
    words = "q.xlsx, line 2: the formula '=1+1' has no value in the file: open it in a spreadsheet program and save"
    assert words in refused("items", "check", "q.xlsx")


# ---- edits between runs ----------------------------------------------------------------------------------------------


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
        assert "'2' to '7', because their rows have new ids" in notes(manifest)
        there.write(quiz(QUESTIONS[:1]), "quiz.csv")
        assert "items: 1 taken out since the run last planned; what was taken out ('2') keeps" in notes(manifest)


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
        assert call("import", manifest, "--labels", labels).code == 0
        there.write(quiz([("New?", "5"), *QUESTIONS]), "quiz.csv")
        ending = call("run", manifest, "--yes")
        assert "12 answered already, 4 to send: expected" in ending.err  # no verdict is given again
        assert "Cost · batched" in ending.out
        assert "reused" not in ending.out  # the bill has what this run paid
        assert "1 label not used: of an answer that the model did not give here" in ending.err
        assert "No answer has a person's label that counts yet; " in ending.err
        there.write(quiz([("New?", "6"), *QUESTIONS]), "quiz.csv")
        words = "3 to send (3 verdicts again, because the item or the answer changed)"
        assert words in call("run", manifest, "--yes").err


def test_labels_that_count_with_the_ids_of_an_edit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n3,g,false\n", "labels.csv")
        assert call("import", manifest, "--labels", labels).code == 0

        there.write(quiz([QUESTIONS[0], ("New?", "5"), *QUESTIONS[1:]]), "quiz.csv")
        words = "their positions: 1 of 2 labels counts with them. To keep the others, give the rows a column `id`"
        assert words in call("run", manifest, "--yes").err
        ids = ("1", "4", "2", "3")
        back = [(number, *row) for number, row in zip(ids, [QUESTIONS[0], ("New?", "5"), *QUESTIONS[1:]], strict=True)]
        there.write(quiz(back, "id", "question", "answer"), "quiz.csv")
        message = notes(manifest)
        assert "because their rows have new ids: 2 of 2 labels count with them" in message
        assert "To keep" not in message


def test_labels_of_a_run_by_another_name_are_said_with_the_commands_that_copy_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        assert call("run", there.write(MANIFEST), "--yes").code == 0
        there.write("item_id,model,answer_correct\n1,g,ja\n2,g,NO\n", "labels.csv")
        assert "2 labels added" in call("import", "a", "--labels", "labels.csv").err
        manifest = there.write(MANIFEST.replace('"a"', '"b"'))
        copying = ("export a --to annotations --out a-labels.jsonl", "import b --labels a-labels.jsonl")
        for message in (notes(manifest), call("run", manifest, "--yes").err):
            assert "run a has labels on these items, which run b does not count" in message
            assert all(f"`layton-batch {command}`" in message for command in copying)
        assert [call(*command.split()).code for command in copying] == [0, 0]
        assert "+2 labels" in call("leaderboard", "b").err
        assert notes(manifest).count("has labels on these items") == 0


# ---- labels ----------------------------------------------------------------------------------------------------------


def given_run(folder: Path) -> None:
    """A run whose answers were given, so that no server is needed."""
    write(folder, quiz(QUESTIONS), "quiz.csv")
    write(folder, "item_id,answer\n1,4\n2,blue\n3,oxygen\n", "p.csv")
    assert call("import", write(folder, GIVEN), "--model", "finch", "--predictions", "p.csv").code == 0


def test_labels_in_a_spreadsheet_are_true_and_false_as_people_write_them(offline: Path) -> None:
    given_run(offline)
    write(offline, "\ufeffItem_ID; Model;Answer_correct\n 1;finch ;yes\n2;finch;0\n3;finch;FALSCH\n", "labels.csv")
    assert "3 labels added" in call("import", "a", "--labels", "labels.csv").err
    rows = [
        json.loads(line) for path in (offline / "runs/a/labels").glob("*") for line in path.read_text().splitlines()
    ]
    assert [row["answer_correct"] for row in rows] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item_id,model,answer_correct\n1,finch,maybe\n2,finch,?\n3,finch,x\n", "; 2 more wrong rows: line 3, line 4"),
        ("item_id,model,answer_correct\n1,finch,yes\n2,finch,\n", "line 3: has no label: fill it in, or take the"),
        ("item_id,model,answer_correct\n1.0,finch,1\n", "there is no item '1.0'; the items are 1, 2, 3. Ids must"),
    ],
)  # fmt: skip
def test_labels_that_are_wrong_are_named_with_all_their_rows(offline: Path, text: str, words: str) -> None:
    given_run(offline)
    write(offline, text, "labels.csv")
    assert words in refused("import", "a", "--labels", "labels.csv")


def test_a_file_in_the_place_of_the_run_is_told_where_it_belongs(offline: Path) -> None:
    given_run(offline)
    write(offline, "item_id,model,answer_correct\n1,finch,yes\n", "labels.csv")
    words = "labels.csv is a file, and the run comes first: `layton-batch import RUN --labels labels.csv`"
    assert words in refused("import", "labels.csv", "--labels", "a")


def test_a_tie_of_two_people_is_said_below_the_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        assert call("run", there.write(MANIFEST), "--yes").code == 0
        there.write("item_id,model,answer_correct,annotator\n1,g,yes,ann\n1,g,no,bob\n2,g,yes,ann\n", "labels.csv")
        assert call("import", "a", "--labels", "labels.csv").code == 0
        words = (
            "1 answer on which as many people say right as wrong: a tie is no label; `layton-batch annotate a` shows"
        )
        assert words in call("leaderboard", "a").err


# ---- scores, judge, grade --------------------------------------------------------------------------------------------


def test_files_of_answers_and_scores_say_what_to_write(offline: Path) -> None:
    for name, text, command, words in (
        ("t.csv", "item_id,model,answer_correct\n1,a,yes\n", ("leaderboard",), "is a file of labels, and belongs to a"),
        ("s.csv", "model,item_id,score\na,1,85%\n", ("leaderboard",), "write 85 for 85 %, and --max-score 100"),
        ("j.csv", "question,reference,response\na?,1,2\n", ("judge",), "add one, with the same id for the same"),
        ("k.csv", "id,question,answer,response\n1,a?,1,one\n", ("judge",), "and what is right in 'reference'"),
        ("l.csv", "id,question,reference,answer,model\n1,a?,1,1,m\n1,a?,2,1,n\n", ("judge",), "or give one another id"),
        ("m.csv", "id,question,Answer,answer\n1,a?,1,2\n", ("judge",), "two columns are called 'answer', but for"),
        ("i.csv", "id,response\n1,Answer: A\n", ("grade", "mcq_idk", "i.csv", "--items"),
         "a column gold, or options and answer"),
    ):  # fmt: skip
        write(offline, text, name)
        assert words in refused(*command, name)


def test_predictions_that_may_be_one_item_off_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write("question,A,B,answer\na?,x,y,A\nb?,x,y,B\nc?,x,y,A\n", "mcq.csv")
        there.write("item_id,response\n1,B\n2,A\n", "off.csv")
        words = "(3; items count from 1: if the file counts from 0, add 1 to each id)"
        graded = call("grade", "mcq_idk", "off.csv", "--items", "mcq.csv").err
        assert "1 item has no prediction (3); the figures are of the others; items count from 1: if" in graded
        manifest = there.write(GIVEN.replace("qa", "mcq_idk").replace("quiz", "mcq"), "given.toml")
        assert words in call("import", manifest, "--model", "g", "--predictions", "off.csv").err
        there.write("item_id,response\n1,A\n3,B\n", "gap.csv")
        assert "count from 0" not in call("grade", "mcq_idk", "gap.csv", "--items", "mcq.csv").err
        there.write("item_id,response\n1,A\nq2,B\n", "named.csv")
        assert "there is no item 'q2'; the items are 1, 2, 3" in refused(
            "grade", "mcq_idk", "named.csv", "--items", "mcq.csv"
        )


def test_a_reply_without_a_letter_and_a_file_without_replies_are_told(offline: Path) -> None:
    write(offline, "id,question,A,B,answer\n1,a?,x,y,A\n2,b?,x,y,B\n", "items.csv")
    write(offline, "item_id,response\n1,Answer: A\n2,y\n", "p.csv")
    ending = call("grade", "mcq_idk", "p.csv", "--items", "items.csv")
    assert "1 reply counts as wrong because no letter can be read (2): a reply says its letter as in" in ending.err
    write(offline, "item_id,prediction\n1,A\n", "p.csv")
    words = "the columns are item_id, prediction: rename the one with the model's whole replies to 'response'"
    assert words in refused("grade", "mcq_idk", "p.csv", "--items", "items.csv")


def test_options_with_a_column_each_are_right_for_grade_and_a_second_prediction_is_said(offline: Path) -> None:
    write(offline, "id,question,A,B,answer\n1,a?,x,y,A\n2,b?,x,y,B\n", "items.csv")
    write(offline, "item_id,response\n1,Answer: A\n1,Answer: B\n2,Answer: B\n", "p.csv")
    ending = call("grade", "mcq_idk", "p.csv", "--items", "items.csv")
    assert ending.code == 0
    assert "item '1' has several predictions, and each counts in the figures" in ending.err


def test_a_file_for_judge_whose_key_has_another_name_is_told(offline: Path) -> None:
    write(offline, "id,question,gold,answer,model\n1,a?,1,1,m\n", "a.csv")
    message = call("judge", "a.csv", "--max-usd", "0", "--offline").err
    assert "judges see nothing of the column 'gold'; if it says what is right, name it 'reference'" in message


def test_a_key_in_place_of_answers_and_ids_with_blanks_are_no_trap(offline: Path) -> None:
    write(offline, "id,question,answer\nq1,a?,1\n", "quiz.csv")
    assert "so that the key would be judged" in refused("judge", "quiz.csv", "--items", "quiz.csv")
    write(offline, "Item_ID,Answer\n q1 ,1\n", "p.csv")
    assert "no item" not in call("judge", "p.csv", "--items", "quiz.csv", "--max-usd", "0", "--offline").err
    assert (offline / "runs" / "p-judged").is_dir()


def test_options_and_letters_that_models_would_not_see_are_told(offline: Path) -> None:
    write(offline, "question,option 1,option 2,answer\na?,x,y,A\nb?,x,y,B\n", "q.csv")
    message = call("run", "q.csv", "--model", "openai:x", "--max-usd", "0", "--offline").err
    assert "if option 1, option 2 are options, name them A, B … and let `answer` be the right letter" in message
    assert "the reference is a letter in 2 items ('1', '2'), and the question shows no options" in message
    write(offline, quiz([("a? A) x B) y", "A")]), "quiz.csv")
    assert "the reference is a letter" not in notes(write(offline, MANIFEST))


# ---- labels of another answer ----------------------------------------------------------------------------------------


def test_a_label_does_not_count_for_another_model_that_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n2,g,false\n", "labels.csv")

        def own_labels() -> object:
            return call("leaderboard", "a", "--json").json[0]["own_labels"]

        assert "2 labels added" in call("import", manifest, "--labels", labels).err
        assert own_labels() == 2

        there.write(MANIFEST.replace("larch-2-mini", "larch-2-nano"))
        ending = call("run", manifest, "--yes")
        assert ending.code == 0, ending.err
        assert own_labels() == 0
        assert "2 labels not used: of a model that has no answers here" in ending.out + ending.err
        again = call("import", manifest, "--labels", labels).err
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
        assert call("import", manifest, "--labels", labels).code == 0
        for other in (
            MANIFEST.replace("larch-2-mini", "larch-2-nano"),
            MANIFEST.replace('"g"', '"h"').replace('"openai"', '"mistral"').replace("larch-2-mini", "sirocco-large"),
        ):
            there.write(other)
            assert call("run", manifest, "--yes").code == 0
            assert [row["own_labels"] for row in call("leaderboard", "a", "--json").json] == [0]
        there.write(MANIFEST.replace('"g"', '"renamed"'))
        assert call("run", manifest, "--yes").code == 0
        assert [row["own_labels"] for row in call("leaderboard", "a", "--json").json] == [5]


def test_labels_of_a_run_count_for_the_same_answers_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path, monkeypatch) as (there, manifest):
        labels = there.write("item_id,model,answer_correct\n1,g,true\n2,g,false\n", "labels.csv")
        assert call("import", manifest, "--labels", labels).code == 0
        assert call("export", manifest, "--to", "annotations", "--out", "given.jsonl").code == 0
        assert call("export", manifest, "--to", "parquet", "--out", "out").code == 0
        other = there.write(GIVEN.replace('"a"', '"b"'), "other.toml")
        predictions = ("--model", "g", "--predictions", "out/predictions.parquet")
        assert call("import", other, *predictions).code == 0
        assert call("run", other, "--yes").code == 0
        assert "2 labels added" in call("import", other, "--labels", "given.jsonl").err
        assert [row["own_labels"] for row in call("leaderboard", "b", "--json").json] == [2]


def test_labels_that_are_perhaps_of_two_people_or_count_from_0_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        manifest = there.write(MANIFEST)
        assert "no gold set and no labels" in notes(manifest)
        assert call("run", manifest, "--yes").code == 0
        first = there.write("item_id,model,answer_correct\n0,g,true\n1,g,false\n", "first.csv")
        message = call("import", manifest, "--labels", first).err
        assert "there is no item '0'; the items are 1, 2, 3. If the file counts from 0, its other rows" in message
        assert "annotator" not in message
        second = there.write("item_id,model,answer_correct\n1,g,true\n2,g,false\n", "second.csv")
        message = call("import", manifest, "--labels", second).err
        assert "1 row names no annotator, so they count as one person's" in message
        assert "no gold set and no labels" not in notes(manifest)


def test_a_comma_behind_a_line_of_json_is_told(offline: Path) -> None:
    write(offline, '{"question": "a?", "answer": "b"},\n{"question": "c?", "answer": "d"}\n', "q.jsonl")
    assert "line 1: not JSON: leave out the ',' at the end of the line" in refused("items", "check", "q.jsonl")


# ---- exports ---------------------------------------------------------------------------------------------------------


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


# ---- blank answers ---------------------------------------------------------------------------------------------------


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


# ---- cut answers -----------------------------------------------------------------------------------------------------


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


# ---- files in the wrong place, settings that change ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "command", "words"),
    [
        ("twice.csv", "question,answer\na?,b\nquestion,answer\nc?,d\n", "items check twice.csv",
         "line 3: repeats the header: remove this line"),
        ("ask.csv", "label_id,item_id,model,answer,answer_correct\nL1-x,1,g,b,yes\n", "judge ask.csv",
         "ask.csv: is a sheet of labels: `layton-batch import RUN --labels ask.csv`"),
        ("m.toml", MANIFEST.replace('"quiz.csv"', '["a.csv", "b.csv"]'), "plan m.toml",
         'must be text in quotes, not an array: a pattern names several files, such as "questions/*.csv"'),
        ("quiz.csv", "question,answer\na?,b\n", "annotate quiz.csv",
         "`layton-batch run quiz.csv --model PROVIDER:ID` begins one"),
        ("quiz.csv", "question,answer\na?,b\n", "site quiz --out board.html",
         "a site is a folder; name one, such as board"),
    ],
)  # fmt: skip
def test_what_stands_in_the_wrong_place_is_told_where_it_belongs(
    offline: Path, name: str, text: str, command: str, words: str
) -> None:
    write(offline, text, name)
    ending = call(*command.split())
    assert ending.code != 0
    assert words in " ".join((ending.out + ending.err).split())


def test_a_setting_that_makes_paid_answers_useless_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        other = '[[models]]\nname = "h"\nprovider = "openai"\nmodel = "larch-2-nano"\n'
        assert call("run", there.write(MANIFEST + other), "--yes").code == 0
        manifest = there.write(MANIFEST + "max_output_tokens = 900\n" + other)
        words = "g: max_output_tokens changed, so 3 answers that you paid for before are asked and paid for again"
        assert words in notes(manifest)
        assert words in call("run", manifest, "--yes").err
        assert "paid for before" not in notes(manifest)


def test_a_judges_setting_and_several_samples_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS[:2]), "quiz.csv")
        judge = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "groq"\nmodel = "alderworks/pebble-20b"\n'
        assert call("run", there.write(f"{MANIFEST}samples = 2\n{judge}"), "--yes").code == 0
        told = notes(there.write(f"{MANIFEST}samples = 2\nmax_output_tokens = 900\n{judge}max_output_tokens = 900\n"))
        assert told.count("g: max_output_tokens changed, so 4 answers that you paid for before") == 1
        assert told.count("j: max_output_tokens changed, so 4 verdicts that you paid for before") == 1
