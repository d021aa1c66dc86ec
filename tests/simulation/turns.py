"""Several programs on one run, one at a time: who goes on at a point is drawn, and time passes when all wait for it.

A program can be frozen at a point for longer than its lease lasts: another takes the run over, and it wakes up later.
While it is not frozen its heartbeat goes on, also while it sleeps, as the thread beside a real program's does.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from unittest import mock

from sqlalchemy import Connection, update

from layton_batch.store import driver, schema
from layton_batch.store.driver import DriverLease
from tests.simulation.interruptions import Course, Hand
from tests.support.manual_clock import ManualClock

OFTEN = 0.35
"""How often a program that comes to a point gives way to another."""
REAL_SECONDS = 120.0
"""No turn lasts that long; a program that waits longer has been forgotten, which is a mistake in here."""
LONGEST_IN_CREATE = 600.0
"""Seconds for which a program may be frozen within the paid call. One that is frozen there for more than eleven minutes
may pay twice: a limit that docs/exactly_once.md names."""


class Turns:
    """Hands over between threads so that exactly one runs; the same draws give the same history."""

    def __init__(self, clock: ManualClock, draw: random.Random, freezes: Sequence[Freeze] = ()) -> None:
        self._clock = clock
        self._draw = draw
        self._freezes = sorted(freezes, key=lambda freeze: freeze.at)
        self._frozen: dict[int, float] = {}  # since when, by number
        self._leases: dict[int, tuple[Hand, int, DriverLease]] = {}  # by number: whose, in which life
        self._course: Course | None = None
        self._wakes: dict[int, float] = {}  # when each program wants to go on, by number
        self._turn = 0
        self._changed = threading.Condition()
        self._numbers: dict[int, int] = {}  # thread → program

    def now(self) -> float:
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait on the history's clock while the others work."""
        number = self._numbers[threading.get_ident()]
        with self._changed:
            self._wakes[number] = self._clock.now() + seconds
            self._next()
            self._await(number)

    def pause(self) -> None:
        """Freeze where the history says so; else let another one go on, perhaps."""
        assert self._course is not None
        if self._freezes and len(self._course.points) >= self._freezes[0].at:
            number = self._numbers[threading.get_ident()]
            self._frozen[number] = self._clock.now()
            self.sleep(min(self._freezes.pop(0).seconds, _longest_freeze(self._course.points[-1])))
            del self._frozen[number]
        elif self._draw.random() < OFTEN:
            self.sleep(0.0)

    def run(self, course: Course, programs: list[Callable[[], None]]) -> None:
        """Carry out all programs to their ends."""
        threads = [
            threading.Thread(target=self._work, args=(number, program, course), name=f"program {number}")
            for number, program in enumerate(programs, 1)
        ]
        self._wakes = {number: self._clock.now() for number in range(1, len(programs) + 1)}
        course.pause, self._course = self.pause, course
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(DriverLease, "take", self._taking(DriverLease.take)))
            stack.enter_context(mock.patch.object(driver, "lease_clock", return_value=self._clock.now))
            for thread in threads:
                thread.start()
            with self._changed:
                self._next()
            for thread in threads:
                thread.join()

    def _taking(self, original: Callable[[DriverLease, Connection], int]) -> Callable[[DriverLease, Connection], int]:
        """Before a program looks at the lease, the others' heartbeats of the time that passed are entered."""

        def take(lease: DriverLease, connection: Connection) -> int:
            assert self._course is not None
            if (mine := self._course.mine()) is None:  # of another run: a copy that somebody computes again
                return original(lease, connection)
            for number, (hand, life, held) in self._leases.items():
                if hand.lives == life and not hand.dead:
                    last = self._frozen.get(number, self._clock.now())
                    its = update(schema.runs).where(schema.runs.c.driver == held.owner)
                    connection.execute(its.values(driver_until=last + held.seconds))
            token = original(lease, connection)
            self._leases[self._numbers[threading.get_ident()]] = mine, mine.lives, lease
            return token

        return take

    def _work(self, number: int, program: Callable[[], None], course: Course) -> None:
        self._numbers[threading.get_ident()] = number
        with self._changed:
            self._await(number)
        course.enter()
        try:
            program()
        finally:
            with self._changed:
                del self._wakes[number]
                self._next()

    def _await(self, number: int) -> None:
        if not self._changed.wait_for(lambda: self._turn == number, REAL_SECONDS):
            raise AssertionError(f"program {number} never got its turn")

    def _next(self) -> None:
        """Choose among those who are due; where nobody is, time passes until the first one is."""
        if self._wakes:
            first = min(self._wakes.values())
            if first > self._clock.now():
                self._clock.seconds = first
            due = [number for number, wake in sorted(self._wakes.items()) if wake <= self._clock.now()]
            self._turn = self._draw.choice(due)
        self._changed.notify_all()


def _longest_freeze(point: str) -> float:
    return LONGEST_IN_CREATE if point.startswith("sent: ") and point.endswith(" create") else math.inf


@dataclass(frozen=True, slots=True)
class Freeze:
    """At point ``at`` of the history, or the next outside a transaction, the program that comes to it is frozen."""

    at: int
    seconds: float


def frozen_alone(clock: ManualClock, course: Course, freezes: Sequence[Freeze]) -> Callable[[], bool]:
    """Return what is to be called at every point of a program that no other one follows: it freezes where its history
    says so, and its lease runs out meanwhile. The function returns whether it was frozen."""
    to_come = sorted(freezes, key=lambda freeze: freeze.at)

    def pause() -> bool:
        is_due = bool(to_come) and len(course.points) >= to_come[0].at
        if is_due:
            clock.sleep(min(to_come.pop(0).seconds, _longest_freeze(course.points[-1])))
        return is_due

    return pause


@dataclass(frozen=True, slots=True)
class Ahead:
    """The clock of a program on a machine that is so many seconds ahead of the first one's."""

    turns: Turns
    seconds: float

    def now(self) -> float:
        return self.turns.now() + self.seconds

    def sleep(self, seconds: float) -> None:
        self.turns.sleep(seconds)
