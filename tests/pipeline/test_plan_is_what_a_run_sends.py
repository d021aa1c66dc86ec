"""`plan` says exactly what `run` sends next, of a run that exists the same bytes, and leaves the workspace as it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl
import pytest

from layton_batch.sandbox import Fault
from tests.support.lab import Lab, lab, named, quiz_text, with_twin
from tests.support.tiers import tiered


class End(StrEnum):
    """What became of the requests: on their way, or over."""

    SENT = "sent"
    ANSWERED = "answered"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


FAULTS = {
    End.FAILED: Fault(on="batch", action="expire", share=0.0, times=1),
    End.UNCERTAIN: Fault(on="row", action="malformed_line", times=2),
}
AB, ABC = {"a": "Where?", "b": "How?"}, {"a": "Where?", "b": "How?", "c": "Who?"}
ALONE = "reuse = false"
ANSWERED, FAILED, UNCERTAIN = End.ANSWERED, End.FAILED, End.UNCERTAIN


@dataclass(frozen=True)
class Asked:
    """A manifest. ``items``: questions by id."""

    items: Mapping[str, str]
    run: str = "lab"
    models: tuple[str, ...] = ("openai",)
    policy: str = ""
    end: End = End.SENT
    twin: bool = False


@dataclass(frozen=True)
class Case:
    """``to_send``: by job; ``retired``: requests that the manifest has no more. One of ``before`` may end badly."""

    now: Asked
    to_send: Mapping[str, int]
    before: tuple[Asked, ...] = ()
    retired: int = 0


OPENAI, ANTHROPIC, TWIN = "predict-larch-2-mini", "predict-wagtail-5", "predict-twin"
CASES = {
    "new run": Case(Asked(AB), {OPENAI: 2}),
    "one item less, one more": Case(
        Asked({"b": AB["b"], "c": "Who?"}), {OPENAI: 1}, (Asked(AB, end=ANSWERED),), retired=1
    ),
    "a model more": Case(Asked(AB, models=("openai", "anthropic")), {OPENAI: 0, ANTHROPIC: 2}, (Asked(AB),)),
    "answers of another run, and of its own": Case(
        Asked(ABC), {OPENAI: 0}, (Asked({"c": "Who?"}, "other", end=ANSWERED), Asked(AB))
    ),
    "on their way in another run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, "other"),)),
    "failed in another run": Case(Asked(ABC), {OPENAI: 3}, (Asked(AB, "other", end=FAILED),)),
    "perhaps billed in another run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, "other", end=UNCERTAIN),)),
    "failed in this run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, end=FAILED),)),
    "a question twice, asked before": Case(Asked({**AB, "d": AB["a"]}), {OPENAI: 0}, (Asked(AB),)),
    "one model under a second name": Case(Asked(ABC, twin=True), {OPENAI: 1, TWIN: 0}, (Asked(AB),)),
    "without reuse any more": Case(Asked(ABC, policy=ALONE), {OPENAI: 1}, (Asked(AB),)),
}
PLAYED = (
    "new run", "one item less, one more", "on their way in another run", "perhaps billed in another run",
    "one model under a second name",
)  # fmt: skip
"""Cases of every change. ``tests/runs/test_request_planner.py`` holds what the planner decides in each."""


def text_of(asked: Asked, folder: Path) -> str:
    """The manifest; its questions are written beside it. Items a and d show their options in the same order."""
    rows = [{"id": name, "question": text, "options": ["1", "2"], "answer": 0} for name, text in asked.items.items()]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = quiz_text(asked.models, limit=99, top=f"[policy]\nattempts = 1\n{asked.policy}").replace(
        "bundled", "items.jsonl"
    )
    return named(asked.run, with_twin(text) if asked.twin else text)


def play(bench: Lab, asked: Asked) -> None:
    text = text_of(asked, bench.folder)
    bench.begin(text) if asked.end is End.SENT else bench.finish(text)


def planned_lines(bench: Lab, text: str, name: str) -> list[bytes]:
    """The lines of the files of a plan, in the order of its jobs."""
    out = bench.folder / name
    jobs = [one.job.id for one in bench.plan(text, out).jobs]
    files = [file for job_id in jobs for file in sorted((out / "requests" / job_id).glob("*.jsonl"))]
    return [line for file in files for line in file.read_bytes().splitlines()]


def wanted(bench: Lab, text: str, jobs: Collection[str]) -> set[str]:
    """Names of the requests of these jobs that are not retired."""
    return set(bench.requests(text).filter(~pl.col("retired"), pl.col("job_id").is_in(list(jobs)))["custom_id"])


def unnamed(line: bytes) -> dict[str, object]:
    """The line of a run that did not exist when it was planned: its mark was not known."""
    return {key: value for key, value in json.loads(line).items() if key != "custom_id"}


@pytest.mark.parametrize("name", tiered(CASES, ci=PLAYED))
def test_a_plan_is_what_the_run_sends_next(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with lab(tmp_path, *(FAULTS[asked.end] for asked in case.before if asked.end in FAULTS)) as bench:
        for asked in case.before:
            play(bench, asked)
        is_there = any(asked.run == case.now.run for asked in case.before)
        text, before = text_of(case.now, tmp_path), set(bench.runs.glob("batches/*/*"))
        workspace = {path: path.read_bytes() for path in bench.runs.rglob("*") if path.is_file()}
        said, lines = bench.plan(text), planned_lines(bench, text, "first")
        assert {path: path.read_bytes() for path in bench.runs.rglob("*") if path.is_file()} == workspace
        earlier = wanted(bench, text, case.to_send) if is_there else set()
        batches = [batch for batch in bench.begin(text).batches if (bench.runs / batch.path).parent not in before]
        sent = [line for batch in batches for line in (bench.runs / batch.path).read_bytes().splitlines()]
        assert {job.job.id: job.requests - job.answered - job.too_large for job in said.jobs} == case.to_send
        if is_there:
            assert lines == sent
        else:
            assert [unnamed(line) for line in lines] == [unnamed(line) for line in sent]
        assert {job.job.id: job.shards for job in said.jobs if job.shards} == {batch.job_id: 1 for batch in batches}
        assert sum(job.size_bytes for job in said.jobs) == sum(batch.size_bytes for batch in batches)
        assert sum(job.max_usd or 0 for job in said.jobs) == sum(batch.max_cost or 0 for batch in batches)
        retired = earlier - wanted(bench, text, case.to_send)
        assert sum(job.retired for job in said.jobs) == len(retired) == case.retired
        assert planned_lines(bench, text, "again") == []
