"""Histories drawn from seeds: what is asked, what goes wrong, who strikes when; and how one is played to its end."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.simulation import database, manifests
from tests.simulation.conductor import START, Conductor, Forks, Life, Stops, Stuck
from tests.simulation.manifests import Asks
from tests.simulation.world import Weather, World

RUN, NEIGHBOUR = "first", "second"
CALL_AGAIN = (45.0, 45.0, 200.0, 900.0, 3600.0)
"""After how long a timer calls a command again that ended with 75; the last as often as it takes."""
MOST_LIVES = 60
PERSON_SECONDS = 900.0
"""A person looks after a run so long after it ended with 4: a create without a reply has arrived by then."""
VERIFIED = 3
"""Of so many histories one has its results computed again in the end, which takes as long as a run."""
RATES: Mapping[str, tuple[float, float]] = {
    "network": (0.02, 0.2), "upload 503": (0.1, 0.6), "upload 429": (0.1, 0.5), "upload reply lost": (0.1, 0.6),
    "create 429": (0.1, 0.5), "create unmade": (0.1, 0.6), "create reply lost": (0.1, 0.9), "create late": (0.1, 0.6),
    "create forbidden": (0.1, 0.4), "create unpaid": (0.1, 0.5), "list 503": (0.1, 0.6), "list 429": (0.1, 0.4),
    "list refused": (0.1, 0.4),
    "list late": (0.2, 0.9), "poll 503": (0.05, 0.5), "poll 429": (0.05, 0.3), "poll 404": (0.2, 0.9),
    "status odd": (0.2, 0.7), "results 503": (0.1, 0.8), "results 429": (0.1, 0.5), "results short": (0.2, 0.8),
    "results cut": (0.2, 0.8), "results late": (0.2, 0.8), "cancel refused": (0.2, 0.8),
    "cancel reply lost": (0.2, 0.8),
    "expired": (0.1, 0.5), "failed": (0.1, 0.4), "cancelled": (0.1, 0.4),
    "row fault": (0.05, 0.4), "row missing": (0.05, 0.3),
    "row twice": (0.1, 0.5), "row unknown": (0.1, 0.5),
    "create denied": (0.2, 0.6), "create refused": (0.1, 0.3), "row refused": (0.05, 0.3), "row garbled": (0.05, 0.3),
}  # fmt: skip
"""The kinds of trouble at providers, each with the least and the highest rate of a history that has it."""
LASTING = frozenset({"create refused", "row refused", "row garbled"})
"""Kinds after which a request has no answer for good, unless a person calls `retry`."""
RARE = LASTING | {"create denied"}


CALM, UNTOUCHED = Weather(), Stops()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that makes one history what it is.

    ``edits``: at which point the manifest becomes which. ``second``: after how many seconds a second process is started
    on the run, None: never. ``neighbour``: what another run of the workspace asks, and when it begins. ``cancel_at``,
    ``retry_at``: points at which a person calls the command; ``retries``: a person calls `retry` once when a run ends
    with gaps. ``tight``: the budget stops the run until a person raises it. ``downtime``: how long the program stays
    down after a kill. ``ahead``: how far the clock of a process may be set ahead. ``fault``: what is planted.
    """

    seed: int
    asks: Asks
    weather: Weather = CALM
    stops: Stops = UNTOUCHED
    edits: tuple[tuple[int, Asks], ...] = ()
    second: float | None = None
    neighbour: tuple[float, Asks] | None = None
    cancel_at: int | None = None
    retry_at: int | None = None
    retries: bool = True
    tight: bool = False
    downtime: float = 30.0
    ahead: float = 0.0
    fault: str | None = None


