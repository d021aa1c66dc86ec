"""Every schedule works on a fresh folder: what it would run is run here, against the sandbox."""

from __future__ import annotations

import configparser
import importlib.util
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from layton_batch.manifest.checks import load_manifest
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.settings import Settings
from tests.support.cli_harness import ROOT
from tests.support.lab import answerer, quiz_text

SCHEDULES = ROOT / "jobs" / "schedules"
MANIFEST = "manifests/layton-today.toml"


def test_the_workflow_has_a_key_for_every_provider_of_its_manifest() -> None:
    manifest = load_manifest(ROOT / MANIFEST)
    given = (SCHEDULES / "github-actions.yml").read_text(encoding="utf-8")
    settings = Settings.from_environment({}, ROOT / "jobs")
    for spec in (*manifest.model_specs(), *(judge.model for judge in manifest.panel())):
        (variable, *_) = settings.key_names(spec.provider)
        assert f"{variable}: ${{{{ secrets.{variable} }}}}" in given


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
        places = {"python": "", "layton-batch": "-m layton_batch"}
        for place in (folder / ".venv" / "bin", tmp_path / "bin"):
            place.mkdir(parents=True)
            for name, module in places.items():
                (place / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n', encoding="utf-8")
                (place / name).chmod(0o755)
        env = {
            "HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT),
            "LAYTON_BATCH_PACING": "0.001", **server.environment(),
        }  # fmt: skip
        yield Machine(tmp_path, env)


def cron_lines() -> list[str]:
    """The commands of the crontab, which follow five fields."""
    lines = (SCHEDULES / "crontab").read_text(encoding="utf-8").splitlines()
    return [line.split(None, 5)[5] for line in lines if line.strip() and not line.startswith("#")]


def test_the_crontab_works_on_a_fresh_folder_and_ends_with_a_page_and_a_bill(machine: Machine) -> None:
    tick, night, bill = cron_lines()
    assert machine.sh(tick).returncode in (0, 75)  # 0: the batches ended while it was at it
    done = machine.sh(night.replace("--until 07:00", "--until 23:59"))
    assert done.returncode == 0, (machine.folder / "runs" / "cron.log").read_text(encoding="utf-8")
    assert len(list((machine.folder / "public").glob("*/index.html"))) == 1
    assert machine.sh(bill).returncode == 0
    assert "| 20" in (machine.folder / "public" / "cost.md").read_text(encoding="utf-8")


def test_a_bill_before_there_is_a_run_is_no_error(machine: Machine) -> None:
    assert machine.sh(cron_lines()[2]).returncode == 0


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


@pytest.mark.nightly
def test_the_kubernetes_job_runs_a_tick_and_takes_75_for_success(machine: Machine) -> None:
    job = yaml.safe_load((SCHEDULES / "cronjob.yaml").read_text(encoding="utf-8"))
    assert (job["kind"], job["spec"]["concurrencyPolicy"]) == ("CronJob", "Forbid")
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    shell, option, command = container["command"]
    assert (shell, option) == ("sh", "-c")
    for mounted in ("/manifests", "/runs"):
        command = command.replace(mounted, f"{machine.folder}{mounted}")
    assert machine.sh(command).returncode == 0


def test_the_workflow_refreshes_and_keeps_what_was_paid_for_however_it_ends(machine: Machine) -> None:
    workflow = yaml.safe_load((SCHEDULES / "github-actions.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["refresh"]["steps"]
    [refresh] = [step for step in steps if step.get("name") == "refresh"]
    command = refresh["run"]
    assert machine.sh(command, machine.folder).returncode == 0
    assert (machine.folder / "public" / "summary.json").is_file()
    [kept] = [step for step in steps if "cache/save" in step.get("uses", "")]
    assert (kept["if"], kept["with"]["path"]) == ("always()", "runs")
    assert all(value == f"${{{{ secrets.{name} }}}}" for name, value in refresh["env"].items())


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


def test_the_airflow_operator_pokes_until_the_run_is_done(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = airflow(monkeypatch)
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    task = operator(task_id="t", manifest=str(machine.folder / MANIFEST), runs=str(machine.folder / "runs"))
    assert task.asked[0] == "reschedule"  # no worker is held between two pokes
    pokes = []
    while not pokes or not pokes[-1]:
        pokes.append(task.poke({}))
        assert len(pokes) < 20
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as endless:
        for name, value in endless.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(machine.folder / "endless"))
        assert operator(task_id="t", manifest=str(machine.folder / MANIFEST)).poke({}) is False
    assert (machine.folder / "endless" / "lab").is_dir()
    refused = operator(task_id="t", manifest=str(machine.folder / "nothing.toml"), runs=os.devnull, max_usd=1)
    with pytest.raises(Failed, match="ended with 2"):
        refused.poke({})
