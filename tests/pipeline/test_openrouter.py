"""A run at a provider whose batches carry no tag, cannot be cancelled, and bring their results along."""

from __future__ import annotations

from pathlib import Path

from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.pipeline.test_outages import HOUR, first, ticks
from tests.support.lab import Lab, lab, quiz_text

MODEL = "z-ai/glm-5.3"
PROVIDER = "openrouter"


def asked() -> str:
    text = quiz_text(("groq",))
    return text.replace('"groq"', f'"{PROVIDER}"').replace('"alderworks/pebble-20b"', f'"{MODEL}"', 2)


def made(bench: Lab) -> int:
    return bench.server.request_counts()[PROVIDER]["create"]


def test_every_question_is_answered_and_paid_for_once_and_the_statement_agrees(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        status = bench.finish(asked())
        assert status.state is RunState.DONE
        assert set(bench.billed().values()) == {1}
        assert made(bench) == 1
        usage = bench.table(asked(), "usage")
        assert usage.filter(usage["provider"] == PROVIDER)["cost_usd"].null_count() == 0


def test_a_batch_whose_create_lost_its_reply_is_known_by_its_results(tmp_path: Path) -> None:
    with lab(tmp_path, Fault(provider=PROVIDER, on="create", action="drop_after", times=1)) as bench:
        bench.finish_paid_once(asked())
        assert made(bench) == 1


def test_a_create_that_no_list_shows_is_for_a_person_and_is_not_sent_again(tmp_path: Path) -> None:
    with lab(tmp_path, Fault(provider=PROVIDER, on="create", action="drop", times=1)) as bench:
        status = bench.finish(asked())
        (batch,) = (one for one in status.batches if one.provider == PROVIDER)
        assert batch.state is Lifecycle.LOST
        assert made(bench) == 1


def test_requests_of_a_batch_that_expired_without_results_are_out_of_reach_and_not_sent_again(tmp_path: Path) -> None:
    with lab(tmp_path, Fault(provider=PROVIDER, on="batch", action="expire", share=0.0, times=1)) as bench:
        ticks(bench, asked(), lambda run: first(run).state is Lifecycle.COLLECTED, seconds=6 * HOUR)
        status = bench.finish(asked())
        assert status.state is RunState.DONE
        assert made(bench) == 1
        assert set(bench.table(asked(), "responses")["error_class"]) == {"out_of_reach"}
        assert status.unknown_cost_usd > 0  # whether it was billed is documented nowhere
