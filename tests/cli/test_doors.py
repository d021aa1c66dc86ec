"""A run by its name, its folder or its manifest; the only run by nothing; one spelling of an option everywhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from layton_batch.cli import status_command
from layton_batch.cli.app import GROUPS, app
from layton_batch.cli.status_command import WATCH_INTERRUPTED, WATCH_SECONDS, watch_status
from layton_batch.clock import SystemClock
from layton_batch.loop import drive
from layton_batch.runs.folders import find_run, manifest_file
from tests.support.cli_harness import call, desk
from tests.support.finished_runs import jury_run
from tests.support.lab import MODELS as NAMES
from tests.support.lab import lab, manifest_text, quiz_text
from tests.support.manual_clock import ManualClock
from tests.support.tiers import tiered

TEXT = manifest_text(("openai", "anthropic"))
MODELS = (NAMES["openai"], NAMES["anthropic"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the run ``lab`` and its manifest."""
    folder = tmp_path_factory.mktemp("finished")
    jury_run(folder)
    return folder


@pytest.fixture
def here(finished: Path, offline: Path) -> Path:
    """A copy of it, where no provider can be reached and no key is a sandbox's."""
    shutil.copytree(finished / "runs", offline / "runs")
    (offline / "quiz.toml").write_text(TEXT, encoding="utf-8")
    return offline


LOOKING = (
    ("status", "RUN", "--json"), ("status", "RUN", "--log", "--json"), ("cost", "RUN", "--format", "json"),
    ("leaderboard", "RUN", "--format", "json"), ("compare", "RUN", *MODELS, "--format", "json"),
    ("judges", "RUN", "--json"),
    ("label", "plan", "RUN", "--labels", "2", "--json"), ("verify", "RUN", "--json"),
    ("export", "RUN", "--to", "ppi", "--out", "ppi.jsonl"), ("site", "RUN", "--out", "pages"),
    ("retry", "RUN"), ("cancel", "RUN", "--json"), ("plan", "RUN", "--offline", "--json"),
)  # fmt: skip
QUICK = tuple((command,) for command in LOOKING if command[0] not in {"label", "verify", "site"})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", tiered(LOOKING, ci=QUICK), ids=lambda command: str(command[0]))
def test_name_folder_manifest_and_nothing_mean_the_same_run(command: tuple[str, ...]) -> None:
    endings = [
        call(*(part for word in command if (part := run if word == "RUN" else word)))
        for run in ("lab", "runs/lab", "quiz.toml", "")
    ]
    by_name, *others = [(ending.code, ending.out) for ending in endings]
    assert by_name[0] == 0, endings[0].err
    if command == ("status", "RUN", "--json"):
        assert others.pop() == (0, json.dumps([endings[0].json], indent=2) + "\n")  # of all runs, a list
    assert others == [by_name] * len(others)


def test_several_runs_are_named_where_one_is_meant(here: Path) -> None:
    other = here / "runs" / "other"
    shutil.copytree(here / "runs" / "lab", other)
    document = json.loads((other / "run.json").read_text(encoding="utf-8"))
    document |= {"run_id": "other", "manifest": {**document["manifest"], "name": "other"}}
    (other / "run.json").write_text(json.dumps(document), encoding="utf-8")
    for command in (
        ("status", "--log"),
        ("leaderboard",),
        ("cost",),
        ("retry",),
        ("run",),
        ("plan",),
        ("compare", *MODELS),
    ):
        ending = call(*command)
        assert (ending.code, ending.out) == (2, "")
        assert "there are several runs under runs: name one of " in ending.err
        assert {"lab", "other"} <= set(ending.err.replace(",", " ").split())


def test_a_runs_manifest_is_the_only_file_of_its_name_where_it_was_begun(finished: Path, here: Path) -> None:
    folder = find_run("lab", here / "runs")
    assert manifest_file(folder) == finished / "manifest.toml"
    copy = finished / "copy.toml"
    copy.write_text(TEXT, encoding="utf-8")
    try:
        ending = call("plan", "lab", "--offline")
    finally:
        copy.unlink()
    assert ending.code == 2
    assert "(of that name there: copy.toml, manifest.toml); name it" in ending.err


