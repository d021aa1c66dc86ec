"""The command `cancel`: it waits until every batch has ended, collects what was paid, and says what goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, Ending, call, called_at, desk
from tests.support.lab import manifest_text, quiz_text

TWO = ("openai", "mistral")
LONG = 240.0
REFUSED = Fault(on="cancel", action="status", status=409, provider="openai")
FAILING = Fault(on="cancel", action="status", status=503, provider="openai", times=2)


def states(end: Ending) -> list[str]:
    batches = end.table()["batches"]
    assert isinstance(batches, list)
    return [batch["state"] for batch in batches]


def answered(end: Ending) -> int:
    jobs = end.table()["jobs"]
    assert isinstance(jobs, list)
    return sum(job["succeeded"] for job in jobs)


def in_flight(bench: Desk, after: float = 0.0, text: str = "") -> None:
    """A run of two models whose batches were sent so long ago."""
    assert call("run", bench.write(text or quiz_text(TWO, limit=4)), "--once", "--offline").code == 75
    bench.lab.clock.sleep(after)


def said_first(bench: Desk) -> str:
    return called_at(bench.lab.server.url, "openai", "mistral")


def test_cancel_waits_for_every_batch_to_end_and_collects_what_was_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=LONG) as bench:
        in_flight(bench, after=LONG / 2)
        end = call("cancel", "lab")
        status = call("status", "lab", "--json")
        assert (end.code, status.table()["state"], set(states(status))) == (0, "cancelled", {"collected"})
        assert "cancelled" in end.out
        assert 0 < answered(status) < 8
        assert answered(status) == sum(bench.lab.billed().values())
        assert float(str(status.table()["spent_usd"])) == float(bench.server_total()) > 0
        assert float(str(status.table()["reserved_usd"])) == 0
        again = call("cancel", "lab", "--json")  # a second time does no harm
        assert (again.code, again.err, again.json) == (0, "", status.json)  # nobody is called
        run = call("run", "manifest.toml", "--json")
        assert (run.code, run.table()["state"]) == (0, "cancelled")
        assert "cancelled" in call("run", "manifest.toml").err


def test_cancel_tells_on_plain_lines_how_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, FAILING, batch_seconds=LONG) as bench:
        in_flight(bench)
        end = call("cancel", "lab")
        assert end.code == 0
        first, *rest = end.err.removeprefix(said_first(bench)).splitlines()
        assert first.startswith("not stopped yet  predict-larch-2-mini.s0001.a1 (openai batch_")
        assert "503" in first
        assert any("collected" in line and "cancelled" in line for line in rest)
        assert bench.server_total() == 0


def test_with_no_wait_it_only_asks_and_returns_75_until_all_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, FAILING, batch_seconds=LONG) as bench:
        in_flight(bench)
        begun = bench.lab.clock.now()
        first, second, third = (call("cancel", "lab", "--no-wait", "--json") for _ in range(3))
        assert bench.lab.clock.now() == begun
        assert [end.code for end in (first, second, third)] == [75, 75, 75]
        assert states(first) == states(second) == states(third) == ["cancelling", "cancelling"]
        assert ("not stopped yet" in first.err, third.err) == (True, said_first(bench))
        assert call("cancel", "lab").code == 0
        assert call("cancel", "lab", "--no-wait").code == 0


def test_with_no_wait_a_run_of_which_nothing_was_sent_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(manifest_text())
        assert call("run", path, "--max-usd", "0.000001", "--offline").code == 3
        assert call("cancel", "lab", "--no-wait").code == 0
        assert call("cancel", "lab").code == 0
        assert call("status", "lab", "--json").table()["state"] == "cancelled"
        assert bench.lab.server.request_counts() == {}


def test_a_refused_cancel_is_told_and_the_batch_waited_for_and_ctrl_c_meanwhile_leaves_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, REFUSED, batch_seconds=LONG) as bench:
        in_flight(bench)

        def ctrl_c(_clock: object, _seconds: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(SystemClock, "sleep", ctrl_c)
            end = call("cancel", "lab")
        assert end.code == 75
        assert "409" in end.err
        assert "Batches asked to stop end at the provider; the same command asks the others and collects" in end.err
        end = call("cancel", "lab", "--json")
        assert (end.code, end.table()["state"]) == (0, "cancelled")
        assert "409" in end.err
        assert answered(end) == 4
        assert float(str(end.table()["spent_usd"])) == float(bench.server_total()) > 0
        assert set(bench.lab.billed().values()) == {1}


def test_a_run_that_was_cancelled_is_not_sent_on_by_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        in_flight(bench, 120.0, manifest_text(TWO))  # all is answered; the jury was never asked
        end = call("cancel", "lab", "--json")
        assert (end.code, answered(end)) == (0, 8)
        assert set(bench.lab.server.request_counts()) == set(TWO)


def test_cancel_of_a_run_that_is_done_says_so_and_its_state_and_exit_code_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Fault(on="row", action="error", status=400, provider="openai", match=r"-000002\b")
    with desk(tmp_path, monkeypatch, wrong) as bench:
        manifest = bench.write(manifest_text(limit=3))
        assert call("run", manifest).code == 5
        before = call("status", "lab", "--json").table()
        (job, _judges) = before["jobs"]  # type: ignore[misc]  # a list of two
        assert (job["errored"], job["succeeded"]) == (1, 2)
        end = call("cancel", "lab")
        assert end.code == 0
        assert "nothing to cancel" in end.err
        assert call("status", "lab", "--json").table() == before
        again = call("run", manifest)
        assert again.code == 5
        assert "1 request" in again.err
        assert "larch-2-mini" in again.out  # the leaderboard is shown as before
