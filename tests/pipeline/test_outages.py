"""What is not known to have ended unpaid never goes again by itself: outages, deadlines, results out of reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.batches import resolve
from layton_batch.batches.resolve import adopt_batch, send_again
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, read_status
from layton_batch.sandbox import Fault
from layton_batch.states import ErrorClass, Lifecycle
from layton_batch.store.reopening import retry
from tests.support.asked import ends_by_batch
from tests.support.lab import Lab, lab, quiz_text
from tests.support.tiers import tiered

HOUR = 3600.0


def failing(on: str, provider: str, status: int = 503, times: int = 1) -> Fault:
    return Fault(on=on, action="status", status=status, provider=provider, times=times)


def first(run: Run) -> Batch:
    return run.store.batches()[0]


def ticks(bench: Lab, text: str, until: Callable[[Run], bool], seconds: float = 5.0) -> None:
    """Tick so far apart until this holds."""
    with bench.open(text) as run:
        for _ in range(100):
            advance(run)
            if until(run):
                return
            bench.clock.sleep(seconds)
        raise AssertionError([(one.id, one.state, one.reason) for one in run.store.batches()])


def test_results_that_are_gone_are_not_bought_again_until_a_person_says_so(tmp_path: Path) -> None:
    text = quiz_text(("mistral",), limit=3)
    with lab(tmp_path, failing("results", "mistral", status=404, times=12)) as bench:
        ticks(bench, text, lambda run: first(run).state is Lifecycle.ENDED and first(run).failures == 1)
        bench.clock.sleep(25 * HOUR)
        status = bench.finish(text)
        predict = status.jobs[0]
        assert (predict.missing, predict.succeeded) == (3, 0)
        assert set(bench.billed().values()) == {1}
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            assert {error_class for _, error_class in ends_by_batch(run.store)[first(run).id]} == {
                ErrorClass.OUT_OF_REACH
            }
            assert retry(run.store, run.clock.now())
        assert bench.finish(text).unanswered == 0


def test_a_batch_that_never_says_that_it_has_ended_is_a_persons_to_judge(tmp_path: Path) -> None:
    text = quiz_text(("openai",), limit=3, top="[policy]\ndeadline_hours = 2")
    odd = Fault(on="batch", action="unknown_status", provider="openai", times=1, name="pondering", seconds=900 * HOUR)
    with lab(tmp_path, odd, failing("cancel", "openai", times=99)) as bench:
        ticks(bench, text, lambda run: first(run).state is Lifecycle.LOST, seconds=4 * HOUR)
        with bench.open(text) as run:
            lost = first(run)
            status = read_status(run.store)
            assert status.state is RunState.NEEDS_PERSON
            assert "pondering" in str(lost.reason)
            assert str(lost.provider_id) in str(lost.reason)
            assert len(run.store.batches()) == 1
            send_again(run, lost.id)
        assert bench.finish(text).unanswered == 0


def test_only_a_batch_that_can_be_ours_is_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = quiz_text(("openai",), limit=3) + (
        '[[models]]\nname = "other"\nprovider = "openai"\nmodel = "larch-2-nano"\nmax_output_tokens = 4000\n'
    )
    another = quiz_text(("openai",), limit=2, top="[policy]\nreuse = false").replace('"lab"', '"another"')
    lost_reply = Fault(on="create", action="drop_after", provider="openai", after=1, times=1)
    with lab(tmp_path, lost_reply, replace(failing("list", "openai", status=403, times=99), after=1)) as bench:
        ticks(bench, text, lambda run: any(one.state is Lifecycle.LOST for one in run.store.batches()), seconds=600.0)
        with monkeypatch.context() as patch:
            patch.setattr(bench, "runs", tmp_path / "of somebody else")
            patch.setattr(FileBatches, "find", lambda _provider, _asked: [])
            with bench.open(another) as run:
                advance(run)
                stranger = str(first(run).provider_id)
        bench.clock.sleep(40.0)  # until the provider has counted its requests
        with bench.open(text) as run:
            (lost,) = run.store.batches({Lifecycle.LOST})
            ours = next(str(one.provider_id) for one in run.store.batches() if one.provider_id)
            with pytest.raises(ManifestError, match=r"is batch .* of run lab"):
                adopt_batch(run, lost.id, ours)
            with pytest.raises(ManifestError, match="holds 2 requests"):
                adopt_batch(run, lost.id, stranger)


@pytest.mark.parametrize("trouble", tiered(("changed", "gone"), ci=("changed",)))
def test_one_models_batch_file_in_trouble_stops_no_other_model(tmp_path: Path, trouble: str) -> None:
    text = quiz_text(("openai", "anthropic"), limit=3)
    with lab(tmp_path, failing("upload", "openai", times=1)) as bench:
        ticks(bench, text, lambda run: first(run).failures == 1)
        file = bench.run_folder(text).batch("predict-larch-2-mini.s0001.a1").request_file
        asked = file.read_bytes()
        if trouble == "changed":
            file.write_bytes(asked + b" ")
        else:
            file.unlink()
        status = bench.finish(text)
        assert status.state is RunState.NEEDS_PERSON
        assert {job.model: (job.succeeded, job.graded) for job in status.jobs} == {
            "larch-2-mini": (0, False), "wagtail-5": (3, True),
        }  # fmt: skip
        (waiting,) = [batch for batch in status.batches if batch.state is Lifecycle.PLANNED]
        assert waiting.needs_person
        assert file.name in str(waiting.reason)
        file.write_bytes(asked)
        bench.finish_paid_once(text)


def test_a_batch_whose_provider_lost_a_row_of_it_is_adopted_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("openai",), limit=3)
    with lab(tmp_path, failing("poll", "openai", status=404, times=99)) as bench:
        ticks(bench, text, lambda run: first(run).state is Lifecycle.LOST, seconds=4 * HOUR)
        with bench.open(text) as run:
            monkeypatch.setattr(resolve, "_reading", lambda _provider, _id: ("in_progress", 2))
            adopt_batch(run, first(run).id, str(first(run).provider_id))
            assert first(run).state is Lifecycle.IN_FLIGHT
