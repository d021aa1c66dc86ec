"""`plan` says exactly what `run` sends next, of a run that exists the same bytes. Nothing is sent here: rows move."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from layton_batch.loop import drive
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Batch, End
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.settings import Settings
from layton_batch.stages.plan import plan
from layton_batch.stages.preview import Preview, plan_to_send, preview
from layton_batch.states import ErrorClass, Lifecycle, RequestOutcome, Role
from tests.support.lab import PACING, START, lab, manifest_text
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT
from tests.support.store_rows import moved
from tests.support.tiers import tiered

ANSWERED: End = (RequestOutcome.SUCCEEDED, ErrorClass.NONE)
FAILED: End = (RequestOutcome.EXPIRED, ErrorClass.NOT_EXECUTED)
UNCERTAIN: End = (RequestOutcome.ERRORED, ErrorClass.UNREADABLE)
WAY = (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED)
KEYS = {f"{name}_API_KEY": "none" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL")}

AB, ABC = {"a": "What has keys?", "b": "What has hands?"}, {"a": "What has keys?", "b": "What has hands?", "c": "Who?"}
ALONE = "[policy]\nreuse = false\n"


@dataclass(frozen=True)
class Asked:
    """A manifest. ``items``: questions by id; ``end``: how its requests ended (None: they are on their way)."""

    items: Mapping[str, str]
    run: str = "lab"
    models: tuple[str, ...] = ("openai",)
    policy: str = ""
    end: End | None = None
    twin: bool = False


@dataclass(frozen=True)
class Case:
    """``to_send``: by job; ``retired``: requests that the manifest has no more."""

    now: Asked
    to_send: Mapping[str, int]
    before: tuple[Asked, ...] = ()
    retired: int = 0


OPENAI, ANTHROPIC, TWIN = "predict-larch-2-mini", "predict-wagtail-5", "predict-twin"
CASES = {
    "new run": Case(Asked(AB), {OPENAI: 2}),
    "same again": Case(Asked(AB), {OPENAI: 0}, (Asked(AB),)),
    "an item more": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB),)),
    "an item before the others": Case(Asked({"0": "Who?", **AB}), {OPENAI: 1}, (Asked(AB),)),
    "an item less": Case(Asked(AB), {OPENAI: 0}, (Asked(ABC),), retired=1),
    "an item with another text": Case(Asked({**AB, "b": "What else?"}), {OPENAI: 1}, (Asked(AB),), retired=1),
    "one item less, one more": Case(
        Asked({"b": AB["b"], "c": "Who?"}), {OPENAI: 1}, (Asked(AB, end=ANSWERED),), retired=1
    ),
    "an item comes back": Case(Asked(AB), {OPENAI: 0}, (Asked(AB), Asked({"a": AB["a"]}))),
    "a model more": Case(Asked(AB, models=("openai", "anthropic")), {OPENAI: 0, ANTHROPIC: 2}, (Asked(AB),)),
    "another model": Case(Asked(AB, models=("anthropic",)), {ANTHROPIC: 2}, (Asked(AB),)),
    "answers of another run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, "other", end=ANSWERED),)),
    "on their way in another run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, "other"),)),
    "failed in another run": Case(Asked(ABC), {OPENAI: 3}, (Asked(AB, "other", end=FAILED),)),
    "perhaps billed in another run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, "other", end=UNCERTAIN),)),
    "answers of another run, and of its own": Case(
        Asked(ABC), {OPENAI: 0}, (Asked({"c": "Who?"}, "other", end=ANSWERED), Asked(AB))
    ),
    "failed in this run": Case(Asked(ABC), {OPENAI: 1}, (Asked(AB, end=FAILED),)),
    "a question twice": Case(Asked({**AB, "c": AB["a"]}), {OPENAI: 2}),
    "a question twice, asked before": Case(Asked({**AB, "c": AB["a"]}), {OPENAI: 0}, (Asked(AB),)),
    "one model under two names": Case(Asked(AB, twin=True), {OPENAI: 2, TWIN: 0}),
    "one model under a second name": Case(Asked(ABC, twin=True), {OPENAI: 1, TWIN: 0}, (Asked(AB),)),
    "without reuse": Case(Asked(AB, policy=ALONE), {OPENAI: 2}, (Asked(AB, "other", end=ANSWERED),)),
    "without reuse any more": Case(Asked(ABC, policy=ALONE), {OPENAI: 1}, (Asked(AB),)),
}
READY = ("demo", "demo-mcq_idk", "demo-rome", "demo-zebralogic", "layton-today")
"""Manifests whose items come with the package."""
PLAYED = (
    "new run", "one item less, one more", "a model more", "answers of another run", "perhaps billed in another run",
    "failed in this run", "a question twice, asked before", "one model under a second name", "without reuse any more",
)  # fmt: skip
"""Cases of every change. ``tests/runs/test_request_planner.py`` holds what the planner decides in each."""


@dataclass
class Bench:
    """A workspace whose providers are never called."""

    folder: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(KEYS, self.folder)

    def manifest(self, asked: Asked) -> Manifest:
        rows = [
            {
                "id": name, "split": "llm", "description": text, "answer": "a piano", "solution": "Keys.",
                "first_hint": None, "second_hint": None,
            }
            for name, text in asked.items.items()
        ]  # fmt: skip
        (self.folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        text = manifest_text(asked.models, limit=99, items="items.jsonl").replace('"lab"', f'"{asked.run}"', 1)
        model = text[text.index("[[models]]") : text.index("[jury]")]
        twin = model.replace('name = "larch-2-mini"', 'name = "twin"\nfamily = "another"', 1) if asked.twin else ""
        text = text.replace(model, asked.policy + model + twin, 1)
        (self.folder / "manifest.toml").write_text(text, encoding="utf-8")
        return load_manifest(self.folder / "manifest.toml")

    def planned(self, asked: Asked) -> tuple[list[Batch], list[bytes], list[str]]:
        """Have the run plan what it asks by now: the batches, their lines, and the custom_ids that it retires."""
        with open_run(self.manifest(asked), self.folder / "runs", self.settings, clock=self.clock) as run:
            before, wanted_before = {batch.id for batch in run.store.batches()}, custom_ids(run)
            while plan(run):
                pass
            new = [batch for batch in run.store.batches() if batch.id not in before]
            files = [(run.folder.workspace.root / batch.path).read_bytes() for batch in new]
            retired = [
                custom_id
                for job_id, names in custom_ids(run).items()
                for custom_id in wanted_before.get(job_id, set()) - names
            ]
            for batch in new:
                self._send(run, batch, asked.end)
        return new, [line for file in files for line in file.splitlines()], retired

    @staticmethod
    def _send(run: Run, batch: Batch, end: End | None) -> None:
        for state in WAY if end else WAY[:2]:
            batch = run.store.apply(batch, moved(batch, state, str(state)), START)
        if end is not None:
            ends = dict.fromkeys(run.store.asked_of(batch.id), end)
            run.store.apply(batch, replace(moved(batch, Lifecycle.COLLECTED), ends=ends), START)

    def preview(self, asked: Asked) -> tuple[Preview, list[bytes]]:
        out = Path(tempfile.mkdtemp(dir=self.folder))
        said = preview(self.manifest(asked), self.settings, self.clock, out, self.folder / "runs")
        ids = [job.job.id for job in said.jobs if job.job.role is Role.PREDICT]
        files = [file for job_id in ids for file in sorted((out / "requests" / job_id).glob("*.jsonl"))]
        return said, [line for file in files for line in file.read_bytes().splitlines()]


def custom_ids(run: Run) -> dict[str, set[str]]:
    """Of the requests that each of the run's participants wants by now."""
    jobs = [job for job in run.store.jobs() if job.role is Role.PREDICT]
    return {job.id: set(run.store.items_of(job.id)) for job in jobs}


