"""Two models of one manifest that ask the same: whatever is asked once more, one of them asks, and both have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from tests.support.lab import MODELS, Lab, lab, manifest_text
from tests.support.tiers import tiered

ITEMS = 2


def twins(*, top: str = "", limit: int = ITEMS) -> str:
    """A model under two names, and a judge whose words on both are the same questions."""
    text = manifest_text(limit=limit, top=top)
    model = text[text.index("[[models]]") : text.index("[jury]")]
    return text.replace(model, model + model.replace(f'name = "{MODELS["openai"]}"', 'name = "twin"', 1))


def refused(times: int, match: str = "") -> Fault:
    """A permanent error: only a person has it sent again."""
    return Fault(on="row", action="error", status=400, provider="openai", times=times, match=match)


def has_each_once(bench: Lab, text: str, questions: int = ITEMS) -> None:
    """Both boards' rows are there and one question was billed for both."""
    said = bench.table(text, "predictions").sort("item_id")
    own, other = (said.filter(model=name)["raw_text"].to_list() for name in (MODELS["openai"], "twin"))
    assert own == other
    assert None not in own
    billed = [row for row in bench.server.ledger().rows if row.provider == "openai"]
    assert len(billed) == questions
    assert bench.table(text, "verdicts").height == 2 * ITEMS
    assert bench.finish(text).spent_usd == bench.server.ledger().total_usd


@pytest.mark.nightly
def test_a_retry_that_fails_again_is_not_the_end(tmp_path: Path) -> None:
    text = twins()
    with lab(tmp_path, refused(ITEMS + 1)) as bench:
        assert bench.finish(text).unanswered == 2 * ITEMS
        bench.retry()
        assert bench.finish(text).unanswered == 2
        assert bench.retry() == 2
        assert bench.finish(text).unanswered == 0
        has_each_once(bench, text)


def test_what_is_refused_to_one_is_refused_to_both_and_goes_again_once(tmp_path: Path) -> None:
    text = twins()
    with lab(tmp_path, refused(1)) as bench:
        status = bench.finish(text)
        assert (status.unanswered, len([batch for batch in status.batches if batch.provider == "openai"])) == (2, 1)
        assert bench.retry() == 2
        status = bench.finish(text)
        assert status.unanswered == 0
        assert [batch.requests for batch in status.batches if batch.provider == "openai"] == [ITEMS, 1]
        has_each_once(bench, text)


@pytest.mark.nightly
def test_a_process_that_is_stopped_while_one_waits_for_the_other_loses_nothing(tmp_path: Path) -> None:
    text = twins()
    with lab(tmp_path, refused(2)) as bench:
        bench.finish(text)
        bench.retry()
        with bench.open(text) as run:
            advance(run)
        assert bench.retry() == 0 or bench.finish(text).unanswered == 0
        assert bench.finish(text).unanswered == 0
        has_each_once(bench, text)


@pytest.mark.parametrize("action", tiered(("malformed_text", "truncated"), ci=("truncated",)))
def test_an_unusable_reply_is_asked_for_again_once_for_both(tmp_path: Path, action: str) -> None:
    text = twins(top="[policy]\nreask_unparsed = 1\nreask_truncated = 1")
    with lab(tmp_path, Fault(on="row", action=action, provider="openai", times=1)) as bench:
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert "unparsed" not in bench.table(text, "predictions")["kind"].to_list()
        has_each_once(bench, text, ITEMS + 1)


@pytest.mark.nightly
def test_a_reply_that_is_never_of_use_is_asked_for_as_often_as_the_manifest_says(tmp_path: Path) -> None:
    text = twins(top="[policy]\nreask_unparsed = 2")
    with lab(tmp_path, Fault(on="row", action="malformed_text", provider="openai", times=3)) as bench:
        assert bench.finish(text).unanswered == 0
        with bench.open(text) as run:
            assert not advance(run)
        billed = [row for row in bench.server.ledger().rows if row.provider == "openai"]
        assert len(billed) in (ITEMS + 2, ITEMS + 3)
        kinds = bench.table(text, "predictions").sort("item_id")
        own, other = (kinds.filter(model=name)["kind"].to_list() for name in (MODELS["openai"], "twin"))
        assert own == other


def test_a_model_that_comes_after_its_twin_was_asked_again_takes_the_last_answer(tmp_path: Path) -> None:
    policy = "[policy]\nreask_unparsed = 1"
    with lab(tmp_path, Fault(on="row", action="malformed_text", provider="openai", times=1)) as bench:
        bench.finish(manifest_text(limit=ITEMS, top=policy))
        text = twins(top=policy)
        assert bench.finish(text).unanswered == 0
        has_each_once(bench, text, ITEMS + 1)
