"""`judge FILE`: answers that are there already go before a jury, and only it is paid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.manifest.checks import load_manifest
from tests.cli.conftest import KEYS
from tests.support.cli_harness import call, refused, write

ROWS = [
    {"custom_id": "1", "answer": '{"answer": "144"}', "model": "finch", "provider": "openai"},
    {"custom_id": "2", "answer": '{"answer": "six"}', "model": "finch", "provider": "openai"},
    {"custom_id": "1", "answer": "100", "model": "wren"},
    {"custom_id": "2", "answer": "eight", "model": "wren"},
]
PANEL = '[[judges]]\nname = "own-judge"\nprovider = "mistral"\nmodel = "sirocco-referee"\n'
GIVEN = ("answers.jsonl", "--items", "quiz.csv")


@pytest.fixture(autouse=True)
def answers(folder: Path) -> None:
    """Answers of two models to the quiz of the working folder."""
    write(folder, "".join(json.dumps(row) + "\n" for row in ROWS), "answers.jsonl")


@pytest.fixture
def with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every provider have a key; nobody is asked whether its models are on sale."""
    for name in KEYS:
        monkeypatch.setenv(name, "a-key")
    monkeypatch.setattr("layton_batch.commands.driving.refuse_dead_models", lambda *_: ())


def judged(*arguments: str) -> str:
    """Judge in the sandbox, and return the messages."""
    ended = call("judge", *arguments, "--sandbox", "--yes")
    assert ended.code == 0, ended.err
    return ended.err


def board(name: str) -> list[dict[str, object]]:
    return call("leaderboard", f"runs-sandbox/{name}", "--format", "json").json  # type: ignore[return-value]


def test_a_file_of_answers_is_judged_and_ranked_and_twice_pays_once(folder: Path) -> None:
    assert "12 requests, of which 0 answered already, 12 to send: expected $" in judged(*GIVEN)
    manifest = load_manifest(folder / "answers-judged.toml")
    assert (manifest.name, manifest.task, manifest.models) == ("answers-judged", "qa", ())
    assert {row["model"] for row in board("answers-judged")} == {"finch", "wren"}
    costs = call("cost", "runs-sandbox/answers-judged", "--format", "json").json
    assert "12 answered already, 0 to send" in judged(*GIVEN)
    assert call("run", "answers-judged.toml", "--sandbox").code == 0
    assert call("cost", "runs-sandbox/answers-judged", "--format", "json").json == costs


def test_one_table_of_questions_references_and_answers_is_enough_and_a_panel_may_be_ones_own(folder: Path) -> None:
    table = "id;question;reference;answer;model\n1;12 times 12?;144;144;finch\n1;12 times 12?;144;12;wren\n"
    (folder / "own").mkdir()
    (folder / "own" / "table.csv").write_text(table, encoding="utf-8-sig")
    write(folder, PANEL, "own/panel.toml")
    judged("own/table.csv", "--panel", "own/panel.toml")
    manifest = load_manifest(folder / "own" / "table-judged.toml")
    assert (manifest.items.source, [judge.model.name for judge in manifest.panel()]) == (
        "table-items.jsonl",
        ["own-judge"],
    )
    item = json.loads((folder / "own" / "table-items.jsonl").read_text(encoding="utf-8"))
    assert item == {"id": "1", "question": "12 times 12?", "answer": "144"}
    assert "2 answered already, 0 to send" in judged("own/table.csv", "--panel", "own/panel.toml")
    write(folder, table.replace("144;12;", "145;12;"), "wrong.csv")
    before = sorted(folder.iterdir())
    assert "wrong.csv, line 3: item '1' has another question or reference" in refused("judge", "wrong.csv", "--sandbox")
    assert sorted(folder.iterdir()) == before


