"""Several processes on one run share its work, and nobody's question is paid twice."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from layton_batch import loop
from layton_batch.batches import machine
from layton_batch.batches.cancel import cancel_run
from layton_batch.batches.decisions import apply, at
from layton_batch.errors import StoreError, TransientProviderError
from layton_batch.files import atomic
from layton_batch.loop import drive
from layton_batch.pipeline import advance, is_finished
from layton_batch.records import Entry, Submission
from layton_batch.runs.context import Run
from layton_batch.runs.lanes import Lane
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.settings import Settings
from layton_batch.stages.plan import plan
from layton_batch.states import Lifecycle
from layton_batch.store.engine import sqlite_url
from layton_batch.store.leases import Holder
from layton_batch.store.run_store import RunStore
from tests.pipeline.lab import MODELS, ROOT, Lab, lab, manifest_text
from tests.store.rows import moved

SEVEN = tuple(MODELS)
COMMAND = [sys.executable, "-m", "layton_batch", "run"]
TWO_MODELS = manifest_text(("openai",)) + (
    '[[models]]\nname = "larch-2-nano"\nprovider = "openai"\nmodel = "larch-2-nano"\nmax_output_tokens = 4000\n'
)


def creates(bench: Lab) -> int:
    return sum(counts.get("create", 0) for counts in bench.server.request_counts().values())


def during(run: Run, provider: str, call: str, action: Callable[[], None]) -> None:
    """While this run makes its first such call to the provider, something else happens. All lanes wait for it."""
    waiting, only_one = [action], threading.Lock()

    def first(submission: Submission, original: Callable[[Submission], object]) -> object:
        with only_one:
            if waiting:
                waiting.pop()()
        return original(submission)

    for number in range(run.providers.dialect(provider).limits.calls_at_once):
        client = run.providers.of(Lane(provider, number))
        setattr(client, call, partial(first, original=getattr(client, call)))


def sent_by(run: Run) -> list[str]:
    """Fills with the batches that this process itself sends."""
    found: list[str] = []
    told = run.store.listen

    def listen(event: object) -> None:
        if getattr(event, "kind", "") == "submitted":
            found.append(str(getattr(event, "batch_id", "")))
        if told is not None:
            told(event)  # type: ignore[arg-type]

    run.store.listen = listen
    return found


def drive_together(bench: Lab, *runs: Run) -> None:
    """Tick each in a thread of its own until all say that it is over."""
    for _ in range(300):
        with ThreadPoolExecutor(len(runs)) as pool:
            list(pool.map(advance, runs))
        if all(is_finished(run) for run in runs):
            return
        bench.clock.sleep(7)
    raise AssertionError(read_status(runs[0].store))


def test_two_at_once_bill_every_row_once_and_agree_that_it_is_done(tmp_path: Path) -> None:
    text = manifest_text(SEVEN)
    with lab(tmp_path) as bench:
        with bench.open(text) as one, bench.open(text) as other:
            drive_together(bench, one, other)
            status = read_status(other.store)
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert set(bench.billed().values()) == {1}
        assert creates(bench) == sum(batch.provider_id is not None for batch in status.batches)
        assert status.spent_usd == bench.server.ledger().total_usd
        assert set(bench.table(text, "leaderboard")["model"]) == set(MODELS.values())
        again = bench.finish(text)
        assert again == status


def test_while_one_uploads_another_sends_what_the_first_has_not_in_hand(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(TWO_MODELS) as one, bench.open(TWO_MODELS) as other:
        mine, theirs = sent_by(one), sent_by(other)
        during(one, "openai", "upload", lambda: bool(advance(other)) and None)
        advance(one)
        assert mine  # in its other lane it may have had the second batch in hand by then
        assert (len(mine) + len(theirs), len({*mine, *theirs})) == (2, 2)
        drive_together(bench, one, other)
        assert set(bench.billed().values()) == {1}


def test_who_was_away_longer_than_its_lease_drops_its_work_unpaid(tmp_path: Path) -> None:
    text = manifest_text()

    def away(bench: Lab, other: Run) -> None:
        bench.clock.sleep(500)
        advance(other)

    with lab(tmp_path) as bench, bench.open(text) as one, bench.open(text) as other:
        mine, theirs = sent_by(one), sent_by(other)
        during(one, "openai", "upload", lambda: away(bench, other))
        advance(one)
        assert (len(mine), len(theirs)) == (0, 1)
        assert creates(bench) == 1
        drive_together(bench, one, other)
        assert set(bench.billed().values()) == {1}


class Died(BaseException):
    """The machine is gone."""


def dying(run: Run, provider: str) -> None:
    """The host will vanish once its create was carried out: its leases stay, under a name nobody here can check."""
    run.store.holder.owner = "elsewhere.boot.1/1/1/1"
    client = run.providers.get(provider)
    create = client.create

    def last(submission: Submission) -> str:
        create(submission)
        run.store.holder = Holder()  # what is let go from here on is not what was held
        raise Died

    client.create = last  # type: ignore[method-assign]


def tick_until_death(bench: Lab, text: str) -> None:
    with bench.open(text) as run:
        dying(run, "openai")
        advance(run)


def test_a_create_left_open_by_a_vanished_host_is_settled_when_its_lease_runs_out(tmp_path: Path) -> None:
    text = manifest_text()
    with lab(tmp_path) as bench:
        with pytest.raises(Died):
            tick_until_death(bench, text)
        looks = bench.server.request_counts()["openai"]["list"]  # before it was sent
        with bench.open(text) as run:
            advance(run)
            (batch,) = run.store.batches({Lifecycle.SUBMITTING})
            assert bench.server.request_counts()["openai"]["list"] == looks  # another may have it in hand
            bench.clock.sleep(121)
            advance(run)
            assert run.store.batch(batch.id).state in {Lifecycle.IN_FLIGHT, Lifecycle.ENDED, Lifecycle.COLLECTED}
        bench.finish(text)
        assert creates(bench) == len(read_batches(bench, text))
        assert set(bench.billed().values()) == {1}


def read_batches(bench: Lab, text: str) -> list[str]:
    with bench.open(text) as run:
        return [batch.id for batch in run.store.batches()]


def test_two_at_once_do_not_spend_one_budget_twice(tmp_path: Path) -> None:
    prices = "".join(
        f'[[prices]]\nprovider = "{provider}"\nmodel = "{model}"\ninput = 1\noutput = 10\n'
        for provider, model in (("openai", "larch-2-mini"), ("openai", "larch-2-nano"), ("gemini", "tern-3-referee"))
    )
    text = TWO_MODELS.split("[[prices]]")[0].replace("[items]", "[budget]\nmax_usd = 0.2\n[items]")
    text += TWO_MODELS[TWO_MODELS.rindex("[[models]]") :] + prices  # either model may cost up to $0.16
    with lab(tmp_path) as bench, bench.open(text) as one, bench.open(text) as other:
        during(one, "openai", "upload", lambda: bool(advance(other)) and None)
        advance(one)
        advance(other)
        assert creates(bench) == 1
        assert one.store.money().committed <= one.manifest.budget.max_usd  # type: ignore[operator]


@pytest.mark.parametrize("ticks", [1, 2, 4])
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
    text = manifest_text()
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
    subprocess.run([sys.executable, "-c", child, str(root / "raw" / "x.zst")], cwd=ROOT, check=False)
    assert len(list(root.rglob(".*.tmp"))) == 1


def test_what_a_killed_process_was_writing_is_swept_when_the_run_is_opened(tmp_path: Path) -> None:
    text = manifest_text()
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
        with suppress(ZeroDivisionError), bench.open(manifest_text()) as run:  # a command ends by an exception
            root = run.folder.root
            killed_while_writing(root)
            raise ZeroDivisionError
        assert list(root.rglob(".*.tmp")) == []


def start(bench_folder: Path, server: Sandbox, text: str) -> subprocess.Popen[str]:
    (bench_folder / "manifest.toml").write_text(text, encoding="utf-8")
    command = [*COMMAND, str(bench_folder / "manifest.toml"), "--runs", str(bench_folder / "runs")]
    environment = {**server.environment(), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.Popen(
        [*command, "--poll-seconds", "0.1", "--json"], env=environment, cwd=bench_folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def billed_once(server: Sandbox) -> bool:
    names = [row.custom_id for row in server.ledger().rows]
    return len(names) == len(set(names)) > 0


def test_two_real_processes_on_one_run_both_end_well_and_bill_every_row_once(tmp_path: Path) -> None:
    text = manifest_text(("openai", "mistral", "anthropic"), limit=3)
    with Sandbox(SandboxConfig(batch_seconds=0.3)) as server:
        running = [start(tmp_path, server, text) for _ in range(2)]
        ends = [process.communicate(timeout=120) for process in running]
        assert [process.returncode for process in running] == [0, 0], [error for _, error in ends]
        assert [error for _, error in ends] == ["", ""]
        assert billed_once(server)
        assert len(server.ledger().rows) == 3 * 3 * 2  # three models, three riddles, one judge


def test_after_a_kill_the_next_process_does_not_wait_for_the_leases(tmp_path: Path) -> None:
    text = manifest_text(limit=3)
    with Sandbox(SandboxConfig(batch_seconds=0.3)) as server:
        first = start(tmp_path, server, text)
        began = time.monotonic()
        while not server.request_counts().get("openai", {}).get("poll"):
            assert time.monotonic() - began < 60, "nothing was sent"
            time.sleep(0.005)
        first.kill()  # in the middle of a poll, with the batch and the desk in hand
        first.communicate()
        second = start(tmp_path, server, text)
        _, error = second.communicate(timeout=100)  # less than a lease lasts
        assert second.returncode == 0, error
        assert billed_once(server)


def test_cancelling_while_another_process_is_sending_stops_that_too(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(TWO_MODELS) as one, bench.open(TWO_MODELS) as person:
        during(one, "openai", "upload", lambda: cancel_run(person))
        advance(one)
        assert creates(bench) == 0
        bench.clock.sleep(5)
        for _ in range(5):
            advance(one)
            bench.clock.sleep(60)
        assert is_finished(one)
        assert read_status(one.store).state is RunState.CANCELLED


def test_what_was_just_being_sent_when_the_run_was_cancelled_is_asked_to_stop(tmp_path: Path) -> None:
    text = manifest_text()
    with lab(tmp_path) as bench, bench.open(text) as one, bench.open(text) as person:
        during(one, "openai", "create", lambda: cancel_run(person))
        for _ in range(8):
            advance(one)
            bench.clock.sleep(30)
        assert bench.server.request_counts()["openai"].get("cancel") == 1
        assert is_finished(one)
        assert read_status(one.store).state is RunState.CANCELLED


FULL = "import resource, sys; size = int(sys.argv.pop(1)); resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)); "
FULL += "from layton_batch.cli import main; main()"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [20_000, 200_000])
def test_a_disk_that_fills_up_in_the_middle_of_a_run_is_said_and_costs_nothing_twice(tmp_path: Path, size: int) -> None:
    text = manifest_text(limit=3)
    with Sandbox(SandboxConfig(batch_seconds=0.3)) as server:
        (tmp_path / "manifest.toml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", FULL, str(size), "run", "manifest.toml", "--poll-seconds", "0.1"]
        environment = {**server.environment(), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 74, done.stderr
        assert "cannot be" in done.stderr
        assert "Traceback" not in done.stderr
        again = start(tmp_path, server, text)
        _, error = again.communicate(timeout=110)
        assert again.returncode == 0, error
        assert billed_once(server)
        assert len(server.ledger().rows) == 3 * 2


@pytest.mark.parametrize("once", [True, False])
def test_money_that_another_process_lets_go_meanwhile_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    """One batch at a time can be afforded. The other process has its create under way when this one counts, and it came
    to nothing when this one looks at what is left to do."""
    with lab(tmp_path) as bench:
        text = manifest_text(("openai", "groq"))
        with bench.open(text) as run:
            plan(run)
            bounds = [batch.max_cost for batch in run.store.batches() if batch.max_cost is not None]
        allowed = max(bounds) + min(bounds) / 2
        text = text.replace("[[models]]", f"[budget]\nmax_usd = {allowed}\n[[models]]", 1)
        with bench.open(text) as other, bench.open(text) as ours:
            [sending] = other.store.claim(bench.clock.now(), ids=[other.store.batches()[0].id])
            money = [Entry(sending.id, "reserved", sending.max_cost or Decimal(0))]
            other.store.apply(
                sending, moved(sending, Lifecycle.SUBMITTING, "submitting", entries=money), bench.clock.now()
            )

            def read(store: RunStore) -> Status:
                if (batch := store.batch(sending.id)).state is Lifecycle.SUBMITTING:
                    refused = TransientProviderError("no network", retry_after=600.0)
                    apply(other, batch, machine.after_create(batch, refused, at(other, batch)))
                    other.store.release([batch.id])
                return read_status(store)

            monkeypatch.setattr(loop, "read_status", read)
            status = drive(ours, once=once, stop_at=bench.clock.now() + 1.0)
            assert status.state is RunState.RUNNING
