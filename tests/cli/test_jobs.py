"""The programs in ``jobs/``: wherever a scheduler starts them, they find the runs, and what was answered is never sent
again."""

from __future__ import annotations

import io
import runpy
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.support.cli_harness import ROOT, Desk, Ending, desk
from tests.support.lab import quiz_text

TICK, NIGHT, BILL = "submit_and_poll.py", "overnight_refresh.py", "cost_report.py"
ROWS = 2
"""What the run of two items and one model is billed for."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A folder with ``jobs/`` and a manifest, as the working folder."""
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    with desk(tmp_path, monkeypatch) as found:
        (found.folder / "jobs").symlink_to(ROOT / "jobs")
        found.write(quiz_text(limit=2))
        yield found


def job(bench: Desk, name: str, *arguments: str | Path) -> Ending:
    """A program of ``jobs/`` in this process, as ``python …/jobs/NAME`` runs it; our clock passes by itself."""
    script, out, err = bench.folder / "jobs" / name, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(script), run_name="__main__")
    assert isinstance(end.value.code, int)
    return Ending(end.value.code, out.getvalue(), err.getvalue())


def finish(bench: Desk, name: str, *arguments: str | Path) -> Ending:
    """Give the job until it is over."""
    for _ in range(20):
        end = job(bench, name, *arguments)
        if end.code != 75:
            return end
        bench.lab.clock.sleep(60.0)
    raise AssertionError(f"{name} never ends")


def bought(bench: Desk) -> list[int]:
    """How often each row was billed; batches are carried out when they are looked at, so all are."""
    return sorted(bench.lab.billed().values())


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (TICK, "environment"),
        pytest.param(NIGHT, "working folder", marks=pytest.mark.nightly),
    ],
)
def test_a_job_sends_nothing_the_second_time(
    bench: Desk, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    workspace = bench.folder / "workspace"
    if place == "environment":
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(workspace))
    assert finish(bench, name, "manifest.toml").code == 0
    assert bought(bench) == [1] * ROWS
    creates = bench.lab.server.request_counts()
    for again in (TICK, NIGHT):
        end = finish(bench, again, "manifest.toml")
        assert (again, end.code) == (again, 0), end.err
    assert bench.lab.server.request_counts() == creates
    assert bought(bench) == [1] * ROWS
    if place == "environment":
        assert [path.parent for path in bench.folder.glob("**/run.json")] == [workspace / "lab"]
    report = job(bench, BILL)
    assert report.code == 0
    assert "larch-2-mini" in report.out


@pytest.mark.parametrize("name", [TICK, NIGHT, BILL])
def test_a_job_refuses_a_place_of_runs_in_dot_env(bench: Desk, name: str) -> None:
    bench.write("LAYTON_BATCH_RUNS=elsewhere\n", ".env")
    end = job(bench, name, *([] if name == BILL else ["manifest.toml"]))
    assert end.code == 2
    assert f"LAYTON_BATCH_RUNS is not read from {bench.folder / '.env'}" in end.err
    assert bought(bench) == []


def test_who_names_a_folder_of_runs_means_it(bench: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYTON_BATCH_RUNS", str(bench.folder / "named by the environment"))
    for name in (TICK, NIGHT):
        assert finish(bench, name, "manifest.toml", "--runs", bench.folder / "named").code == 0
    assert [path.parent for path in bench.folder.glob("**/run.json")] == [bench.folder / "named" / "lab"]
    assert "larch-2-mini" in job(bench, BILL, "--runs", bench.folder / "named", "lab").out


def test_a_bill_says_where_it_looked(bench: Desk) -> None:
    assert f"no runs under {bench.folder / 'runs'} yet" in job(bench, BILL).out
    assert job(bench, BILL, "--runs", "ftp://somewhere").code == 2
