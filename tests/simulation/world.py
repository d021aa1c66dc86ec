"""One history: a small run, providers that may misbehave, a program that may be stopped, all on one clock."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from layton_batch.cli.loop import drive
from layton_batch.clock import ManualClock
from layton_batch.errors import LaytonBatchError
from layton_batch.manifest import Manifest
from layton_batch.manifest_checks import load_manifest
from layton_batch.run_folder import RunFolder
from layton_batch.runs import open_run
from layton_batch.sandbox import Answerer, Fault, SandboxConfig
from layton_batch.sandbox.answerers import answerer_from_files
from layton_batch.settings import Settings
from layton_batch.status import Status
from layton_batch.store import open_engine, sqlite_url
from tests.pipeline.lab import BUNDLED, MODELS, START, demo_prices
from tests.simulation.in_process import Providers, connected
from tests.simulation.interruptions import Course, Killed, instrumented

SEVEN = tuple(MODELS)
REFEREES = {
    "gemini": "tern-3-referee",
    "mistral": "sirocco-referee",
    "openai": "larch-2-referee",
    "anthropic": "wagtail-5-referee",
    "together": "alderworks/Juniper-referee",
}
ITEMS = 3
MOST_LIVES = 12
PATIENCE_SECONDS = 200 * 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that makes one history what it is.

    ``world`` (0..6) picks the two models' providers and the judge's; ``stops`` are the numbers of the points at which
    the program is killed, ``downtime`` how long it stays down each time; ``skew`` is by how much the providers' clock
    is ahead of ours, ``list_lag`` how long their listings lack a new batch, ``call_seconds`` the longest a call takes
    to get there and, once more, for the reply to come back; ``moving``: every life is on another machine. Times are seconds of the history's own clock.
    """

    world: int
    stops: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()
    downtime: float = 1.0
    skew: float = 0.0
    list_lag: float = 0.0
    call_seconds: float = 0.0
    batch_seconds: float = 60.0
    moving: bool = False
    seed: int = 0


@dataclass(slots=True)
class History:
    """What a plan led to; ``failure``: what the program ended with instead of a status."""

    plan: Plan
    folder: RunFolder
    providers: Providers
    course: Course
    clock: ManualClock
    settings: Settings
    status: Status | None = None
    failure: str | None = None


def cast(world: int) -> tuple[tuple[str, str], str]:
    """The providers of a world: its two models', and its judge's."""
    models = (SEVEN[world % 7], SEVEN[(world + 1) % 7])
    judge = next(name for name in (*REFEREES,)[world % 5 :] + (*REFEREES,)[: world % 5] if name not in models)
    return models, judge


def manifest_text(world: int) -> str:
    """Two models, three items each, one judge; attempts enough for all that a history does to them."""
    models, judge = cast(world)
    text = f'name = "history"\ntask = "layton"\n[items]\nsource = "bundled"\nsplit = "llm"\nlimit = {ITEMS}\n'
    text += "[policy]\nattempts = 9\n"
    for provider in models:
        text += f'[[models]]\nname = "{MODELS[provider]}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        text += "max_output_tokens = 4000\n"
    text += f'[jury]\nseats = 1\n[[jury.judges]]\nname = "judge"\nprovider = "{judge}"\nmodel = "{REFEREES[judge]}"\n'
    return f"{text}max_output_tokens = 2000\n" + demo_prices()


@functools.cache
def manifest(world: int) -> Manifest:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "history.toml"
        path.write_text(manifest_text(world), encoding="utf-8")
        return load_manifest(path)


@functools.cache
def answerer() -> Answerer:
    return answerer_from_files((), sorted(BUNDLED.glob("riddles_*.jsonl")), 0)


@functools.cache
def empty_database() -> bytes:
    """A state store as it is when its schema has just been made; making one takes longer than the rest of a history."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state.sqlite3"
        open_engine(sqlite_url(path)).dispose()
        return path.read_bytes()


def scratch() -> str | None:
    """A place in memory for histories: a disk's syncs would only slow them down."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


@contextmanager
def history(plan: Plan) -> Iterator[History]:
    """Play a plan to its end; what it left behind is there while the block runs."""
    base = Path(tempfile.mkdtemp(prefix="history-", dir=scratch()))
    clock = ManualClock(START)
    config = SandboxConfig(
        batch_seconds=plan.batch_seconds,
        faults=plan.faults,
        answerer=answerer(),
        clock=lambda: clock.now() + plan.skew,
        seed=plan.seed,
    )
    providers = Providers(base / "providers", config, list_lag=plan.list_lag)
    try:
        yield _play(plan, base, providers, clock)
    finally:
        providers.close()
        shutil.rmtree(base, ignore_errors=True)


def _play(plan: Plan, base: Path, providers: Providers, clock: ManualClock) -> History:
    asked = manifest(plan.world)
    folder = RunFolder(base / "runs" / asked.run_id())
    folder.root.mkdir(parents=True)
    folder.database.write_bytes(empty_database())
    settings = Settings.from_environment(providers.environment(), base)
    found = History(plan, folder, providers, Course(folder.root, plan.stops, moving=plan.moving), clock, settings)
    weather = random.Random(f"weather {plan.seed}")

    def watch(phase: str, provider: str, kind: str) -> None:
        clock.sleep(weather.random() * plan.call_seconds)
        found.course.reach(f"{phase}: {provider} {kind}")

    providers.watch = watch
    shuffle = random.Random(f"order {plan.seed}") if plan.seed else None
    # one SDK waits by itself between its tries of an upload
    with connected(providers), instrumented(found.course, shuffle), mock.patch("time.sleep", clock.sleep):
        try:
            found.status = _lives(found, asked)
        except (LaytonBatchError, AssertionError, ValueError, KeyError, TypeError, OSError) as error:
            found.failure = f"{type(error).__name__}: {error}"
    return found


def _lives(found: History, asked: Manifest) -> Status:
    """Start the program again after every kill, until it ends by itself."""
    while True:
        with suppress(Killed):
            return once(found, asked)
        if found.course.lives >= MOST_LIVES:
            raise AssertionError(f"killed {found.course.lives} times")
        found.course.restart()
        found.clock.sleep(found.plan.downtime)


def once(found: History, asked: Manifest) -> Status:
    """One life of the program: what `layton-batch run` does."""
    with open_run(asked, found.folder.root.parent, found.settings, clock=found.clock) as run:
        return drive(run, once=False, stop_at=found.clock.now() + PATIENCE_SECONDS, quiet=True)


def undisturbed(world: int) -> Plan:
    return Plan(world)


def with_stops(plan: Plan, *stops: int) -> Plan:
    return replace(plan, stops=stops)
