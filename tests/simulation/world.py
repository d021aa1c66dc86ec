"""One history: a small run, providers that may misbehave, a program that may be stopped, all on one clock."""

from __future__ import annotations

import functools
import math
import random
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch import loop
from layton_batch.cli.progress import EventLines
from layton_batch.clock import Clock
from layton_batch.errors import AnotherDriverError, LaytonBatchError, StoreError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest, with_budget
from layton_batch.reports.status_tables import next_steps, status_json
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState, Status
from layton_batch.sandbox import Answerer, Fault, SandboxConfig
from layton_batch.sandbox.answerers.from_files import answerer_from_files
from layton_batch.settings import Settings
from tests.simulation.accounts import fill
from tests.simulation.by_hand import (
    PATIENT_LOOKS,
    calls_for_a_person,
    calls_for_retry,
    cancel,
    is_stuck,
    most_retries,
    resolve,
    retry,
)
from tests.simulation.clock_moves import Move, MovedClock
from tests.simulation.edits import Asks, Edit, is_edited_when_done, items_file, text, turn_page
from tests.simulation.in_process import Providers, connected
from tests.simulation.interruptions import Course, Killed, instrumented
from tests.simulation.outages import Outage, Outages
from tests.simulation.row_claims import disagreements
from tests.simulation.shortcuts import empty_database, scratch, unhurried
from tests.simulation.surroundings import Surroundings
from tests.simulation.swarm import QUIET, Swarm, Troubles
from tests.simulation.turns import Ahead, Freeze, Turns, frozen_alone
from tests.support.lab import BUNDLED, MODELS, START

if TYPE_CHECKING:
    from tests.simulation.postgres import Database

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
TOO = "-too"
"""What the name of a run's neighbour has at its end."""
MOST_VISITS = 20
"""More than a list is ever refused."""
CALL_AGAIN = (45.0, 45.0, 45.0, 200.0, 900.0, 3600.0)
"""After how long a timer calls a program again that another one keeps from driving the run; the last as often as it
takes."""
PATIENCE_SECONDS = 200 * 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that makes one history what it is. Times are seconds of its own clock.

    ``world`` picks the models' providers and the judge's (:func:`cast`). ``stops`` are the numbers of the points at
    which the program is killed, ``downtime`` is how long it stays down each time. ``skew`` is by how much the
    providers' clock is ahead of ours, ``list_lag`` how long their listings lack a new batch, ``late_create`` how long
    after its connection broke the first create is carried out all the same, ``call_seconds`` the longest a call takes
    to get there and, once more, its reply to come back. ``moving``: every life is on another machine. ``migrating``:
    the state store does not exist yet. ``programs``: how many are started on the run at once: one drives it, and the
    others are refused and called again; ``freezes``: when the driver is frozen, so that another takes the run over, or
    nobody does where it is alone;
    ``apart``: by how much each one's clock is ahead of the one's before (with ``moving``: a machine has one clock).
    ``cancel_at``: the point at which the program is stopped and `layton-batch cancel` is called. ``budget``: there
    is money for one batch at a time. ``retry_at``: the same for `layton-batch retry`, which is called again at the
    end while requests have no answer; of two programs the second calls it. ``reask``: how often the manifest has
    unusable replies asked for again. ``outages``: long times in which every call fails. ``jump``: by how much our
    clock is put forward each time the program starts again, as on another machine. ``moves``: when and how it is
    set while one program is at work. ``denied``: a provider's name for each of its first creates that are carried
    out, answered with HTTP 500 and shown in no list ever. ``deadline_hours``: the manifest's, where it is not the
    provider's own. ``breaks``: the points at which connections to the state's server break off, where it is on one;
    what ends with that is started again. ``asks``: what the first manifest asks, where it is not the world's;
    ``edits``: what becomes of it. ``neighbour``: the second of two programs drives another run of the workspace, which
    wants the same answers. ``swarm``: troubles of files, disk, storage, workers and surroundings. ``takes_back``: the
    person who cancels calls `retry` then.
    """

    world: int
    stops: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()
    downtime: float = 1.0
    skew: float = 0.0
    jump: float = 0.0
    list_lag: float = 0.0
    late_create: float | None = None
    call_seconds: float = 0.0
    batch_seconds: float = 60.0
    moving: bool = False
    migrating: bool = False
    programs: int = 1
    freezes: tuple[Freeze, ...] = ()
    apart: float = 0.0
    cancel_at: int | None = None
    budget: bool = False
    denied: tuple[str, ...] = ()
    deadline_hours: float | None = None
    retry_at: int | None = None
    reask: int = 0
    outages: tuple[Outage, ...] = ()
    moves: tuple[Move, ...] = ()
    breaks: tuple[int, ...] = ()
    asks: Asks | None = None
    edits: tuple[Edit, ...] = ()
    neighbour: bool = False
    takes_back: bool = False
    swarm: Swarm = QUIET
    seed: int = 0


@dataclass(slots=True)
class TheirClock:
    """The providers' clock, so far ahead of what ours would be if nobody had set it."""

    ours: MovedClock
    ahead: float

    def now(self) -> float:
        return self.ours.true() + self.ahead


