"""`plan` and `run` say how much was asked already, and `run` asks before it sends without a budget."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.cli import conversation
from layton_batch.cli.conversation import TerminalConversation
from layton_batch.cli.terminal import notes_said
from layton_batch.commands import driving
from layton_batch.commands.driving import Conversation, open_and_drive
from layton_batch.errors import NotAgreedError
from layton_batch.pipeline import advance
from layton_batch.records import Item, Prompt
from layton_batch.runs.status import RunState, Status
from layton_batch.settings import Settings
from layton_batch.stages.preview import plan_to_send
from layton_batch.states import Lifecycle
from layton_batch.tasks.mcq_idk.task import McqIdkTask
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, manifest_text, quiz_text

BUDGETED = quiz_text(limit=2, top="[budget]\nmax_usd = 1\n")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose sandbox the environment points at: what it answered counts at a sandbox only."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    with lab(tmp_path) as found:
        for name, value in found.server.environment().items():
            monkeypatch.setenv(name, value)
        yield found


def planned(bench: Lab, text: str) -> tuple[object, ...]:
    manifest = bench.folder / "plan.toml"
    manifest.write_text(text, encoding="utf-8")
    told = call("plan", manifest, "--runs", bench.runs, "--offline", "--json").table()
    return told["requests"], told["answered"], told["to_send"]


def asks(bench: Lab, text: str, *, yes: bool = False, is_here: bool = False) -> None:
    """Ask on the terminal whether to send; the providers are elsewhere unless ``is_here``."""
    settings = bench.settings if is_here else Settings.from_environment({}, bench.folder)
    with bench.open(text) as run, notes_said():
        driving.agree(run, settings, TerminalConversation(), yes=yes)


def test_without_a_budget_and_without_anybody_there_a_run_sends_nothing(
    bench: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    text = quiz_text(limit=2)
    with pytest.raises(NotAgreedError, match=r"add `\[budget\]` with `max_usd = 0.\d+` to the manifest") as end:
        asks(bench, text)
    assert end.value.exit_code == 3
    assert "2 requests, of which 0 answered already, 2 to send: expected $" in capsys.readouterr().err
    asks(bench, text, yes=True)
    asks(bench, text.replace("[[models]]", "[budget]\nmax_usd = 1\n[[models]]", 1))
    asks(bench, text, is_here=True)  # nobody is asked about providers on this machine
    assert bench.billed() == {}


def write_items(bench: Lab, **references: str) -> None:
    """Write riddles of layton, a reference each."""
    rows = [
        {"id": name, "split": "llm", "description": f"What is {name}?", "answer": reference, "solution": "So it is."}
        for name, reference in references.items()
    ]
    (bench.folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_verdicts_on_a_changed_reference_are_counted_and_agreed_to_before_they_are_paid(
    bench: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    text = manifest_text(("openai",), items="items.jsonl")
    write_items(bench, a="a piano", b="a clock")
    bench.finish(text)
    predictions = bench.folder / "finch.jsonl"
    predictions.write_text('{"item_id": "b", "answer": "a clock", "justification": "It ticks."}\n')
    assert call("import", bench.run_folder(text).root, "--model", "finch", "--predictions", predictions).code == 0
    assert planned(bench, text) == (5, 4, 1)  # the verdict on the imported answer
    assert bench.finish(text, agree=False).state is RunState.NEEDS_PERSON
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


def test_a_run_renders_each_prompt_once_and_sends_what_it_shows(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    render = McqIdkTask.prompt

    def prompt(task: McqIdkTask, item: Item) -> Prompt:
        rendered.append(item.id)
        return render(task, item)

    monkeypatch.setattr(McqIdkTask, "prompt", prompt)
    with bench.open(BUDGETED) as run:
        shown = plan_to_send(run, bench.settings)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.PLANNED]
        run.store.set_agreed(is_agreed=True)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.IN_FLIGHT]
        assert run.store.batches()[0].requests == shown.to_send == len(rendered) == 2


def test_a_person_who_is_there_is_asked_once_a_revision(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []
    answers = [False, True]

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        questions.append(question)
        return answers.pop(0)

    for stream in (conversation.sys.stdin, conversation.sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(conversation.typer, "confirm", confirm)
    text = quiz_text(limit=2)
    with pytest.raises(NotAgreedError, match="nothing was sent"):
        asks(bench, text)
    for _ in range(2):
        asks(bench, text)
        with bench.open(text) as run:
            advance(run)
    assert questions == ["There is no [budget]. Send them?"] * 2


def test_another_benchmark_under_the_name_of_a_run_says_what_it_pays_for_again(bench: Lab) -> None:
    other = quiz_text(("mistral",), limit=2, top="[budget]\nmax_usd = 1\n")
    bench.finish(BUDGETED)
    asks(bench, BUDGETED.replace("limit = 2", "limit = 3"))  # the answers of before are used
    for _ in range(2):
        with pytest.raises(NotAgreedError, match=r"lab paid for 2 requests before, and .* pays for 2 requests") as end:
            asks(bench, other)
        assert (end.value.exit_code, "--yes" in str(end.value)) == (3, True)
    assert bench.table(BUDGETED, "predictions").height == 2  # after a "no" the run is as it was
    asks(bench, other, yes=True)
    asks(bench, other.replace('name = "lab"', 'name = "another"', 1))


# ---- somebody whom nobody can ask ------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the providers for ones that are not on this machine."""
    monkeypatch.setattr(driving, "_is_here", lambda *_: False)


def run_once(bench: Lab, text: str, *, yes: bool = False) -> Status:
    environment = {**bench.server.environment(), "XDG_STATE_HOME": str(bench.folder / "user")}
    settings = Settings.from_environment(environment, bench.folder)
    with open_and_drive(
        bench.manifest(text), bench.runs, settings, bench.clock, Conversation(), once=True, yes=yes, offline=True
    ) as (_, status):
        return status


@pytest.mark.usefixtures("elsewhere")
def test_a_run_whose_folder_is_gone_pays_again_only_when_it_is_agreed_to(bench: Lab) -> None:
    run_once(bench, BUDGETED)
    shutil.rmtree(bench.runs)
    for _ in range(2):  # the second time the folder is there again
        with pytest.raises(NotAgreedError, match=r"folder was removed: all of it is paid for again, 2 requests"):
            run_once(bench, BUDGETED)
    run_once(bench, BUDGETED, yes=True)
    run_once(bench, BUDGETED.replace("limit = 2", "limit = 3"))


@pytest.mark.usefixtures("elsewhere")
def test_what_is_paid_for_is_collected_although_nobody_agrees_to_more(bench: Lab) -> None:
    text = quiz_text(limit=2)
    run_once(bench, text, yes=True)
    edited = text.replace("limit = 2", "limit = 3")
    for _ in range(3):
        with pytest.raises(NotAgreedError, match="has no budget"):
            run_once(bench, edited)
        bench.clock.sleep(100_000.0)
    assert bench.table(edited, "responses").height == len(bench.billed()) == 2
