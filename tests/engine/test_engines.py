"""Whatever makes the tables of jobs, they are the same; a worker that ends in the middle loses nothing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from layton_batch.errors import DamagedTableError, EngineError, ManifestError
from layton_batch.loop import drive
from layton_batch.runs.engine import MOST_ENDED, PROCESSES, THREADS, Engine
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from tests.cli.cli_harness import call
from tests.pipeline.lab import Lab, lab, manifest_text

MADE = ("predictions", "verdicts", "scores", "grades")
TEXT = manifest_text(("openai", "anthropic"), limit=3)


def with_engine(bench: Lab, name: str) -> Lab:
    bench.settings = bench.settings.with_engine(name)
    return bench


def made(bench: Lab, text: str = TEXT) -> Mapping[str, bytes]:
    """The bytes of every part that an engine writes."""
    root = bench.run_folder(text).tables
    parts = (part for name in MADE for part in sorted((root / name).glob("**/*.parquet")))
    return {str(part.relative_to(root)): part.read_bytes() for part in parts}


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a Dask cluster with two workers, processes of this machine."""
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about ports and event loops
        there = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        )
        try:
            yield f"dask://{there.scheduler_address.removeprefix('tcp://')}"
        finally:
            there.close()


def end_in_the_middle(path: Path) -> str:
    """End the worker, the first time."""
    if path.exists():
        return "done"
    path.touch()
    os._exit(1)


def raise_damage(path: Path) -> None:
    raise DamagedTableError(f"{path} is damaged", path)


@pytest.mark.parametrize("task", ["layton", "rule"])
def test_processes_and_a_cluster_make_the_same_tables_as_this_process(tmp_path: Path, task: str) -> None:
    text = TEXT if task == "layton" else RULE
    found = []
    with cluster() as address:
        for name in (THREADS, PROCESSES, address):
            folder = tmp_path / str(len(found))
            folder.mkdir()
            with lab(folder) as bench:
                assert with_engine(bench, name).finish(text).state is RunState.DONE
                found.append(made(bench, text))
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]


RULE = (
    'name = "lab"\ntask = "rome"\n[items]\nsource = "bundled"\nsplit = "llm"\nlimit = 3\n'
    '[[models]]\nname = "larch-2-mini"\nprovider = "openai"\nmodel = "larch-2-mini"\nmax_output_tokens = 4000\n'
    '[[models]]\nname = "wagtail-5"\nprovider = "anthropic"\nmodel = "wagtail-5"\nmax_output_tokens = 4000\n'
)


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
        told = [event.detail for event in run.store.events() if event.kind == "worker_ended"]
        assert len(told) == 2
        assert "the next tick writes them" in told[0]
        assert "the next tick counts them" in told[1]
        assert len(made(bench)) == 6
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


@pytest.mark.parametrize("name", ["", "process", "dask://", "dask:host", "threads "])
def test_a_name_that_is_no_engine_is_refused_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError, match="engine"):
        Engine(name)


def test_the_command_says_which_engines_there_are(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(TEXT, encoding="utf-8")
    ended = call("run", manifest, "--runs", tmp_path, "--engine", "fast", "--yes")
    assert ended.code == 2
    assert "write threads, processes or dask://HOST:PORT" in ended.err


def test_a_cluster_that_is_not_there_ends_the_run_with_a_sentence_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layton_batch.runs.engine.CONNECT_SECONDS", 0.2)
    with lab(tmp_path) as bench:
        own = bench.settings
        bench.settings = own.with_engine("dask://127.0.0.1:1")
        with pytest.raises(EngineError, match="cannot be reached"):
            bench.finish(TEXT)
        billed = bench.billed()
        bench.settings = own
        assert bench.finish(TEXT).state is RunState.DONE
        assert all(bench.billed()[name] == times for name, times in billed.items())
        assert set(bench.billed().values()) == {1}


def test_the_environment_names_the_engine(tmp_path: Path) -> None:
    assert Settings.from_environment({"LAYTON_BATCH_ENGINE": "processes"}, tmp_path).engine == PROCESSES
    assert Settings.from_environment({}, tmp_path).engine == THREADS