@dataclass(slots=True)
class History:
    """What a plan led to; ``failure``: what the program ended with instead of a status.

    ``by_itself``: the custom_ids billed before a person called `retry`, once for each bill; None: nobody did.
    ``put_forward``: our clock was, and a create from before is still to be carried out. ``silence``: the longest time
    that passed between two calls while the program ran, ``called_at``: when the last was made or it was started.
    ``ended_at``: when the last program was done, in true seconds. ``revised``: how many edits the manifest has had.
    ``neighbour``: the status of the other run.
    """

    plan: Plan
    folder: RunFolder
    providers: Providers
    course: Course
    clock: MovedClock
    theirs: TheirClock
    settings: Settings
    status: Status | None = None
    failure: str | None = None
    cancelled: bool = False
    retried: bool = False
    by_itself: tuple[str, ...] | None = None
    put_forward: bool = False
    silence: float = 0.0
    called_at: float = 0.0
    ended_at: float = 0.0
    revised: int = 0
    neighbour: Status | None = None
    troubles: Troubles = field(init=False)

    @property
    def runs(self) -> list[History]:
        """The history of each run: of the neighbour too, where there is one."""
        if not self.plan.neighbour:
            return [self]
        beside = self.folder.root.with_name(f"{self.folder.root.name}{TOO}")
        return [self, replace(self, folder=RunFolder(beside), status=self.neighbour)]

    @property
    def disturbed_at(self) -> float:
        """When something was last wrong: a trouble of the swarm, a call that failed, a kill; true seconds."""
        return max(self.troubles.last, self.providers.refused_at - self.plan.skew)

    @property
    def has_passed(self) -> int:
        return len(self.course.points)


def cast(world: int) -> tuple[tuple[str, ...], str]:
    """The providers of a world: its models', and its judge's. Worlds 0..6 have two models, 7..13 one."""
    models = (SEVEN[world % 7],) if world >= ALONE else (SEVEN[world], SEVEN[(world + 1) % 7])
    judges = (*REFEREES,)[world % 5 :] + (*REFEREES,)[: world % 5]
    return models, next(name for name in judges if name not in models)


def asked_for(plan: Plan, folder: Path, edits: int = 0) -> Manifest:
    """The manifest of a plan's world after so many of its edits, with its budget and its policy."""
    asks = plan.edits[edits - 1].asks if edits else plan.asks
    told = manifest(plan.world) if asks is None else _loaded(plan.world, asks, folder)
    asked = with_budget(told, tight_budget(plan.world) if plan.budget else None)
    policy = {"deadline_hours": plan.deadline_hours, "reask_unparsed": plan.reask, "reask_truncated": plan.reask}
    return asked.model_copy(update={"policy": asked.policy.model_copy(update=policy)})


@functools.cache
def tight_budget(world: int) -> str:
    """US dollars for all that is answered and one batch more that is not yet: two cannot be set aside together."""
    with history(Plan(world)) as found:
        assert found.status is not None
        dearest = max(batch.max_cost or Decimal(0) for batch in found.status.batches)
        return str(found.status.spent_usd + dearest * Decimal("1.2"))


def first_asks(world: int) -> Asks:
    """What a world asks: two models or one, three items each."""
    return Asks(tuple((provider, MODELS[provider]) for provider in cast(world)[0]), (), ITEMS)


@functools.cache
def manifest(world: int) -> Manifest:
    with tempfile.TemporaryDirectory() as name:
        return _loaded(world, first_asks(world), Path(name))


def _loaded(world: int, asks: Asks, folder: Path) -> Manifest:
    """The manifest, and its items in the folder where they are not the bundled ones."""
    judge = cast(world)[1]
    source = str(items_file(folder, asks.items)) if asks.items else "bundled"
    path = folder / "history.toml"
    path.write_text(text(asks, judge, REFEREES[judge], source), encoding="utf-8")
    return load_manifest(path)


@functools.cache
def answerer() -> Answerer:
    return answerer_from_files((), sorted(BUNDLED.glob("riddles_*.jsonl")), 0)


