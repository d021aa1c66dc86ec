"""Whatever makes the tables of jobs, they are the same; a worker that ends in the middle loses nothing."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import chdir
from pathlib import Path

import pytest

from layton_batch.errors import DamagedTableError, EngineError, ManifestError
from layton_batch.loop import drive
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from tests.support.lab import Lab, lab, manifest_text, quiz_text
from tests.support.manifest_texts import load
from tests.support.tiers import tiered

THREADS, PROCESSES = "threads", "processes"
MADE = ("predictions", "verdicts", "scores", "grades")
TEXT, RULE = manifest_text(limit=2), quiz_text()


def with_engine(bench: Lab, name: str) -> Lab:
    bench.settings = bench.settings.with_engine(name)
    return bench


def made(bench: Lab) -> Mapping[str, bytes]:
    """The bytes of every part that an engine writes."""
    root = bench.run_folder(TEXT).tables
    parts = (part for name in MADE for part in sorted((root / name).glob("**/*.parquet")))
    return {str(part.relative_to(root)): part.read_bytes() for part in parts}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask cluster of this machine, as an engine. Its worker has another working folder than tests."""
    from distributed import LocalCluster

    with chdir(tmp_path_factory.mktemp("worker")), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about ports and event loops
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as there:
            yield there.scheduler_address.replace("tcp://", "dask://")


def test_processes_and_a_cluster_make_the_same_tables_as_this_process(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in (THREADS, PROCESSES, cluster):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        monkeypatch.chdir(folder)
        with lab(folder) as bench:
            bench.runs = Path("runs")  # as `run` has it by default, which means nothing to a worker
            assert with_engine(bench, name).finish(TEXT).state is RunState.DONE
            found.append(made(bench))
    assert len(found[0]) == 3
    assert found[0] == found[1] == found[2]


class LosingExecutor(Executor):
    """Executor that loses work of one kind with its worker. ``lost``: the number of the kind; grades come first."""

    def __init__(self, executor: Executor, lost: int) -> None:
        self.executor, self.lost, self.kinds = executor, lost, list[object]()

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if fn not in self.kinds:
            self.kinds.append(fn)
        if self.kinds.index(fn) != self.lost:
            return self.executor.submit(fn, *args, **kwargs)
        broken = Future[object]()
        broken.set_exception(BrokenExecutor("ended"))
        return broken


@pytest.mark.parametrize("lost", tiered((0, 1), ci=(1,)))
def test_what_a_lost_worker_left_undone_is_done_here_in_the_next_tick_and_said(tmp_path: Path, lost: int) -> None:
    with lab(tmp_path) as bench, bench.open(TEXT) as run:
        run.engine.executor = LosingExecutor(run.engine.executor, lost)
        status = drive(run, once=False, stop_at=bench.clock.now() + 200 * 3600)
        assert status.state is RunState.DONE
        told = [event.detail for event in run.store.events() if event.kind == "worker_lost"]
        assert len(told) == 1
        assert "lost the worker that made its tables (ended); the next tick makes them" in told[0]
        assert len(made(bench)) == 3
        assert set(bench.billed().values()) == {1}


def test_a_damaged_table_is_told_from_another_process_as_from_this_one(tmp_path: Path) -> None:
    error = DamagedTableError("the part is damaged", tmp_path / "part")
    arrived = pickle.loads(pickle.dumps(error))  # as an executor of processes carries it
    assert (type(arrived), str(arrived), arrived.path) == (DamagedTableError, str(error), error.path)


@pytest.mark.parametrize("name", ["process", "dask://", "dask:host", "tls://host:1", "tcp://host:1", "Threads"])
def test_a_name_that_is_no_engine_is_refused(tmp_path: Path, name: str) -> None:
    manifest, settings = load(tmp_path, RULE), Settings.from_environment({}, tmp_path).with_engine(name)
    with (
        pytest.raises(ManifestError, match=re.escape(f"engine '{name}'")),
        open_run(manifest, tmp_path / "runs", settings, only_scores=True),
    ):
        pass
    assert not (tmp_path / "runs").exists()


def test_a_cluster_that_is_not_there_ends_the_run_before_anything_is_paid_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.runs.job_engine.CONNECT_SECONDS", 0.2)
    with lab(tmp_path) as bench:
        own = bench.settings
        bench.settings = own.with_engine("dask://127.0.0.1:1")
        with pytest.raises(EngineError, match="cannot be reached"):
            bench.finish(RULE)
        assert not bench.billed()
        bench.settings = own
        assert bench.finish(RULE).state is RunState.DONE
        assert set(bench.billed().values()) == {1}
