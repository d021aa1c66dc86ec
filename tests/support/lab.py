"""A run against a sandbox in this process, both on one clock that moves only when told; ours can be set otherwise.

Tests of whole runs take from here what they need of the package's inside, so that it is named in one place.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from urllib.request import urlopen

import orjson
import polars as pl
import pytest
from sqlalchemy import func, select

import layton_batch as lb
from layton_batch.clock import Pacing, SystemClock
from layton_batch.commands.known_items import bundled_answerer
from layton_batch.costs.report import CostReport
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.loop import drive as drive
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.pipeline import advance as advance
from layton_batch.records import Event
from layton_batch.runs.context import Run as Run
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState as RunState
from layton_batch.runs.status import Status as Status
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig, SandboxLimits
from layton_batch.settings import Settings
from layton_batch.stages.preview import Preview as Preview
from layton_batch.stages.preview import preview
from layton_batch.store import schema
from layton_batch.store.run_store import RunStore
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT

BUNDLED = ROOT / "layton_batch" / "tasks" / "data" / "layton"
START = 1_795_000_000.0  # 2026-11-18, after batch prices are known

MODELS = {
    "openai": "larch-2-mini",
    "anthropic": "wagtail-5",
    "gemini": "tern-3-swift",
    "mistral": "sirocco-large",
    "together": "alderworks/Juniper-K1",
    "groq": "alderworks/pebble-20b",
    "doubleword": "Fieldstone/Sedge-32B",
}

_MODELS = {**MODELS, "openrouter": "z-ai/glm-5.3"}

JUDGES = """
[[jury.judges]]
name = "wagtail-5-referee"
provider = "anthropic"
model = "wagtail-5-referee"
max_output_tokens = 2000
[[jury.judges]]
name = "larch-2-referee"
provider = "openai"
model = "larch-2-referee"
max_output_tokens = 2000
[[jury.judges]]
name = "sirocco-referee"
provider = "mistral"
model = "sirocco-referee"
max_output_tokens = 2000
"""


def demo_prices() -> str:
    """The demonstration's [[prices]]: what the sandbox bills for its made-up models."""
    text = (ROOT / "manifests" / "demo-models.toml").read_text(encoding="utf-8")
    return text[text.index("[[prices]]") :]


def manifest_text(
    providers: tuple[str, ...] = ("openai",),
    *,
    limit: int = 4,
    jury: str = "",
    top: str = "",
    items: str = "bundled",
    prices: str | None = None,
) -> str:
    """A small layton manifest; without ``jury`` one judge sits, so that most runs stay short."""
    one_judge = '[jury]\nseats = 1\n[[jury.judges]]\nname = "tern-3-referee"\nprovider = "gemini"\n'
    one_judge += 'model = "tern-3-referee"\nmax_output_tokens = 2000\n[[jury.judges]]\nname = "sirocco-referee"\n'
    one_judge += 'provider = "mistral"\nmodel = "sirocco-referee"\nmax_output_tokens = 2000\n'
    text = f'name = "lab"\ntask = "layton"\n[items]\nsource = "{items}"\nsplit = "llm"\nlimit = {limit}\n{top}\n'
    return text + _models(providers) + (jury or one_judge) + (demo_prices() if prices is None else prices)


SPLITS = {"mcq_idk": "demo", "rome": "llm", "zebralogic": "all"}
"""Splits of the bundled items that a rule grades, by task."""


def quiz_text(
    providers: tuple[str, ...] = ("openai",),
    *,
    limit: int = 3,
    top: str = "",
    prices: str | None = None,
    task: str = "mcq_idk",
) -> str:
    """Write a manifest whose answers a rule grades, multiple choice by default, so that a run is one job a model.

    For claims that are about batches and no jury: such a run takes half the time of one with a judge.
    """
    text = f'name = "lab"\ntask = "{task}"\n[items]\nsource = "bundled"\nsplit = "{SPLITS[task]}"\nlimit = {limit}\n'
    return f"{text}{top}\n" + _models(providers) + (demo_prices() if prices is None else prices)


def rule_text(task: str) -> str:
    """Write the manifest of three models on twelve items that a rule grades."""
    return quiz_text(("openai", "gemini", "groq"), limit=12, task=task)


def _models(providers: tuple[str, ...]) -> str:
    return "".join(
        f'[[models]]\nname = "{_MODELS[provider]}"\nprovider = "{provider}"\nmodel = "{_MODELS[provider]}"\n'
        "max_output_tokens = 4000\n"
        for provider in providers
    )


def named(name: str, text: str) -> str:
    """The manifest under another name, which is another run."""
    return text.replace('name = "lab"', f'name = "{name}"', 1)


def several(count: int, provider: str = "openai", top: str = "") -> str:
    """Write a quiz for so many models of one provider, a batch each."""
    head, _, rest = quiz_text(("openai",), top=top).replace('"openai"', f'"{provider}"').partition("[[models]]")
    model, _, prices = f"[[models]]{rest}".partition("[[prices]]")
    models = (
        model.replace('name = "', f'name = "{number} ', 1).replace("= 4000", f"= {4000 + number}")
        for number in range(count)
    )
    return f"{head}{''.join(models)}[[prices]]{prices}"


