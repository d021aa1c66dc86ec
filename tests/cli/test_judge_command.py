"""`judge FILE`, and a manifest without models: answers that are there already go before a jury, and only it is paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layton_batch.files.sources import Rows, read_rows
from layton_batch.manifest.checks import load_manifest
from tests.cli.conftest import KEYS
from tests.support.cli_harness import call

ROWS = [
    {"custom_id": "1", "answer": '{"answer": "144"}', "model": "finch", "provider": "openai"},
    {"custom_id": "2", "answer": '{"answer": "six"}', "model": "finch", "provider": "openai"},
    {"custom_id": "1", "answer": "100", "model": "wren"},
    {"custom_id": "2", "answer": "eight", "model": "wren"},
]
MANIFEST = 'name = "own"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'


@pytest.fixture(autouse=True)
def answers(folder: Path) -> None:
    """Answers of two models to the quiz of the working folder."""
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


def test_a_file_of_answers_is_judged_and_ranked_and_twice_pays_once(folder: Path) -> None:
    judged = ("judge", "answers.jsonl", "--items", "quiz.csv", "--sandbox")
    first = call(*judged)
    assert first.code == 0, first.err
    assert "12 requests, of which 0 answered already, 12 to send: expected $" in first.err
    manifest = load_manifest(folder / "answers-judged.toml")
    assert (manifest.name, manifest.task, manifest.models) == ("answers-judged", "qa", ())
    board = json.loads(call("leaderboard", "runs-sandbox/answers-judged", "--format", "json").out)
    assert {row["model"] for row in board} == {"finch", "wren"}
    costs = call("cost", "runs-sandbox/answers-judged", "--format", "json").table()
    again = call(*judged)
    assert (again.code, "12 answered already, 0 to send" in again.err) == (0, True), again.err
    assert call("cost", "runs-sandbox/answers-judged", "--format", "json").table() == costs
    assert call("run", "answers-judged.toml", "--sandbox").code == 0


@pytest.mark.parametrize("words", [("--items", "quiz.csv"), ()])
def test_the_file_of_answers_is_read_once_however_many_models_it_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    reads: list[str] = []

    def counted(source: str, *arguments: Any, **named: Any) -> Rows:
        reads.append(source)
        return read_rows(source, *arguments, **named)

    rows = [{**row, "question": f"{row['custom_id']} and 1?", "reference": "2"} for row in ROWS]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setattr("layton_batch.interchange.prediction_files.read_rows", counted)
    ended = call("judge", "answers.jsonl", *words, "--sandbox")
    assert (ended.code, reads) == (0, [str(folder / "answers.jsonl")]), ended.err


def test_a_judge_of_the_family_that_made_the_model_does_not_sit(folder: Path) -> None:
    ended = call("judge", "answers.jsonl", "--items", "quiz.csv", "--sandbox", "--model", "finch")
    assert ended.code == 0, ended.err
    jobs = call("status", "runs-sandbox/answers-judged", "--json").table()["jobs"]
    assert isinstance(jobs, list)
    assert {job["provider"] for job in jobs if job["role"] == "judge"} == {"anthropic", "gemini", "mistral"}


def test_one_table_of_questions_references_and_answers_is_enough(folder: Path) -> None:
    table = (
        "id;question;reference;answer;model\n1;What is 12 times 12?;144;144;finch\n1;What is 12 times 12?;144;12;wren\n"
    )
    (folder / "table.csv").write_text(table, encoding="utf-8-sig")
    ended = call("judge", "table.csv", "--sandbox")
    assert ended.code == 0, ended.err
    assert load_manifest(folder / "table-judged.toml").items.source == "table-items.jsonl"
    item = {"id": "1", "question": "What is 12 times 12?", "answer": "144"}
    assert json.loads((folder / "table-items.jsonl").read_text(encoding="utf-8")) == item
    again = call("judge", "table.csv", "--sandbox")
    assert (again.code, "6 answered already, 0 to send" in again.err) == (0, True), again.err
    (folder / "wrong.csv").write_text(table.replace("144;12;", "145;12;"), encoding="utf-8")
    wrong = call("judge", "wrong.csv", "--sandbox")
    assert (wrong.code, "wrong.csv, line 3: item '1' has another question or reference" in wrong.err) == (2, True)
    bare = call("judge", "answers.jsonl", "--sandbox")
    assert (bare.code, "answers.jsonl, line 1: has no question" in bare.err) == (2, True)
    assert sorted(path.name for path in folder.glob("*-*")) == [
        "runs-sandbox",
        "table-items.jsonl",
        "table-judged.toml",
    ]


PANEL = """[[judges]]
name = "own-judge"
provider = "mistral"
model = "sirocco-referee"
"""


def test_a_panel_of_ones_own_judges_and_paths_are_the_manifests_own(folder: Path) -> None:
    (folder / "judges").mkdir()
    (folder / "judges" / "panel.toml").write_text(PANEL, encoding="utf-8")
    (folder / "answers.jsonl").rename(folder / "judges" / "answers.jsonl")
    given = ("judges/answers.jsonl", "--items", "quiz.csv", "--panel", "judges/panel.toml")
    ended = call("judge", *given, "--sandbox")
    assert ended.code == 0, ended.err
    text = (folder / "judges" / "answers-judged.toml").read_text(encoding="utf-8")
    assert 'source = "../quiz.csv"' in text
    assert 'panel = "panel.toml"' in text
    jobs = call("status", "runs-sandbox/answers-judged", "--json").table()["jobs"]
    assert isinstance(jobs, list)
    assert {job["model"] for job in jobs if job["role"] == "judge"} == {"own-judge"}
    again = call("judge", *given, "--sandbox")
    assert (again.code, "0 to send" in again.err) == (0, True), again.err


def test_answers_to_romes_questions_go_to_a_judge_in_its_own_forms(folder: Path) -> None:
    annotations = [
        {"question_id": f"q{number}", "question": "Which gas?", "reference": "neon", "task": "open",
         "evaluator": "key_items_matching", "evaluator_kwargs": {"key_items": [["neon"]]}}
        for number in range(2)
    ]  # fmt: skip
    (folder / "annotation.json").write_text(json.dumps(annotations), encoding="utf-8")
    predictions = [{"question_id": "q0", "answer": "Final Answer: neon"}, {"question_id": "q1", "answer": "argon"}]
    (folder / "predictions.json").write_text(json.dumps(predictions), encoding="utf-8")
    given = ("predictions.json", "--items", "annotation.json", "--protocol", "original")
    ended = call("judge", *given, "--sandbox")
    assert ended.code == 0, ended.err
    manifest = load_manifest(folder / "predictions-judged.toml")
    assert manifest.task_options == {"judge": True, "protocol": "original"}
    (row,) = json.loads(call("leaderboard", "runs-sandbox/predictions-judged", "--format", "json").out)
    assert (row["model"], row["n_items"], row["n_unparsed"]) == ("predictions", 2, 0)


def test_without_a_budget_and_a_terminal_nothing_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "a-key")
    monkeypatch.setattr("layton_batch.commands.driving.refuse_dead_models", lambda *_: ())
    ended = call("judge", "answers.jsonl", "--items", "quiz.csv")
    assert (ended.code, "give --max-usd or --yes; nothing was sent" in ended.err) == (3, True), ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("answers.jsonl", "--items", "none.csv"), "none.csv: no such file"),
        (("none.jsonl", "--items", "quiz.csv"), "none.jsonl: no such file"),
        ((".", "--items", "quiz.csv"), ". is a folder; name a file"),
        (("answers.jsonl", "--items", "answers.jsonl"), "no task takes these rows"),
        (("answers.jsonl", "--items", "quiz.csv", "--protocol", "original"), "task 'qa' has no protocols"),
        (("answers.jsonl", "--items", "quiz.csv", "--model", "robin"), "no predictions of a model called 'robin'"),
        (("answers.jsonl", "--items", "quiz.csv", "--panel", "none.toml"), "judge: --panel none.toml: no such file"),
    ],
)
def test_what_cannot_be_judged_is_told_and_leaves_no_manifest(
    folder: Path, arguments: tuple[str, ...], told: str
) -> None:
    ended = call("judge", *arguments, "--sandbox")
    assert (ended.code, told in ended.err) == (2, True), ended.err
    assert not (folder / "answers-judged.toml").exists()


TABLE = "id,question,reference,{}\n1,What is 12 times 12?,144,{}\n2,How many sides has a hexagon?,6,{}\n"


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (
            TABLE.format("response", "It is 144", "six"),
            (),
            (
                "own.csv: no reply can be read: column 'response' must hold the JSON that the prompt of qa asks for; "
                "plain answers belong in a column 'answer'"
            ),
        ),
    ],
)
def test_a_table_that_is_meant_otherwise_begins_nothing(
    folder: Path, text: str, options: tuple[str, ...], told: str
) -> None:
    (folder / "own.csv").write_text(text, encoding="utf-8")
    before = sorted(folder.iterdir())
    ended = call("judge", "own.csv", *options, "--sandbox", "--yes")
    assert (ended.code, told in ended.err) == (2, True), ended.err
    assert sorted(folder.iterdir()) == before


def test_replies_that_cannot_be_read_are_counted_before_anyone_is_paid(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "a-key")
    monkeypatch.setattr("layton_batch.commands.driving.refuse_dead_models", lambda *_: ())
    table = TABLE.replace("id,", "model,id,").replace("\n1", "\nopenai:x,1").replace("\n2", "\nopenai:x,2")
    text = table.format("response", '"{""answer"": ""144""}"', "six")
    (folder / "own.csv").write_text(text, encoding="utf-8")
    ended = call("judge", "own.csv", "--model", "openai:x")
    assert (ended.code, "own.csv: 1 of 2 replies cannot be read and count as wrong" in ended.err) == (3, True), (
        ended.err
    )


def test_a_manifest_of_another_jury_is_named_with_the_key_that_differs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "a-key")
    monkeypatch.setattr("layton_batch.commands.driving.refuse_dead_models", lambda *_: ())
    assert call("judge", "answers.jsonl", "--items", "quiz.csv").code == 3
    (folder / "panel.toml").write_text(PANEL, encoding="utf-8")
    ended = call("judge", "answers.jsonl", "--items", "quiz.csv", "--panel", "panel.toml")
    assert (ended.code, "answers-judged.toml is there and asks for something else (jury" in ended.err) == (2, True)


def test_a_manifest_without_models_takes_predictions_and_its_run_judges_them(folder: Path) -> None:
    (folder / "own.toml").write_text(MANIFEST, encoding="utf-8")
    assert "no [[models]]: nobody is asked" in call("plan", "own.toml", "--offline").out
    alone = call("run", "own.toml", "--yes", "--offline")
    assert (alone.code, "has no [[models]] and no answers" in alone.err) == (2, True), alone.err
    assert not (folder / "runs").exists()
    taken = call("import", "own.toml", "--model", "finch", "--predictions", "answers.jsonl", "--runs", "runs")
    assert (taken.code, "6 verdicts to be asked for" in taken.err) == (0, True), taken.err
    again = call("import", "own.toml", "--model", "finch", "--predictions", "answers.jsonl", "--runs", "runs")
    assert "nothing new of its answers" in again.err


def _own_rows(folder: Path, *rows: tuple[str, str, str, str]) -> None:
    """Write answers that carry their items: id, question, answer and model of each."""
    names = ("item_id", "question", "answer", "model")
    lines = [json.dumps({**dict(zip(names, row, strict=True)), "reference": "144"}) + "\n" for row in rows]
    (folder / "own.jsonl").write_text("".join(lines), encoding="utf-8")


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "state" not in path.name}


FIRST = (("1", "12 times 12?", "144", "finch"), ("2", "Sides of a hexagon?", "six", "finch"))
WREN = tuple((*row[:3], "wren") for row in FIRST)


@pytest.mark.parametrize(
    "rows",
    [
        (("1", "12 times 12?", "145", "finch"), ("2", "Angles of a hexagon?", "six", "finch")),
        (("1", "12 times 12?", "145", "finch"), FIRST[1], ("3", "A new one?", "one", "finch")),
    ],
    ids=["edited", "grown and without a model"],
)
def test_a_refused_file_changes_neither_the_run_nor_its_items_and_is_not_priced(
    folder: Path, rows: tuple[tuple[str, str, str, str], ...]
) -> None:
    _own_rows(folder, *FIRST, *WREN)
    assert call("judge", "own.jsonl", "--sandbox").code == 0
    _own_rows(folder, *rows)
    before = _content(folder)
    ended = call("judge", "own.jsonl", "--sandbox")
    assert (ended.code, "the run has other predictions of a model called 'finch'" in ended.err) == (2, True), ended.err
    assert "to send" not in ended.err
    assert _content(folder) == before
    assert call("verify", "own-judged", "--runs", "runs-sandbox").code == 0


def test_rows_that_a_file_got_since_are_answered_and_judged_at_once(folder: Path) -> None:
    _own_rows(folder, *FIRST)
    assert call("judge", "own.jsonl", "--sandbox").code == 0
    _own_rows(folder, *FIRST, ("3", "A new one?", "one", "finch"))
    ended = call("judge", "own.jsonl", "--sandbox")
    assert (ended.code, "9 requests, of which 6 answered already, 3 to send" in ended.err) == (0, True), ended.err
    (row,) = json.loads(call("leaderboard", "runs-sandbox/own-judged", "--format", "json").out)
    assert (row["n_items"], row["n_missing"]) == (3, 0)


def test_a_manifest_of_another_jury_leaves_the_items_as_they_are(folder: Path) -> None:
    _own_rows(folder, *FIRST)
    assert call("judge", "own.jsonl", "--sandbox").code == 0
    _own_rows(folder, *FIRST, ("3", "A new one?", "one", "finch"))
    before = _content(folder)
    (folder / "panel.toml").write_text(PANEL, encoding="utf-8")
    before = _content(folder)
    assert call("judge", "own.jsonl", "--sandbox", "--panel", "panel.toml").code == 2
    assert _content(folder) == before