def plan_of(seed: int) -> Plan:
    """Draw a history."""
    draw = random.Random(f"history {seed}")
    asks = _asks(draw)
    rates = {
        kind: draw.uniform(*bounds)
        for kind, bounds in RATES.items()
        if draw.random() < (0.04 if kind in RARE else 0.15 + 0.3 * (seed % 3 == 0))
    }
    length = 150 * len(asks.models) * (2 if asks.judge else 1)
    kills = frozenset(draw.randrange(1, length) for _ in range(draw.choice((0, 1, 1, 2, 4, 8))))
    freezes = {
        draw.randrange(1, length): draw.choice((5.0, 100.0, 400.0, 2000.0)) for _ in range(draw.choice((0, 0, 1, 3)))
    }
    torn = frozenset(draw.randrange(1, length) for _ in range(draw.choice((0, 0, 0, 1, 2))))
    full = frozenset(draw.randrange(1, length) for _ in range(draw.choice((0, 0, 0, 0, 1, 2))))
    stops = Stops(kills, torn, full, freezes, draw.choice((0.0, 0.0, 0.0, 5.0, 40.0)), draw.choice((0.1, 0.5)))
    edits, now = [], asks
    for at in sorted(draw.randrange(10, length) for _ in range(draw.choice((0, 0, 0, 1, 2)))):
        now = _edited(now, draw)
        edits.append((at, now))
    second = draw.choice((0.0, 1.0, 60.0, 300.0)) if draw.random() < 0.25 else None
    neighbour = (draw.choice((0.0, 1.0, 60.0, 300.0)), _neighbour(asks, draw)) if draw.random() < 0.3 else None
    begin = draw.uniform(1.0, 200.0)
    outage = (begin, begin + draw.choice((600.0, 600.0, 5 * 3600.0))) if draw.random() < 0.06 else (0.0, 0.0)
    last, batch_seconds = draw.choice((1, 2, 4)), draw.choice((20.0, 60.0, 60.0, 300.0))
    later = random.Random(f"creates of {seed}")
    begin = later.uniform(0.0, 200.0)
    no_creates = (begin, begin + later.choice((900.0, 3 * 3600.0))) if later.random() < 0.08 else (0.0, 0.0)
    weather = Weather(rates, last, batch_seconds, outage, no_creates, later.choice((0.0, 0.0, 0.3)))
    is_late = bool({"create late", "list late"} & rates.keys())  # a clock put forward shortens the looks for a batch
    skews = (-200.0, 200.0, *(() if is_late else (-7200.0, 3 * 86_400.0)))
    return Plan(
        seed, asks, weather, stops, tuple(edits), second, neighbour,
        cancel_at=draw.randrange(10, length) if draw.random() < 0.08 and not neighbour else None,
        retry_at=draw.randrange(10, length) if draw.random() < 0.1 else None,
        retries=draw.random() < 0.5,
        tight=draw.random() < 0.12 and not edits and not neighbour,
        downtime=draw.choice((0.0, 1.0, 30.0, 400.0, 4000.0)),
        ahead=draw.choice(skews) if draw.random() < 0.1 else 0.0,
    )  # fmt: skip


def _asks(draw: random.Random) -> Asks:
    models = draw.choice((("alpha",), ("beta",), ("gamma",), ("alpha", "beta"), ("alpha", "delta"), ("beta", "gamma")))
    items = tuple((number, 0) for number in range(draw.choice((2, 4, 7))))
    judge = draw.choice((None, None, "tagged", "untagged"))
    return Asks(models, items, judge, draw.choice((1, 1, 1, 2)) if judge is None else 1)


def _edited(asks: Asks, draw: random.Random) -> Asks:
    """Draw what an edit makes of a manifest: an item is reworded, dropped or added, a model comes or goes."""
    items, models = list(asks.items), list(asks.models)
    match draw.choice(("reword", "drop", "add", "model", "back")):
        case "reword":
            at = draw.randrange(len(items))
            items[at] = (items[at][0], items[at][1] + 1)
        case "drop" if len(items) > 1:
            items.pop(draw.randrange(len(items)))
        case "model":
            name = draw.choice([model for model in manifests.MODELS if model not in models])
            models = [name] if len(models) > 1 else [*models, name]
        case "back":
            items = [(number, 0) for number, _ in items]
        case _:
            items.insert(draw.randrange(len(items) + 1), (max(number for number, _ in items) + 1, 0))
    return Asks(tuple(models), tuple(items), asks.judge, asks.samples)


def _neighbour(asks: Asks, draw: random.Random) -> Asks:
    """Draw what a second run asks: some of the same."""
    items = [item for item in asks.items if draw.random() < 0.8] or [asks.items[0]]
    items += [(90, 0)] if draw.random() < 0.5 else []
    draw.shuffle(items)
    return Asks(asks.models[: draw.choice((1, 2))], tuple(items), asks.judge, asks.samples)


@dataclass(slots=True)
class Played:
    """What a history came to. ``codes``: the last exit code of each run. ``status``: what each run says at the end.
    ``verified``: what `verify` ended with. ``running``: batches that providers were still at when all was over.
    ``points``: what was passed until then."""

    plan: Plan
    folder: Path
    world: World
    conductor: Conductor
    asked: dict[str, Asks]
    rows: database.Rows | None = None
    codes: dict[str, int] = field(default_factory=dict)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    verified: dict[str, int] = field(default_factory=dict)
    cancelled: bool = False
    retried: bool = False
    running: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)

    def told(self, broken: list[str]) -> str:
        """Return what is broken, and what happened, in order."""
        return "\n".join([*broken, f"seed {self.plan.seed}: {self.plan}", *self.conductor.said])


