"""What only a person can mend or decide is no outcome of a request: an account's trouble, a cancel from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.batches.machine import REFUSED_CALLS
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, Ending, call, desk
from tests.support.lab import quiz_text

ITEMS = 3
NO_CREDIT = "Your credit balance is too low to access this API."
NO_FILE = "Cannot find file file-1, or organization org-1 does not have access to it."
NO_QUOTA = "Look at your plan and billing details."
TIMES = REFUSED_CALLS
TROUBLES = {
    "create": Fault("create", "status", "anthropic", status=400, name=NO_CREDIT, times=TIMES),
    "upload": Fault("upload", "status", "openai", status=403, name=NO_QUOTA, times=TIMES),
    "quota": Fault("create", "status", "openai", status=429, kind="insufficient_quota", name=NO_QUOTA, times=TIMES),
    "batch": Fault("batch", "fail", "openai", kind="invalid_request", name=NO_FILE, times=TIMES),
    "row": Fault("row", "error", "anthropic", status=400, name=NO_CREDIT, times=TIMES * ITEMS),
}


def run(bench: Desk) -> Ending:
    return call("run", bench.folder / "manifest.toml", "--json")


def reasons(status: Ending) -> str:
    """The reasons of the batches that wait for a person."""
    batches = status.table()["batches"]
    assert isinstance(batches, list)
    return " ".join(batch["reason"] for batch in batches if batch["state"] == "lost")


def succeeded(status: Ending) -> int:
    (job,) = status.table()["jobs"]  # type: ignore[misc]
    assert job["requests"] == job["succeeded"] + job["cancelled"] + job["waiting"]
    return int(job["succeeded"])


@pytest.mark.parametrize("where", TROUBLES)
def test_the_accounts_trouble_ends_no_request_and_the_same_command_goes_on_when_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    trouble = TROUBLES[where]
    with desk(tmp_path, monkeypatch, trouble) as bench:
        bench.write(quiz_text((trouble.provider,), limit=ITEMS))
        waits = run(bench)
        assert (waits.code, waits.table()["state"], succeeded(waits)) == (4, "needs_person", 0)
        assert trouble.name in reasons(waits)
        assert bench.server_total() == 0
        assert call("leaderboard", "lab", "--format", "json").json == []
        mended = run(bench)
        assert (mended.code, succeeded(mended)) == (0, ITEMS)
        assert set(bench.lab.billed().values()) == {1}


@pytest.mark.parametrize("decision", ["retry", "cancel"])
def test_a_batch_that_is_cancelled_elsewhere_keeps_its_answers_and_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    with desk(tmp_path, monkeypatch, Fault(on="batch", action="cancel", share=0.4, times=1)) as bench:
        quiz = quiz_text(limit=ITEMS)
        other_job = quiz_text(limit=ITEMS, top="[task_options]\nseed = 0\n")
        for text in (quiz, quiz, other_job):  # the same command decides nothing, nor a job that asks the same
            bench.write(text)
            waits = run(bench)
            assert (waits.code, waits.table()["state"], succeeded(waits)) == (4, "needs_person", 1)
            assert "`layton-batch retry`" in reasons(waits)
        assert sum(bench.lab.billed().values()) == 1
        assert call(decision, "lab").code == 0
        end = run(bench)
        assert call("verify", "lab").code == 0
        is_asked_again = decision == "retry"
        assert (end.code, end.table()["state"]) == (0, "done" if is_asked_again else "cancelled")
        assert (succeeded(end), reasons(end)) == (ITEMS if is_asked_again else 1, "")
        assert set(bench.lab.billed().values()) == {1}
