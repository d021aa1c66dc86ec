"""plan, run, cancel, retry and resolve: how they end, what is bought, and what a person has to decide."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layton_batch.batches.machine import REFUSED_CALLS
from layton_batch.clock import SystemClock
from layton_batch.providers.openai import Together
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, Ending, call, called_at, desk, refused, write
from tests.support.lab import manifest_text, quiz_text, several

Open = Callable[..., AbstractContextManager[Desk]]


@pytest.fixture
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a desk in the working folder whose sandbox has these faults."""

    def open_desk(*faults: Fault, batch_seconds: float = 60.0) -> AbstractContextManager[Desk]:
        return desk(tmp_path, monkeypatch, *faults, batch_seconds=batch_seconds)

    return open_desk


def rows(end: Ending, name: str) -> list[dict[str, Any]]:
    return end.table()[name]  # type: ignore[return-value]


def states(end: Ending) -> list[str]:
    return [batch["state"] for batch in rows(end, "batches")]


def total(end: Ending, kind: str) -> int:
    """Return the requests of this kind over all jobs."""
    return sum(job[kind] for job in rows(end, "jobs"))


def amount(end: Ending, name: str) -> Decimal:
    return Decimal(str(end.table()[name]))


def reasons(end: Ending) -> str:
    """Return the reasons of the batches that wait for a person; each has one."""
    waiting = [batch["reason"] for batch in rows(end, "batches") if batch["state"] == "lost"]
    assert all(waiting)
    return " ".join(waiting)


def status() -> Ending:
    return call("status", "lab", "--json")


# ---- plan ------------------------------------------------------------------------------------------------------------


