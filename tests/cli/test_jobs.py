"""The programs in ``jobs/`` and every schedule: on a fresh folder they find the runs, and nothing is sent again."""

from __future__ import annotations

import configparser
import importlib.util
import io
import os
import runpy
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from layton_batch.manifest.checks import load_manifest
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.settings import key_names
from tests.support.cli_harness import ROOT, Desk, Ending, desk
from tests.support.lab import answerer, quiz_text

TICK, NIGHT, BILL = "submit_and_poll.py", "overnight_refresh.py", "cost_report.py"
SCHEDULES = ROOT / "jobs" / "schedules"
MANIFEST = "manifests/layton-today.toml"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A folder with ``jobs/`` and a manifest of two requests, as the working folder."""
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    with desk(tmp_path, monkeypatch) as found:
        (found.folder / "jobs").symlink_to(ROOT / "jobs")
        found.write(quiz_text(limit=2))
        yield found


def job(bench: Desk, name: str, *arguments: str | Path) -> Ending:
    """Run a program of ``jobs/`` in this process, as ``python …/jobs/NAME`` does; our clock passes by itself."""
    script, out, err = bench.folder / "jobs" / name, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(script), run_name="__main__")
    assert isinstance(end.value.code, int)
    return Ending(end.value.code, out.getvalue(), err.getvalue())


def finish(bench: Desk, name: str, *arguments: str | Path) -> None:
    """Run the job until it is over."""
    for _ in range(20):
        end = job(bench, name, "manifest.toml", *arguments)
        if end.code != 75:
            break
        bench.lab.clock.sleep(60.0)
    assert end.code == 0, end.err


def test_jobs_find_the_runs_where_they_are_said_to_be_and_send_nothing_the_second_time(
    bench: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"no runs under {bench.folder / 'runs'} yet" in job(bench, BILL).out
    workspace = bench.folder / "workspace"
    monkeypatch.setenv("LAYTON_BATCH_RUNS", str(workspace))
    finish(bench, TICK)
    calls = bench.lab.server.request_counts()
    monkeypatch.setenv("LAYTON_BATCH_RUNS", str(bench.folder / "elsewhere"))
    for again in (TICK, NIGHT):
        finish(bench, again, "--runs", workspace)
    assert (bench.lab.server.request_counts(), sorted(bench.lab.billed().values())) == (calls, [1, 1])
    assert [path.parent for path in bench.folder.glob("**/run.json")] == [workspace / "lab"]
    assert "larch-2-mini" in job(bench, BILL, "--runs", workspace).out


def test_a_job_refuses_a_place_of_runs_in_dot_env(bench: Desk) -> None:
    assert job(bench, BILL, "--runs", "ftp://somewhere").code == 2
    bench.write("LAYTON_BATCH_RUNS=elsewhere\n", ".env")
    for name in (TICK, NIGHT, BILL):
        end = job(bench, name, *([] if name == BILL else ["manifest.toml"]))
        assert end.code == 2
        assert f"LAYTON_BATCH_RUNS is not read from {bench.folder / '.env'}" in end.err
    assert bench.lab.billed() == {}


# ---- schedules -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A home with ``evaluation/`` as the schedules expect it, and nothing in it that a run would make."""

    home: Path
    env: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.home / "evaluation"

    def sh(self, command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """As cron, a container or a workflow does it."""
        return subprocess.run(
            ["sh", "-c", command], cwd=cwd or self.home, env=self.env, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Sandbox(SandboxConfig(batch_seconds=0.05, answerer=answerer())) as server:
        folder = tmp_path / "evaluation"
        (folder / "manifests").mkdir(parents=True)
        (folder / "jobs").symlink_to(ROOT / "jobs")
        (folder / MANIFEST).write_text(quiz_text(limit=2, top="[budget]\nmax_usd = 5"), encoding="utf-8")
        for place in (folder / ".venv" / "bin", tmp_path / "bin"):
            place.mkdir(parents=True)
            for name, module in {"python": "", "layton-batch": "-m layton_batch"}.items():
                (place / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n', encoding="utf-8")
                (place / name).chmod(0o755)
        env = {
            "HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT),
            "LAYTON_BATCH_PACING": "0.001", **server.environment(),
        }  # fmt: skip
        yield Machine(tmp_path, env)


def test_crontab_workflow_and_airflow_refresh_one_fresh_folder(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (SCHEDULES / "crontab").read_text(encoding="utf-8").splitlines()
    tick, night, bill = [line.split(None, 5)[5] for line in lines if line.strip() and not line.startswith("#")]
    assert machine.sh(bill).returncode == 0  # before there is a run
    assert machine.sh(tick).returncode in (0, 75)  # 0: the batches ended while it was at it
    refresh = workflow_steps()["refresh"]
    assert machine.sh(refresh["run"], machine.folder).returncode == 0
    assert len(list((machine.folder / "public").glob("*/index.html"))) == 1
    assert (machine.folder / "public" / "summary.json").is_file()
    assert machine.sh(bill).returncode == 0
    assert "| 20" in (machine.folder / "public" / "cost.md").read_text(encoding="utf-8")

    operator, manifest = airflow(monkeypatch), machine.folder / MANIFEST
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    task = operator(task_id="t", manifest=str(manifest), runs=str(machine.folder / "runs"))
    assert task.asked[0] == "reschedule"  # no worker is held between two pokes
    assert task.poke({}) is True
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as endless:
        for name, value in endless.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(machine.folder / "endless"))
        assert operator(task_id="t", manifest=str(manifest)).poke({}) is False
    assert (machine.folder / "endless" / "lab").is_dir()

    manifest.write_text("oops", encoding="utf-8")
    failed = machine.sh(night.replace("--until 07:00", "--until 23:59"))
    assert failed.stdout.count("# Refreshed") == 1  # a mail is of one night, whole
    with pytest.raises(Failed, match="ended with 2"):
        operator(task_id="t", manifest=str(manifest), runs=os.devnull, max_usd=1).poke({})


@pytest.mark.nightly
def test_the_systemd_unit_runs_a_tick_and_takes_75_for_success(machine: Machine) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(SCHEDULES / "layton-batch.service", encoding="utf-8")
    service = {name: value.replace("%h", str(machine.home)) for name, value in unit["Service"].items()}
    assert service["EnvironmentFile"].startswith("-")  # the folder is fresh
    end = machine.sh(service["ExecStart"], Path(service["WorkingDirectory"]))
    assert end.returncode in (0, int(service["SuccessExitStatus"])), end.stderr
    timer = configparser.ConfigParser(interpolation=None)
    timer.read(SCHEDULES / "layton-batch.timer", encoding="utf-8")
    assert timer["Timer"]["OnCalendar"] == "*:0/10"


def workflow_steps() -> dict[str, dict[str, Any]]:
    """Return the steps of the workflow, by their names or the actions that they use."""
    steps = yaml.safe_load((SCHEDULES / "github-actions.yml").read_text(encoding="utf-8"))["jobs"]["refresh"]["steps"]
    return {step.get("name") or str(step.get("uses")).partition("@")[0]: step for step in steps}


def test_the_workflow_has_every_key_and_keeps_what_was_paid_for_however_it_ends() -> None:
    manifest = load_manifest(ROOT / MANIFEST)
    secrets, kept = workflow_steps()["refresh"]["env"], workflow_steps()["actions/cache/save"]
    assert {key_names(spec.provider)[0] for spec in manifest.all_specs()} <= secrets.keys()
    assert all(value == f"${{{{ secrets.{name} }}}}" for name, value in secrets.items())
    assert (kept["if"], kept["with"]["path"]) == ("always()", "runs")


class Failed(Exception):
    """Airflow's word for a task that no retry helps."""


def airflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The operator, with the two names of Airflow's that it uses as Airflow documents them."""

    class Sensor:
        def __init__(self, *, mode: str, poke_interval: float, timeout: float, **options: object) -> None:
            self.asked = (mode, poke_interval, timeout, options)
            self.log = types.SimpleNamespace(info=lambda *_words: None)

    for name in ("airflow", "airflow.exceptions", "airflow.sensors", "airflow.sensors.base"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    vars(sys.modules["airflow.exceptions"])["AirflowFailException"] = Failed
    vars(sys.modules["airflow.sensors.base"])["BaseSensorOperator"] = Sensor
    found = importlib.util.spec_from_file_location("airflow_operator", SCHEDULES / "airflow_operator.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.LaytonBatchRun