def unnamed(line: bytes) -> dict[str, object]:
    """The line of a run that did not exist when it was planned: its mark was not known."""
    return {key: value for key, value in json.loads(line).items() if key != "custom_id"}


@pytest.mark.parametrize("name", tiered(READY, ci=("demo-mcq_idk", "layton-today")))
def test_of_a_ready_manifest_a_run_shows_the_same_plan_and_sends_its_requests_for_its_cost(
    name: str, tmp_path: Path
) -> None:
    manifest = load_manifest(ROOT / "manifests" / f"{name}.toml")
    manifest = manifest.model_copy(update={"items": manifest.items.model_copy(update={"limit": 2})})
    with lab(tmp_path) as bench:
        planned = preview(manifest, bench.settings, bench.clock, runs=bench.runs)
        with open_run(manifest, bench.runs, bench.settings, clock=bench.clock, pacing=PACING) as run:
            assert plan_to_send(run, bench.settings) == planned
            run.store.set_agreed(is_agreed=True)
            drive(run, once=False, stop_at=bench.clock.now() + 400_000)
            sent = {
                job.id: [batch for batch in run.store.job_batches(job.id) if batch.attempt == 1]
                for job in run.store.jobs()
            }
    for job in planned.jobs:
        batches = sent[job.job.id]
        requests = sum(batch.requests for batch in batches)
        expected = sum(batch.expected_usd or 0 for batch in batches)
        if job.job.role is Role.PREDICT:
            assert (requests, expected, len(batches)) == (job.requests, job.expected_usd, job.shards)
        else:  # only answers that can be judged are
            assert requests <= job.requests
            assert sum(batch.max_cost or 0 for batch in batches) <= (job.max_usd or 0)


@pytest.mark.parametrize("name", tiered(CASES, ci=PLAYED))
def test_a_plan_is_what_the_run_sends_next(name: str, tmp_path: Path) -> None:
    bench, case = Bench(tmp_path), CASES[name]
    for asked in case.before:
        bench.planned(asked)
    said, lines = bench.preview(case.now)
    jobs = [job for job in said.jobs if job.job.role is Role.PREDICT]
    batches, sent, retired = bench.planned(case.now)

    assert {job.job.id: job.requests - job.answered - job.too_large for job in jobs} == case.to_send
    if any(asked.run == case.now.run for asked in case.before):
        assert lines == sent
    else:
        assert [unnamed(line) for line in lines] == [unnamed(line) for line in sent]
    assert {job.job.id: job.shards for job in jobs if job.shards} == {batch.job_id: 1 for batch in batches}
    assert sum(job.size_bytes for job in jobs) == sum(batch.size_bytes for batch in batches)
    assert sum(job.max_usd or 0 for job in jobs) == sum(batch.max_cost or 0 for batch in batches)
    assert (sum(job.retired for job in jobs), len(retired)) == (case.retired, case.retired)
    assert bench.preview(case.now)[1] == []