class History:
    """One history under way: the processes, the timer that calls them again, and the person."""

    def __init__(self, forks: Forks, plan: Plan, folder: Path, state_url: str | None = None) -> None:
        self.plan, self.folder = plan, folder
        world = World(plan.seed, plan.weather, lambda prompt, _number: manifests.reply(prompt), START)
        self.conductor = Conductor(forks, folder, world, plan.stops, plan.seed)
        self.played = Played(plan, folder, world, self.conductor, {RUN: plan.asks})
        self.url = state_url or f"sqlite:///{folder / 'runs' / 'state.sqlite3'}"
        self._environment = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        for provider in sorted(set(manifests.MODELS.values())):
            name = provider.upper()
            self._environment |= {
                f"{name}_API_KEY": f"key-of-{provider}-4711",
                f"{name}_BASE_URL": "http://127.0.0.1:9/v1",
            }
        if state_url:
            self._environment["LAYTON_BATCH_STATE"] = state_url
        if plan.fault:
            self._environment["SIMULATED_FAULT"] = plan.fault
        self._edits = list(plan.edits)
        self._commands = {
            at: name for name, at in (("cancel", plan.cancel_at), ("retry", plan.retry_at)) if at is not None
        }
        self._due: list[str] = []
        self._again: dict[str, int] = {}
        self._lives = 0
        self._max_usd = {RUN: "1" if plan.tight else None}
        self._draw = random.Random(f"lives {plan.seed}")

    def play(self) -> Played:
        """Play it to its end, then let everything at the providers end and ask `status` and `verify`."""
        played, plan = self.played, self.plan
        self.conductor.at_point = self._strike
        self.write(RUN, plan.asks)
        self._start(RUN)
        if plan.second is not None:
            self.conductor.later(plan.second + 0.001, lambda: self._start(RUN, slot="again"))
        if plan.neighbour is not None:
            played.asked[NEIGHBOUR] = plan.neighbour[1]
            self.write(NEIGHBOUR, plan.neighbour[1])
            self.conductor.later(plan.neighbour[0] + 0.001, lambda: self._start(NEIGHBOUR))
        try:
            self.conductor.run()
            while self._turn_page():
                self._start(RUN)
                self.conductor.run()
            if played.broken:
                return played
            played.points = list(self.conductor.points)
            played.running = [
                batch.id for batch in played.world.batches if not batch.is_over and batch.shown_at is not None
            ]
            played.world.let_all_end()
            self.conductor.strike_no_more()
            for name in played.asked:
                self._command(
                    ["status", name, "--json"], lambda life, code, name=name: self._read_status(name, life, code)
                )
                if plan.seed % VERIFIED == 0:
                    self._command(["verify", name], lambda life, code, name=name: self._verified(name, life, code))
            self.conductor.run()
            played.rows = database.read(self.url)
        except Stuck as error:
            played.broken.append(f"the history does not end: {error}")
        return played

    def command(self, *words: str, **more: str) -> tuple[int, str]:
        """Carry out one command alone, ``more`` in its environment; returns its exit code and what it told people."""
        ends: list[tuple[int, str]] = []
        self.conductor.start(
            words[0], words, {**self._environment, **more}, lambda life, code: ends.append((code, life.errors))
        )
        self.conductor.run()
        assert ends
        assert "Traceback" not in ends[0][1], ends[0][1]
        return ends[0]

    # ---- processes -------------------------------------------------------------------------------------------------

    def _start(self, name: str, slot: str = "") -> None:
        self._lives += 1
        if self._lives > MOST_LIVES:
            raise Stuck(f"{MOST_LIVES} processes were not enough")
        command = ["run", f"{name}.toml", "--yes", "--offline", "--json"]
        ahead = self._draw.choice((0.0, self.plan.ahead))
        self.conductor.start(
            name + slot, command, self._environment, lambda life, code: self._ended(name, slot, life, code), ahead
        )

    def _command(self, command: list[str], then: Any) -> None:
        self.conductor.start(command[0], command, self._environment, then)

    def _ended(self, name: str, slot: str, life: Life, code: int) -> None:
        """A `run` is over: a timer calls it again, or a person does what it asks for."""
        played = self.played
        played.ends.append(f"{name} {code}")
        if "Traceback" in life.errors:
            played.broken.append(f"a traceback: {life.errors[-3000:]}")
            return
        is_to_go_on = "retry" in self._due  # who gives a run that is over one more attempt calls it again
        self._commands_due()
        if code == -9:
            self.conductor.later(self.plan.downtime + 0.01, lambda: self._start(name, slot))
            return
        if code in (75, 74):
            tries = self._again[name + slot] = self._again.get(name + slot, 0) + 1
            self.conductor.later(CALL_AGAIN[min(tries, len(CALL_AGAIN)) - 1], lambda: self._start(name, slot))
            return
        played.codes[name] = code
        if code == 4:
            self.conductor.later(PERSON_SECONDS, lambda: self._person(name, slot))
        elif code == 3:
            self._max_usd[name] = str(Decimal(self._max_usd[name] or 1) * 4)
            self.write(name, played.asked[name])
            self.conductor.later(60.0, lambda: self._start(name, slot))
        elif code == 5 and self.plan.retries and not played.retried:
            played.retried = True
            self.conductor.later(
                60.0, lambda: self._command(["retry", name], lambda _life, _code: self._start(name, slot))
            )
        elif code not in (0, 5):
            played.broken.append(f"{name} ended with {code}: {life.errors[-1500:]}")
        elif is_to_go_on:
            self.conductor.later(60.0, lambda: self._start(name, slot))

    def _strike(self, number: int, life: Life) -> bool:
        """A point is passed: whether the process dies there, because a person stops it to do something else."""
        if self._edits and number >= self._edits[0][0] and life.name.startswith(RUN):
            self._turn_page()
            return True
        if number in self._commands:
            self._due.append(self._commands.pop(number))
            return True
        return False

    def _commands_due(self) -> None:
        for name in self._due:
            setattr(self.played, {"cancel": "cancelled", "retry": "retried"}[name], True)
            self._command([name, RUN], self._command_ended)
        self._due = []

    def _command_ended(self, life: Life, code: int) -> None:
        """A person's command is over; one that was killed or refused for the moment is given again."""
        if code in (-9, 74, 75):
            self.conductor.later(60.0, lambda: self._command([life.name, RUN], self._command_ended))
        if "Traceback" in life.errors:
            self.played.broken.append(f"a traceback: {life.errors[-3000:]}")
        if code not in (0, 2, 3, 4, 5, 74, 75, -9):
            self.played.broken.append(f"{life.name} ended with {code}: {life.errors[-1500:]}")

    def _turn_page(self) -> bool:
        """Edit the manifest, if there is an edit left."""
        if not self._edits:
            return False
        _, asks = self._edits.pop(0)
        self.conductor.said.append(f"the manifest asks now {asks}")
        self.played.asked[RUN] = asks
        self.write(RUN, asks)
        return True

    def write(self, name: str, asks: Asks) -> None:
        """Write a run's manifest."""
        manifests.write(self.folder, name, asks, max_usd=self._max_usd.get(name), policy={})

    # ---- the person ------------------------------------------------------------------------------------------------

    def _person(self, name: str, slot: str) -> None:
        """Look at the lost batches, and at the provider's console, which is the world itself. Where none is lost, have
        what has no answer asked once more."""
        rows = database.read(self.url)
        lost = [row for row in rows.batches if row.state == "lost"]
        steps: list[list[str]] = [] if lost else [["retry", name]]
        self.played.retried |= not lost
        taken = set(rows.provider_ids)
        for row in lost:
            content = (self.folder / "runs" / row.path).read_bytes()
            there = [
                batch.id
                for batch in self.played.world.batches
                if batch.provider == row.provider and batch.content == content and batch.id not in taken
            ]
            run = next(iter(sorted(n for n in self.played.asked if f"/{n}/" in row.path)), name)
            if row.provider_id is not None or there:
                steps.append(["resolve", run, row.id, "--adopt", row.provider_id or there[0]])
                taken |= {there[0]} if there else set()
            else:
                steps.append(["resolve", run, row.id, "--resubmit"])

        def go_on(life: Life | None, code: int) -> None:
            if life is not None:
                self.conductor.said.append(f"the person: {code} {life.errors[-300:]}")
                if "Traceback" in life.errors:
                    self.played.broken.append(f"a traceback: {life.errors[-3000:]}")
            if steps:
                self._command(steps.pop(0), go_on)
            else:
                self._start(name, slot)

        go_on(None, 0)

    def _read_status(self, name: str, life: Life, code: int) -> None:
        if code != 0:
            self.played.broken.append(f"status ended with {code}: {life.errors[-1500:]}")
            return
        self.played.status[name] = json.loads(life.output)

    def _verified(self, name: str, life: Life, code: int) -> None:
        self.played.verified[name] = code
        if code != 0:
            self.conductor.said.append(f"verify {name}: {code} {life.errors[-1500:]} {life.output[-1500:]}")


def play(forks: Forks, plan: Plan, state_url: str | None = None) -> tuple[list[str], Played]:
    """Play a history; returns what is broken, in words."""
    from tests.simulation.claims import broken_claims

    with history(forks, plan, state_url) as begun:
        played = begun.play()
        return [*played.broken, *([] if played.broken else broken_claims(played))], played


@contextmanager
def history(forks: Forks, plan: Plan, state_url: str | None = None) -> Iterator[History]:
    """Yield a history that is about to be played, in a folder of its own: in memory, for disks are slower."""
    scratch = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="history-", dir=scratch))
    begun = History(forks, plan, folder, state_url)
    try:
        yield begun
    finally:
        begun.conductor.close()
        shutil.rmtree(folder, ignore_errors=True)
