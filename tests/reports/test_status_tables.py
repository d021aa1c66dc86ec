"""What `status` and the lines of `run` tell: where requests are, when they may end, what keeps them, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.cli.outages import AGAIN, NONE_REACHED, ProviderOutages
from layton_batch.cli.progress import routine_lines, waiting_line
from layton_batch.records import Batch, Event
from layton_batch.reports.status_tables import duration, jobs_table, next_steps, print_status, status_json
from layton_batch.runs.status import JobStatus, RunState, Status, place, reserved
from layton_batch.states import BatchOutcome, Lifecycle
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


def failing(provider: str = "openai", reason: str = "openai: poll: connection refused", **changes: object) -> Batch:
    return flying(**{"provider": provider, "reason": reason, "failures": 1, "due_at": NOW + 60.0, **changes})


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
    assert [reserved(one) for one in batches] == [0, 0, held, held, held, held]


def test_the_table_has_planned_uploaded_running_answered_and_failed_requests_apart() -> None:
    table = jobs_table([JOB, replace(JOB, where={"uploaded": 4, "ended": 1, "lost": 1})])
    assert table.rows == (("predict", "openai", "2", "24", "3", "4", "5", "6", "6"),)


def test_events_of_batches_are_added_up_by_stage_and_those_of_removed_models_too() -> None:
    batches = [flying(id=f"{job}.s{number}.a1", job_id=job) for job in ("predict-m", "predict-gone") for number in "12"]
    events = [Event(seq, NOW, batch.id, "withdrawn", "") for seq, batch in enumerate(batches)]
    assert [line.partition(" ")[2] for line in routine_lines(events, status(batches))] == [
        "withdrawn  predict: 2 batches, 6 requests (openai 2)",
        "withdrawn  removed models: 2 batches, 6 requests (openai 2)",
    ]


@pytest.mark.parametrize(
    ("first", "note"),
    [
        (JOB, "2 jobs not planned yet: 6 answers still to come"),
        (replace(JOB, succeeded=9, waiting=0, where={}), "2 jobs not planned yet: the next step plans what is judged"),
    ],
)
def test_a_note_on_unplanned_jobs_says_what_they_wait_for(first: JobStatus, note: str) -> None:
    judging = replace(JOB, role="judge", requests=0, succeeded=0, errored=0, missing=0, waiting=0, planned=False)
    assert jobs_table([first, judging, judging]).notes == (note,)
    assert jobs_table([first]).notes == ()


def test_json_tells_of_each_open_batch_when_it_was_read_is_asked_next_and_what_is_set_aside() -> None:
    one = flying(submitted_at=NOW, read_at=NOW + 60, due_at=NOW + 90, deadline_at=NOW + 3600)
    document = status_json(replace(status([one, ended()]), expected_ends={one.id: NOW + 600}))
    batches = document["batches"]
    assert isinstance(batches, list)
    shown = batches[0]
    assert (shown["submitted_at"], shown["read_at"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")
    assert (shown["next_at"], shown["deadline_at"]) == ("2027-01-15T08:01:30Z", "2027-01-15T09:00:00Z")
    assert (shown["expected_end"], document["expected_end"]) == ("2027-01-15T08:10:00Z", "2027-01-15T08:10:00Z")
    assert shown["set_aside_usd"] == "0.50"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(45, "45 s"), (119, "119 s"), (720, "12 min"), (12_600, "3.5 h"), (172_800, "2.0 d"), (-5, "0 s")],
)
def test_durations_are_short(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_what_the_provider_said_and_what_to_do_next_stand_below(capsys: pytest.CaptureFixture[str]) -> None:
    refused = ended(state=Lifecycle.COLLECTED, outcome=BatchOutcome.FAILED, reason="the file\x1b[2J is broken")
    print_status(status([refused], RunState.DONE), NOW, {"predict-m": [("bad prompt", 2)]})
    said = " ".join(capsys.readouterr().out.split())
    assert "no answer predict-m: 12 requests = 3 succeeded + 2 errored (invalid_request 2) + 1 missing" in said
    assert "openai said (2): bad prompt" in said
    assert "failed predict-m: the file" in said
    assert "\x1b[2J" not in said
    correct, retry = next_steps(status([refused], RunState.DONE))
    assert correct == (
        "openai refused 2 requests of m, and would refuse the same again. Correct 'm' in [[models]] of the manifest by "
        "what openai said, then `layton-batch run` it again."
    )
    assert retry == "1 request without an answer: `layton-batch retry lab` gives them one more attempt."


def test_a_budget_that_reserves_expected_costs_is_not_told_to_do_so() -> None:
    stopped = status([planned()], RunState.OVER_BUDGET)
    [advice], [other] = next_steps(stopped), next_steps(stopped, reserves_expected=True)
    assert 'set bound = "expected"' in advice
    assert "bound" not in other
    assert "lower [budget] safety" in other


def test_a_lost_batch_is_named_with_the_two_commands_that_end_it() -> None:
    [step] = next_steps(status([flying(state=Lifecycle.LOST)], RunState.NEEDS_PERSON))
    assert "layton-batch resolve lab predict-m.s0000.a1 --adopt ID (it is there), --resubmit (it is not), or" in step


def test_a_cancelled_run_names_the_commands_that_continue_it() -> None:
    [step] = next_steps(status([ended()], RunState.CANCELLED))
    assert "`layton-batch retry lab` and then `run` continue it" in step


def test_a_run_without_models_has_no_leaderboard_to_see() -> None:
    [step] = next_steps(status([ended()], RunState.DONE, jobs=[]))
    assert "add [[models]]" in step
    assert "leaderboard" not in step


def test_an_outage_says_what_hangs_on_it_once_and_when_it_is_over() -> None:
    outages, down = ProviderOutages(), status([failing(), planned(provider="groq")])
    [said] = outages.lines(down, NOW)
    assert said.startswith(
        "openai cannot be reached (1 batch is running there, nothing is lost); next try 08:01:00 UTC"
    )
    assert list(outages.lines(down, NOW + 30)) == []
    assert len(list(outages.lines(down, NOW + AGAIN))) == 1
    assert list(outages.lines(status([flying()]), NOW + AGAIN + 1)) == ["openai answers again"]


def test_an_outage_is_told_by_its_status_and_a_refusal_is_none() -> None:
    [said] = ProviderOutages().lines(
        status([failing(reason="openai: poll: HTTP 503: busy", failed_status=503), planned(provider="groq")]), NOW
    )
    assert said.startswith("openai answers with HTTP 503 (")
    assert (
        list(ProviderOutages().lines(status([failing(reason="openai: poll: HTTP 403: no", failed_status=403)]), NOW))
        == []
    )


def test_a_refusal_that_keeps_a_batch_from_being_sent_is_told() -> None:
    reason = "not sent: openai does not take its file: HTTP 404: unknown request URL"
    outages, refused = ProviderOutages(), status([planned(reason=reason, failures=1, failed_status=404)])
    [said] = outages.lines(refused, NOW)
    assert said.startswith("openai answers with HTTP 404 (1 batch waits to be sent, nothing is lost); next try ")
    assert said.endswith(reason)
    assert list(outages.lines(refused, NOW + NONE_REACHED)) == []  # it can be reached


def test_after_five_minutes_without_any_provider_one_line_points_to_doctor() -> None:
    outages, down = ProviderOutages(), status([failing(), failing("groq", "groq: poll: timed out")])
    first = list(outages.lines(down, NOW))
    assert len(first) == 2
    assert list(outages.lines(down, NOW + NONE_REACHED - 1)) == []
    [said] = outages.lines(down, NOW + NONE_REACHED)
    assert "`layton-batch doctor`" in said
    assert list(outages.lines(down, NOW + NONE_REACHED + 1)) == []


def test_a_run_that_waits_says_where_its_batches_are() -> None:
    said = waiting_line(status([flying(due_at=NOW + 30), planned(provider="groq", due_at=NOW + 60)]), NOW)
    assert said == (
        "08:00:00 waiting  1 batch at providers (openai 1); 1 batch here (groq 1); spent $0.1000; next look 08:00:30"
    )
