"""`judge FILE`, and a manifest without models: answers that are there already go before a jury, and only it is paid."""

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
MANIFEST = 'name = "own"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
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


def judges(name: str) -> set[str]:
    jobs: list[dict[str, str]] = call("status", f"runs-sandbox/{name}", "--json").table()["jobs"]  # type: ignore[assignment]
    return {job["model"] for job in jobs if job["role"] == "judge"}


def test_a_file_of_answers_is_judged_and_ranked_and_twice_pays_once(folder: Path) -> None:
    assert "12 requests, of which 0 answered already, 12 to send: expected $" in judged(*GIVEN)
    manifest = load_manifest(folder / "answers-judged.toml")
    assert (manifest.name, manifest.task, manifest.models) == ("answers-judged", "qa", ())
    assert {row["model"] for row in board("answers-judged")} == {"finch", "wren"}
    costs = call("cost", "runs-sandbox/answers-judged", "--format", "json").json
    assert "12 answered already, 0 to send" in judged(*GIVEN)
    assert call("run", "answers-judged.toml", "--sandbox").code == 0
    assert call("cost", "runs-sandbox/answers-judged", "--format", "json").json == costs


def test_one_table_of_questions_references_and_answers_is_enough(folder: Path) -> None:
    table = "id;question;reference;answer;model\n1;12 times 12?;144;144;finch\n1;12 times 12?;144;12;wren\n"
    (folder / "table.csv").write_text(table, encoding="utf-8-sig")
    judged("table.csv")
    assert load_manifest(folder / "table-judged.toml").items.source == "table-items.jsonl"
    item = json.loads((folder / "table-items.jsonl").read_text(encoding="utf-8"))
    assert item == {"id": "1", "question": "12 times 12?", "answer": "144"}
    assert "6 answered already, 0 to send" in judged("table.csv")
    write(folder, table.replace("144;12;", "145;12;"), "wrong.csv")
    before = sorted(folder.iterdir())
    assert "wrong.csv, line 3: item '1' has another question or reference" in refused("judge", "wrong.csv", "--sandbox")
    assert sorted(folder.iterdir()) == before


def test_a_panel_of_ones_own_judges_and_paths_are_the_manifests_own(folder: Path) -> None:
    (folder / "judges").mkdir()
    write(folder, PANEL, "judges/panel.toml")
    (folder / "answers.jsonl").rename(folder / "judges" / "answers.jsonl")
    given = ("judges/answers.jsonl", "--items", "quiz.csv", "--panel", "judges/panel.toml")
    judged(*given)
    text = (folder / "judges" / "answers-judged.toml").read_text(encoding="utf-8")
    assert ('source = "../quiz.csv"' in text, 'panel = "panel.toml"' in text) == (True, True)
    assert judges("answers-judged") == {"own-judge"}
    assert "0 to send" in judged(*given)


def test_answers_to_romes_questions_go_to_a_judge_in_its_own_forms(folder: Path) -> None:
    annotations = [
        {"question_id": f"q{number}", "question": "Which gas?", "reference": "neon", "task": "open",
         "evaluator": "key_items_matching", "evaluator_kwargs": {"key_items": [["neon"]]}}
        for number in range(2)
    ]  # fmt: skip
    predictions = [{"question_id": "q0", "answer": "Final Answer: neon"}, {"question_id": "q1", "answer": "argon"}]
    write(folder, json.dumps(annotations), "annotation.json")
    write(folder, json.dumps(predictions), "predictions.json")
    judged("predictions.json", "--items", "annotation.json", "--protocol", "original")
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


def test_a_manifest_without_models_takes_predictions_and_its_run_judges_them(folder: Path) -> None:
    path = write(folder, MANIFEST, "own.toml")
    assert call("plan", path, "--offline").code == 0
    assert "has no [[models]] and no answers" in refused("run", path, "--yes", "--offline")
    assert not (folder / "runs").exists()
    given = ("import", path, "--model", "finch", "--predictions", "answers.jsonl")
    assert [words in call(*given).err for words in ("6 verdicts to be asked for", "nothing new of its answers")] == [
        True,
        True,
    ]


# ---- answers that carry their items ----------------------------------------------------------------------------------

FIRST = (("1", "12 times 12?", "144", "finch"), ("2", "Sides of a hexagon?", "six", "finch"))
WREN = tuple((*row[:3], "wren") for row in FIRST)
THIRD = ("3", "A new one?", "one", "finch")
REFUSED = "the run has other predictions of a model called 'finch'"


def own_rows(folder: Path, *rows: tuple[str, str, str, str]) -> None:
    """Write answers with their items: id, question, answer and model of each."""
    names = ("item_id", "question", "answer", "model")
    lines = [json.dumps({**dict(zip(names, row, strict=True)), "reference": "144"}) + "\n" for row in rows]
    write(folder, "".join(lines), "own.jsonl")


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "state" not in path.name}


def test_a_refused_file_changes_neither_the_run_nor_its_items_and_a_grown_one_is_judged_at_once(folder: Path) -> None:
    own_rows(folder, *FIRST, *WREN)
    judged("own.jsonl")
    write(folder, PANEL, "panel.toml")
    for rows, options, words in (
        ((("1", "12 times 12?", "145", "finch"), ("2", "Angles of a hexagon?", "six", "finch")), (), REFUSED),
        ((("1", "12 times 12?", "145", "finch"), FIRST[1], THIRD), (), REFUSED),  # grown, and without a model
        (
            (*FIRST, *WREN, THIRD),
            ("--panel", "panel.toml"),
            "own-judged.toml is there and asks for something else (jury",
        ),
    ):
        own_rows(folder, *rows)
        before = content(folder)
        message = refused("judge", "own.jsonl", "--sandbox", *options)
        assert (words in message, "to send" in message) == (True, False), message
        assert content(folder) == before
    own_rows(folder, *FIRST, *WREN, THIRD, (*THIRD[:3], "wren"))
    judged("own.jsonl")
    bill = call("cost", "runs-sandbox/own-judged", "--format", "json").table()["total"]
    assert bill["requests"] == 9  # type: ignore[index]  # three judges of what the two said alike, and none twice
    assert [(row["n_items"], row["n_missing"]) for row in board("own-judged")] == [(3, 0)] * 2
    assert call("verify", "own-judged", "--runs", "runs-sandbox").code == 0


def test_a_blank_answer_is_named_by_its_row_and_taken_once_it_is_filled_in(folder: Path) -> None:
    rows = "1,Peru?,Lima,Lima,finch\n2,Italy?,Rome,{},finch\n3,Iran?,X,Y,finch\n"
    table = f"item_id,question,reference,answer,model\n{rows}"
    write(folder, table.format(""), "a.csv")
    ended = call("judge", "a.csv", "--sandbox", "--yes")
    assert (ended.code, "a.csv, line 3 (item 2): no answer, which counts as wrong" in ended.err) == (5, True)
    assert call("retry", "a-judged", "--runs", "runs-sandbox").code == 0
    write(folder, table.format("Rome"), "a.csv")
    assert "9 requests, of which 6 answered already, 3 to send" in judged("a.csv")
    (row,) = board("a-judged")
    assert (row["n_items"], row["n_missing"]) == (3, 0)
    write(folder, table.format(""), "a.csv")
    assert REFUSED in refused("judge", "a.csv", "--sandbox")