def with_twin(text: str) -> str:
    """The manifest with its first model under a second name, "twin", too."""
    model = text[text.index("[[models]]") : text.index("[", text.index("[[models]]") + len("[[models]]"))]
    return text.replace(model, model + re.sub('name = ".*"', 'name = "twin"', model, count=1), 1)


def write_few_labels(folder: Path) -> Path:
    """Write ``gold.jsonl``: the bundled labels on answers of three models to five riddles.

    Statistics of a board with all bundled labels take longer than its run.
    """
    rows = [orjson.loads(line) for line in (BUNDLED / "gold_llm.jsonl").read_bytes().splitlines()]
    models = {MODELS[provider] for provider in ("openai", "anthropic", "gemini")}
    few = [row for row in rows if row["model"] in models and row["riddle_id"] <= "lb-t-005"]
    path = folder / "gold.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in few))
    return path


PACING = Pacing(idle=3600.0)
"""Nobody else works on a lab's runs: a tick when something is due is enough, and days of waiting take no time."""


class Lab:
    """One sandbox, one clock, one place for runs."""

    def __init__(self, folder: Path, server: Sandbox, clock: ManualClock) -> None:
        self.folder = folder
        self.server = server
        self.clock = clock
        self.settings = Settings.from_environment(server.environment(), folder)
        self.runs = folder / "runs"

    def manifest(self, text: str) -> Manifest:
        path = self.folder / "manifest.toml"
        path.write_text(text, encoding="utf-8")
        return load_manifest(path)

    @contextmanager
    def open(self, text: str) -> Iterator[Run]:
        with open_run(self.manifest(text), self.runs, self.settings, clock=self.clock, pacing=PACING) as run:
            yield run

    def finish(self, text: str, *, agree: bool = True, max_hours: float = 200.0) -> Status:
        """Drive the run to its end or until it cannot go on, on the manual clock. ``agree``: to all that is planned."""
        with self.open(text) as run:
            if agree:
                run.store.set_agreed(is_agreed=True)
            return drive(run, once=False, stop_at=self.clock.now() + max_hours * 3600)

    def finish_paid_once(self, text: str) -> Status:
        """Drive the run to its end, where each request has an answer, billed once, and the bill is the sandbox's."""
        status = self.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(self.billed().values()) == {1}
        assert status.spent_usd == self.server.ledger().total_usd
        return status

    def once(self, text: str) -> Status:
        """Do what can be done without waiting, as `run --once`."""
        with self.open(text) as run:
            run.store.set_agreed(is_agreed=True)
            return drive(run, once=True, stop_at=None)

    def begin(self, text: str, ticks: int = 1, seconds: float = 0.0) -> Status:
        """Tick so often, so far apart, and leave the run as it is then."""
        with self.open(text) as run:
            for _ in range(ticks):
                advance(run)
                self.clock.sleep(seconds)
        return self.read(text)

    def plan_only(self, text: str) -> Status:
        """Plan the run's jobs as far as they can be planned, and send nothing."""
        with self.open(text) as run:
            run.store.set_agreed(is_agreed=False)
            advance(run)
            run.store.set_agreed(is_agreed=True)
        return self.read(text)

    def tick_until(self, text: str, reached: Callable[[Status], bool], seconds: float = 15.0) -> Status:
        """Tick so far apart until the run is as wanted, and leave it so."""
        with self.open(text) as run:
            for _ in range(200):
                advance(run)
                status = read_status(run.store)
                if reached(status):
                    return status
                self.clock.sleep(seconds)
        raise AssertionError([(batch.id, batch.state, batch.reason) for batch in status.batches])

    def read(self, text: str) -> Status:
        """What the run's status says; nothing is done."""
        with open_store(self.run_folder(text), self.settings) as store:
            return read_status(store)

    def events(self, text: str, *kinds: str) -> list[Event]:
        """The run's log, or what it has of these kinds."""
        with open_store(self.run_folder(text), self.settings) as store:
            return [event for event in store.events() if not kinds or event.kind in kinds]

    def retry(self, name: str = "lab") -> int:
        """Let the next `finish` repeat what has no answer, as a person does. Return the number of requests."""
        with open_store(RunFolder(self.runs / name), self.settings) as store:
            return store.retry(self.clock.now())

    def cancel(self, name: str = "lab") -> None:
        """Cancel the run beside whoever drives it."""
        with open_store(RunFolder(self.runs / name), self.settings) as store:
            store.set_cancelled(self.clock.now())

    @contextmanager
    def commands(self) -> Iterator[None]:
        """Give commands this lab's environment and clock."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Settings, "from_process", lambda: self.settings)
            patch.setattr(SystemClock, "now", lambda _self: self.clock.now())
            yield

    def resolve(self, text: str, batch: str, word: str, provider_id: str | None = None) -> None:
        """Say what became of a batch, as a person does: adopt, resubmit or ignore."""
        with self.commands():
            lb.resolve(
                self.run_folder(text).root,
                batch,
                adopt=provider_id,
                resubmit=word == "resubmit",
                ignore=word == "ignore",
            )

    def plan(self, text: str, folder: Path | None = None) -> Preview:
        """What `plan` says."""
        return preview(self.manifest(text), self.settings, self.clock, folder, self.runs)

    def keep_copy(self, name: str = "backup") -> Path:
        """Copy the place of runs, as a backup does. Return the copy."""
        return Path(shutil.copytree(self.runs, self.folder / name))

    def put_back(self, copy: Path) -> None:
        """Replace the place of runs by a copy."""
        shutil.rmtree(self.runs)
        shutil.copytree(copy, self.runs)

    def creates(self, provider: str | None = None) -> int:
        """How many creates reached the sandbox, of a provider or in all."""
        counts = self.server.request_counts()
        return sum(calls.get("create", 0) for name, calls in counts.items() if provider in (None, name))

    def run_folder(self, text: str) -> RunFolder:
        return RunFolder(self.runs / self.manifest(text).name)

    def table(self, text: str, name: str) -> pl.DataFrame:
        folder = self.run_folder(text)
        if name == "responses":
            parts = sorted(folder.batches.glob("*/answers/*.parquet"))
            return pl.concat([tables.frame(name, []), *map(tables.read_part, parts)])
        return tables.read(folder.tables, name)

    def bill(self, *names: str) -> CostReport:
        """What `cost` says of these runs."""
        with self.commands():
            return lb.cost(names or "lab", runs=self.runs).report

    def requests(self, text: str) -> pl.DataFrame:
        """Requests of the run's jobs (columns: ``_requests``)."""
        with open_store(self.run_folder(text), self.settings) as store:
            return _requests(store)

    def billed(self) -> dict[str, int]:
        """How often each custom_id was billed. The sandbox carries out a batch when it is looked at, so all are."""
        with urlopen(f"{self.server.url}/sandbox/batches") as reply:
            reply.read()
        found: dict[str, int] = {}
        for row in self.server.ledger().rows:
            found[row.custom_id] = found.get(row.custom_id, 0) + 1
        return found


