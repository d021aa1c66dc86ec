"""Checks where a wrong guess costs money: keys, models, references, ids, settings that buy again."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.sandbox import Sandbox
from layton_batch.settings import Settings
from tests.support.cli_harness import call, desk, plan_notes, refused, write
from tests.support.lab import manifest_text, quiz_text
from tests.support.paths import ROOT

QUIZ = "question,answer\nWhat is 2 + 2?,4\nColour of snow?,white\n"
GIVEN = 'name = "a"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
MANIFEST = GIVEN + '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_of_another_provider_is_refused_before_it_is_sent(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ant-api03-good")
    manifest = write(offline, quiz_text())
    for command in (("run", manifest), ("check", manifest, "--offline", "--json"), ("plan", manifest, "--offline")):
        ending = call(*command)
        shown = " ".join((ending.out + ending.err).split())
        assert (ending.code, "good" in shown) == (2, False)
        assert "OPENAI_API_KEY in the environment: the value begins as a key of anthropic" in shown


def test_a_key_of_openai_does_not_go_to_anthropic(offline: Path) -> None:
    settings = Settings.from_environment({"ANTHROPIC_API_KEY": "sk-proj-x"}, offline)
    assert "begins as a key of openai, and it would go to anthropic" in str(settings.key_trouble("anthropic"))
    for key in ("sk-or-v1-x", "xxx"):  # a key of any form may go to an address of one's own
        environment = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "https://gateway.example/v1"}
        assert Settings.from_environment(environment, offline).access("openai").api_key == key


# ---- models ----------------------------------------------------------------------------------------------------------

TODAY = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
GONE = quiz_text(limit=2, prices="").replace("larch-2-mini", "gpt-4-turbo")
UNKNOWN = quiz_text(limit=2, prices="").replace("larch-2-mini", "no-such-model")
NOT_KNOWN = "no-such-model is not known to openai, which was asked"


@pytest.fixture
def own_addresses(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Providers at their own addresses, which nothing may call, on the day of the table."""

    def refuse(*_: object) -> None:
        raise AssertionError("a call to the network")

    for name in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI", "MISTRAL", "TOGETHER", "GROQ", "DOUBLEWORD", "XAI"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda _self: TODAY)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return offline


def test_a_model_that_is_gone_is_refused_before_anything_is_made(own_addresses: Path) -> None:
    manifest = write(own_addresses, GONE)
    planned = call("plan", manifest, "--json", "--offline")
    (reason,) = planned.table()["refused"]  # type: ignore[misc]  # a list of one
    assert (planned.code, planned.table()["requests"]) == (2, 2)
    assert "gpt-4-turbo was shut down on 2026-10-23: use gpt-5.6-sol" in reason
    assert "gpt-4-turbo was shut down on 2026-10-23" in refused("run", manifest)
    assert not (own_addresses / "runs").exists()
    today = call("plan", ROOT / "manifests" / "layton-today.toml", "--json", "--offline")
    assert (today.code, today.table()["refused"], today.table()["max_usd"] is None) == (0, [], False)


@pytest.fixture
def own_sandbox(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox whose addresses pass for the providers' own."""
    with Sandbox() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Settings, "is_elsewhere", lambda _self, _provider: False)
        yield server


def test_run_refuses_a_model_that_its_provider_does_not_have_before_anything_is_made_or_paid(
    own_sandbox: Sandbox, offline: Path
) -> None:
    manifest = write(offline, UNKNOWN)
    for number, command in enumerate(("run", "plan", "check"), 1):
        end = call(command, manifest)
        assert (end.code, NOT_KNOWN in " ".join((end.out + end.err).split())) == (2, True)
        assert own_sandbox.request_counts()["openai"]["models"] == number
    assert not (offline / "runs").exists()
    for command in (("plan", manifest, "--offline"), ("check", manifest, "--offline")):
        assert call(*command).code == 0
    assert call("run", manifest, "--once", "--offline", "--yes").code == 75
    assert call("run", manifest, "--once", "--yes").code in (0, 75)  # a run that goes on does not ask
    assert own_sandbox.request_counts()["openai"]["models"] == 3


# ---- items -----------------------------------------------------------------------------------------------------------


def choices(first: int, count: int) -> str:
    """Write questions whose right options are ``first`` and the two after it."""
    rows = ({"question": f"Number {n}?", "options": list("wxyz"), "answer": first + n % 3} for n in range(count))
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("question,answer\na?,1\nb?,\nc?,\nd?,4\n", [(3, "no reference"), (4, "no reference")]),
        ("id,question,answer\n7,Who  wrote it?,me\n8,who wrote it?,me\n", [(3, "duplicate")]),
        ("id,question,answer\n3,a?,1\n4,b?,2\n,c?,3\n,d?,4\n", [(4, "same id"), (5, "same id")]),
        ("item_id,question,A,B,answer\n1,a?,x,y,A\n,b?,z,w,A\n", [(3, "missing")]),
        ("id,question,answer\n,a?,1\n,b?,2\n", []),
        (choices(1, 3), [(None, "options")]),  # may be counted from 1
        (choices(1, 2), []),
        (choices(0, 12), []),
    ],
)
def test_items_that_would_be_paid_for_in_vain_are_named_by_check(
    offline: Path, text: str, findings: list[tuple[int | None, str]]
) -> None:
    path = write(offline, text, "items.jsonl" if text.startswith("{") else "items.csv")
    found: list[dict[str, object]] = call("check", path, "--json").table()["findings"]  # type: ignore[assignment]
    assert [row["kind"] for row in found] == [kind for _, kind in findings]
    assert all(row["line"] == line for row, (line, _) in zip(found, findings, strict=True) if line)