@contextmanager
def history(plan: Plan, database: Database | None = None, *, statements: bool = False) -> Iterator[History]:
    """Play a plan to its end; what it left behind is there while the block runs.

    The state is in SQLite, or in ``database``, where the program can also be killed after each of its ``statements``.
    """
    base = Path(tempfile.mkdtemp(prefix="history-", dir=scratch()))
    theirs = TheirClock(MovedClock(START, plan.moves), plan.skew)
    config = SandboxConfig(
        batch_seconds=plan.batch_seconds,
        faults=plan.faults,
        answerer=answerer(),
        clock=theirs.now,
        seed=plan.seed,
    )
    providers = Providers(base / "providers", config, list_lag=plan.list_lag)
    providers.late_create = plan.late_create
    providers.denied.update(plan.denied)
    try:
        yield _play(plan, base, providers, theirs, database, statements=statements)
    finally:
        providers.close()
        shutil.rmtree(base, ignore_errors=True)


def _play(
    plan: Plan, base: Path, providers: Providers, theirs: TheirClock, database: Database | None, *, statements: bool
) -> History:
    asked, clock = asked_for(plan, base), theirs.ours
    if plan.swarm.changes_account:
        fill(base / "other", asked, providers, clock)
    folder = RunFolder(base / "runs" / asked.run_id())
    folder.root.mkdir(parents=True)
    environment = providers.environment() | _state(plan, folder, database)
    if plan.swarm.losses is not None:
        environment["LAYTON_BATCH_ENGINE"] = "processes"
    settings = Settings.from_environment(environment, base)
    commands = [at for at in (plan.cancel_at, plan.retry_at) if at is not None and plan.programs == 1]
    edits = [edit.at for edit in plan.edits]
    course = Course(folder.root, (*plan.stops, *commands, *edits), plan.breaks, moving=plan.moving)
    providers.outage = Outages(plan.outages, clock, lambda: len(course.points)).of
    found = History(plan, folder, providers, course, clock, theirs, settings)
    troubles = found.troubles = Troubles(found, Surroundings(base, environment))
    weather = random.Random(f"weather {plan.seed}")

    found.called_at = theirs.now()

    def watch(phase: str, provider: str, kind: str) -> None:
        found.silence, found.called_at = max(found.silence, theirs.now() - found.called_at), theirs.now()
        clock.sleep(weather.random() * plan.call_seconds)
        course.reach(f"{phase}: {provider} {kind}")

    providers.watch = watch
    shuffle = random.Random(f"order {plan.seed}") if plan.seed else None
    served = nullcontext() if database is None else database.in_use(course, statements=statements)
    with (
        connected(providers),
        unhurried(clock, for_days=bool(plan.outages)),
        instrumented(course, shuffle),
        served,
        troubles.in_use(asked),
    ):
        if plan.programs == 1:
            move, freeze = clock.at_points(lambda: len(course.points)), frozen_alone(clock, course, plan.freezes)

            def pause() -> None:
                move()
                if freeze():
                    troubles.last = clock.true()

            course.pause = pause
            course.enter()
            _live(found, asked, clock)
        else:
            turns = Turns(clock, random.Random(f"turns {plan.seed}"), plan.freezes)
            clocks = [Ahead(turns, number * plan.apart) for number in range(plan.programs)]
            turns.run(course, [partial(_live, found, asked, clock) for clock in clocks])
        found.ended_at = theirs.ours.true()
        if found.failure is None:
            troubles.end()
    return found


def _state(plan: Plan, folder: RunFolder, database: Database | None) -> dict[str, str]:
    """The state store as the history finds it, and what the environment says of it."""
    if database is not None:
        database.empty(migrating=plan.migrating)
        return {"LAYTON_BATCH_STATE": database.url}
    if not plan.migrating:
        folder.workspace.database.write_bytes(empty_database())
    return {}


def _live(found: History, asked: Manifest, clock: Clock) -> None:
    """A program from its first start to its end; what that was is noted."""
    hand = found.course.mine()
    is_neighbour = found.plan.neighbour and hand is not None and hand.number > 1
    if is_neighbour:
        asked = asked.model_copy(update={"name": f"{asked.name}{TOO}"})
    try:
        status = _lives(found, asked, clock)
    except (LaytonBatchError, AssertionError, ValueError, KeyError, TypeError, OSError) as error:
        found.failure = f"{type(error).__name__}: {error}"
    else:
        if is_neighbour:
            found.neighbour = status
        elif found.status is None or status.state is not RunState.DONE:
            found.status = status


def _lives(found: History, asked: Manifest, clock: Clock) -> Status:
    """Start the program again after every kill, until it ends by itself."""
    plan, hand, refusals = found.plan, found.course.mine(), 0
    assert hand is not None
    while True:
        if plan.edits:
            turn_page(found)
            asked = asked_for(plan, found.folder.root.parent.parent, found.revised)
        try:
            found.troubles.begin_life()
            _command(found, asked, clock, hand.number)
            status = _to_its_end(found, asked, clock)
        except AnotherDriverError:
            clock.sleep(CALL_AGAIN[min(refusals, len(CALL_AGAIN) - 1)])
            refusals += 1
            continue
        except Killed as killed:
            _let_go(killed)
        except LaytonBatchError as error:
            is_cut_off = isinstance(error, StoreError) and found.has_passed >= min(plan.breaks, default=math.inf)
            if not is_cut_off and not found.troubles.excuse(error):
                raise
        else:
            if status.state is RunState.DONE and is_edited_when_done(found):
                continue
            return status
        found.course.is_buried(hand)
        if hand.lives >= MOST_LIVES + plan.swarm.most_ends:
            raise AssertionError(f"killed {hand.lives} times")
        hand.lives, hand.dead = hand.lives + 1, False
        clock.sleep(plan.downtime)
        found.called_at = found.theirs.now()  # who is down makes no call
        found.troubles.last = found.clock.true()
        _put_forward(found)


