"""`plan` and `run` say how much was asked already, and `run` asks before it sends without a budget."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from layton_batch.cli import conversation
from layton_batch.cli.conversation import TerminalConversation
from layton_batch.cli.notes import notes_said
from layton_batch.commands import consent
from layton_batch.commands.driving import Conversation, open_and_drive
from layton_batch.errors import NotAgreedError
from layton_batch.files.run_folder import RunFolder
from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.records import Item, Prompt
from layton_batch.runs.context import Run
from layton_batch.runs.folders import remember, was_begun
from layton_batch.runs.status import RunState, Status
from layton_batch.settings import Settings
from layton_batch.stages.preview import plan_to_send
from layton_batch.states import Lifecycle
from layton_batch.tasks.mcq_idk.task import McqIdkTask
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, manifest_text, quiz_text

TWO, THREE = ("openai", "anthropic"), ("openai", "anthropic", "mistral")


def agree(run: Run, settings: Settings, *, yes: bool, quiet: bool, is_gone: bool = False) -> None:
    """Ask on the terminal."""
    with notes_said():
        ask = TerminalConversation(is_quiet=quiet).ask
        consent.agree(run, settings, ask, yes=yes, quiet=quiet, is_gone=is_gone)


def planned(bench: Lab, text: str) -> tuple[object, ...]:
    manifest = bench.folder / "plan.toml"
    manifest.write_text(text, encoding="utf-8")
    told = call("plan", manifest, "--runs", bench.runs, "--offline", "--json").table()
    return told["requests"], told["answered"], told["to_send"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)


def test_a_plan_says_what_was_asked_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab(tmp_path) as bench:
        for name, value in bench.server.environment().items():
            monkeypatch.setenv(name, value)  # what a sandbox answered counts at a sandbox only
        assert planned(bench, manifest_text(TWO, limit=2)) == (8, 0, 8)
        bench.finish(manifest_text(TWO, limit=2))
        assert planned(bench, manifest_text(TWO, limit=2)) == (8, 8, 0)
        assert planned(bench, manifest_text(THREE, limit=2)) == (12, 8, 4)
        assert planned(bench, manifest_text(TWO, limit=3)) == (12, 8, 4)
        elsewhere = manifest_text(TWO, limit=2).replace('name = "lab"', 'name = "another"', 1)
        assert planned(bench, elsewhere) == (8, 8, 0)  # what its jury is asked about is known too
        other_jury = elsewhere.replace('"tern-3-referee"', '"tern-4-referee"')
        assert planned(bench, other_jury) == (8, 4, 4)
        longer = elsewhere.replace("limit = 2", "limit = 3")
        assert planned(bench, longer) == (12, 8, 4)
        (tmp_path / "plan.toml").write_text(manifest_text(THREE, limit=2), encoding="utf-8")
        text = call("plan", tmp_path / "plan.toml", "--runs", bench.runs, "--offline").out
        assert "to send 4 of 12 requests; 8 answered already" in text


def test_a_second_run_of_what_is_answered_says_that_there_is_nothing_to_pay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = manifest_text(TWO, limit=2)
    with lab(tmp_path) as bench:
        bench.finish(text)
        billed = len(bench.billed())
        with bench.open(text.replace('name = "lab"', 'name = "another"', 1)) as run:
            agree(run, bench.settings, yes=False, quiet=False)
            drive(run, once=False, stop_at=None)
        assert "8 requests, of which 8 answered already, 0 to send: nothing to pay" in capsys.readouterr().err
        assert len(bench.billed()) == billed


def asks(bench: Lab, text: str, *, yes: bool = False) -> None:
    """The providers being elsewhere."""
    with bench.open(text) as run:
        agree(run, Settings.from_environment({}, bench.folder), yes=yes, quiet=False)


def test_without_a_budget_and_without_anybody_there_a_run_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        with pytest.raises(NotAgreedError, match=r"add `\[budget\]` with `max_usd = 0.\d+` to the manifest") as refused:
            asks(bench, text)
        assert refused.value.exit_code == 3
        assert "2 requests, of which 0 answered already, 2 to send: expected $" in capsys.readouterr().err
        asks(bench, text, yes=True)
        asks(bench, text.replace("[[models]]", "[budget]\nmax_usd = 1\n[[models]]", 1))


def write_items(bench: Lab, **references: str) -> None:
    """Write riddles of layton, a reference each."""
    rows = [
        {"id": name, "split": "llm", "description": f"What is {name}?", "answer": reference, "solution": "So it is."}
        for name, reference in references.items()
    ]
    (bench.folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_verdicts_on_a_changed_reference_are_counted_and_agreed_to_before_they_are_paid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = manifest_text(("openai",), items="items.jsonl")
    with lab(tmp_path) as bench:
        for name, value in bench.server.environment().items():
            monkeypatch.setenv(name, value)
        write_items(bench, a="a piano", b="a clock")
        bench.finish(text)
        predictions = tmp_path / "finch.jsonl"
        predictions.write_text('{"item_id": "b", "answer": "a clock", "justification": "It ticks."}\n')
        assert call("import", bench.run_folder(text).root, "--model", "finch", "--predictions", predictions).code == 0
        assert planned(bench, text) == (5, 4, 1)  # the verdict on the imported answer
        assert bench.finish(text, agree=False).state is RunState.NEEDS_PERSON
        with pytest.raises(NotAgreedError, match="has no budget"):
            asks(bench, text)
        asks(bench, text, yes=True)
        bench.finish(text)
        billed = len(bench.billed())
        write_items(bench, a="a piano", b="a watch")
        assert planned(bench, text) == (5, 3, 2)
        with pytest.raises(NotAgreedError, match="has no budget"):
            asks(bench, text)
        assert "3 answered already, 2 to send (2 verdicts again, " in capsys.readouterr().err
        refused = bench.finish(text, agree=False)
        assert (refused.state, len(bench.billed())) == (RunState.NEEDS_PERSON, billed)
        assert "nobody agreed to send it" in str(refused.reason)
        asks(bench, text, yes=True)
        bench.finish(text)
        assert len(bench.billed()) == billed + 2


def test_a_run_renders_each_prompt_once_and_sends_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    render = McqIdkTask.prompt

    def prompt(task: McqIdkTask, item: Item) -> Prompt:
        rendered.append(item.id)
        return render(task, item)

    monkeypatch.setattr(McqIdkTask, "prompt", prompt)
    with lab(tmp_path) as bench, bench.open(BUDGETED) as run:
        planned = plan_to_send(run, bench.settings)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.PLANNED]
        run.store.set_agreed(is_agreed=True)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.IN_FLIGHT]
        assert run.store.batches()[0].requests == planned.to_send == len(rendered) == 2


def test_a_person_who_is_there_is_asked_once_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []
    answers = [False, True]

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        questions.append(question)
        return answers.pop(0)

    monkeypatch.setattr(conversation.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(conversation.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(conversation.typer, "confirm", confirm)
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        with pytest.raises(NotAgreedError, match="nothing was sent"):
            asks(bench, text)
        asks(bench, text)
        assert questions == ["There is no [budget]. Send them?"] * 2
        with bench.open(text) as run:
            advance(run)
        asks(bench, text)
        assert len(questions) == 2


BUDGETED = quiz_text(limit=2, top="[budget]\nmax_usd = 1\n")


def test_another_benchmark_under_the_name_of_a_run_says_what_it_pays_for_again(tmp_path: Path) -> None:
    other = quiz_text(("mistral",), limit=2, top="[budget]\nmax_usd = 1\n")
    with lab(tmp_path) as bench:
        bench.finish(BUDGETED)
        asks(bench, BUDGETED.replace("limit = 2", "limit = 3"))  # the answers of before are used
        with pytest.raises(NotAgreedError, match=r"lab paid for 2 requests before, and .* pays for 2 requests") as end:
            asks(bench, other)
        assert end.value.exit_code == 3
        assert "--yes" in str(end.value)
        assert bench.table(BUDGETED, "predictions").height == 2  # after a "no" the run is as it was
        with pytest.raises(NotAgreedError, match="lab paid for 2 requests before"):
            asks(bench, other)
        asks(bench, other, yes=True)
        asks(bench, other.replace('name = "lab"', 'name = "another"', 1))


def test_a_run_whose_folder_is_gone_says_that_all_of_it_is_paid_for_again(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        settings = Settings.from_environment({"XDG_STATE_HOME": str(tmp_path / "user")}, bench.folder)
        with bench.open(BUDGETED) as run:
            remember(run.folder, settings)
        assert was_begun(run.folder, settings)
        assert not was_begun(RunFolder(bench.runs / "another"), settings)
        shutil.rmtree(bench.runs)
        with bench.open(BUDGETED) as run:
            elsewhere = Settings.from_environment({}, bench.folder)
            with pytest.raises(NotAgreedError, match=r"folder was removed: all of it is paid for again, 2 requests"):
                agree(run, elsewhere, yes=False, quiet=True, is_gone=True)
            agree(run, elsewhere, yes=True, quiet=True, is_gone=True)
            agree(run, elsewhere, yes=False, quiet=True)


def run_elsewhere(bench: Lab, text: str, *, yes: bool = False) -> Status:
    """Do as `run --once` of somebody whom nobody can ask."""
    environment = {**bench.server.environment(), "XDG_STATE_HOME": str(bench.folder / "user")}
    settings = Settings.from_environment(environment, bench.folder)
    with open_and_drive(
        bench.manifest(text), bench.runs, settings, bench.clock, Conversation(), once=True, yes=yes, offline=True
    ) as (_, status):
        return status


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the providers for ones that are not on this machine."""
    monkeypatch.setattr(consent, "_is_here", lambda *_: False)


