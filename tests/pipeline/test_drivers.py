"""One process drives a run: a second is refused, one that is gone is followed, and no question is paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.errors import AnotherDriverError
from layton_batch.files import atomic
from layton_batch.providers import connect
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Submission
from layton_batch.sandbox import Fault
from layton_batch.states import BatchOutcome, Lifecycle
from tests.support.cli_harness import call, desk
from tests.support.lab import ROOT, RunState, Status, advance, drive, lab, manifest_text, quiz_text, several
from tests.support.tiers import tiered

QUIZ = quiz_text()


def during(patch: pytest.MonkeyPatch, provider: str, call: str, action: Callable[[], object]) -> None:
    """While the first such call to the provider is made, something else happens. All lanes wait for it."""
    dialect, waiting, only_one = type(connect(provider, None)), [action], threading.Lock()
    original = getattr(dialect, call)

    def first(self: object, submission: Submission) -> object:
        with only_one:
            if waiting:
                waiting.pop()()
        return original(self, submission)

    patch.setattr(dialect, call, first)


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


def test_who_is_suspended_before_it_pays_keeps_the_others_out_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lab(tmp_path) as bench, bench.open(QUIZ) as suspended:

        def away() -> None:
            bench.clock.sleep(100_000)
            with pytest.raises(AnotherDriverError), bench.open(QUIZ):
                pass

        during(monkeypatch, "openai", "upload", away)
        advance(suspended)
        assert bench.creates() == 1
        drive(suspended, once=False, stop_at=None)
        assert set(bench.billed().values()) == {1}


class Died(BaseException):
    """The process is gone."""


def test_a_process_that_died_within_its_create_is_followed_at_once_and_the_create_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = FileBatches.create

    def die(provider: FileBatches, submission: Submission) -> str:
        create(provider, submission)
        raise Died

    with lab(tmp_path) as bench:
        monkeypatch.setattr(FileBatches, "create", die)
        with pytest.raises(Died):
            bench.begin(QUIZ)
        monkeypatch.setattr(FileBatches, "create", create)
        assert bench.read(QUIZ).batches[0].state is Lifecycle.SUBMITTING
        (batch,) = bench.begin(QUIZ).batches
        assert batch.state in {Lifecycle.IN_FLIGHT, Lifecycle.ENDED, Lifecycle.COLLECTED}
        bench.finish_paid_once(QUIZ)
        assert bench.creates() == 1


def test_what_is_being_sent_side_by_side_counts_against_the_budget(tmp_path: Path) -> None:
    text = quiz_text(("openai", "anthropic", "mistral"), limit=4)
    with lab(tmp_path) as bench:
        largest = max(batch.max_cost or Decimal(0) for batch in bench.plan_only(text).batches)
        budget = largest * Decimal("1.5")
        held: list[Decimal] = []

        def check(status: Status) -> None:
            held.append(status.spent_usd + status.reserved_usd)

        budgeted = text.replace("[[models]]", f"[budget]\nmax_usd = {budget}\n[[models]]", 1)
        with bench.open(budgeted) as run:
            assert drive(run, once=False, stop_at=None, progress=check).state is RunState.DONE
        assert 0 < max(held) <= budget
        assert bench.events(text, "run_stopped", "run_goes_on") == []  # what is held back for a while is no stop
        assert set(bench.billed().values()) == {1}


def test_a_budget_that_lets_one_batch_go_at_a_time_stops_the_run_once(tmp_path: Path) -> None:
    text = manifest_text(limit=3, top='[budget]\nmax_usd = "0.0065"\n[limits.openai]\nmax_requests = 1\n')
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        kinds = [event.kind for event in bench.events(text, "run_stopped", "run_goes_on")]
    assert status.state is RunState.OVER_BUDGET  # the verdicts do not fit
    assert status.jobs[0].succeeded == 3
    assert kinds == ["run_stopped"]


def killed_while_writing(root: Path) -> None:
    child = "import sys, os\nfrom pathlib import Path\nfrom layton_batch.files import atomic\n"
    child += "with atomic.writing(Path(sys.argv[1])) as handle:\n    handle.write(b'half')\n    os._exit(9)\n"
    subprocess.run([sys.executable, "-c", child, str(root / "x.zst")], cwd=ROOT, check=False)
    assert len(list(root.rglob(".*.tmp"))) == 1


def test_what_a_killed_process_was_writing_is_swept_when_the_run_is_opened_or_closed(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.begin(QUIZ)
        root = bench.run_folder(QUIZ).root
        killed_while_writing(root)
        with suppress(ZeroDivisionError), bench.open(QUIZ):  # a command ends by an exception
            with atomic.writing(root / "mine"):
                assert [path.name.startswith(".mine.") for path in root.rglob(".*.tmp")] == [True]
            killed_while_writing(root)
            raise ZeroDivisionError
        assert list(root.rglob(".*.tmp")) == []


def test_a_stop_whose_interrupt_is_lost_ends_the_run_at_its_next_tick(tmp_path: Path) -> None:
    """Python prints and ignores what a handler raises within a finalizer."""
    lost: list[Status] = []

    def lose(status: Status) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        lost.append(status)

    with lab(tmp_path) as bench, bench.open(QUIZ) as run, pytest.raises(KeyboardInterrupt):
        drive(run, once=False, stop_at=None, progress=lose)
    assert len(lost) == 1


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


@pytest.mark.parametrize(("call", "creates"), [("upload", 0), ("create", 1)])
def test_a_cancel_while_the_driver_is_sending_stops_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, creates: int
) -> None:
    text = several(2)
    with lab(tmp_path) as bench, bench.open(text) as run:
        during(monkeypatch, "openai", call, bench.cancel)
        assert drive(run, once=False, stop_at=None).state is RunState.CANCELLED
        counts = bench.server.request_counts()["openai"]
        assert (counts.get("create", 0), counts.get("cancel", 0)) == (creates, creates)


@pytest.mark.parametrize("provider", tiered(("openai", "mistral", "gemini", "together"), ci=("openai", "together")))
def test_a_file_that_is_damaged_while_it_is_uploaded_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path) as bench:
        (batch,) = bench.plan_only(text).batches
        path = bench.runs / batch.path
        during(monkeypatch, provider, "upload", lambda: path.write_bytes(path.read_bytes()[::-1]))
        assert bench.begin(text).batches[0].outcome is BatchOutcome.CANCELLED
        (event,) = bench.events(text, "file_changed")
        assert batch.path in event.detail
        bench.finish_paid_once(text)
        assert call("verify", "lab", "--runs", bench.runs).code == 0


@pytest.mark.parametrize("trouble", tiered(("changed", "gone"), ci=("changed",)))
def test_one_models_batch_file_in_trouble_stops_no_other_model(tmp_path: Path, trouble: str) -> None:
    text = quiz_text(("openai", "anthropic"))
    with lab(tmp_path) as bench:
        cheap, dear = sorted(bench.plan_only(text).batches, key=lambda batch: batch.max_cost or Decimal(0))
        file = bench.runs / cheap.path
        asked = file.read_bytes()
        file.write_bytes(asked + b" ") if trouble == "changed" else file.unlink()
        budgeted = text.replace("[[models]]", f"[budget]\nmax_usd = {cheap.max_cost}\n[[models]]", 1)
        assert bench.finish(budgeted, max_hours=1.0).state is RunState.NEEDS_PERSON  # though the budget stops the other
        status = bench.finish(text)
        assert status.state is RunState.NEEDS_PERSON
        jobs = {job.id: (job.succeeded, job.graded) for job in status.jobs}
        assert jobs == {cheap.job_id: (0, False), dear.job_id: (3, True)}
        (waiting,) = (batch for batch in status.batches if batch.state is Lifecycle.PLANNED)
        assert waiting.needs_person
        assert file.name in str(waiting.reason)
        file.write_bytes(asked)
        bench.finish_paid_once(text)
