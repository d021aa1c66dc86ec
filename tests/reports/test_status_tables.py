"""What `status` and the lines of `run` tell: where requests are, when they may end, what keeps them, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.cli.progress import progress_line
from layton_batch.columns import OutputForm
from layton_batch.records import Batch
from layton_batch.reports.run_result import (
    RunResult,
    jobs_table,
    money_line,
)
from layton_batch.runs.status import JobStatus, RunState, Status, place
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.store.rows import reserve
from layton_batch.text import duration
from tests.support.batch_states import ended, flying, planned, submitting
from tests.support.store_rows import NOW

JOB = JobStatus(
    id="predict-m", role="predict", provider="openai", model="m", requests=12, succeeded=3, errored=2, expired=0,
    cancelled=0, missing=1, waiting=6, planned=True, graded=False, errors={"invalid_request": 2},
    where={"planned": 3, "at_provider": 3},
)  # fmt: skip


def status(
    batches: Sequence[Batch] = (), state: RunState = RunState.RUNNING, *, jobs: Sequence[JobStatus] = (JOB,)
) -> Status:
    return Status("lab", state, None, Decimal("0.1"), Decimal("0.5"), tuple(jobs), tuple(batches))


def test_a_batch_is_planned_uploaded_at_the_provider_over_or_lost() -> None:
    batches = (planned(), planned(input_ref="file-1"), submitting(), flying(), ended(), flying(state=Lifecycle.LOST))
    assert [place(one.state, is_uploaded=bool(one.input_ref)) for one in batches] == [
        "planned",
        "uploaded",
        "uploaded",
        "at_provider",
        "ended",
        "lost",
    ]
    held = Decimal("0.50")
    assert [reserve(one.state, one.max_cost) for one in batches] == [0, 0, held, held, held, held]


def test_the_table_has_planned_uploaded_running_answered_and_failed_requests_apart() -> None:
    table = jobs_table([JOB, replace(JOB, where={"uploaded": 4, "ended": 1, "lost": 1})])
    assert list(table.cells(OutputForm.TERMINAL)) == [["predict", "openai", "2", "24", "3", "4", "5", "6", "6"]]


def test_json_tells_of_each_open_batch_when_it_was_read_is_asked_next_and_what_is_set_aside() -> None:
    one = flying(submitted_at=NOW, read_at=NOW + 60, due_at=NOW + 90, deadline_at=NOW + 3600)
    document = RunResult(replace(status([one, ended()]), expected_ends={one.id: NOW + 600})).as_json()
    batches = document["batches"]
    assert isinstance(batches, list)
    shown = batches[0]
    assert (shown["submitted_at"], shown["read_at"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")
    assert (shown["next_at"], shown["deadline_at"]) == ("2027-01-15T08:01:30Z", "2027-01-15T09:00:00Z")
    assert (shown["expected_end"], document["expected_end"]) == ("2027-01-15T08:10:00Z", "2027-01-15T08:10:00Z")
    assert shown["set_aside_usd"] == "0.50"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(119, "119 s"), (720, "12 min"), (12_600, "3.5 h"), (172_800, "2.0 d"), (-5, "0 s")],
)
def test_durations_are_short(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_what_the_provider_said_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    refused = ended(state=Lifecycle.COLLECTED, outcome=BatchOutcome.FAILED, reason="the file is broken")
    RunResult(status([refused], RunState.DONE), words={"predict-m": [("bad\x1b[2J prompt", 2)]}).show_status(NOW)
    said = " ".join(capsys.readouterr().out.split())
    assert "no answer predict-m: 12 requests = 3 succeeded + 2 errored (invalid_request 2) + 1 missing" in said
    assert "openai said (2): bad" in said
    assert "\x1b[2J" not in said


def test_what_was_spent_above_the_stated_bounds_is_said() -> None:
    dear = ended(state=Lifecycle.COLLECTED, spent_usd=Decimal("0.75"), max_cost=Decimal("0.50"))
    cheap = ended(id="other", state=Lifecycle.COLLECTED, spent_usd=Decimal("0.10"), max_cost=Decimal("0.50"))
    above = status([dear, cheap])
    assert above.above_bounds_usd == Decimal("0.25")
    assert RunResult(above).as_json()["above_bounds_usd"] == "0.25"
    assert "$0.2500 above the bounds that were set aside" in money_line(above)
    assert "above" not in money_line(status([cheap]))


def test_a_line_of_progress_says_how_far_the_run_is_and_where_requests_are() -> None:
    now = replace(status(jobs=[JOB, replace(JOB, provider="groq", waiting=0, where={})]), to_come=6)
    assert progress_line(now) == (
        "18 of 30 requests answered; spent $0.1000; set aside $0.5000; openai: 3 to send, 3 at the provider"
    )