def test_a_plan_and_a_run_name_them_too_before_anything_is_sent(offline: Path) -> None:
    write(offline, "id,question,answer\n1,a?,1\n2,b?,\n3,A?,1\n", "quiz.csv")
    manifest = write(offline, MANIFEST)
    notes = plan_notes(manifest)
    assert ("1 of 3 items without a reference ('2')" in notes, "item '3' asks the same as '1': " in notes) == (
        True,
        True,
    )
    assert "1 of 3 items without a reference ('2')" in call("run", manifest, "--max-usd", "0", "--offline").err


def test_an_import_of_letters_in_another_order_of_options_changes_nothing(offline: Path) -> None:
    options = ["Rome", "Paris", "Bonn", "Oslo"]
    write(offline, json.dumps({"id": "1", "question": "City?", "options": options, "answer": "Paris"}), "items.jsonl")
    manifest = write(offline, 'name = "m"\ntask = "mcq_idk"\n[items]\nsource = "items.jsonl"\n')
    endings = []
    for n in range(4):
        row = {"item_id": "1", "response": "Answer: A", "options": [*options[n:], *options[:n]]}
        write(offline, json.dumps(row), "p.jsonl")
        endings.append(call("import", manifest, "--model", f"finch-{n}", "--predictions", "p.jsonl"))
    assert sorted(ending.code for ending in endings) in ([0, 2, 2, 2], [2, 2, 2, 2])  # one order is the run's own
    wrong = next(ending for ending in endings if ending.code)
    assert "p.jsonl, line 1: the model saw the options of item '1' in another order than the run" in wrong.err
    assert call("status", "m", "--json").out.count('"finch-') == sum(not ending.code for ending in endings)


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
        ([png(2_001, 90)] * 20, None),
    ],
)
def test_pictures_that_a_provider_refuses_row_by_row_are_named_before_anything_is_sent(
    offline: Path, pictures: list[str], words: str | None
) -> None:
    write(offline, json.dumps({"id": "1", "question": "What is it?", "answer": "it", "images": pictures}), "quiz.jsonl")
    told = plan_notes(write(offline, MANIFEST.replace("quiz.csv", "quiz.jsonl").replace("openai", "anthropic")))
    assert ("anthropic refuses" in told) is (words is not None)
    assert words is None or words in told


# ---- manifests that buy again ----------------------------------------------------------------------------------------


def test_edits_that_retire_paid_answers_or_ask_them_again_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "groq"\nmodel = "alderworks/pebble-20b"\n'
    with desk(tmp_path, monkeypatch) as there:
        there.write(QUIZ, "quiz.csv")
        assert call("run", there.write(f"{MANIFEST}samples = 2\n{judge}"), "--yes").code == 0
        limited = f"{MANIFEST}samples = 2\nmax_output_tokens = 900\n{judge}max_output_tokens = 900\n"
        told = plan_notes(there.write(limited))
        assert told.count("g: max_output_tokens changed, so 4 answers that you paid for before") == 1
        assert told.count("j: max_output_tokens changed, so 4 verdicts that you paid for before") == 1
        there.write("question,answer\nWho wrote it?,me\n", "quiz.csv")
        words = "uses none of the answers, because its questions, models or their settings are others: it retires them"
        endings = [call("run", tmp_path / "manifest.toml", "--yes") for _ in range(2)]
        assert [(ending.code, words in ending.err) for ending in endings] == [(0, True), (0, False)]


@pytest.mark.parametrize(
    ("top", "is_told"),
    [
        ('[task_options]\nfence = false\n[prompts]\njudge_submission = "s.txt"\n', True),
        ("", False),
    ],
)
def test_plan_and_the_start_of_run_say_where_a_participants_text_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str, is_told: bool
) -> None:
    words = "a participant's text is not fenced in the judges' prompts"
    with desk(tmp_path, monkeypatch) as there:
        there.write("Right: {answer} {solution} {justification}\nSaid: {submission}", "s.txt")
        path = there.write(manifest_text(top=top, limit=1))
        assert (words in plan_notes(path)) is is_told
        begun, goes_on = call("run", path, "--once"), call("run", path, "--once")
        assert (words in " ".join(begun.err.split())) is is_told
        assert words not in " ".join(goes_on.err.split())