def test_answers_to_romes_questions_go_to_a_judge_in_its_own_forms(folder: Path) -> None:
    annotations = [
        {"question_id": f"q{number}", "question": "Which gas?", "reference": "neon", "task": "open",
         "evaluator": "key_items_matching", "evaluator_kwargs": {"key_items": [["neon"]]}}
        for number in range(2)
    ]  # fmt: skip
    predictions = [{"question_id": "q0", "answer": "Final Answer: neon"}, {"question_id": "q1", "answer": "argon"}]
    write(folder, json.dumps(annotations), "annotation.json")
    write(folder, json.dumps(predictions), "predictions.json")
    write(folder, PANEL, "panel.toml")
    judged("predictions.json", "--items", "annotation.json", "--protocol", "original", "--panel", "panel.toml")
    manifest = load_manifest(folder / "predictions-judged.toml")
    assert manifest.task_options == {"judge": True, "protocol": "original"}
    (row,) = board("predictions-judged")
    assert (row["model"], row["n_items"], row["n_unparsed"]) == ("predictions", 2, 0)


@pytest.mark.usefixtures("with_keys")
def test_without_a_budget_and_a_terminal_nothing_is_sent_and_unreadable_replies_are_counted_first(
    folder: Path,
) -> None:
    ended = call("judge", *GIVEN)
    assert (ended.code, "give --max-usd or --yes; nothing was sent" in ended.err) == (3, True), ended.err
    rows = 'openai:x,1,12 times 12?,144,"{""answer"": ""144""}"\nopenai:x,2,Sides?,6,six\n'
    write(folder, f"model,id,question,reference,response\n{rows}", "own.csv")
    ended = call("judge", "own.csv", "--model", "openai:x")
    assert (ended.code, "1 of 2 replies cannot be read and count as wrong" in ended.err) == (3, True), ended.err


# ---- answers that carry their items ----------------------------------------------------------------------------------

FIRST = (("1", "12 times 12?", "144", "finch"), ("2", "Sides of a hexagon?", "six", "finch"))
WREN = tuple((*row[:3], "wren") for row in FIRST)
THIRD = ("3", "A new one?", "one", "finch")
REFUSED = "the run has other predictions of a model called 'finch'"
OWN = ("own.jsonl", "--panel", "panel.toml")


def own_rows(folder: Path, *rows: tuple[str, str, str, str]) -> None:
    """Write answers with their items: id, question, answer (none where it is empty) and model of each."""
    names = ("item_id", "question", "answer", "model")
    given = ({**dict(zip(names, row, strict=True)), "answer": row[2] or None, "reference": "144"} for row in rows)
    write(folder, "".join(json.dumps(row) + "\n" for row in given), "own.jsonl")


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "state" not in path.name}


def test_a_refused_file_changes_neither_the_run_nor_its_items_and_a_grown_one_is_judged_at_once(folder: Path) -> None:
    """A blank answer is named by its row, and taken when it is filled in."""
    blank = (FIRST[0], ("2", "Sides of a hexagon?", "", "finch"), *WREN)
    write(folder, PANEL, "panel.toml")
    own_rows(folder, *blank)
    ended = call("judge", *OWN, "--sandbox", "--yes")
    assert (ended.code, "own.jsonl, line 2 (item 2): no answer, which counts as wrong" in ended.err) == (5, True)
    own_rows(folder, *FIRST, *WREN)
    judged(*OWN)
    for rows, options, words in (
        (blank, OWN[1:], REFUSED),
        ((("1", "12 times 12?", "145", "finch"), ("2", "Angles of a hexagon?", "six", "finch")), OWN[1:], REFUSED),
        ((("1", "12 times 12?", "145", "finch"), FIRST[1], THIRD), OWN[1:], REFUSED),  # grown, and without a model
        ((*FIRST, *WREN, THIRD), (), "own-judged.toml is there and asks for something else (jury"),
    ):
        own_rows(folder, *rows)
        before = content(folder)
        message = refused("judge", "own.jsonl", "--sandbox", *options)
        assert (words in message, "to send" in message) == (True, False), message
        assert content(folder) == before
    own_rows(folder, *FIRST, *WREN, THIRD, (*THIRD[:3], "wren"))
    assert "1 to send" in judged(*OWN)
    bill = call("cost", "runs-sandbox/own-judged", "--format", "json").table()["total"]
    assert bill["requests"] == 3  # type: ignore[index]  # what the two said alike is judged once
    assert [(row["n_items"], row["n_missing"]) for row in board("own-judged")] == [(3, 0)] * 2
    assert call("verify", "own-judged", "--runs", "runs-sandbox").code == 0
