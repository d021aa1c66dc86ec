"""What ``grade`` reads and writes: line by line, and everything or nothing."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from layton_batch.grading.forms import form_of
from layton_batch.grading.graded_models import GradedModel
from layton_batch.grading.ranking import grade
from layton_batch.grading.submissions import ModelPredictions
from layton_batch.records import JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks import load_task
from layton_batch.tasks.offline import GradingOptions
from layton_batch.tasks.protocol import TaskOptions
from tests.support.cli_harness import call
from tests.support.graded_files import answers, lines, refused, replies

Row = dict[str, JsonValue]
SOLUTION: Row = {"header": ["House", "Name"], "rows": [["1", "Ann"], ["2", "Bob"]]}


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["mcq_idk", "--predictions", "silent.jsonl", "--table", "o", "--chart", "silent.jsonl/c.svg"],
        ["mcq_idk", "--predictions", "silent.jsonl", "--table", "o", "--ensemble", "x=silent,other"],
    ],
    ids=["no folder", "an unknown model"],
)
def test_what_cannot_all_be_made_leaves_nothing_behind(arguments: list[str]) -> None:
    lines("silent.jsonl", replies("EE-"))
    before = sorted(Path().iterdir())
    refused(*arguments)
    assert sorted(Path().iterdir()) == before


def test_everything_is_written_where_everything_can_be_made() -> None:
    path = lines("p.jsonl", answers("AB"))
    end = call("grade", "rome", "--predictions", path, "--updated", "u", "--json")
    assert (end.code, end.table()["final_score"][1], Path("u").stat().st_size > 0) == (0, 2, True)  # type: ignore[index]


def test_items_without_a_prediction_are_named() -> None:
    path = lines("p.jsonl", [{"item_id": "a", "response": "Answer: B"}])
    items = lines(
        "items.jsonl", [{"id": name, "question": "?", "options": ["x", "y"], "answer": "y"} for name in "abc"]
    )
    end = call("grade", "mcq_idk", "--predictions", path, "--items", items)
    assert "p: 2 items have no prediction (b, c); the figures are of the others" in end.err


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("mcq_idk", {"item_id": "demo-001", "response": "Answer: A"}),
        ("zebralogic", {"id": "lb-zebra-2x2-1", "output": "{}"}),
        ("rome", {"question_id": "lb-rt-001", "answer": "A"}),
    ],
)
def test_predictions_are_graded_by_the_bundled_items(task: str, row: Row) -> None:
    items = load_task(task, TaskOptions("llm")).bundled("llm")
    path = lines("p.jsonl", [row])
    given = call("grade", task, "--predictions", path, "--items", "bundled", "--json")
    assert (given.code, given.out) == (0, call("grade", task, "--predictions", path, "--items", items, "--json").out)


def rows_of(task: str, count: int) -> Iterator[Row]:
    text = "Let me think about it. " * 80
    for number in range(count):
        if task == "mcq_idk":
            yield {"item_id": f"q{number}", "gold": "A", "response": f"{text}Answer: B"}
        elif task == "zebralogic":
            yield {"id": f"q{number}", "solution": SOLUTION, "output": f"{text}{{}}"}
        else:
            yield {"question_id": f"q{number}", "task": "t", "evaluator": "choices_matching",
                   "evaluator_kwargs": {"label": "A"}, "answer": f"{text}B"}  # fmt: skip


@pytest.mark.parametrize("task", ["mcq_idk", "zebralogic", "rome"])
def test_a_file_is_graded_line_by_line_and_its_texts_are_not_kept(task: str) -> None:
    settings = Settings.from_process()

    def graded(count: int) -> tuple[GradedModel, int]:
        path = Path(lines(f"{task}{count}.jsonl", list(rows_of(task, count))))
        form = form_of(task, "corrected", GradingOptions())
        one = ModelPredictions("m", str(path), form, partial(form.read, path, settings))
        tracemalloc.start()
        found = grade(one, None, with_rows=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, peak

    graded(10)  # what is imported and compiled once
    few = graded(600)[1]
    for _ in range(3):  # what threads of earlier tests put into memory meanwhile counts as well
        many, peak = graded(1_800)
        assert (many.n_rows, many.outcomes, many.questions) == (1_800, {}, {})
        if peak < few + 1_000_000:  # the files are 2 kB a line
            return
    raise AssertionError(f"{peak} bytes for 1,800 lines, {few} for 600")
