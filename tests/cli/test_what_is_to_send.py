"""`plan` and `run` say how much was asked already, and `run` asks before it sends without a budget."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.records import Item, Prompt
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.stages.preview import plan_to_send
from layton_batch.states import Lifecycle
from layton_batch.tasks.mcq_idk.task import McqIdkTask
from tests.support.cli_harness import Desk, Ending, call, desk
from tests.support.lab import manifest_text, quiz_text

TEXT, BUDGET = quiz_text(limit=2), "[budget]\nmax_usd = 1\n"
BUDGETED = quiz_text(limit=2, top=BUDGET)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A sandbox whose providers count as ones that are not on this machine."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(Settings, "is_on_this_machine", lambda *_: False)
    with desk(tmp_path, monkeypatch) as bench:
        bench.use_own_keys(monkeypatch)
        yield bench


def run(bench: Desk, text: str, *options: str) -> Ending:
    return call("run", bench.write(text), *options)


def refused(bench: Desk, text: str, *options: str) -> str:
    """Return why `run` sends nothing."""
    ending = run(bench, text, *options)
    assert ending.code == 3, ending.err
    return ending.err


def planned(bench: Desk, text: str) -> tuple[object, ...]:
    plan = call("plan", bench.write(text), "--offline", "--json").table()
    return plan["requests"], plan["answered"], plan["to_send"]


def test_without_a_budget_and_without_anybody_there_a_run_sends_nothing(bench: Desk) -> None:
    said = refused(bench, TEXT)
    assert "2 requests, of which 0 answered already, 2 to send: expected $" in said
    assert re.search(r"add `\[budget\]` with `max_usd = 0\.\d+` to the manifest", said)
    assert bench.lab.billed() == {}
    assert run(bench, TEXT, "--yes").code == 0
    assert run(bench, BUDGETED.replace("limit = 2", "limit = 3")).code == 0
    assert len(bench.lab.billed()) == 3


def write_items(bench: Desk, **references: str) -> None:
    """Write riddles of layton, a reference each."""
    rows = [
        {"id": name, "split": "llm", "description": f"What is {name}?", "answer": reference, "solution": "So it is."}
        for name, reference in references.items()
    ]
    bench.write("".join(json.dumps(row) + "\n" for row in rows), "items.jsonl")


def test_verdicts_on_a_changed_reference_are_counted_and_agreed_to_before_they_are_paid(bench: Desk) -> None:
    text = manifest_text(("openai",), items="items.jsonl")
    write_items(bench, a="a piano", b="a clock")
    assert run(bench, text, "--yes").code == 0
    predictions = bench.write('{"item_id": "b", "answer": "a clock", "justification": "It ticks."}\n', "finch.jsonl")
    assert call("import", "lab", "--model", "finch", "--predictions", predictions).code == 0
    assert planned(bench, text) == (5, 4, 1)  # the verdict on the imported answer
    assert bench.lab.finish(text, agree=False).state is RunState.NEEDS_PERSON
    assert run(bench, text, "--yes").code == 5  # the file lacks an answer
    billed = len(bench.lab.billed())
    write_items(bench, a="a piano", b="a watch")
    assert planned(bench, text) == (5, 3, 2)
    assert "3 answered already, 2 to send (2 verdicts again, " in refused(bench, text)
    status = bench.lab.finish(text, agree=False)
    assert (status.state, len(bench.lab.billed())) == (RunState.NEEDS_PERSON, billed)
    assert "nobody agreed to send it" in str(status.reason)
    assert run(bench, text, "--yes").code == 5
    assert len(bench.lab.billed()) == billed + 2


def test_a_run_renders_each_prompt_once_and_sends_what_it_shows(bench: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    render = McqIdkTask.prompt

    def prompt(task: McqIdkTask, item: Item) -> Prompt:
        rendered.append(item.id)
        return render(task, item)

    monkeypatch.setattr(McqIdkTask, "prompt", prompt)
    with bench.lab.open(BUDGETED) as run:
        shown = plan_to_send(run, bench.lab.settings)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.PLANNED]
        run.store.set_agreed(is_agreed=True)
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.IN_FLIGHT]
        assert run.store.batches()[0].requests == shown.to_send == len(rendered) == 2


def test_a_person_who_is_there_is_asked_once_a_revision(bench: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, answers = list[str](), [False, True]

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        questions.append(question)
        return answers.pop(0)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", confirm)
    ask = ("run", bench.write(TEXT), "--once", "--json")
    assert [call(*ask, is_terminal=True).code for _ in range(3)] == [3, 75, 75]
    assert len(questions) == 2


def test_another_benchmark_under_the_name_of_a_run_says_what_it_pays_for_again(bench: Desk) -> None:
    other = quiz_text(("mistral",), limit=2, top=BUDGET)
    for text in (BUDGETED, BUDGETED.replace("limit = 2", "limit = 3"), BUDGETED):  # the answers of before are used
        assert run(bench, text).code == 0
    for _ in range(2):
        said = refused(bench, other)
        assert re.search("lab paid for 3 requests before, and .* pays for 2 requests.* --yes", said)
    assert bench.lab.table(BUDGETED, "predictions").height == 2  # after a "no" the run is as it was
    assert run(bench, other.replace('name = "lab"', 'name = "another"', 1)).code == 0
    assert run(bench, other, "--yes").code == 0


def test_a_run_whose_folder_is_gone_pays_again_only_when_it_is_agreed_to(bench: Desk) -> None:
    assert run(bench, BUDGETED, "--once").code == 75
    shutil.rmtree(bench.lab.runs)
    for _ in range(2):  # the second time the folder is there again
        assert "folder was removed: all of it is paid for again, 2 requests" in refused(bench, BUDGETED, "--once")
    assert run(bench, BUDGETED, "--once", "--yes").code == 75
    assert run(bench, BUDGETED.replace("limit = 2", "limit = 3"), "--once").code == 75


def test_what_is_paid_for_is_collected_although_nobody_agrees_to_more(bench: Desk) -> None:
    assert run(bench, TEXT, "--once", "--yes").code == 75
    edited = TEXT.replace("limit = 2", "limit = 3")
    for _ in range(3):
        refused(bench, edited, "--once")
        bench.lab.clock.sleep(100_000.0)
    assert bench.lab.table(edited, "responses").height == len(bench.lab.billed()) == 2