def test_a_run_goes_on_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text())
        assert call("run", path, "--once").code == 75
        named = call("run", "lab")
        assert named.code == 0
        assert call("run").code == call("run", "runs/lab").code == 0


def _without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["retry", "cancel"])
def test_what_calls_no_provider_needs_no_address_of_a_sandbox(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_addresses(monkeypatch)
    ending = call(command)
    assert ending.code == 0, ending.err
    assert ("Nothing to retry" if command == "retry" else "there is nothing to cancel") in ending.err


def test_a_made_up_run_with_open_batches_says_how_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        assert call("run", bench.write(quiz_text()), "--once").code == 75
        _without_addresses(monkeypatch)
        assert call("retry").code == 0
        ending = call("cancel")
    assert ending.code == 2
    assert "`layton-batch run --sandbox` goes on with it" in ending.err


@pytest.mark.usefixtures("here")
def test_judges_without_a_label_say_so_under_no_empty_heading() -> None:
    text = " ".join(call("judges").out.split())
    assert "no judged answer has a person's label" in text
    assert "Leniency by the family" not in text
    assert "accuracy –" not in text


# ---- spelling ------------------------------------------------------------------------------------------------------


def test_every_command_has_a_short_help() -> None:
    for command in typer.main.get_group(app).commands:
        assert call(command, "-h").out == call(command, "--help").out != ""


def test_commands_are_listed_by_group_and_there_are_few_options() -> None:
    commands = typer.main.get_group(app).commands
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(commands)
    groups = [command for command in commands.values() if isinstance(command, TyperGroup)]
    leaves = [*commands.values(), *(inner for group in groups for inner in group.commands.values())]
    options = [parameter for command in leaves for parameter in command.params if parameter.opts[0].startswith("--")]
    assert (len(commands), len(options) <= 120) == (22, True)


# ---- status --watch ------------------------------------------------------------------------------------------------


class _Terminal:
    """A screen that keeps what is drawn."""

    def __init__(self) -> None:
        self.drawn: list[object] = []
        self.console = self
        self.width = 80

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, screen: object) -> None:
        self.drawn.append(screen)


class _Advancing(ManualClock):
    """A clock whose sleep lets the sandbox and the run go on for a step."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__(0.0)
        self.step, self.pauses = step, list[float]()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.step()


def test_watching_prints_a_line_for_each_change_and_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = manifest_text()
    with lab(tmp_path) as bench:

        def step() -> None:
            with bench.open(text) as run:
                drive(run, once=True, stop_at=None)
            bench.clock.sleep(30)

        monkeypatch.chdir(tmp_path)
        step()
        clock = _Advancing(step)
        assert watch_status("lab", bench.runs, clock, as_json=False) == 0
        lines = capsys.readouterr().out.splitlines()
        assert set(clock.pauses) == {WATCH_SECONDS}
        waiting = [line for line in lines if " requests answered; " in line]
        assert 1 <= len(waiting) <= len(clock.pauses)
        assert "openai: 4 at the provider" in waiting[0]
        assert any(line.startswith("lab  done") for line in lines)
        assert watch_status("lab", bench.runs, clock, as_json=True) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "done"


def test_watching_draws_a_terminal_again_and_ends_with_130_at_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(status_command, "live_screen", lambda **_: terminal)
    monkeypatch.setattr(status_command.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(status_command, "_is_open", lambda _: len(terminal.drawn) < 3)

    class Stopped(ManualClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    assert watch_status("lab", here / "runs", Stopped(0.0), as_json=False) == WATCH_INTERRUPTED
    assert len(terminal.drawn) == 1
    assert watch_status("lab", here / "runs", _Advancing(lambda: None), as_json=False) == 0
    assert len(terminal.drawn) == 3


def test_the_command_watches_by_the_machines_clock(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_clock: SystemClock, _seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", stop)
    assert call("status", "--watch").code == 0
    monkeypatch.setattr(status_command, "_is_open", lambda _: True)
    assert call("status", "lab", "--watch").code == WATCH_INTERRUPTED == 130