def _requests(store: RunStore) -> pl.DataFrame:
    """Return the requests of a run: ``custom_id, job_id, role, item_id, model, judge, sample, fingerprint, retired,
    max_cost`` (the most that the last attempt at the first answer could cost: a further answer has more room)."""
    requests, jobs, attempts, answers = schema.requests, schema.jobs, schema.attempts, schema.answers
    known = {job.id: job for job in store.all_jobs()}
    query = (
        select(
            requests.c.custom_id, jobs.c.job_id, requests.c.item_id, requests.c.fingerprint, requests.c.retired,
            attempts.c.max_cost,
        )
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == func.coalesce(requests.c.fingerprint, requests.c.answer))
        .outerjoin(
            attempts, (attempts.c.batch == answers.c.batch) & (attempts.c.fingerprint == answers.c.fingerprint)
        )
        .where(jobs.c.run_id == store.run_id)
        .order_by(jobs.c.job_id, requests.c.custom_id)
    )  # fmt: skip
    rows = []
    with store.reading() as connection:
        for custom_id, job_id, item_id, fingerprint, retired, max_cost in connection.execute(query):
            job = known[job_id]
            judged = known[job.depends_on].spec.name if job.depends_on else None
            models = (job.spec.name, None) if job.role == "predict" else (judged, job.spec.name)
            cost = None if max_cost is None else format(max_cost, "f")
            digits = None if fingerprint is None else fingerprint.hex()
            about = (custom_id, job_id, str(job.role), item_id, *models)
            rows.append((*about, job.spec.sample, digits, bool(retired), cost))
    text = dict.fromkeys(("custom_id", "job_id", "role", "item_id", "model", "judge"), pl.String)
    columns = {**text, "sample": pl.Int64, "fingerprint": pl.String, "retired": pl.Boolean, "max_cost": pl.String}
    return pl.DataFrame(rows, schema=columns, orient="row")


def set_aside(bench: Lab, text: str, role: str = "") -> dict[str, Decimal]:
    """What the run set aside for each of its jobs, or for those of a role."""
    aside: dict[str, Decimal] = {}
    for job_id, job_role, usd in bench.requests(text).select("job_id", "role", "max_cost").iter_rows():
        if role in ("", job_role):
            aside[job_id] = aside.get(job_id, Decimal(0)) + Decimal(usd)
    return aside


answerer = cache(bundled_answerer)
"""Made-up models that know the bundled items of every task."""


@contextmanager
def lab(
    folder: Path, *faults: Fault, batch_seconds: float = 60.0, limits: SandboxLimits | None = None
) -> Iterator[Lab]:
    """A lab whose sandbox misbehaves as told; batches take a minute of the manual clock."""
    clock = ManualClock(START)
    config = SandboxConfig(
        batch_seconds=batch_seconds,
        faults=faults,
        answerer=answerer(),
        clock=clock.true,
        limits=limits or SandboxLimits(),
    )
    with Sandbox(config) as server:
        yield Lab(folder, server, clock)