def _put_forward(found: History) -> None:
    """The clock of the machine on which the program goes on: once only while a create is still to be carried out, since
    each time shortens the search for it (a limit that docs/exactly_once.md names)."""
    is_awaited = found.providers.waiting > 0
    if not (is_awaited and found.put_forward):
        found.clock.put(found.plan.jump)
    found.put_forward = is_awaited


def _command(found: History, asked: Manifest, clock: Clock, number: int) -> None:
    """`cancel` and `retry`, each as often as it takes to get through, when the history has come so far."""
    plan = found.plan
    if plan.cancel_at is not None and found.has_passed >= plan.cancel_at and not found.retried:
        cancel(found, asked, clock)
        if plan.takes_back:
            retry(found, asked, clock)
            found.retried = True
    if plan.retry_at is None or number != plan.programs or found.retried:
        return
    for _ in range(PATIENT_LOOKS if plan.programs > 1 else 0):
        if not _is_time_to_retry(found, plan.retry_at):
            clock.sleep(1.0)
    if _is_time_to_retry(found, plan.retry_at):
        retry(found, asked, clock)
        found.retried = True


def _is_time_to_retry(found: History, retry_at: int) -> bool:
    """Beside another program a person retries a run whose folder is there: before that, the command says so."""
    return found.has_passed >= retry_at and (found.plan.programs == 1 or found.folder.manifest.exists())


def _to_its_end(found: History, asked: Manifest, clock: Clock) -> Status:
    """What `run` comes to; where the history has a `retry`, what it comes to when nothing is left to retry."""
    status = _seen_to(found, asked, clock)
    for _ in range(most_retries(found.plan) if calls_for_retry(found.plan) else 0):
        if status.state is not RunState.DONE or not status.unanswered:
            break
        retry(found, asked, clock)
        status = _seen_to(found, asked, clock)
    return status


def _seen_to(found: History, asked: Manifest, clock: Clock) -> Status:
    """`run`, and what long outages, creates in doubt, refused lists and set clocks leave for a person, done as soon as
    it can be."""
    status = _afforded(found, asked, clock)
    for _ in range(MOST_VISITS if calls_for_a_person(found.plan) else 0):
        if not is_stuck(found, status):
            break
        resolve(found, asked, clock)
        status = _afforded(found, asked, clock)
    return status


def _afforded(found: History, asked: Manifest, clock: Clock) -> Status:
    """`run`, with as much more money as may have been spent on what cannot be told: that is a person's to allow."""
    budget, status = asked.budget.max_usd, once(found, asked, clock)
    while status.state is RunState.OVER_BUDGET and budget is not None and status.unknown_cost_usd > 0:
        allowed = budget + status.unknown_cost_usd
        if allowed == asked.budget.max_usd:
            break
        asked = with_budget(asked, str(allowed))
        status = once(found, asked, clock)
    return status


def _let_go(killed: BaseException | None) -> None:
    """Free what the killed program still held: its generators must not be closed in the middle of the next life."""
    while killed is not None:
        traceback.clear_frames(killed.__traceback__)
        killed = killed.__context__


def once(found: History, asked: Manifest, clock: Clock) -> Status:
    """One life of the program: what `layton-batch run` does."""
    with open_run(asked, found.folder.root.parent, found.settings, clock=clock) as run:
        patience = PATIENCE_SECONDS + sum(outage.seconds for outage in found.plan.outages)
        patience += sum(abs(move.seconds) for move in found.plan.moves)
        lines = EventLines(run, _read)

        def progress(status: Status) -> None:
            _agree(run)
            lines.update(status)

        status = loop.drive(run, once=False, stop_at=clock.now() + patience, progress=progress)
        lines.flush()
        _read(" ".join(next_steps(status)))
        status_json(status)
        found.troubles.check(run)
        return status


def _read(line: str) -> None:
    """What a person at the terminal does with a line."""
    if not line.isprintable():
        raise AssertionError(f"a line that is no line: {line!r}")


def _agree(run: Run) -> None:
    """After every tick the rows and the older state say the same."""
    if broken := disagreements(run):
        raise AssertionError("; ".join(broken))
