"""What a provider may answer: a recorded outcome, nothing lost, nothing counted or paid twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, Ending, call, desk
from tests.support.lab import manifest_text, quiz_text

Document = dict[str, object]


def run(bench: Desk, text: str) -> Ending:
    return call("run", bench.write(text), "--json")


def kinds() -> dict[str, str]:
    events = cast("list[Document]", call("status", "lab", "--log", "--json").json)
    return {str(event["kind"]): str(event["detail"]) for event in events}


SHAPES = ("openai", "anthropic", "gemini", "mistral")
"""A provider of every shape of batch API."""
ODD_LINES = (
    Fault(on="row", action="unknown_id", match="000001"),
    Fault(on="row", action="duplicate", match="000002"),
    Fault(on="row", action="malformed_line", match="000003", times=len(SHAPES)),
)
"""A line under a custom_id nobody sent, a second line with other content, half a line: from every provider."""


def test_odd_result_lines_are_noted_and_only_a_person_has_damaged_answers_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, *ODD_LINES) as bench:
        text = quiz_text(SHAPES, limit=4)
        end = run(bench, text)
        assert end.code == 5, end.err  # a line of every model is damaged
        assert {"unknown_custom_id", "duplicate_result", "unreadable_line"} <= set(kinds())
        jobs = cast("list[Document]", end.table()["jobs"])
        assert sum(cast("int", job["errored"]) for job in jobs) == len(SHAPES)
        assert {cast("int", job["errored"]) + cast("int", job["succeeded"]) for job in jobs} <= {3, 4}
        assert {job["waiting"] for job in jobs} == {0}
        # an answer that was paid for and could not be read is not bought again: a person has a say in that
        assert set(bench.lab.billed().values()) == {1}
        assert "not in this run's bill" in kinds()["unreadable_line"]
        # the two other odd lines cost what was billed
        damaged = [row for row in bench.lab.server.ledger().rows if row.custom_id.split("-")[-2] == "000003"]
        spent = Decimal(str(end.table()["spent_usd"]))
        assert spent == bench.lab.server.ledger().total_usd - sum(row.usd for row in damaged[: len(SHAPES)])

        assert call("retry", "lab").code == 0
        end = run(bench, text)
        assert end.code == 0, end.err
        jobs = cast("list[Document]", end.table()["jobs"])
        assert {(job["requests"], job["succeeded"], job["waiting"]) for job in jobs} == {(4, 4, 0)}
        twice = {name for name, times in bench.lab.billed().items() if times > 1}
        assert {name.split("-")[-2] for name in twice} == {"000003"}


def test_a_reply_that_is_not_json_is_asked_again_or_looked_into_and_nothing_is_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ("upload", "create", "poll", "results")
    faults = [Fault(on=on, action="not_json", provider=provider, times=1) for provider in SHAPES for on in calls]
    with desk(tmp_path, monkeypatch, *faults) as bench:
        end = run(bench, quiz_text(SHAPES, limit=2))
        assert "Traceback" not in end.err
        assert end.code == (4 if lost(end) else 0), end.err
        assert set(bench.lab.billed().values()) <= {1}


def lost(end: Ending) -> list[str]:
    """Batches that wait for a person, each with a reason."""
    batches = cast("list[Document]", end.table()["batches"])
    waiting = [batch for batch in batches if batch["state"] == "lost"]
    assert all(batch["reason"] for batch in waiting)
    return [str(batch["id"]) for batch in waiting]


def test_an_unknown_status_is_named_to_the_person_and_never_taken_for_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = Fault(on="batch", action="unknown_status", provider="openai", name="pondering\x1b[2J")
    with desk(tmp_path, monkeypatch, odd) as bench:
        call("run", bench.write(quiz_text()), "--once")
        bench.lab.clock.sleep(60)
        call("run", "manifest.toml", "--once")
        shown = call("status", "lab")
        assert "pondering" in shown.out
        assert "\x1b" not in shown.out + call("status", "lab", "--log").out


def test_answers_that_are_broken_refused_cut_or_without_a_message_are_outcomes_of_their_own_and_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FileBatches._download

    def without_choices(self: FileBatches, ref: str, start: int = 0) -> Iterator[bytes]:
        for line in b"".join(whole(self, ref, start)).splitlines():
            row = json.loads(line)
            if row["custom_id"].split("-")[-2] == "000004":
                row["response"]["body"]["choices"] = []
            yield json.dumps(row).encode() + b"\n"

    monkeypatch.setattr(FileBatches, "_download", without_choices)
    faults = [
        Fault(on="row", action=action, provider="openai", match="00000" + number)
        for number, action in (("1", "malformed_text"), ("2", "refused"), ("3", "truncated"))
    ]
    with desk(tmp_path, monkeypatch, *faults) as bench:
        end = run(bench, manifest_text())
        assert end.code == 0, end.err
        assert cast("list[Document]", end.table()["jobs"])[0]["succeeded"] == 4  # paid answers all, never bought again
        assert set(bench.lab.billed().values()) == {1}
        assert Decimal(str(end.table()["spent_usd"])) == bench.lab.server.ledger().total_usd
        rows = cast("list[Document]", call("leaderboard", "lab", "--format", "json").json)
        assert rows[0]["n_items"] == 4
        assert cast("int", rows[0]["n_unparsed"]) >= 3
