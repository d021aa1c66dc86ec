"""Whatever makes the tables of jobs, they are the same; a worker that ends in the middle loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, Future
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from layton_batch.errors import DamagedTableError, EngineError, ManifestError
from layton_batch.loop import drive
from layton_batch.runs.status import RunState
from layton_batch.runs.work_engine import MOST_ENDED, PROCESSES, THREADS, Engine
from layton_batch.settings import Settings
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

MADE = ("predictions", "verdicts", "scores", "grades")
TEXT, RULE = manifest_text(limit=2), quiz_text()


def with_engine(bench: Lab, name: str) -> Lab:
    bench.settings = bench.settings.with_engine(name)
    return bench


def made(bench: Lab, text: str = TEXT) -> Mapping[str, bytes]:
    """The bytes of every part that an engine writes."""
    root = bench.run_folder(text).tables
    parts = (part for name in MADE for part in sorted((root / name).glob("**/*.parquet")))
    return {str(part.relative_to(root)): part.read_bytes() for part in parts}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Dask cluster of this machine: how it is named as an engine, and the processes of its workers."""

    address: str
    workers: tuple[int, ...]


@contextmanager
def started_cluster(workers: int, **options: object) -> Iterator[Cluster]:
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about ports and event loops
        there = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", **options
        )
        try:
            address = there.scheduler_address.replace("tcp://", "dask://")
            yield Cluster(address, tuple(worker.pid for worker in there.workers.values()))
        finally:
            there.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose worker has another working folder than the tests."""
    with chdir(tmp_path_factory.mktemp("worker")), started_cluster(1) as there:
        yield there


@contextmanager
def frozen(*processes: int) -> Iterator[None]:
    """Have these processes do nothing while the block runs."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def end_in_the_middle(path: Path) -> str:
    """End the worker, the first time."""
    if path.exists():
        return "done"
    path.touch()
    os._exit(1)


def raise_damage(path: Path) -> None:
    raise DamagedTableError(f"{path} is damaged", path)