def test_plan_counts_jobs_names_missing_keys_and_writes_batch_files_only_where_it_is_told(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY")
    path = write(offline, manifest_text(("openai", "mistral"), top="[budget]\nmax_usd = 0.01"))
    before = set(offline.iterdir())
    end = call("plan", path, "--json")
    document = end.table()
    assert (end.code, document["items"], document["requests"], document["to_send"]) == (0, 4, 16, 16)
    assert [job["role"] for job in rows(end, "jobs")] == ["predict", "predict", "judge", "judge"]
    assert amount(end, "max_usd") == sum(Decimal(job["max_usd"]) for job in rows(end, "jobs"))
    assert [(key["variables"][0], key["is_set"]) for key in rows(end, "keys")] == [
        ("OPENAI_API_KEY", True), ("MISTRAL_API_KEY", False), ("GEMINI_API_KEY", True),
    ]  # fmt: skip
    assert "MISTRAL_API_KEY" in str(document["caveats"])
    assert "MISTRAL_API_KEY" in refused("run", path)
    assert set(offline.iterdir()) == before
    contents = []
    for name in ("a", "b"):
        assert call("plan", path, "--out", name).code == 0
        files = sorted((offline / name).rglob("*.jsonl"))
        contents.append([(one.relative_to(offline / name), one.read_bytes()) for one in files])
    assert contents[0] == contents[1]  # the same every time
    assert [len(content.splitlines()) for _, content in contents[0]] == [4, 4]


# ---- run -------------------------------------------------------------------------------------------------------------


def test_a_run_tick_by_tick_ends_with_75_until_it_is_done_and_events_tell_in_order_what_happened(at_desk: Open) -> None:
    with at_desk() as bench:
        path, ticks = bench.write(manifest_text()), []
        while not ticks or ticks[-1].code == 75:
            ticks.append(call("run", path, "--once", "--json"))
            bench.lab.clock.sleep(30)
            assert len(ticks) < 40
        assert (ticks[0].code, ticks[-1].code) == (75, 0)
        assert ["collected", "in_flight"] in [states(tick) for tick in ticks]  # what is collected is judged at once
        last = call("run", path, "--json")
        assert last.json == status().json
        assert call("status", "--json").json == [last.json]
        told = call("status", "lab", "--log").out
        events: list[dict[str, Any]] = call("status", "lab", "--log", "--json").json  # type: ignore[assignment]
        assert last.err == called_at(bench.lab.server.url, "openai", "gemini", "mistral")
    assert last.table()["state"] == "done"
    assert len(told.splitlines()) == len(events)
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    kinds = [event["kind"] for event in events]
    assert kinds.index("submitted") < kinds.index("ended") < kinds.index("collected")


def test_a_budget_stops_before_the_batch_that_could_break_it_and_a_larger_one_goes_on(at_desk: Open) -> None:
    with at_desk() as bench:
        path = bench.write(quiz_text())
        end = call("run", path, "--max-usd", "0.0001", "--json")
        assert (end.code, end.table()["state"]) == (3, "over_budget")
        assert json.dumps(end.table()["batches"]).count("held back: batch ") == 1
        assert call("cancel", "lab", "--no-wait").code == 0
        assert status().table()["state"] == "cancelled"
        assert call("cancel", "lab").code == 0
        assert bench.server_total() == 0
        assert call("retry", "lab").code == 0
        assert call("run", path, "--max-usd", "5").code == 0


def test_a_budget_and_a_model_without_a_price_end_with_3_in_plan_and_run(at_desk: Open) -> None:
    with at_desk() as bench:
        path = bench.write(manifest_text(top="[budget]\nmax_usd = 5\n", prices=""))
        for command in ("plan", "run"):
            end = call(command, path)
            assert (end.code, "no price is known for openai larch-2-mini" in end.err) == (3, True)
        assert bench.lab.server.ledger().rows == ()
        assert call("plan", bench.write(manifest_text(prices=""))).code == 0  # without a budget it can be asked


# ---- a lost batch ----------------------------------------------------------------------------------------------------


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Together be a provider without a list of batches."""
    monkeypatch.setattr(Together, "find", lambda _self, _submission: ())
    monkeypatch.setattr(Together, "capabilities", replace(Together.capabilities, certain_find=False))


@pytest.mark.usefixtures("unlisted")
def test_lost_batches_wait_for_a_persons_word_and_go_on_with_it(at_desk: Open) -> None:
    """The first was made, the others were not; a person says it of each but of the last, which is given up."""
    lost_reply, lost_calls = Fault("create", "drop_after", times=1), Fault("create", "drop", after=1, times=3)
    with at_desk(lost_reply, lost_calls) as bench:
        path = bench.write(several(4, "together"))
        end = call("run", path, "--json")
        assert (end.code, end.table()["state"], reasons(end) != "") == (4, "needs_person", True)
        lost = [batch for batch in rows(end, "batches") if batch["state"] == "lost"]
        names, aside = [batch["id"] for batch in lost], [Decimal(batch["set_aside_usd"]) for batch in lost]
        for wrong in ((names[0],), (names[0], "--adopt", "x", "--resubmit"), (names[0], "--adopt", "x")):
            refused("resolve", "lab", *wrong)
        assert all(name in refused("resolve", "lab", "nothing", "--resubmit") for name in names)
        assert call("run", path).code == 4
        with urllib.request.urlopen(f"{bench.lab.server.url}/sandbox/batches") as reply:
            words = [("--adopt", json.load(reply)[0]["id"]), ("--resubmit",), ("--not-made",), ("--give-up",)]
        unknown: list[Decimal] = []
        for name, word in zip(names, words, strict=True):
            assert call("resolve", "lab", name, *word).code == 0
            refused("resolve", "lab", name, *word)  # no longer lost
            unknown.append(amount(status(), "unknown_cost_usd"))
        end = call("run", path, "--json")
        assert (end.code, end.table()["state"], total(end, "succeeded")) == (5, "done", 9)
        unknown[3:] = [amount(end, "unknown_cost_usd")]  # what is given up may have been billed, once it has ended
        assert unknown == [0, aside[1], aside[1], aside[1] + aside[3]]
        assert amount(end, "reserved_usd") == 0
        assert (call("retry", "lab").code, call("run", path).code) == (0, 0)
        assert sorted(bench.lab.billed().values()) == [1] * 12


# ---- what only a person can mend or decide ---------------------------------------------------------------------------

ITEMS, TIMES = 3, REFUSED_CALLS
NO_CREDIT = "Your credit balance is too low to access this API."
NO_FILE = "Cannot find file file-1, or organization org-1 does not have access to it."
NO_QUOTA = "Look at your plan and billing details."
TROUBLES = {
    "calls": (
        Fault("create", "status", "anthropic", status=400, name=NO_CREDIT, times=TIMES),
        Fault("upload", "status", "openai", status=403, name=NO_QUOTA, times=TIMES),
        Fault("create", "status", "groq", status=429, kind="insufficient_quota", name=NO_QUOTA, times=TIMES),
    ),
    "results": (
        Fault("batch", "fail", "openai", kind="invalid_request", name=NO_FILE, times=TIMES),
        Fault("row", "error", "anthropic", status=400, name=NO_CREDIT, times=TIMES * ITEMS),
    ),
}


@pytest.mark.parametrize("where", TROUBLES)
def test_the_accounts_trouble_ends_no_request_and_the_same_command_goes_on_when_it_is_mended(
    at_desk: Open, where: str
) -> None:
    troubles = TROUBLES[where]
    requests = ITEMS * len(troubles)
    with at_desk(*troubles) as bench:
        path = bench.write(quiz_text(tuple(str(trouble.provider) for trouble in troubles), limit=ITEMS))
        waits = call("run", path, "--json")
        assert (waits.code, waits.table()["state"], total(waits, "succeeded")) == (4, "needs_person", 0)
        assert total(waits, "waiting") + total(waits, "cancelled") == requests
        assert all(trouble.name in reasons(waits) for trouble in troubles)
        assert bench.server_total() == 0
        assert call("leaderboard", "lab", "--format", "json").json == []
        mended = call("run", path, "--json")
        assert (mended.code, total(mended, "succeeded")) == (0, requests)
        assert set(bench.lab.billed().values()) == {1}


@pytest.mark.parametrize("decision", ["retry", "cancel"])
def test_a_batch_that_is_cancelled_elsewhere_keeps_its_answers_and_waits_for_a_person(
    at_desk: Open, decision: str
) -> None:
    with at_desk(Fault(on="batch", action="cancel", share=0.4, times=1)) as bench:
        quiz = quiz_text(limit=ITEMS)
        other_job = quiz_text(limit=ITEMS, top="[task_options]\nseed = 0\n")
        for text in (quiz, quiz, other_job):  # the same command decides nothing, nor a job that asks the same
            waits = call("run", bench.write(text), "--json")
            assert (waits.code, waits.table()["state"], total(waits, "succeeded")) == (4, "needs_person", 1)
            assert "`layton-batch retry`" in reasons(waits)
        assert sum(bench.lab.billed().values()) == 1
        assert call(decision, "lab").code == 0
        end = call("run", "manifest.toml", "--json")
        assert call("verify", "lab").code == 0
        kept = ("done", ITEMS) if decision == "retry" else ("cancelled", 1)
        assert (end.code, end.table()["state"], total(end, "succeeded"), reasons(end)) == (0, *kept, "")
        assert set(bench.lab.billed().values()) == {1}


def test_pages_follow_a_decision_about_a_model_that_the_manifest_no_longer_has(at_desk: Open) -> None:
    with at_desk(Fault(on="batch", action="cancel", share=0.4, times=1, provider="openai")) as bench:
        assert call("run", bench.write(quiz_text(("openai", "mistral"), limit=ITEMS))).code == 4
        assert call("run", bench.write(quiz_text(("mistral",), limit=ITEMS))).code == 0
        page = bench.lab.runs / "lab" / "site" / "run.html"
        assert "not by this run" in page.read_text("utf-8")
        assert call("retry", "lab").code == 0
        assert call("run", "manifest.toml").code == 0
        assert "not by this run" not in page.read_text("utf-8")
        assert call("verify", "lab").code == 0


# ---- cancel ----------------------------------------------------------------------------------------------------------

TWO = ("openai", "mistral")
LONG = 240.0


def in_flight(bench: Desk, *options: str) -> None:
    """Begin a run of two models, and leave it when its batches are at the providers."""
    assert call("run", bench.write(quiz_text(TWO, limit=4)), *(options or ("--once",)), "--offline").code == 75


def test_cancel_waits_for_every_batch_to_end_and_collects_what_was_paid(at_desk: Open) -> None:
    with at_desk(batch_seconds=LONG) as bench:
        begun = bench.lab.clock.now()
        in_flight(bench, "--until", datetime.fromtimestamp(begun + 0.75 * LONG).astimezone().strftime("%H:%M"))
        assert bench.lab.clock.now() - begun <= 0.75 * LONG
        assert call("cancel", "lab").code == 0
        end = status()
        assert (end.table()["state"], set(states(end))) == ("cancelled", {"collected"})
        assert 0 < total(end, "succeeded") == sum(bench.lab.billed().values()) < 8
        assert amount(end, "spent_usd") == bench.server_total() > 0
        assert amount(end, "reserved_usd") == 0
        again = call("cancel", "lab", "--json")  # a second time does no harm
        assert (again.code, again.err, again.json) == (0, "", end.json)  # nobody is called
        run = call("run", "manifest.toml", "--json")
        assert (run.code, run.table()["state"]) == (0, "cancelled")


def test_a_refused_cancel_is_told_and_the_batch_waited_for_unless_a_person_does_not_wait(
    at_desk: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(_clock: object, _seconds: float) -> None:
        raise KeyboardInterrupt

    with at_desk(Fault(on="cancel", action="status", status=409, provider="openai"), batch_seconds=LONG) as bench:
        in_flight(bench)
        begun = bench.lab.clock.now()
        end = call("cancel", "lab", "--no-wait", "--json")
        assert (end.code, states(end), "409" in end.err) == (75, ["cancelling", "cancelling"], True)
        assert bench.lab.clock.now() == begun
        with monkeypatch.context() as patch:
            patch.setattr(SystemClock, "sleep", ctrl_c)
            end = call("cancel", "lab")
        assert end.code == 75
        end = call("cancel", "lab", "--json")
        assert (end.code, end.table()["state"], total(end, "succeeded")) == (0, "cancelled", 4)
        assert amount(end, "spent_usd") == bench.server_total() > 0
        assert set(bench.lab.billed().values()) == {1}


# ---- what a provider may answer --------------------------------------------------------------------------------------


def test_answers_that_are_broken_refused_or_cut_are_charged_and_only_a_person_has_damaged_ones_sent_again(
    at_desk: Open,
) -> None:
    """Of another provider: a line under a custom_id that nobody sent, a second line with other content, half a line."""
    broken, odd = ("malformed_text", "refused", "truncated"), ("unknown_id", "duplicate", "malformed_line")
    faults = [
        Fault("row", action, provider, match=f"00000{number}", times=1)
        for provider, actions in (("openai", broken), ("mistral", odd))
        for number, action in enumerate(actions, 1)
    ]
    with at_desk(*faults) as bench:
        path = bench.write(manifest_text(TWO))
        end = call("run", path, "--json")
        assert (end.code, total(end, "errored"), total(end, "waiting")) == (5, 1, 0), end.err
        assert rows(end, "jobs")[0]["succeeded"] == 4
        # what was paid for is not bought again, also when it cannot be read: a person has a say in that
        assert set(bench.lab.billed().values()) == {1}
        assert (call("cancel", "lab").code, status().json) == (0, end.json)  # a run that is done stays so
        events: list[dict[str, Any]] = call("status", "lab", "--log", "--json").json  # type: ignore[assignment]
        assert {"unknown_custom_id", "duplicate_result", "unreadable_line"} <= {event["kind"] for event in events}
        # the two other odd lines cost what was billed
        mistral = [row for row in bench.lab.server.ledger().rows if row.model == "sirocco-large"]
        (damaged,) = (row for row in mistral if row.custom_id.split("-")[-2] == "000003")
        assert amount(end, "spent_usd") == bench.server_total() - (damaged.usd or 0) < bench.server_total()
        cost: dict[str, Any] = call("cost", "lab", "--format", "json").table()["total"]  # type: ignore[assignment]
        assert (end.table()["complete"], cost["complete"], cost["unknown_cost_requests"]) == (False, False, 1)
        assert cost["unknown_cost_usd"] == end.table()["unknown_cost_usd"] != "0"
        assert (cost["cost_usd"], "at least" in call("cost", "lab").out) == (end.table()["spent_usd"], True)
        assert call("retry", "lab").code == 0
        end = call("run", path, "--json")
        assert (end.code, total(end, "errored"), total(end, "waiting")) == (0, 0, 0), end.err
        assert sorted(bench.lab.billed().values())[-2:] == [1, 2]
        board: list[dict[str, Any]] = call("leaderboard", "lab", "--format", "json").json  # type: ignore[assignment]
        assert {row["model"]: (row["n_items"], row["n_unparsed"]) for row in board} == {
            "larch-2-mini": (4, 3),
            "sirocco-large": (4, 0),
        }
