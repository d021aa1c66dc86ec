"""A run by its name, its folder or its manifest; the only run by nothing; one spelling of an option everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from layton_batch.cli import looking
from layton_batch.cli.app import app
from layton_batch.cli.looking import INTERRUPTED, WATCH_SECONDS, watch_status
from layton_batch.clock import SystemClock
from layton_batch.loop import drive
from layton_batch.runs.folders import find_run, manifest_file
from tests.support.cli_harness import PROGRAM, call, desk
from tests.support.finished_runs import jury_run
from tests.support.lab import MODELS as NAMES
from tests.support.lab import lab, manifest_text, quiz_text
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT
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
    ("status", "RUN", "--json"), ("events", "RUN", "--json"), ("cost", "RUN", "--json"),
    ("leaderboard", "RUN", "--json"), ("compare", "RUN", *MODELS, "--json"), ("judges", "RUN", "--json"),
    ("label-plan", "RUN", "--labels", "2", "--json"), ("verify", "RUN", "--json"),
    ("export", "RUN", "--to", "ppi", "--out", "ppi.jsonl"), ("site", "RUN", "--out", "pages", "--json"),
    ("retry", "RUN", "--json"), ("cancel", "RUN", "--json"), ("plan", "RUN", "--offline", "--json"),
)  # fmt: skip
QUICK = tuple((command,) for command in LOOKING if command[0] not in {"label-plan", "verify", "site"})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", tiered(LOOKING, ci=QUICK), ids=lambda command: str(command[0]))
def test_name_folder_manifest_and_nothing_mean_the_same_run(command: tuple[str, ...]) -> None:
    endings = [
        call(*(part for word in command if (part := run if word == "RUN" else word)))
        for run in ("lab", "runs/lab", "quiz.toml", "")
    ]
    by_name, *others = [(ending.code, ending.out) for ending in endings]
    assert by_name[0] == 0, endings[0].err
    if command[0] == "status":
        assert others.pop() == (0, json.dumps([endings[0].json], indent=2) + "\n")  # of all runs, a list
    assert others == [by_name] * len(others)


def test_several_runs_are_named_where_one_is_meant(here: Path) -> None:
    other = here / "runs" / "other"
    shutil.copytree(here / "runs" / "lab", other)
    document = json.loads((other / "run.json").read_text(encoding="utf-8"))
    document |= {"run_id": "other", "manifest": {**document["manifest"], "name": "other"}}
    (other / "run.json").write_text(json.dumps(document), encoding="utf-8")
    for command in (("events",), ("leaderboard",), ("cost",), ("retry",), ("run",), ("plan",), ("compare", *MODELS)):
        ending = call(*command)
        assert (ending.code, ending.out) == (2, "")
        assert "there are several runs under runs: name one of " in ending.err
        assert {"lab", "other"} <= set(ending.err.replace(",", " ").split())


def test_without_a_run_the_sandboxs_are_named_and_what_to_do(offline: Path, here: Path) -> None:
    (here / "runs").rename(here / "runs-sandbox")
    ending = call("leaderboard")
    assert ending.code == 2
    assert "no run under runs" in ending.err
    assert "`--runs runs-sandbox` of the sandbox (there: lab)" in ending.err
    assert "the run 'lab' of quiz.toml is not under runs" in (rehearsed := call("status", "quiz.toml").err)
    advice = "add `--runs runs-sandbox` for its rehearsal in the sandbox; `layton-batch run"
    assert f"{advice} quiz.toml` begins it, and sends paid requests" in rehearsed
    (here / "project").mkdir()
    text = (here / "quiz.toml").read_text(encoding="utf-8")
    (here / "project" / "quiz.toml").write_text(text, encoding="utf-8")
    assert f"{advice} project/quiz.toml` begins its run, and sends paid requests" in call("status", "project").err
    (here / "new.toml").write_text(text.replace('name = "lab"', 'name = "new"', 1), encoding="utf-8")
    words = "`layton-batch run new.toml` begins it; --runs names another folder, such as `--runs runs-s"
    assert words in call("status", "new.toml").err
    every = call("status")
    assert (every.code, "no runs under runs; --runs names another folder, such as" in every.err) == (0, True)
    assert "name a manifest; `layton-batch init` writes one" in call("run").err
    assert "compare: give a source and two models" in call("compare", *MODELS).err
    (offline / "panel.toml").write_text("[[judges]]\n", encoding="utf-8")
    assert "panel.toml: it is no manifest" in call("status", "panel.toml").err


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("run", "quiz.toml", "--dry-run"), "`layton-batch plan MANIFEST` shows what `run` would send"),
        (("plan", "quiz.toml", "--limit", "2"), "plan has no --limit; set `limit` under [items] in the manifest"),
        (("plan", "quiz.toml", "--max-usd", "2"), "plan has no --max-usd; set `max_usd` under [budget] in the"),
        (("export", "quiz", "--format", "csv"), "export has no --format; --to names the form, such as --to csv"),
        (("import", "quiz", "ok.csv"), "say what ok.csv holds, an option before each file: --predictions,"),
        (("resume", "quiz"), "`layton-batch run` starts or continues a run"),
        (("leaderboard", "quiz.toml", "--sandbox"), "`layton-batch leaderboard … --runs runs-sandbox` takes them"),
        (("cost", "--sandbox"), "`layton-batch cost … --runs runs-sandbox` takes them"),
        (
            ("run", "quiz.csv", "--model", "openai:a", "anthropic:b"),
            "write --model before each model: --model openai:a --model anthropic:b",
        ),
        (("run", "--model", "openai:a", "anthropic:b", "quiz.csv"), "--model openai:a --model anthropic:b"),
        (("run", "quiz.csv", "--model", "openai:a", "b"), "not quiz.csv, b; repeat --model before each model"),
        (("run", "a.toml", "b.toml"), "run: give one manifest, file or task, not a.toml, b.toml"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_right_one(
    offline: Path, command: tuple[str, ...], advice: str
) -> None:
    ending = call(*command)
    assert (ending.code, ending.out) == (2, "")
    assert advice in ending.err
    assert list(offline.iterdir()) == []


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
        assert f"lab: its manifest is {path.name}" in named.err
        assert call("run").code == call("run", "runs/lab").code == 0


def test_pages_are_written_again_by_leaderboard_and_score_prints_the_same(here: Path) -> None:
    page = here / "runs" / "lab" / "site" / "index.html"
    board = call("leaderboard", "--json").out
    page.unlink()
    assert call("leaderboard", "--json").out == board
    assert not page.exists()
    assert call("leaderboard", "--update", "--json").out == board
    assert page.exists()
    assert call("score", "lab", "--json").out == call("score", "--json").out == board
    assert "  score " not in call("--help").out
    assert call("leaderboard", "nothing.jsonl", "--update").code == 2


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


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        (("init",), "--dir", "--out"),
        (("plan", "quiz.toml", "--offline", "--runs", "empty"), "--write", "--out"),
        (("label-plan", "--labels", "2"), "--output", "--out"),
    ],
)
def test_what_a_command_writes_is_named_out_and_the_older_word_is_still_taken(
    here: Path, command: tuple[str, ...], old: str, new: str
) -> None:
    ending = ".jsonl" if command[0] == "label-plan" else ""
    older, newer = here / f"older{ending}", here / f"newer{ending}"
    assert call(*command, old, older.name).code == 0
    assert call(*command, new, newer.name).code == 0
    written = [sorted(path.name for path in place.rglob("*")) for place in (older, newer)]
    assert written[0] == written[1]
    assert older.exists()
    text = call(command[0], "-h").out
    assert new in text
    assert f"{old} " not in text


@pytest.mark.usefixtures("here")
def test_labels_are_imported_by_either_word() -> None:
    for option in ("--labels", "--annotations"):
        ending = call("import", option, "nothing.jsonl")
        assert ending.code == 2
        assert "nothing.jsonl" in ending.err
    assert "--annotations" not in call("import", "-h").out


def test_a_shell_gets_commands_and_names_of_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def suggestions(*words: str) -> list[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "_LAYTON_BATCH_COMPLETE": "complete_bash",
                       "COMP_WORDS": " ".join(("layton-batch", *words)), "COMP_CWORD": str(len(words))}  # fmt: skip
        done = subprocess.run(PROGRAM, env=environment, cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert suggestions("lea") == ["leaderboard"]
    assert suggestions("status", "l") == ["lab"]
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # of whoever runs the tests
    assert "complete" in call("--show-completion").out


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
        waiting = [line for line in lines if " waiting  " in line]
        assert 1 <= len(waiting) <= len(clock.pauses)
        assert "at providers (openai 1)" in waiting[0]
        assert any(line.startswith("lab  done") for line in lines)
        assert watch_status("lab", bench.runs, clock, as_json=True) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "done"


def test_watching_draws_a_terminal_again_and_ends_with_130_at_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(looking, "live_screen", lambda **_: terminal)
    monkeypatch.setattr(looking.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(looking._Shown, "is_open", property(lambda _: len(terminal.drawn) < 3))

    class Stopped(ManualClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    assert watch_status("lab", here / "runs", Stopped(0.0), as_json=False) == INTERRUPTED
    assert len(terminal.drawn) == 1
    assert watch_status("lab", here / "runs", _Advancing(lambda: None), as_json=False) == 0
    assert len(terminal.drawn) == 3


def test_the_command_watches_by_the_machines_clock(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_clock: SystemClock, _seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", stop)
    assert call("status", "--watch").code == 0
    monkeypatch.setattr(looking._Shown, "is_open", property(lambda _: True))
    assert call("status", "lab", "--watch").code == INTERRUPTED == 130