@pytest.mark.usefixtures("elsewhere")
def test_who_does_not_agree_is_asked_again_although_the_folder_is_there_by_then(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        run_elsewhere(bench, BUDGETED)
        shutil.rmtree(bench.runs)
        for _ in range(2):
            with pytest.raises(NotAgreedError, match="folder was removed"):
                run_elsewhere(bench, BUDGETED)
        run_elsewhere(bench, BUDGETED, yes=True)
        run_elsewhere(bench, BUDGETED.replace("limit = 2", "limit = 3"))


@pytest.mark.usefixtures("elsewhere")
def test_what_is_paid_for_is_collected_although_nobody_agrees_to_more(tmp_path: Path) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        run_elsewhere(bench, text, yes=True)
        edited = text.replace("limit = 2", "limit = 3")
        for _ in range(3):
            with pytest.raises(NotAgreedError, match="has no budget"):
                run_elsewhere(bench, edited)
            bench.clock.sleep(100_000.0)
        assert bench.table(edited, "responses").height == 2
        assert len(bench.billed()) == 2


@pytest.mark.usefixtures("elsewhere")
def test_an_edit_of_a_cancelled_run_is_asked_about_once_it_is_retried(tmp_path: Path) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        run_elsewhere(bench, text, yes=True)
        with bench.open(text) as run:
            run.store.set_cancelled(bench.clock.now())
        edited = text.replace("limit = 2", "limit = 3")
        run_elsewhere(bench, edited)
        bench.retry()
        with pytest.raises(NotAgreedError, match="has no budget"):
            run_elsewhere(bench, edited)


def test_a_plan_never_sets_more_aside_than_the_budget_has(tmp_path: Path) -> None:
    budget = '[budget]\nmax_usd = {}\nbound = "expected"\n'
    path = tmp_path / "plan.toml"
    for usd, words in ((0.0001, r"budget \$0.0001, less than the \$[\d.]+ to be set aside"),
                       (50, r"budget \$50.00, of which \$[\d.]+ is set aside")):  # fmt: skip
        path.write_text(manifest_text(TWO, limit=2, top=budget.format(usd)), encoding="utf-8")
        text = " ".join(call("plan", path, "--offline").out.split())
        assert re.search(words, text)
        assert ("Raise max_usd, lower safety in [budget]" in text) == (usd < 1)
        assert "set bound" not in text


def test_nobody_is_asked_about_providers_on_this_machine(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(manifest_text(("openai",), limit=2)) as run:
        agree(run, bench.settings, yes=False, quiet=True)
