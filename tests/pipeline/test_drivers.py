"""One process drives a run: a second is refused, one that is gone is followed, and no question is paid twice."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from layton_batch.batches import machine
from layton_batch.batches.tick import Tick
from layton_batch.clock import SystemClock
from layton_batch.errors import AnotherDriverError, StoreError
from layton_batch.files import atomic
from layton_batch.loop import drive
from layton_batch.pipeline import advance, is_finished
from layton_batch.records import Submission
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.stages.plan import plan
from layton_batch.stages.submit import to_send
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.store.engine import sqlite_url
from layton_batch.verification.verify import verify_run
from tests.support.cli_harness import call, desk
from tests.support.lab import ROOT, Lab, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

TWO_MODELS = quiz_text(limit=4) + (
    '[[models]]\nname = "larch-2-nano"\nprovider = "openai"\nmodel = "larch-2-nano"\nmax_output_tokens = 4000\n'
)


def creates(bench: Lab) -> int:
    return sum(counts.get("create", 0) for counts in bench.server.request_counts().values())


def during(run: Run, provider: str, call: str, action: Callable[[], object]) -> None:
    """While this run makes its first such call to the provider, something else happens. All lanes wait for it."""
    waiting, only_one = [action], threading.Lock()

    def first(submission: Submission, original: Callable[[Submission], object]) -> object:
        with only_one:
            if waiting:
                waiting.pop()()
        return original(submission)

    for number in range(run.providers.dialect(provider).limits.calls_at_once):
        client = run.providers.of(ProviderThread(provider, number))
        setattr(client, call, partial(first, original=getattr(client, call)))


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench, bench.open(text) as run:
        advance(run)
        before, document = run.store.events(), run.folder.manifest.read_bytes()
        for again in (text, TWO_MODELS):
            with pytest.raises(AnotherDriverError, match=f"process {os.getpid()} on "), bench.open(again):
                pass
        assert (run.store.events(), run.folder.manifest.read_bytes()) == (before, document)
        assert drive(run, once=False, stop_at=None).state is RunState.DONE


def test_who_is_suspended_before_it_pays_keeps_the_others_out_and_goes_on(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench, bench.open(text) as suspended:

        def away() -> None:
            bench.clock.sleep(100_000)
            with pytest.raises(AnotherDriverError), bench.open(text):
                pass

        during(suspended, "openai", "upload", away)
        advance(suspended)
        assert creates(bench) == 1
        drive(suspended, once=False, stop_at=None)
        assert set(bench.billed().values()) == {1}


class Died(BaseException):
    """The process is gone."""


def tick_until_death(bench: Lab, text: str) -> None:
    """The process dies when its create was carried out."""
    with bench.open(text) as run:
        client = run.providers.of(ProviderThread("openai", 0))
        create = client.create

        def last(submission: Submission) -> str:
            create(submission)
            raise Died

        client.create = last  # type: ignore[method-assign]
        advance(run)


def test_a_process_that_died_within_its_create_is_followed_at_once_and_the_create_is_settled(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench:
        with pytest.raises(Died):
            tick_until_death(bench, text)
        with bench.open(text) as run:
            (batch,) = run.store.batches({Lifecycle.SUBMITTING})
            advance(run)
            assert run.store.batch(batch.id).state in {Lifecycle.IN_FLIGHT, Lifecycle.ENDED, Lifecycle.COLLECTED}
        bench.finish(text)
        assert creates(bench) == len(read_batches(bench, text))
        assert set(bench.billed().values()) == {1}


def read_batches(bench: Lab, text: str) -> list[str]:
    with bench.open(text) as run:
        return [batch.id for batch in run.store.batches()]


def test_what_a_thread_is_about_to_send_counts_against_the_budget(tmp_path: Path) -> None:
    prices = "".join(
        f'[[prices]]\nprovider = "{provider}"\nmodel = "{model}"\ninput = 1\noutput = 10\n'
        for provider, model in (("openai", "larch-2-mini"), ("openai", "larch-2-nano"))
    )
    text = TWO_MODELS.split("[[prices]]")[0].replace("[items]", "[budget]\nmax_usd = 0.1\n[items]")
    text += TWO_MODELS[TWO_MODELS.rindex("[[models]]") :] + prices  # either model may cost up to $0.08, in a batch
    with lab(tmp_path) as bench, bench.open(text) as run:
        uploaded = threading.Event()

        def slowly() -> None:
            uploaded.wait(60)

        during(run, "openai", "upload", slowly)
        advance(run, patience=0.0)
        waiting = run.store.batches({Lifecycle.PLANNED, Lifecycle.SUBMITTING})
        assert to_send(run, Tick(is_cancelled=False), waiting) == {}  # one is being sent; the other is held back
        uploaded.set()
        run.threads.work(lambda _thread, _batches: False, {}, None)
        assert creates(bench) == 1
        assert run.store.row().stopped_reason is None  # type: ignore[union-attr]
        assert run.store.money().committed <= run.manifest.budget.max_usd  # type: ignore[operator]


@pytest.mark.parametrize("ticks", tiered((1, 2, 4), ci=(2,)))
def test_a_run_folder_copied_in_mid_flight_goes_on_where_it_is_put(tmp_path: Path, ticks: int) -> None:
    text = manifest_text(("openai", "anthropic"))
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            for _ in range(ticks):
                advance(run)
                bench.clock.sleep(20)
            shutil.copytree(bench.runs, tmp_path / "elsewhere")  # with its log, as it is while the run is open
        shutil.rmtree(bench.runs)
        bench.runs = tmp_path / "elsewhere"
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert set(bench.billed().values()) == {1}


def test_a_second_host_without_the_runs_files_is_told_to_share_them(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench:
        environment = {**bench.server.environment(), "LAYTON_BATCH_STATE": sqlite_url(tmp_path / "shared.sqlite3")}
        bench.settings = Settings.from_environment(environment, tmp_path)
        with bench.open(text) as run:
            advance(run)
        bench.runs = tmp_path / "other-host"
        with (
            pytest.raises(StoreError, match="share the folder it was started in"),
            open_run(bench.manifest(text), bench.runs, bench.settings, clock=bench.clock),
        ):
            pass


def killed_while_writing(root: Path) -> None:
    child = "import sys, os\nfrom pathlib import Path\nfrom layton_batch.files import atomic\n"
    child += "with atomic.writing(Path(sys.argv[1])) as handle:\n    handle.write(b'half')\n    os._exit(9)\n"
    subprocess.run([sys.executable, "-c", child, str(root / "x.zst")], cwd=ROOT, check=False)
    assert len(list(root.rglob(".*.tmp"))) == 1


def test_what_a_killed_process_was_writing_is_swept_when_the_run_is_opened(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            advance(run)
            root = run.folder.root
        killed_while_writing(root)
        with bench.open(text), atomic.writing(root / "mine"):
            assert [path.name.startswith(".mine.") for path in root.rglob(".*.tmp")] == [True]
        assert atomic.sweep(root) == 0


def test_what_a_process_was_writing_that_is_killed_meanwhile_is_swept_when_the_run_is_closed(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with suppress(ZeroDivisionError), bench.open(quiz_text()) as run:  # a command ends by an exception
            root = run.folder.root
            killed_while_writing(root)
            raise ZeroDivisionError
        assert list(root.rglob(".*.tmp")) == []


def test_commands_beside_a_driver_act_at_once_or_say_who_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=3600.0) as at_desk, at_desk.lab.open(quiz_text()) as run:
        advance(run)
        retried = call("retry", "lab")
        not_lost = call("resolve", "lab", "predict-larch-2-mini.s0001.a1", "--resubmit")
        stopped = call("cancel", "lab", "--no-wait")
        at_desk.lab.clock.sleep(600.0)
        advance(run)
        assert at_desk.lab.server.request_counts()["openai"]["cancel"] == 1
        events = call("status", "lab", "--log").out
    assert (retried.code, not_lost.code, stopped.code) == (0, 2, 75)
    assert "is in_flight, not lost" in not_lost.err
    assert "drives run lab and stops its batches at its next step" in stopped.err
    assert events.count("run cancelled") == 1


def test_a_person_decides_about_a_lost_batch_while_another_process_drives_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as at_desk, at_desk.lab.open(quiz_text(("openai", "mistral"), limit=2)) as run:
        advance(run)
        for batch in run.store.batches():
            run.store.apply(batch, machine.lost(batch, "nobody knows"), at_desk.lab.clock.now())
        adopted, given_up = run.store.batches()
        said = [
            call("resolve", "lab", adopted.id, "--adopt", str(adopted.provider_id)),
            call("resolve", "lab", given_up.id, "--give-up"),
        ]
        assert [end.code for end in said] == [0, 0], said
        status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered) == (RunState.DONE, 2)


@pytest.mark.parametrize("ends", [False, True])
def test_a_cancel_beside_a_driver_waits_for_it_and_goes_on_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    with desk(tmp_path, monkeypatch, batch_seconds=3600.0) as at_desk, ExitStack() as driver:
        run = driver.enter_context(at_desk.lab.open(quiz_text()))
        advance(run)

        def meanwhile(_clock: SystemClock, seconds: float) -> None:
            at_desk.lab.clock.sleep(seconds)
            driver.close() if ends else advance(run)

        monkeypatch.setattr(SystemClock, "sleep", meanwhile)
        assert call("cancel", "lab").code == 0
        assert read_status(run.store).state is RunState.CANCELLED
        assert at_desk.lab.server.request_counts()["openai"]["cancel"] == 1


def cancelled_by_a_person(bench: Lab, run: Run) -> None:
    with open_store(run.folder, bench.settings) as store:
        store.set_cancelled(bench.clock.now())


def test_cancelling_while_the_driver_is_sending_stops_that_too(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(TWO_MODELS) as run:
        during(run, "openai", "upload", lambda: cancelled_by_a_person(bench, run))
        advance(run)
        assert creates(bench) == 0
        bench.clock.sleep(5)
        for _ in range(5):
            advance(run)
            bench.clock.sleep(60)
        assert is_finished(run)
        assert read_status(run.store).state is RunState.CANCELLED


def test_what_was_just_being_sent_when_the_run_was_cancelled_is_asked_to_stop(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench, bench.open(text) as run:
        during(run, "openai", "create", lambda: cancelled_by_a_person(bench, run))
        for _ in range(8):
            advance(run)
            bench.clock.sleep(30)
        assert bench.server.request_counts()["openai"].get("cancel") == 1
        assert is_finished(run)
        assert read_status(run.store).state is RunState.CANCELLED


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a disk that is full."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", tiered((20_000, 200_000), ci=(200_000,)))
def test_a_disk_that_fills_up_in_the_middle_of_a_run_is_said_and_costs_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with desk(tmp_path, monkeypatch) as at_desk:
        path = at_desk.write(manifest_text(limit=3))
        with largest_file(size):
            full = call("run", path)
        assert full.code == 74, full.err
        assert "cannot be" in full.err
        assert call("run", path).code == 0
        assert set(at_desk.lab.billed().values()) == {1}
        assert len(at_desk.lab.billed()) == 3 * 2


@pytest.mark.parametrize("provider", tiered(("openai", "mistral", "gemini", "together"), ci=("openai", "together")))
def test_a_file_that_is_damaged_while_it_is_uploaded_is_planned_again(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            plan(run)
            (batch,) = run.store.batches()
            path = run.folder.workspace.root / batch.path
            during(run, provider, "upload", lambda: path.write_bytes(path.read_bytes()[::-1]))
            advance(run)
            assert run.store.batch(batch.id).outcome is BatchOutcome.CANCELLED
            (told,) = (event.detail for event in run.store.events() if event.kind == "file_changed")
            assert told == f"its file {batch.path} was changed while it was uploaded: its requests are planned again"
        assert bench.finish(text).unanswered == 0
        assert set(bench.billed().values()) == {1}
        assert verify_run(bench.run_folder(text), bench.settings).differences == []


def test_a_stop_whose_interrupt_is_lost_ends_the_run_at_its_next_tick(tmp_path: Path) -> None:
    """Python prints and ignores what a handler raises within a finalizer."""
    lost: list[Status] = []

    def lose(status: Status) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        lost.append(status)

    with lab(tmp_path) as bench, bench.open(quiz_text()) as run, pytest.raises(KeyboardInterrupt):
        drive(run, once=False, stop_at=None, progress=lose)
    assert len(lost) == 1
