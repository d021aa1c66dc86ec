"""plan, run, status, events, cancel, resolve, score: what they print, where, and how they end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

from layton_batch.providers.together import Together
from layton_batch.sandbox import Fault
from tests.cli.conftest import NOBODY
from tests.support.cli_harness import Desk, Ending, call, called_at, desk, write
from tests.support.lab import manifest_text, quiz_text

STATUS_KEYS = {"run", "state", "spent_usd", "jobs", "batches"}
JOB_KEYS = {"id", "role", "provider", "model", "requests", "succeeded", "errored", "expired", "cancelled", "missing",
            "waiting"}  # fmt: skip
BATCH_KEYS = {"id", "job", "provider", "state", "outcome", "provider_id", "provider_status", "requests", "attempt",
              "reason"}  # fmt: skip

Document = dict[str, object]


def listed(end: Ending, name: str) -> list[Document]:
    return cast("list[Document]", end.table()[name])


def test_plan_prints_the_jobs_and_their_bound_and_leaves_nothing(offline: Path) -> None:
    path = write(offline, manifest_text(("openai", "mistral"), top="[budget]\nmax_usd = 0.01"))
    before = set(offline.iterdir())
    told, document = call("plan", path), call("plan", path, "--json").table()
    assert (told.code, told.err) == (0, called_at(NOBODY, "openai", "mistral", "gemini"))
    assert set(offline.iterdir()) == before
    assert document["items"] == 4
    assert document["requests"] == 16
    jobs = cast("list[Document]", document["jobs"])
    assert [job["role"] for job in jobs] == ["predict", "predict", "judge", "judge"]
    assert Decimal(str(document["max_usd"])) == sum(Decimal(str(job["max_usd"])) for job in jobs)
    lines = told.out.splitlines()
    assert lines[0] == "lab  2 models × 4 items, 1 judge; nothing was sent"
    assert lines[1].rstrip() == "to send 16 of 16 requests; 0 answered already"
    assert re.fullmatch(r"cost    expected \$[\d.]+, at most \$[\d.]+; budget \$0\.0100 *", lines[2])
    assert lines[3].rstrip() == "refused nothing"
    assert lines[4].startswith("keys    OPENAI_API_KEY, MISTRAL_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY")
    assert "the upper bound is above the budget" in " ".join(told.out.split())


def test_a_plans_notes_on_providers_are_a_line_each(offline: Path) -> None:
    path = write(offline, manifest_text(("openai", "mistral")))
    notes = [line for line in call("plan", path).out.splitlines() if line.startswith("note")]
    for name in ("openai", "mistral", "gemini"):
        assert len([line for line in notes if line.startswith(f"note {name}: ")]) == 1


def test_plan_writes_batch_files_where_it_is_told_the_same_every_time(offline: Path) -> None:
    path = write(offline, manifest_text(("openai", "gemini")))
    contents = []
    for name in ("a", "b"):
        assert call("plan", path, "--out", name).code == 0
        files = sorted((offline / name).rglob("*.jsonl"))
        contents.append([(one.relative_to(offline / name), one.read_bytes()) for one in files])
    assert contents[0] == contents[1]
    assert [len(content.splitlines()) for _, content in contents[0]] == [4, 4]


def test_plan_without_keys_says_what_run_will_miss(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    path = write(offline, manifest_text())
    document = call("plan", path, "--json").table()
    caveats = cast("list[str]", document["caveats"])
    assert any("OPENAI_API_KEY" in caveat for caveat in caveats)
    keys = cast("list[Document]", document["keys"])
    assert [key["is_set"] for key in keys] == [False, True]
    assert keys[1]["variables"] == ["GEMINI_API_KEY", "GOOGLE_API_KEY"]
    assert "missing OPENAI_API_KEY" in [line.rstrip() for line in call("plan", path).out.splitlines()]


def test_a_tick_that_collects_answers_sends_what_is_judged_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(manifest_text())
        call("run", path, "--once")
        bench.lab.clock.sleep(90)
        end = call("run", path, "--once", "--json")
        batches = listed(end, "batches")
    assert end.code == 75
    assert [(str(batch["job"]).split("-")[0], batch["state"]) for batch in batches] == [
        ("predict", "collected"),
        ("judge", "in_flight"),
    ]


def test_a_run_tick_by_tick_ends_with_75_until_it_is_done_and_events_tell_in_order_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text())
        codes: list[int] = []
        while not codes or codes[-1] == 75:
            codes.append(call("run", path, "--once").code)
            bench.lab.clock.sleep(30)
            assert len(codes) < 40
        assert codes[-1] == 0
        assert codes[0] == 75
        last = call("run", path, "--json")
        assert last.json == call("status", "lab", "--json").json
        assert call("status", "--json").json == [last.json]
        told, documents = (
            call("status", "lab", "--log"),
            cast("list[Document]", call("status", "lab", "--log", "--json").json),
        )
    assert set(last.table()) >= STATUS_KEYS
    assert last.table()["state"] == "done"
    assert all(set(job) >= JOB_KEYS for job in listed(last, "jobs"))
    assert all(set(batch) >= BATCH_KEYS for batch in listed(last, "batches"))
    assert last.err == called_at(bench.lab.server.url, "openai")
    assert len(told.out.splitlines()) == len(documents)
    assert [event["seq"] for event in documents] == sorted(cast("int", event["seq"]) for event in documents)
    kinds = [event["kind"] for event in documents]
    assert kinds.index("submitted") < kinds.index("ended") < kinds.index("collected")


def test_until_returns_75_at_that_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=1e6) as bench:
        in_five_minutes = datetime.fromtimestamp(bench.lab.clock.now() + 300).astimezone().strftime("%H:%M")
        begun = bench.lab.clock.now()
        end = call("run", bench.write(quiz_text()), "--until", in_five_minutes)
        assert end.code == 75
        assert bench.lab.clock.now() - begun <= 300
        assert "The same command continues it." in end.err


def test_a_budget_stops_before_the_batch_that_could_break_it_and_a_larger_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text())
        end = call("run", path, "--max-usd", "0.0001", "--json")
        assert end.code == 3
        assert end.table()["state"] == "over_budget"
        assert bench.lab.server.ledger().rows == ()
        told = call("run", path, "--max-usd", "0.0001")
        assert (told.code, "max-usd" in told.err) == (3, True)
        assert call("run", path, "--max-usd", "5").code == 0


def test_a_budget_and_a_model_without_a_price_are_said_to_need_a_price_by_plan_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(manifest_text(top="[budget]\nmax_usd = 5\n", prices=""))
        for command in ("plan", "run"):
            end = call(command, path)
            said = " ".join(end.err.split())
            assert end.code == 3
            assert "no price is known for openai larch-2-mini" in said
            assert "add [[prices]]" in said
            assert "Raise" not in said
        assert bench.lab.server.ledger().rows == ()
        assert call("plan", bench.write(manifest_text(prices=""))).code == 0  # without a budget it can be asked


def lose(bench: Desk, path: Path) -> str:
    """Run until the batch is lost; its id."""
    end = call("run", path, "--json")
    assert end.code == 4
    (batch,) = (one for one in listed(end, "batches") if one["state"] == "lost")
    assert batch["reason"]
    assert end.table()["state"] == "needs_person"
    return str(batch["id"])


@pytest.mark.parametrize("word", ["adopt", "resubmit", "not-made"])
def test_a_lost_batch_waits_for_a_persons_word_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    action = "drop_after" if word == "adopt" else "drop"
    monkeypatch.setattr(Together, "find", lambda _self, _submission: ())  # as where an API has no list
    monkeypatch.setattr(Together, "capabilities", replace(Together.capabilities, certain_find=False))
    fault = Fault(on="create", action=action, provider="together", times=1)
    with desk(tmp_path, monkeypatch, fault) as bench:
        path = bench.write(quiz_text(("together",)))
        name = lose(bench, path)
        for wrong in ((name,), (name, "--adopt", "x", "--resubmit"), ("nothing", "--resubmit"), (name, "--adopt", "x")):
            refused = call("resolve", "lab", *wrong)
            assert refused.code == 2, wrong
        unknown = call("resolve", "lab", "nothing", "--resubmit").err
        assert f"run lab has no batch 'nothing'; the lost batches of the run: {name}" in unknown
        told = call("run", path)
        assert (told.code, "resolve" in told.err) == (4, True)
        words = ("--adopt", known_batch(bench)) if word == "adopt" else (f"--{word}",)
        assert call("resolve", "lab", name, *words).code == 0
        assert call("resolve", "lab", name, *words).code == 2  # no longer lost
        assert call("run", path).code == 0
        assert set(bench.lab.billed().values()) == {1}
        unknown = Decimal(str(call("status", "lab", "--json").table()["unknown_cost_usd"]))
        assert (unknown > 0) is (word == "resubmit")


def test_a_lost_batch_that_is_given_up_ends_its_requests_and_what_it_may_have_cost_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Together, "find", lambda _self, _submission: ())
    monkeypatch.setattr(Together, "capabilities", replace(Together.capabilities, certain_find=False))
    with desk(tmp_path, monkeypatch, Fault(on="create", action="drop", provider="together", times=1)) as bench:
        path = bench.write(quiz_text(("together",), limit=2))
        name = lose(bench, path)
        held = call("status", "lab", "--json").table()["reserved_usd"]
        assert call("resolve", "lab", name, "--give-up").code == 0
        ended = call("run", path, "--json")
        assert (ended.code, ended.table()["state"]) == (5, "done")
        assert (Decimal(str(ended.table()["reserved_usd"])), ended.table()["unknown_cost_usd"]) == (0, held)
        assert not bench.lab.billed()
        assert call("retry", "lab").code == 0
        assert call("run", path).code == 0
        assert set(bench.lab.billed().values()) == {1}


def known_batch(bench: Desk) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{bench.lab.server.url}/sandbox/batches") as reply:
        return str(json.load(reply)[0]["id"])
