"""Mistakes of a person who is new here: each message says what happened, and what to do."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

import layton_batch as lb
from layton_batch.errors import ManifestError
from layton_batch.manifest.asked import load_items
from layton_batch.manifest.checks import load_manifest
from layton_batch.settings import Settings
from layton_batch.tasks.mcq_idk import McqIdkTask
from layton_batch.tasks.protocol import TaskOptions
from tests.cli.conftest import NOBODY
from tests.support.cli_harness import Ending, call, desk, write
from tests.support.lab import manifest_text, quiz_text

SETTINGS = Settings(Path())
GOOD = manifest_text(("openai",))


def refused(*arguments: str | Path) -> str:
    """Give a command that is refused; return its message."""
    ending: Ending = call(*arguments)
    assert (ending.code, ending.out) == (2, ""), ending.err
    return ending.err


# ---- keys and addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("place", ["environment", "file"])
def test_a_key_that_is_set_but_blank_is_said_to_be_blank(
    offline: Path, monkeypatch: pytest.MonkeyPatch, value: str, place: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    if place == "file":
        write(offline, f"OPENAI_API_KEY='{value}'\n", ".env")
    else:
        monkeypatch.setenv("OPENAI_API_KEY", value)
    manifest = write(offline, GOOD)
    where = str(offline / ".env") if place == "file" else "the environment"
    assert f"OPENAI_API_KEY is set but blank in {where}" in call("run", manifest).err
    assert "OPENAI_API_KEY (set but blank)" in call("plan", manifest, "--offline").out
    assert "OPENAI_API_KEY is set but blank" in call("doctor", manifest, "--offline", "--json").out


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        ("localhost:8080/v1", "http://localhost:8080/v1"),
        ("api.openai.com/v1", "https://api.openai.com/v1"),
        ("htps://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https:/api.openai.com/v1", "https://api.openai.com/v1"),
    ],
)
def test_an_address_without_its_scheme_is_shown_with_the_one_to_write(
    offline: Path, monkeypatch: pytest.MonkeyPatch, address: str, instead: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    manifest = write(offline, GOOD)
    words = f"openai: OPENAI_BASE_URL is not the URL of an API: its value is {address}, and the form is "
    for command in ("run", "plan"):
        message = refused(command, manifest)
        assert words in message
        assert f"write {instead}" in message
        assert "no URL" not in message
    assert words in call("doctor", manifest, "--json").out
    assert not (offline / "runs").exists()


@pytest.mark.parametrize("call_path", ["/chat/completions", "/messages/", "/responses"])
def test_the_address_of_one_call_is_refused_with_what_to_leave_out(
    offline: Path, monkeypatch: pytest.MonkeyPatch, call_path: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{NOBODY}/v1{call_path}")
    words = f"OPENAI_BASE_URL is the URL of one call, not of an API: leave {call_path.rstrip('/')} out at its end"
    assert words in refused("run", write(offline, GOOD))


def test_a_folder_of_runs_that_is_not_there_is_named_with_its_whole_path(offline: Path) -> None:
    words = f"there is no run 'a' under elsewhere (there is no folder {offline / 'elsewhere'}); --runs names another"
    assert words in call("status", "a", "--runs", "elsewhere").err


@pytest.mark.parametrize(
    "address",
    [
        "gateway.example.com/v1/sk-ABCDEFabcdef0123456789",
        "https:/api.example.com/k/abcdEFGH12345678abcdEFGH",
        "sk-abcdef1234567890abcdef12.example",
        "api.example.com/v1/abcdefghijklmnopqrstuvwxyz",
    ],
)
def test_an_address_that_may_hold_a_key_is_not_shown(
    offline: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    manifest = write(offline, GOOD)
    for command in ("run", "plan"):
        message = refused(command, manifest)
        assert "OPENAI_BASE_URL is not the URL of an API: write it as https://HOST/PATH" in message
        assert not any(part in message for part in address.split("/") if len(part) > 8)
    assert address not in call("doctor", manifest, "--json").out


# ---- grade -----------------------------------------------------------------------------------------------------------

MCQ = "item_id,gold,response\n1,A,Answer: A\n2,B,Answer: C\n"


@pytest.mark.parametrize("words", [(), ("--predictions",)])
def test_predictions_without_a_task_name_the_task_that_their_columns_are_of(
    offline: Path, words: tuple[str, ...]
) -> None:
    for name, text, command in (
        ("mcq.csv", MCQ, "its columns are those of mcq_idk: `layton-batch grade mcq_idk mcq.csv`"),
        (
            "grids.csv",
            "id,output\n1,x\n",
            "its columns are those of zebralogic: `layton-batch grade zebralogic grids.csv`",
        ),
        ("quiz.csv", "question,answer\na,b\n", "`layton-batch grade TASK quiz.csv`; tasks: mcq_idk, zebralogic, rome"),
        ("page.csv", "<html><body>", "`layton-batch grade TASK page.csv`; tasks: mcq_idk, zebralogic, rome"),
    ):
        write(offline, text, name)
        assert command in refused("grade", *words, name)


def test_a_task_or_predictions_that_are_missing_are_asked_for_with_a_command(offline: Path) -> None:
    assert "`layton-batch grade TASK FILE`; tasks: mcq_idk, zebralogic, rome" in refused("grade")
    assert "`layton-batch grade rome FILE`" in refused("grade", "rome")
    assert "unknown task 'nope'" in refused("grade", "nope", "--use-llm-evaluator")
    assert "zebralogic, rome; did you mean 'mcq_idk'?" in refused("grade", "mcq_id", "p")


def test_predictions_stand_after_the_task_as_after_the_option(offline: Path) -> None:
    write(offline, MCQ, "mcq.csv")
    by_option = call("grade", "mcq_idk", "--predictions", "mcq.csv", "--json")
    assert call("grade", "mcq_idk", "mcq.csv", "--json").out == by_option.out
    assert by_option.table()["n"] == 2


def test_predictions_with_other_columns_are_refused_with_those_that_are_there(offline: Path) -> None:
    write(offline, "question,answer\na,b\n", "quiz.csv")
    message = refused("grade", "mcq_idk", "quiz.csv")
    assert "column 'item_id' or 'id' or 'sample_id' is missing; the row has question, answer" in message


def test_a_file_of_predictions_that_is_not_there_is_said_to_be_missing_once(offline: Path) -> None:
    assert "layton-batch: there is no file none.csv, and there is no run 'none.csv'" in refused(
        "grade", "mcq_idk", "none.csv"
    )


CHOICES = (
    '{"id": "1", "question": "Which city?", "options": ["Rome", "Paris", "Bonn", "Oslo"], "answer": "Paris"}\n'
    '{"id": "2", "question": "2 + 2?", "options": ["1", "2", "3", "4"], "answer": "4"}\n'
)


def test_letters_without_their_options_are_read_in_the_order_of_the_items_which_is_said(offline: Path) -> None:
    write(offline, CHOICES, "items.jsonl")
    write(offline, "item_id,response\n1,Answer: B\n", "plain.csv")
    write(offline, 'item_id,response,options\n1,Answer: B,"[""Rome"", ""Paris"", ""Bonn"", ""Oslo""]"\n', "shown.csv")
    words = "letters are read in the order of the options in the file of items; if the model saw another order"
    assert words in call("grade", "mcq_idk", "plain.csv", "--items", "items.jsonl").err
    assert words not in call("grade", "mcq_idk", "shown.csv", "--items", "items.jsonl").err


@pytest.mark.parametrize("column", ["options", "gold"])
def test_an_import_of_letters_in_another_order_of_options_changes_nothing(offline: Path, column: str) -> None:
    write(offline, CHOICES, "items.jsonl")
    manifest = write(offline, 'name = "m"\ntask = "mcq_idk"\n[items]\nsource = "items.jsonl"\n')
    items = load_items(load_manifest(manifest), McqIdkTask(TaskOptions("llm")), SETTINGS)
    same = {name: items[0].payload[name] for name in ("options", "gold")}
    other = {"options": ["Paris", "Bonn", "Oslo", "Rome"], "gold": "A"}
    assert all(same[name] != other[name] for name in same)
    for row, name in ((same, "same.jsonl"), (other, "other.jsonl")):
        write(offline, json.dumps({"item_id": "1", "response": "Answer: A", column: row[column]}) + "\n", name)
    assert call("import", manifest, "--model", "finch", "--predictions", "same.jsonl").code == 0
    message = refused("import", manifest, "--model", "wren", "--predictions", "other.jsonl")
    assert "other.jsonl, line 1: the model saw the options of item '1' in another order than the run" in message
    assert "`layton-batch grade mcq_idk other.jsonl --items FILE` reads each row in its own order" in message
    assert '"wren"' not in call("status", "m", "--json").out


# ---- files that are of another kind than their names say -------------------------------------------------------------

QUIZ_CSV = b"question,answer\na?,b\n"
PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><html><table><tr><td>question</td></tr></table></html>"
ZIP = b"PK\x03\x04 and more"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("q.xlsx", QUIZ_CSV, "is text, not an .xlsx workbook; if it is CSV, name it q.csv"),
        ("q.xlsx", b"{}\n", "is text, not an .xlsx workbook; if it is JSONL, name it q.jsonl"),
        (
            "q.xlsx",
            PAGE,
            "line 1: begins as a web page (HTML or XML), not an .xlsx workbook; open it in a spreadsheet program",
        ),
        ("q.xlsx", b"\xd0\xcf\x11\xe0", "is an older Excel file, or a workbook with a password, not an .xlsx"),
        ("q.xlsx", b"", "is empty, not an .xlsx workbook; save or download it again"),
        ("q.xlsx", b"\0\1", "is not an .xlsx workbook; save or download it again"),
        ("q.csv", PAGE, "line 1: begins as a web page (HTML or XML), not CSV; open it in a spreadsheet program"),
        ("q.csv", ZIP, "is a ZIP archive, as Excel workbooks are, not CSV; name it .xlsx if it is a workbook"),
        ("q.csv", b"PAR1", "is a Parquet file, not CSV; let its name end in .parquet"),
        (
            "q.csv",
            b'{"question": "a", "answer": "b"}\n',
            "line 1: is a JSON object, not a header; name the file .jsonl",
        ),
        ("q.jsonl", ZIP, "is a ZIP archive, as Excel workbooks are, not JSON; name it .xlsx"),
        ("q.jsonl", QUIZ_CSV, "line 1: not JSON: it begins with 'question,answer'; if the file is a table"),
        ("q.jsonl.gz", b"\x1f\x8b", "is compressed with gzip, not JSON; unpack it"),
        ("q.parquet", QUIZ_CSV, "is text, not a Parquet file; if it is CSV, name it q.csv"),
        ("q.json", b"%PDF-1.7", "is a PDF document, not JSON; give the table itself"),
    ],
)
def test_a_file_of_another_kind_than_its_name_says_is_refused_by_what_it_is(
    offline: Path, name: str, content: bytes, words: str
) -> None:
    (offline / name).write_bytes(content)
    for command in (("items", "check"), ("judge",), ("leaderboard",)):
        message = refused(*command, name)
        assert name in message
        assert words in message
    assert sorted(path.name for path in offline.iterdir()) == [name]


# ---- boards of files -------------------------------------------------------------------------------------------------

SCORES = "model,item_id,score\na,1,1\na,2,0\nb,1,0\nb,2,1\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--update",), "--update writes the tables and pages of runs again, and s.csv is no run but a file"),
        (("--method", "paper"), "these sources are graded by rule; the method is for a jury's votes: leave it out"),
        (("--labels", "s.csv"), "these sources are graded by rule; people's labels are for a jury's votes"),
    ],
)
def test_what_only_runs_or_juries_have_is_refused_for_a_file_of_scores(
    offline: Path, options: tuple[str, ...], words: str
) -> None:
    write(offline, SCORES, "s.csv")
    assert words in refused("leaderboard", "s.csv", *options)


def test_files_of_other_items_are_refused_with_ids_of_both(offline: Path) -> None:
    write(offline, SCORES, "s.csv")
    write(offline, "model,item_id,score\n" + "".join(f"c,item-{n},1\n" for n in range(5)), "t.csv")
    words = "a (s.csv) has '1', '2' but c (t.csv) has 'item-0', 'item-1', 'item-2', …. Give the same item the same id"
    assert words in refused("leaderboard", "s.csv", "t.csv")
    assert words in refused("compare", "s.csv", "t.csv", "a", "c")


# ---- manifests -------------------------------------------------------------------------------------------------------


def test_a_task_or_nothing_in_place_of_a_manifest_is_refused_with_what_writes_one(offline: Path) -> None:
    assert "mcq_idk is a task; `layton-batch init mcq_idk` writes a manifest for it" in refused("plan", "mcq_idk")
    assert "`layton-batch init` writes a manifest, and `layton-batch status` lists" in refused("plan", "none.toml")
    words = "set a table [[models]] with name, provider and model in the manifest; `layton-batch init` writes one"
    assert words in refused("plan", "none.toml", "--model", "openai:gpt-5.1")


def test_names_in_a_manifest_that_nothing_matches_are_noted_with_the_nearest(offline: Path) -> None:
    price = '[[prices]]\nprovider = "openai"\nmodel = "gpt-5.l"\ninput = 1\noutput = 2\n'
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    manifest = write(offline, QUIZ_MANIFEST + "params = { temprature = 0 }\n" + price)
    notes = (
        (
            "[[prices]] of openai gpt-5.l is not used, because no model or judge of this manifest has that name; "
            "did you mean 'openai gpt-5.1'?"
        ),
        "'g' (openai): gpt-5.1 has params.temprature, which providers may refuse; did you mean 'temperature'?",
    )
    plan, doctor = (call(command, manifest, "--offline", "--json").out for command in ("plan", "doctor"))
    assert all(note in text for note in notes for text in (plan, doctor))


def test_a_parameter_that_is_mistyped_is_named_at_the_end_of_the_run_and_below_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        text = quiz_text(("openai",)).replace("4000\n", "4000\nparams = { temprature = 0 }\n", 1)
        ending = call("run", there.write(text), "--yes")
        words = " ".join((ending.out + ending.err).split())
        assert "openai said (3): Unknown parameter: 'temprature'." in words
        assert (
            "Correct 'larch-2-mini' in [[models]] of the manifest by what openai said, then `layton-batch run`" in words
        )
        assert "no item has an answer, and each counts as wrong: the score says nothing about the model" in words
        assert "retry" not in words
        assert "no answer is in: nothing was paid" in words


def test_a_plan_refuses_made_up_answers_in_the_words_of_run(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    manifest = write(offline, GOOD)
    run = offline / "runs" / "lab"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"manifest": {}, "made_up": ["openai"]}')
    words = "layton-batch: the answers of run lab are made up, for a sandbox played openai: `layton-batch run --sandbox"
    assert words in refused("plan", manifest, "--offline")


def test_a_manifest_of_another_task_or_split_says_what_becomes_of_its_run(offline: Path) -> None:
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    manifest = write(offline, QUIZ_MANIFEST.replace("gpt-5.1", "larch-2-mini"))
    write(offline, "item_id,answer\n1,b\n", "answers.csv")
    given = QUIZ_MANIFEST[: QUIZ_MANIFEST.index("[[models]]")]
    write(offline, given, "manifest.toml")
    assert call("import", manifest, "--model", "finch", "--predictions", "answers.csv").code == 0
    write(offline, given + 'split = "test"\n')
    assert (
        "[items] split was 'llm', is 'test': the jobs of run a are planned again"
        in call("plan", manifest, "--json").out
    )
    write(offline, 'name = "a"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\nsplit = "demo"\n')
    words = (
        "run a is of task qa so far: its board is replaced by one of mcq_idk. To keep both, give the manifest another"
    )
    assert words in call("plan", manifest, "--json").out


def test_an_amount_with_a_comma_is_answered_with_how_to_write_it(offline: Path) -> None:
    manifest = write(offline, GOOD)
    words = "--max-usd '5,00': give an amount in US dollars such as 5.00, 0 or more"
    assert words in refused("run", manifest, "--max-usd", "5,00")


# ---- budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_is_told_once_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        manifest = there.write(manifest_text(("openai", "groq"), top="[budget]\nmax_usd = 0.000001"))
        ending = call("run", manifest)
        assert ending.code == 3
        text = " ".join((ending.out + ending.err).split())
        assert text.count("set aside; $0.00 of the budget of $0.000001 is spent or set aside") == 1
        assert "the budget holds 1 more batch back: `layton-batch status RUN --json` names each" in text
        assert text.count("max_output_tokens") == 1
        held = call("status", "lab", "--json").table()
        assert json.dumps(held["batches"]).count("held back: batch ") == 2


def test_a_copied_project_of_the_same_name_is_told_what_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write("id,question,answer\n1,a?,b\n", "quiz.csv")
        manifest = there.write(QUIZ_MANIFEST)
        assert call("run", manifest, "--yes").code == 0
        there.write("id,question,answer\n1,Who wrote it?,me\n", "quiz.csv")
        words = "uses none of the answers, because its questions, models or their settings are others: it retires them"
        message = call("run", manifest, "--yes").err
        assert words in message
        assert "To keep both, give the manifest another name." in message
        assert words not in call("run", manifest, "--yes").err


# ---- words that are missing or wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("quiz.csv",), "`layton-batch run quiz.csv --model PROVIDER:ID` asks its questions, `layton-batch lead"),
        (("manifest.toml",), "name the command before manifest.toml: `layton-batch plan manifest.toml` or"),
        (("items", "quiz.csv"), "items: name the command before the file: `layton-batch items check quiz.csv`"),
        (("items", "check"), "check: FILE is missing"),
        (("export", "quiz"), "export: --to is missing: ppi | annotations"),
        (("site", "quiz"), "site: --out is missing: The folder to write pages into."),
        (("resolve",), "resolve: [RUN] BATCH is missing: The run (default: the only one), and its lost batch."),
        (("run", "quiz.csv", "--model", "gpt-5.1"), "name the provider before the model: PROVIDER:ID, such as openai:"),
        (("plan", "typo.toml"), "run a: [items] source: quizz.csv: no such file"),
        (("plan", "typo.toml"), "; did you mean 'quiz.csv'?"),
        (("plan", "panel.toml"), "; did you mean 'judges.toml'?; name a TOML file with [[judges]], or leave panel out"),
        (("judges", "scores.csv"), "graded by rule: there are no judges, and nothing for people to label; `lay"),
        (("plan", "twice.toml"), "twice.toml: not TOML: line 9 sets name a second time; remove one of the two"),
        (("run", "german.csv", "--model", "openai:x"), "the columns are: 'Frage', 'Antwort'; rename the one with the"),
        (("items", "check", "header.csv"), "header.csv: there is no row below a header; write at least one"),
        (("run", "https://a.example/q.csv"), "`layton-batch run qa --items https://a.example/q.csv --model PROVIDER:"),
        (("run", "quiz.csv", "--model", "opanai:x"), "--model 'opanai:x': unknown provider 'opanai'; did you mean 'op"),
        (("plan", "jury.toml"), "manifest.toml: is a manifest; a panel is a TOML file with a table [[judges]] for"),
        (("sandbox", "--state", "quiz.csv"), "sandbox: --state quiz.csv: is a file; name a folder, new or not"),
        (("compare", "a", "scores.csv"), "'scores.csv' is a source, not a model; give it first, then two models: `lay"),
        (("leaderboard", "scores.csv", "--metric", "x"), "--metric 'x': must be a metric of scores.csv: score"),
        (("leaderboard", "scores.csv", "--seed", "x"), "leaderboard: --seed must be a whole number"),
        (("sandbox", "--batch-seconds", "-1"), "sandbox: --batch-seconds must be 0 or more"),
        (("export", "quiz"), " | hf. `layton-batch export -h` shows more."),
        (("verify", "empty"), "It is not a site either: a site has index.html and digests.json"),
        (("label-plan", "scores.csv", "--labels", "3"), "`layton-batch leaderboard scores.csv` ranks the models"),
        (("leaderboard", "words.csv"), "words.csv, line 2: 'score' is 'good', not a number, true or false"),
        (("init", "qa", "--out", "quiz.csv"), "init: --out quiz.csv: is a file; name a folder"),
        (("plan", "list.toml"), "models[0]: must be a table, not 'gpt-5.1': write [[models]] above its keys"),
        (("items", "check", "dicts.jsonl"), "line 1: not JSON: texts need double quotes; in Python, json.dumps"),
        (("leaderboard", "project"), ": `layton-batch run project/qa.toml` begins its run; --runs names"),
        (("plan", "bare.toml"), "items: is missing: add a table [items]"),
        (("run", "index.csv", "--model", "openai:x"), "'answer' is 1, the number of an option, and qa shows no opt"),
        (("run", "index2.csv", "--model", "openai:x"), "write the option's letter or text, and it is multiple choice"),
        (("plan", "rows.toml"), "judges: is missing: add tables [[judges]]"),
        (("plan", "limits.toml"), "limits.openai: must be a table, not 5"),
        (("leaderboard", "package"), "the folder package holds no run, and there is no run 'package' under runs"),
        (("plan", "comma.toml"), "; write 7.50, with a point"),
        (("plan", "end.toml"), "task of the manifest itself stands above the first [table]: move it there"),
        (("plan", "twice.toml"), "name of the manifest itself stands above the first [table]"),
        (("plan", "heading.toml"), "a heading for people is `title` under [site], and another name is another run"),
        (("plan", "layton.toml"), "is missing; the task qa takes its columns"),
        (("run", "bare.csv", "--model", "openai:x"), "or put a line with columns' names above the first row if there"),
        (("run", "in.json", "--model", "openai:x"), "the questions are inside 'quiz': write the list itself, [{…}, …]"),
        (("items", "check", "in2.json"), "; a .json file is one list of objects, [{…}, …]"),
        (("run", "manifest.toml", "quiz.csv"), 'a manifest names its questions, [items] source = "…/quiz.csv"'),
        (("--sandbox", "run", "manifest.toml"), "name the command before its options: `layton-batch run … --sandbox`"),
        (("eval", "manifest.toml"), "no command 'eval'; `layton-batch run` starts or continues a run, and `layton-"),
        (("resume", "a"), "`layton-batch run` starts or continues a run"),
        (("items", "chek"), "no command 'chek'; did you mean 'check'? `layton-batch items -h` lists the commands"),
        (("export", "a", "--to", "xlsx"), "eee, hf; --to csv opens in a spreadsheet program"),
        (("items", "check", "comma.csv"), "3 cells; the header has 2; put a cell with ',' in it into quotation"),
        (("items", "check", "list.jsonl"), "is a JSON array; let its name end in .json, or write one object a line"),
        (("leaderboard", "epochs.csv"), "answered it several times, number its answers in a column"),
        (("grade", "rome", "quiz.csv"), "quiz.csv: not JSON (Expecting value: line 1 column 1 (char 0)); ROME's fi"),
    ],
)  # fmt: skip
def test_a_word_that_is_missing_or_wrong_is_answered_with_what_to_write(
    offline: Path, command: tuple[str, ...], words: str
) -> None:
    files = {
        "quiz.csv": "question,answer\na?,b\n",
        "manifest.toml": GOOD,
        "scores.csv": SCORES,
        "list.toml": 'name = "a"\ntask = "qa"\nmodels = ["gpt-5.1"]\n[items]\nsource = "quiz.csv"\n',
        "dicts.jsonl": "{'question': 'a?'}\n",
        "bare.toml": QUIZ_MANIFEST.replace('[items]\nsource = "quiz.csv"\n', ""),
        "index.csv": 'question,options,answer\na?,"[""x"", ""y""]",1\nb?,"[""x"", ""y""]",2\n',
        "index2.csv": "question,A,B,answer\na?,x,y,1\n",
        "rows.toml": QUIZ_MANIFEST + '[jury]\npanel = "empty.toml"\n',
        "empty.toml": "",
        "limits.toml": QUIZ_MANIFEST + "[limits]\nopenai = 5\n",
        "comma.toml": QUIZ_MANIFEST + "[budget]\nmax_usd = 7,50  # dollars\n",
        "end.toml": QUIZ_MANIFEST.replace('task = "qa"\n', "") + 'task = "qa"\n',
        "heading.toml": QUIZ_MANIFEST.replace('"a"', '"My quiz"'),
        "layton.toml": QUIZ_MANIFEST.replace('"qa"', '"layton"'),
        "bare.csv": "Who?,me\nWhat?,it\n",
        "in.json": '{"quiz": [{"question": "a?"}]}',
        "in2.json": '{\n"quiz": [{"question": "a?"}]}',
        "comma.csv": "question,answer\nIn France, what?,Paris\n",
        "list.jsonl": '[{"question": "a?", "answer": "b"}]\n',
        "epochs.csv": "model,item_id,score\na,1,1\na,1,0\n",
        "words.csv": "model,item_id,score\na,1,good\n",
        "judges.toml": "",
        "twice.toml": QUIZ_MANIFEST + 'name = "b"\n',
        "german.csv": "Frage;Antwort\na?;b\n",
        "header.csv": "question,answer\n",
        "jury.toml": QUIZ_MANIFEST + '[jury]\npanel = "manifest.toml"\n',
        "typo.toml": QUIZ_MANIFEST.replace("quiz.csv", "quizz.csv"),
        "panel.toml": QUIZ_MANIFEST + '[jury]\npanel = "judge.toml"\n',
    }
    for name, text in files.items():
        write(offline, text, name)
    (offline / "empty").mkdir()
    for folder in ("project", "package"):
        (offline / folder).mkdir()
    write(offline / "package", '[project]\nname = "x"\n', "pyproject.toml")
    write(offline / "project", QUIZ_MANIFEST, "qa.toml")
    assert words in refused(*command)


QUIZ_MANIFEST = (
    'name = "a"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
    '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "gpt-5.1"\n'
)


def test_a_source_that_cannot_be_reached_is_refused_with_what_to_look_at(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.files.addresses.WAITS_SECONDS", ())
    source = f"{NOBODY}/quiz.csv"
    manifest = write(offline, QUIZ_MANIFEST.replace("quiz.csv", source))
    message = refused("plan", manifest)
    assert f"[items] source: {source}: download failed" in message
    assert "; check the address and the connection, or name a copy of the file on this machine" in message


def test_a_row_that_is_no_item_is_named_with_its_file_of_a_pattern(offline: Path) -> None:
    write(offline, "question,answer\na?,b\n", "a.csv")
    write(offline, "Frage,answer\na?,b\n", "b.csv")
    manifest = write(offline, QUIZ_MANIFEST.replace("quiz.csv", "*.csv"))
    assert f"the row is {offline / 'b.csv'}, line 2" in refused("plan", manifest)
    table = " ".join(call("items", "check", "*.csv").out.split())
    assert f"{offline / 'b.csv'}: there is no column 'question'" in table


@pytest.mark.parametrize("lines", [300, 0])
def test_a_byte_that_is_not_utf_8_is_named_with_its_line(offline: Path, lines: int) -> None:
    (offline / "quiz.csv").write_bytes(b"question,answer\n" + b"Who wrote it?,me\n" * lines + b"Caf\xe9?,x\n")
    message = refused("items", "check", "quiz.csv")
    assert f"quiz.csv, line {lines + 2}: not UTF-8 (byte 4 of the line is 0xe9); save it as CSV in UTF-8" in message


def test_a_list_of_questions_in_json_is_run_and_the_task_of_its_columns_is_named(offline: Path) -> None:
    write(offline, '[{"question": "a?", "A": "x", "B": "y", "answer": "B"}]', "quiz.json")
    ending = call("run", "quiz.json", "--model", "openai:larch-2-mini", "--max-usd", "0")
    assert "quiz.json: its columns are those of the task mcq_idk; `task` in the manifest may name" in ending.err
    assert 'source = "quiz.json"' in (offline / "quiz.toml").read_text()


def test_options_that_are_no_list_are_shown_as_the_list_to_write(offline: Path) -> None:
    write(offline, "id,question,options,answer\n1,Which?,Paris; Rome,Paris\n", "mcq.csv")
    table = " ".join(call("items", "check", "mcq.csv", "--task", "mcq_idk").out.split())
    assert 'is text that is not a list; write a list, such as ["Paris", "Rome"]' in table


def test_a_port_in_use_is_named_with_what_to_write(offline: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = f"sandbox: --port {port}: address already in use; --port 0 takes any free one"
        assert words in refused("sandbox", "--port", str(port))


def test_a_file_in_utf_16_is_to_be_saved_as_utf_8(offline: Path) -> None:
    manifest = write(offline, GOOD)
    manifest.write_text(GOOD, encoding="utf-16")
    assert f"{manifest}: not UTF-8 (byte 1); save it as UTF-8" in refused("plan", manifest)
    (offline / ".env").write_text("OPENAI_API_KEY=secret", encoding="utf-16")
    assert ".env: not UTF-8 (byte 1); save it as UTF-8" in refused("plan", write(offline, GOOD))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "OPENAI_API_KEY=\u201csecret-key\u201d",
            "characters that no API key has (left double quotation mark, right double quotation mark); copy the key",
        ),
        ("OPENAI_API_KEY=secret-k\u00eby", "characters that no API key has (letters outside ASCII)"),
        ("OPENAI_KEY=secret-key", "OPENAI_KEY is set; if it is that key, rename it to OPENAI_API_KEY"),
        ("OPENIA_API_KEY=secret-key", "OPENIA_API_KEY is set; if it is that key, rename it"),
    ],
)
def test_a_key_with_other_characters_or_another_name_is_refused_with_what_to_change(
    offline: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    write(offline, f"{text}\n", ".env")
    message = call("run", write(offline, GOOD)).err
    assert words in message
    assert "secret-k" not in message


def test_init_lists_a_key_for_each_provider_of_the_models_and_judges(offline: Path) -> None:
    message = call("init", "--out", "mine").err
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"):
        assert f"  export {name}_API_KEY=…\n" in message


# ---- parts of a run that are gone ------------------------------------------------------------------------------------


def test_parts_of_a_run_that_are_gone_are_named_with_what_puts_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        manifest = there.write(quiz_text())
        assert call("run", manifest).code == 0
        root = there.run_root()
        part = next((root / "tables" / "predictions").glob("*.parquet"))
        content = part.read_bytes()
        part.unlink()
        assert (
            "(it is gone): `layton-batch run MANIFEST` makes it again"
            in call("export", root, "--to", "csv", "--out", "x").err
        )
        assert "`layton-batch run` makes a table that is gone again" in call("verify", root).err
        part.write_bytes(content)
        (root / "run.json").unlink()
        words = f"{root} is a run's folder without run.json: put that file back from a copy; or `layton-batch run MANIF"
        assert words in refused("cost", root)
        assert words in call("status", "--runs", root.parent).err


def test_a_file_where_a_folder_belongs_is_named(offline: Path) -> None:
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    manifest = write(offline, QUIZ_MANIFEST)
    message = call("plan", manifest, "--offline", "--out", "quiz.csv").err
    assert "quiz.csv is a file, not a folder; name a folder" in message


# ---- labels ----------------------------------------------------------------------------------------------------------


def test_labels_that_contradict_each_other_or_no_gold_set_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"{number},g,{verdict},ann\n" for number, verdict in ((1, "true"), (1, "false"), (2, "true")))
    with desk(tmp_path, monkeypatch) as there:
        there.write("question,answer\na?,b\nc?,d\n", "quiz.csv")
        there.write(f"item_id,model,answer_correct,annotator\n{rows}", "labels.csv")
        assert call("run", there.write(QUIZ_MANIFEST)).code == 0
        there.write("item,model,correct\n1,g,yes\n", "own.csv")
        form = "has no label: a row of labels has item_id, model and answer_correct (true or false), and justification"
        assert form in refused("import", "a", "--labels", "own.csv")
        assert (
            "`layton-batch import RUN --labels labels.csv` takes it"
            in call("leaderboard", "a", "--labels", "labels.csv").err
        )
        ending = call("import", "a", "--labels", "labels.csv")
        assert "1 row was replaced by a newer row of the same annotator on the same answer" in ending.out + ending.err
        words = "only 0 answers of these models are without a label; --labels asks for 10"
        assert words in call("label-plan", "a", "--labels", "10").err
        write(there.run_root() / "labels", '{"item', "000002-x.jsonl")
        assert "Put the file back from a copy; or move it away and import" in refused("leaderboard", "a")


def test_a_price_of_one_token_is_not_taken_for_that_of_a_million(offline: Path) -> None:
    price = '[[prices]]\nprovider = "openai"\nmodel = "gpt-5.1"\ninput = 0.00000125\noutput = 10\n'
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    told = refused("plan", write(offline, QUIZ_MANIFEST + price))
    assert "prices[0].input: " in told
    assert "0.00000125 US dollars per million tokens is less than any model costs" in told
    assert "if it is the price of one token, write 1.25" in told


def test_a_budget_and_an_argument_by_another_name_are_named(offline: Path) -> None:
    assert "run has no --budget; `run --max-usd 5.00` names the most" in refused("run", "quiz.csv", "--budget", "5")
    with pytest.raises(ManifestError, match=r"unexpected keyword argument 'sandbox'; the arguments are manifest, "):
        lb.run("quiz.toml", sandbox=True)  # type: ignore[call-arg]
    with pytest.raises(ManifestError, match=r"the arguments are run, model=…, predictions=…, .*labels=…"):
        lb.import_("quiz", "ask.csv")  # type: ignore[misc]
    with pytest.raises(ManifestError, match="a manifest names the models: `layton-batch run FILE --model PROVIDER:ID`"):
        lb.run("quiz.csv", models=["openai:x"])  # type: ignore[call-arg]
