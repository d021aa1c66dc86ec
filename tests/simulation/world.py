"""One history: a small run, providers that may misbehave, a program that may be stopped, all on one clock."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import Engine, create_engine

from layton_batch.cli import loop
from layton_batch.clock import Clock, ManualClock
from layton_batch.errors import LaytonBatchError
from layton_batch.manifest import Manifest
from layton_batch.manifest_checks import load_manifest
from layton_batch.run_folder import RunFolder
from layton_batch.runs import open_run
from layton_batch.sandbox import Answerer, Fault, SandboxConfig
from layton_batch.sandbox.answerers import answerer_from_files
from layton_batch.settings import Settings
from layton_batch.status import RunState, Status
from layton_batch.store import engine as opening
from layton_batch.store import leases, open_engine, sqlite_url
from tests.pipeline.lab import BUNDLED, MODELS, START, demo_prices
from tests.simulation.in_process import Providers, connected
from tests.simulation.interruptions import Course, Killed, instrumented
from tests.simulation.two_hands import Turns

SEVEN = tuple(MODELS)
REFEREES = {
    "gemini": "tern-3-referee",
    "mistral": "sirocco-referee",
    "openai": "larch-2-referee",
    "anthropic": "wagtail-5-referee",
    "together": "alderworks/Juniper-referee",
}
ALONE = 7
"""Worlds from here on have one model: the provider at ``world - ALONE``."""
ITEMS = 3
MOST_LIVES = 12
PATIENCE_SECONDS = 200 * 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that makes one history what it is. Times are seconds of its own clock.

    ``world`` picks the models' providers and the judge's (:func:`cast`). ``stops`` are the numbers of the points at
    which the program is killed, ``downtime`` is how long it stays down each time. ``skew`` is by how much the
    providers' clock is ahead of ours, ``list_lag`` how long their listings lack a new batch, ``call_seconds`` the
    longest a call takes to get there and, once more, its reply to come back. ``moving``: every life is on another
    machine. ``migrating``: the state store does not exist yet. ``hands``: how many programs work on the run at once.
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
    migrating: bool = False
    hands: int = 1
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


def cast(world: int) -> tuple[tuple[str, ...], str]:
    """The providers of a world: its models', and its judge's. Worlds 0..6 have two models, 7..13 one."""
    models = (SEVEN[world % 7],) if world >= ALONE else (SEVEN[world], SEVEN[(world + 1) % 7])
    judges = (*REFEREES,)[world % 5 :] + (*REFEREES,)[: world % 5]
    return models, next(name for name in judges if name not in models)


def manifest_text(world: int) -> str:
    """Two models or one, three items each, one judge; attempts enough for all that a history does to them."""
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
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


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
    if not plan.migrating:
        folder.database.write_bytes(empty_database())
    settings = Settings.from_environment(providers.environment(), base)
    course = Course(folder.root, plan.stops, moving=plan.moving)
    found = History(plan, folder, providers, course, clock, settings)
    weather = random.Random(f"weather {plan.seed}")

    def watch(phase: str, provider: str, kind: str) -> None:
        clock.sleep(weather.random() * plan.call_seconds)
        course.reach(f"{phase}: {provider} {kind}")

    providers.watch = watch
    shuffle = random.Random(f"order {plan.seed}") if plan.seed else None
    with connected(providers), instrumented(course, shuffle), _unhurried(clock):
        if plan.hands == 1:
            course.enter()
            _live(found, asked, clock)
        else:
            turns = Turns(clock, random.Random(f"turns {plan.seed}"))
            turns.run(course, [lambda: _live(found, asked, turns)] * plan.hands)
    return found


@functools.cache
def _first_engine() -> Engine:
    return create_engine("sqlite://")


def _sharing(*arguments: Any, **options: Any) -> Engine:
    """An engine that keeps what the ones before it have learnt: how a statement of ours is said in SQL.

    Every life of the program opens a new one, and would spend a fifth of its time on that.
    """
    engine = create_engine(*arguments, **options)
    engine.dialect, engine._compiled_cache = _first_engine().dialect, _first_engine()._compiled_cache
    return engine


@contextmanager
def _unhurried(clock: ManualClock) -> Iterator[None]:
    """Waiting takes no time: one SDK waits by itself between its tries of an upload; the loop looks up twice a minute
    whether or not anything is due, and every second for what another program has in hand."""
    with (
        mock.patch("time.sleep", clock.sleep),
        mock.patch.object(loop, "LONGEST", 3600.0),
        mock.patch.object(leases, "SOON_SECONDS", 20.0),
        mock.patch.object(opening, "create_engine", _sharing),
    ):
        yield


def _live(found: History, asked: Manifest, clock: Clock) -> None:
    """A program from its first start to its end; what that was is noted."""
    try:
        status = _lives(found, asked, clock)
    except (LaytonBatchError, AssertionError, ValueError, KeyError, TypeError, OSError) as error:
        found.failure = f"{type(error).__name__}: {error}"
    else:
        if found.status is None or status.state is not RunState.DONE:
            found.status = status


def _lives(found: History, asked: Manifest, clock: Clock) -> Status:
    """Start the program again after every kill, until it ends by itself."""
    hand = found.course.mine()
    assert hand is not None
    while True:
        try:
            return once(found, asked, clock)
        except Killed as killed:
            _let_go(killed)
        if hand.lives >= MOST_LIVES:
            raise AssertionError(f"killed {hand.lives} times")
        hand.lives, hand.dead = hand.lives + 1, False
        clock.sleep(found.plan.downtime)


def _let_go(killed: BaseException | None) -> None:
    """Free what the killed program still held: its generators must not be closed in the middle of the next life."""
    while killed is not None:
        traceback.clear_frames(killed.__traceback__)
        killed = killed.__context__


def once(found: History, asked: Manifest, clock: Clock) -> Status:
    """One life of the program: what `layton-batch run` does."""
    with open_run(asked, found.folder.root.parent, found.settings, clock=clock) as run:
        return loop.drive(run, once=False, stop_at=clock.now() + PATIENCE_SECONDS, quiet=True)
