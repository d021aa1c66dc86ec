"""One process drives a run: a second is refused, one that is gone is followed, and no question is paid twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.errors import AnotherDriverError
from layton_batch.providers import connect
from layton_batch.records import Submission
from layton_batch.runs.open import open_run
from layton_batch.sandbox import Fault
from layton_batch.states import BatchOutcome
from tests.support.cli_harness import call, desk
from tests.support.lab import RunState, advance, drive, lab, quiz_text, several
from tests.support.tiers import tiered

QUIZ = quiz_text()


def during_upload(patch: pytest.MonkeyPatch, provider: str, action: Callable[[], object]) -> None:
    """While the first file is uploaded to the provider, something else happens. All threads wait for it."""
    dialect, waiting, only_one = type(connect(provider, None)), [action], threading.Lock()
    original = dialect.upload

    def first(self: object, submission: Submission) -> object:
        with only_one:
            if waiting:
                waiting.pop()()
        return original(self, submission)

    patch.setattr(dialect, "upload", first)


# ---- one driver, or another after it ---------------------------------------------------------------------------------


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(QUIZ) as run:
        advance(run)
        before, document = bench.events(QUIZ), run.folder.manifest.read_bytes()
        for again in (QUIZ, several(2)):
            with pytest.raises(AnotherDriverError, match=f"process {os.getpid()} on "), bench.open(again):
                pass
        assert (bench.events(QUIZ), run.folder.manifest.read_bytes()) == (before, document)
        assert drive(run, once=False, stop_at=None).state is RunState.DONE


def test_a_process_that_read_the_manifest_before_another_one_revised_the_run_takes_nothing_back(tmp_path: Path) -> None:
    """It was suspended between the two, and waits for no lock any more."""
    with lab(tmp_path) as bench:
        late = open_run(
            bench.manifest(QUIZ), bench.runs, bench.settings, before_it_begins=lambda: bench.plan_only(several(2))
        )
        with pytest.raises(AnotherDriverError, match="revised"), late:
            pass
        assert len(bench.read(several(2)).jobs) == 2


def test_who_is_suspended_before_it_pays_keeps_the_others_out_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lab(tmp_path) as bench, bench.open(QUIZ) as suspended:

        def away() -> None:
            bench.clock.sleep(100_000)
            with pytest.raises(AnotherDriverError), bench.open(QUIZ):
                pass

        during_upload(monkeypatch, "openai", away)
        advance(suspended)
        assert bench.creates() == 1
        drive(suspended, once=False, stop_at=None)
        assert set(bench.billed().values()) == {1}


# ---- commands beside a driver ----------------------------------------------------------------------------------------


def test_commands_beside_a_driver_act_at_once_or_say_who_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=3600.0) as at_desk, at_desk.lab.open(QUIZ) as run:
        advance(run)
        words = (["retry"], ["resolve", "predict-larch-2-mini.s0001.a1", "--resubmit"], ["cancel", "--no-wait"])
        assert [call(word, "lab", *more).code for word, *more in words] == [0, 2, 75]
        at_desk.lab.clock.sleep(600.0)
        advance(run)
        assert at_desk.lab.server.request_counts()["openai"]["cancel"] == 1
        assert len(at_desk.lab.events(QUIZ, "run_cancelled")) == 1


def test_a_person_decides_about_a_lost_batch_while_another_process_drives_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = several(2, "xai")
    with desk(tmp_path, monkeypatch, Fault(on="create", action="drop", provider="xai", times=2)) as at_desk:
        lost = [batch.id for batch in at_desk.lab.finish(text).batches]
        with at_desk.lab.open(text) as run:
            advance(run)
            assert call("resolve", "lab", lost[0], "--give-up").code == 0
            at_desk.lab.clock.sleep(660.0)
            assert call("resolve", "lab", lost[1], "--resubmit").code == 0
            status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered, len(at_desk.lab.billed())) == (RunState.DONE, 3, 3)


@pytest.mark.parametrize("ends", [False, True])
def test_a_cancel_beside_a_driver_waits_for_it_and_goes_on_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=3600.0) as at_desk, ExitStack() as driver:
        run = driver.enter_context(at_desk.lab.open(QUIZ))
        advance(run)

        def meanwhile(_clock: SystemClock, seconds: float) -> None:
            at_desk.lab.clock.sleep(seconds + 60.0)
            driver.close() if ends else advance(run)

        monkeypatch.setattr(SystemClock, "sleep", meanwhile)
        assert call("cancel", "lab").code == 0
        assert at_desk.lab.read(QUIZ).state is RunState.CANCELLED
        assert at_desk.lab.server.request_counts()["openai"]["cancel"] == 1


@pytest.mark.parametrize("provider", tiered(("openai", "mistral", "gemini", "together"), ci=("openai", "mistral")))
def test_a_file_that_is_damaged_while_it_is_uploaded_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path) as bench:
        (batch,) = bench.plan_only(text).batches
        path = bench.runs / batch.path
        during_upload(monkeypatch, provider, lambda: path.write_bytes(path.read_bytes()[::-1]))
        assert bench.begin(text).batches[0].outcome is BatchOutcome.CANCELLED
        (event,) = bench.events(text, "file_changed")
        assert batch.path in event.detail
        bench.finish_paid_once(text)
        assert call("verify", "lab", "--runs", bench.runs).code == 0
