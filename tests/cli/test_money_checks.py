"""Checks where a wrong guess costs money: keys, budgets, ids, references, settings that buy again."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from layton_batch.manifest.asked import load_items
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.money_checks import first_is_never_right
from layton_batch.settings import Settings
from layton_batch.tasks import load_task
from layton_batch.tasks.mcq_idk.task import McqIdkTask
from layton_batch.tasks.protocol import TaskOptions
from tests.support.cli_harness import call, desk, plan_notes, refused, write
from tests.support.lab import manifest_text, quiz_text

GOOD = manifest_text(("openai",))


QUESTIONS = (("What is 2 + 2?", "4"), ("Colour of snow?", "white"), ("Gas in air?", "nitrogen"))


def quiz(rows: Sequence[Sequence[str]], *columns: str) -> str:
    """A table of questions."""
    return "".join(f"{','.join(row)}\n" for row in (columns or ("question", "answer"), *rows))


MANIFEST = (
    'name = "a"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
    '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'
)


CHOICES = (
    '{"id": "1", "question": "Which city?", "options": ["Rome", "Paris", "Bonn", "Oslo"], "answer": "Paris"}\n'
    '{"id": "2", "question": "2 + 2?", "options": ["1", "2", "3", "4"], "answer": "4"}\n'
)


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_of_another_provider_is_refused_before_it_is_sent(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ant-api03-good")
    words = "the value begins as a key of anthropic"
    manifest = write(offline, quiz_text())
    for command in (("run", manifest), ("check", manifest, "--offline", "--json")):
        ending = call(*command)
        assert ending.code == 2
        assert f"OPENAI_API_KEY in the environment: {words}" in ending.out + ending.err
        assert "good" not in ending.out + ending.err
    planned = call("plan", manifest, "--offline", "--json")
    assert planned.code == 2  # as `run`
    assert any(f"OPENAI_API_KEY in the environment: {words}" in line for line in json.loads(planned.out)["refused"])


def test_a_key_of_openai_does_not_go_to_anthropic(offline: Path) -> None:
    settings = Settings.from_environment({"ANTHROPIC_API_KEY": "sk-proj-x"}, offline)
    assert "begins as a key of openai, and it would go to anthropic" in str(settings.key_trouble("anthropic"))


@pytest.mark.parametrize("key", ["sk-or-v1-x", "xxx"])
def test_a_key_of_any_form_may_go_to_an_address_of_ones_own(offline: Path, key: str) -> None:
    environment = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "https://gateway.example/v1"}
    assert Settings.from_environment(environment, offline).access("openai").api_key == key


# ---- budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [("--max-usd", "--yes"), ("--max-usd", "")])
def test_an_amount_that_a_shell_took_away_is_refused(offline: Path, options: Sequence[str]) -> None:
    assert "--max-usd" in refused("run", write(offline, GOOD), *options)


def test_a_budget_below_one_batch_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        manifest = there.write(manifest_text(("openai", "groq"), top="[budget]\nmax_usd = 0.000001"))
        ending = call("run", manifest)
        assert ending.code == 3
        text = " ".join((ending.out + ending.err).split())
        assert text.count("$0.000001") == 1
        held = call("status", "lab", "--json").table()
        assert json.dumps(held["batches"]).count("held back: batch ") == 2


def test_no_known_price_under_a_budget_ends_with_3(folder: Path) -> None:
    text = MANIFEST.replace("larch-2-mini", "no-such-model") + "[budget]\nmax_usd = 5\n"
    ending = call("plan", write(folder, text), "--offline")
    assert (ending.code, "openai no-such-model" in ending.err) == (3, True)


def test_a_price_of_one_token_is_not_taken_for_that_of_a_million(offline: Path) -> None:
    price = '[[prices]]\nprovider = "openai"\nmodel = "larch-2-mini"\ninput = 0.00000125\noutput = 10\n'
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    told = refused("plan", write(offline, MANIFEST + price))
    assert "prices[0].input: " in told
    assert "0.00000125" in told


# ---- references and ids ----------------------------------------------------------------------------------------------


def test_items_without_a_reference_are_named_before_anything_is_sent(offline: Path) -> None:
    write(offline, quiz([("a?", "1"), ("b?", ""), ("c?", ""), ("d?", "4")]), "quiz.csv")
    manifest = write(offline, MANIFEST)
    words = "2 of 4 items without a reference ('2', '3')"
    assert words in plan_notes(manifest)
    assert words in call("run", manifest, "--max-usd", "0", "--offline").err
    checked = call("check", "quiz.csv", "--json").table()["findings"]
    assert [(row["line"], row["kind"]) for row in checked] == [(3, "no reference"), (4, "no reference")]


def test_questions_that_are_there_twice_are_named_before_anything_is_sent(offline: Path) -> None:
    write(
        offline,
        quiz([("7", "Who  wrote it?", "me"), ("8", "who wrote it?", "me")], "id", "question", "answer"),
        "quiz.csv",
    )
    assert "item '8' asks the same as '7': " in plan_notes(write(offline, MANIFEST))


@pytest.mark.parametrize(("rows", "first", "is_told"), [(3, 1, True), (2, 1, False), (12, 0, False)])
def test_answers_that_may_be_counted_from_1_are_told(offline: Path, rows: int, first: int, is_told: bool) -> None:
    lines = [
        json.dumps({"question": f"Number {n}?", "options": ["w", "x", "y", "z"], "answer": first + n % 3})
        for n in range(rows)
    ]
    write(offline, "\n".join(lines), "mcq.jsonl")
    task = load_task("mcq_idk", TaskOptions("llm"))
    assert first_is_never_right(task.items([json.loads(line) for line in lines])) is is_told
    findings = call("check", "mcq.jsonl", "--json").table()["findings"]
    assert isinstance(findings, list)
    assert any(row["kind"] == "options" for row in findings) is is_told


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
    found = call("check", "q.csv", "--json").table()["findings"]
    assert isinstance(found, list)
    assert [(row["line"], row["kind"]) for row in found] == [(line, kind) for line, kind, _ in findings]
    for row, (_, _, words) in zip(found, findings, strict=True):
        assert row["text"].startswith("the id is empty, so the row's number is its id: give every row an id; ")
        assert words in row["text"]


@pytest.mark.parametrize("column", ["options", "gold"])
def test_an_import_of_letters_in_another_order_of_options_changes_nothing(offline: Path, column: str) -> None:
    write(offline, CHOICES, "items.jsonl")
    manifest = write(offline, 'name = "m"\ntask = "mcq_idk"\n[items]\nsource = "items.jsonl"\n')
    items = load_items(load_manifest(manifest), McqIdkTask(TaskOptions("llm")), Settings(Path()))
    same = {name: items[0].payload[name] for name in ("options", "gold")}
    other = {"options": ["Paris", "Bonn", "Oslo", "Rome"], "gold": "A"}
    assert all(same[name] != other[name] for name in same)
    for row, name in ((same, "same.jsonl"), (other, "other.jsonl")):
        write(offline, json.dumps({"item_id": "1", "response": "Answer: A", column: row[column]}) + "\n", name)
    assert call("import", manifest, "--model", "finch", "--predictions", "same.jsonl").code == 0
    message = refused("import", manifest, "--model", "wren", "--predictions", "other.jsonl")
    assert "other.jsonl, line 1: the model saw the options of item '1' in another order than the run" in message
    assert '"wren"' not in call("status", "m", "--json").out


# ---- made-up answers, other tasks, settings that buy again -----------------------------------------------------------


def test_a_plan_refuses_made_up_answers(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    manifest = write(offline, GOOD)
    run = offline / "runs" / "lab"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"manifest": {}, "made_up": ["openai"]}')
    words = "the answers of run lab are made up"
    assert words in refused("plan", manifest, "--offline")


def test_a_manifest_of_another_task_or_split_says_what_becomes_of_its_run(offline: Path) -> None:
    write(offline, "question,answer\na?,b\n", "quiz.csv")
    manifest = write(offline, MANIFEST)
    write(offline, "item_id,answer\n1,b\n", "answers.csv")
    given = MANIFEST[: MANIFEST.index("[[models]]")]
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


def test_a_copied_project_of_the_same_name_is_told_what_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write("id,question,answer\n1,a?,b\n", "quiz.csv")
        manifest = there.write(MANIFEST)
        assert call("run", manifest, "--yes").code == 0
        there.write("id,question,answer\n1,Who wrote it?,me\n", "quiz.csv")
        words = "uses none of the answers, because its questions, models or their settings are others: it retires them"
        message = call("run", manifest, "--yes").err
        assert words in message
        assert "To keep both, give the manifest another name." in message
        assert words not in call("run", manifest, "--yes").err


def test_a_setting_that_makes_paid_answers_useless_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS), "quiz.csv")
        other = '[[models]]\nname = "h"\nprovider = "openai"\nmodel = "larch-2-nano"\n'
        assert call("run", there.write(MANIFEST + other), "--yes").code == 0
        manifest = there.write(MANIFEST + "max_output_tokens = 900\n" + other)
        words = "g: max_output_tokens changed, so 3 answers that you paid for before are asked and paid for again"
        assert words in plan_notes(manifest)
        assert words in call("run", manifest, "--yes").err
        assert "paid for before" not in plan_notes(manifest)


def test_a_judges_setting_and_several_samples_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(quiz(QUESTIONS[:2]), "quiz.csv")
        judge = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "groq"\nmodel = "alderworks/pebble-20b"\n'
        assert call("run", there.write(f"{MANIFEST}samples = 2\n{judge}"), "--yes").code == 0
        told = plan_notes(
            there.write(f"{MANIFEST}samples = 2\nmax_output_tokens = 900\n{judge}max_output_tokens = 900\n")
        )
        assert told.count("g: max_output_tokens changed, so 4 answers that you paid for before") == 1
        assert told.count("j: max_output_tokens changed, so 4 verdicts that you paid for before") == 1


def test_a_done_run_says_how_an_answered_question_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        text = quiz_text(("openai",))
        assert call("run", there.write(text), "--yes").code == 0
        billed = there.server_total()
        told = call("retry").err
        assert "an answer is never bought again. To ask once more, set `samples = 2` under [[models]], or run a" in told
        again = text.replace("name = ", 'name = "again" #', 1) + "\n[policy]\nreuse = false\n"
        assert call("run", there.write(again), "--yes").code == 0
        assert there.server_total() == 2 * billed


def png(width: int, height: int, size: int = 60) -> str:
    """The beginning of a picture of this many pixels, and so many bytes, as base64."""
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(head + bytes(size - len(head))).decode()


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        ([png(90, 12_000)], "anthropic refuses 1 item for a picture with a side of more than 8,000 pixels (1)"),
        ([png(90, 90), png(90, 90, 9_000_000)], "anthropic refuses 1 item for a picture of more than 3,932,160 bytes"),
        ([png(2_001, 90)] * 21, "with a side of more than 2,000 pixels"),
        ([png(8_000, 8_000, 3_932_160)], None),
        ([png(2_001, 90)] * 20, None),
    ],
)
def test_pictures_that_a_provider_refuses_row_by_row_are_named_before_anything_is_sent(
    offline: Path, pictures: list[str], words: str | None
) -> None:
    write(offline, json.dumps({"id": "1", "question": "What is it?", "answer": "it", "images": pictures}), "quiz.jsonl")
    manifest = write(offline, MANIFEST.replace("quiz.csv", "quiz.jsonl").replace("openai", "anthropic"))
    told = plan_notes(manifest)
    assert ("anthropic refuses" in told) is (words is not None)
    assert words is None or words in told
