"""A manifest that is wrong is refused before anything is sent: exit code 2, and file, key and reason in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_harness import call, write
from tests.support.lab import manifest_text

GOOD = manifest_text()


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


WRONG = {
    "not TOML": ("name = ", ["manifest.toml", "not TOML"]),
    "an unknown key": (changed("limit = 4", "limt = 4"), ["items.limt", "did you mean 'limit'"]),
    "a gold set that is not there": (manifest_text(top='[gold]\nsource = "no.jsonl"'), ["no.jsonl", "no such file"]),
    "items that are not there": (manifest_text(items="no.jsonl"), ["no.jsonl", "no such file"]),
    "a name that leaves the folder": (changed('name = "lab"', 'name = "../lab"'), ["name"]),
}  # fmt: skip


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_manifest_names_file_key_and_reason_and_nothing_is_sent(
    offline: Path, wrong: str, command: str
) -> None:
    text, said = WRONG[wrong]
    end = call(command, write(offline, text))
    assert end.code == 2
    assert end.out == ""
    assert [part for part in said if part not in end.err] == []
    assert "Traceback" not in end.err
    assert not (offline / "runs").exists()


def test_a_plan_says_that_seats_stay_empty_and_that_labels_are_not_there_yet(offline: Path) -> None:
    text = manifest_text(top='[gold]\nannotations = "labels.jsonl"').replace("seats = 1", "seats = 30")
    notes = json.loads(call("plan", write(offline, text), "--offline", "--json").out)["caveats"]
    assert "[jury] seats = 30, and the panel has 2 judges of another maker for larch-2-mini: only these judge" in notes
    assert (
        "[gold] annotations: labels.jsonl is not there yet, so no label of it counts; labels of `label` and "
        "`label import` count without it"
    ) in notes


@pytest.mark.parametrize("usd", ["nan", "-1", "ten", "", "inf"])
def test_a_budget_on_the_command_line_that_is_no_amount_is_refused(offline: Path, usd: str) -> None:
    end = call("run", write(offline, GOOD), "--max-usd", usd)
    assert end.code == 2
    assert "--max-usd" in end.err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--until", "25:00"), ("--until", "soon"), ("--poll-seconds", "nan"), ("--poll-seconds", "3601")],
)
def test_a_time_that_is_none_is_refused(offline: Path, option: str, value: str) -> None:
    end = call("run", write(offline, GOOD), option, value)
    assert end.code == 2
    assert option in end.err


def test_a_missing_key_names_the_variable_and_nothing_is_made(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY")
    end = call("run", write(offline, manifest_text(("openai", "mistral"))))
    assert end.code == 2
    assert "MISTRAL_API_KEY" in end.err
    assert not (offline / "runs").exists()


def test_a_key_with_characters_no_header_can_carry_is_refused_without_showing_it(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-geheim\u2028x")
    end = call("run", write(offline, GOOD))
    assert end.code == 2
    assert "OPENAI_API_KEY" in end.err
    assert "geheim" not in end.err