@pytest.mark.parametrize("text", tiered((TEXT, RULE), ci=(TEXT,)), ids=["layton", "rule"])
def test_processes_and_a_cluster_make_the_same_tables_as_this_process(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    found = []
    for name in (THREADS, PROCESSES, cluster.address):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        monkeypatch.chdir(folder)
        with lab(folder) as bench:
            bench.runs = Path("runs")  # as `run` has it by default, which means nothing to a worker
            assert with_engine(bench, name).finish(text).state is RunState.DONE
            found.append(made(bench, text))
    assert len(found[0]) == 3
    assert found[0] == found[1] == found[2]


def test_a_worker_that_ends_in_the_middle_is_replaced_and_then_done_without(tmp_path: Path) -> None:
    engine = Engine(PROCESSES)
    try:
        for ended in range(MOST_ENDED):
            mark = tmp_path / str(ended)
            assert not engine.is_here
            with pytest.raises(Exception, match="terminated abruptly"):
                engine.submit(end_in_the_middle, mark).result()
            engine.renew()
            assert engine.submit(end_in_the_middle, mark).result() == "done"
        assert engine.is_here
    finally:
        engine.close()


class _Breaking(Engine):
    """Every first work of a kind is lost with its worker."""

    is_here = False  # type: ignore[assignment]
    seen: frozenset[object] = frozenset()

    def submit(self, work, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        broken = Future[object]()
        if work in self.seen:
            return Engine().submit(work, *args, **kwargs)
        self.seen |= {work}
        broken.set_exception(BrokenExecutor("ended"))
        return broken


def test_what_a_worker_left_undone_is_done_in_the_next_tick_and_said(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(TEXT) as run:
        run.engine = _Breaking()
        status = drive(run, once=False, stop_at=bench.clock.now() + 200 * 3600)
        assert status.state is RunState.DONE
        told = [event.detail for event in run.store.events() if event.kind == "worker_lost"]
        assert len(told) == 2
        assert "the next tick writes them" in told[0]
        assert "the next tick counts them" in told[1]
        assert len(made(bench)) == 3
        assert set(bench.billed().values()) == {1}


def test_a_damaged_table_is_told_from_another_process_as_from_this_one(tmp_path: Path) -> None:
    for name in (THREADS, PROCESSES):
        engine = Engine(name)
        try:
            with pytest.raises(DamagedTableError) as told:
                engine.submit(raise_damage, tmp_path / "part").result()
            assert (str(told.value), told.value.path) == (f"{tmp_path / 'part'} is damaged", tmp_path / "part")
        finally:
            engine.close()


@pytest.mark.parametrize("name", ["", "process", "dask://", "dask:host", "tls://", "tcp://host:1", "threads "])
def test_a_name_that_is_no_engine_is_refused_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError, match="engine"):
        Engine(name)


def test_the_command_says_which_engines_there_are(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(TEXT, encoding="utf-8")
    ended = call("run", manifest, "--runs", tmp_path, "--engine", "fast", "--yes")
    assert ended.code == 2
    assert "write threads, processes, dask://HOST:PORT or tls://HOST:PORT" in ended.err


def test_a_cluster_that_is_not_there_ends_the_run_with_a_sentence_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.runs.work_engine.CONNECT_SECONDS", 0.2)
    with lab(tmp_path) as bench:
        own = bench.settings
        bench.settings = own.with_engine("dask://127.0.0.1:1")
        with pytest.raises(EngineError, match="cannot be reached"):
            bench.finish(RULE)
        billed = bench.billed()
        bench.settings = own
        assert bench.finish(RULE).state is RunState.DONE
        assert all(bench.billed()[name] == times for name, times in billed.items())
        assert set(bench.billed().values()) == {1}


def test_a_scheduler_that_accepts_and_never_answers_ends_the_run_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.runs.work_engine.CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, lab(tmp_path) as bench:
        with_engine(bench, f"dask://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(EngineError, match="cannot be reached"):
            bench.finish(TEXT)
        assert not bench.billed()


def test_work_of_frozen_workers_is_given_up_at_the_deadline_and_then_done_here(
    tmp_path: Path, cluster: Cluster
) -> None:
    engine = Engine(cluster.address, deadline=0.5)
    with frozen(*cluster.workers):
        for _ in range(MOST_ENDED):
            assert not engine.is_here
            works = [engine.submit(abs, number) for number in (-1, -2)]
            with pytest.raises(BrokenExecutor, match=r"no result in 0\.5 seconds"):
                engine.result(works[0])
            engine.renew()
            with pytest.raises(BrokenExecutor):
                engine.result(works[1])
        assert engine.result(engine.submit(abs, -3)) == 3
        asking = Engine(cluster.address, deadline=0.5)
        with pytest.raises(EngineError, match=r"a worker gives no answer in 0\.5 seconds; nothing is sent before"):
            asking.check_folder(tmp_path)
        asking.close()


@pytest.mark.nightly
def test_work_of_a_frozen_scheduler_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    script = "from distributed.cli.dask_scheduler import main; main()"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler")]
    with subprocess.Popen([sys.executable, "-c", script, *options], stderr=subprocess.DEVNULL) as scheduler:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "scheduler").exists():
                assert time.monotonic() < until, "the scheduler does not start"
                time.sleep(0.05)
            address = json.loads((tmp_path / "scheduler").read_text())["address"]
            engine = Engine(address.replace("tcp://", "dask://"), deadline=0.3)
            with pytest.raises(EngineError, match="has no workers"):
                engine.check_folder(tmp_path)
            work = engine.submit(abs, -1)
            with frozen(scheduler.pid):
                with pytest.raises(BrokenExecutor, match="no result"):
                    engine.result(work)
                begun = time.monotonic()
                engine.close()
                assert time.monotonic() - begun < 20
        finally:
            scheduler.kill()


def test_a_cluster_that_does_not_see_the_folder_of_runs_is_refused_before_anything_is_paid(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.runs.work_engine.copy_nonce", see_nothing)
    with lab(tmp_path) as bench:
        with pytest.raises(ManifestError, match=r"its worker .* cannot work in .*No such file.*mount the folder"):
            with_engine(bench, cluster.address).finish(TEXT)
        assert not bench.billed()


def see_nothing(nonce: Path) -> str:
    """Have the file looked for as on a machine that does not mount the folder."""
    return nonce.with_name("elsewhere").read_text()


@pytest.mark.nightly
def test_a_cluster_behind_certificates_is_written_tls(tmp_path: Path) -> None:
    import dask
    from distributed.security import Security

    security = Security.temporary()
    client = {"client.key": security.tls_client_key, "client.cert": security.tls_client_cert}
    keys = {"ca-file": security.tls_ca_file, **client}
    with started_cluster(1, protocol="tls://", security=security) as there:
        assert there.address.startswith("tls://")
        with pytest.raises(ManifestError, match="engine tls://"):
            Engine(there.address).check_folder(tmp_path)
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in keys.items()}):
            engine = Engine(there.address)
            engine.check_folder(tmp_path)
            assert not any(tmp_path.iterdir())
            engine.close()


def test_the_environment_names_the_engine(tmp_path: Path) -> None:
    assert Settings.from_environment({"LAYTON_BATCH_ENGINE": "processes"}, tmp_path).engine == PROCESSES
    assert Settings.from_environment({}, tmp_path).engine == THREADS
