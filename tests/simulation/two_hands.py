"""Several programs on one run, one at a time: who goes on at a point is drawn, and time passes when all wait for it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.manual_clock import ManualClock
from tests.simulation.interruptions import Course

OFTEN = 0.35
"""How often a program that comes to a point gives way to another."""
REAL_SECONDS = 120.0
"""No turn lasts that long; a program that waits longer has been forgotten, which is a mistake in here."""


class Turns:
    """Hands over between threads so that exactly one runs; the same draws give the same history."""

    def __init__(self, clock: ManualClock, draw: random.Random) -> None:
        self._clock = clock
        self._draw = draw
        self._wakes: dict[int, float] = {}  # when each hand wants to go on, by number
        self._turn = 0
        self._changed = threading.Condition()
        self._numbers: dict[int, int] = {}  # thread → hand

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
        """Perhaps let another one go on."""
        if self._draw.random() < OFTEN:
            self.sleep(0.0)

    def run(self, course: Course, programs: list[Callable[[], None]]) -> None:
        """Carry out all programs to their ends."""
        threads = [
            threading.Thread(target=self._work, args=(number, program, course), name=f"hand {number}")
            for number, program in enumerate(programs, 1)
        ]
        self._wakes = {number: self._clock.now() for number in range(1, len(programs) + 1)}
        course.pause = self.pause
        for thread in threads:
            thread.start()
        with self._changed:
            self._next()
        for thread in threads:
            thread.join()

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
            raise AssertionError(f"hand {number} never got its turn")

    def _next(self) -> None:
        """Choose among those who are due; where nobody is, time passes until the first one is."""
        if self._wakes:
            first = min(self._wakes.values())
            if first > self._clock.now():
                self._clock.seconds = first
            due = [number for number, wake in sorted(self._wakes.items()) if wake <= self._clock.now()]
            self._turn = self._draw.choice(due)
        self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Ahead:
    """The clock of a program on a machine that is so many seconds ahead of the first one's."""

    turns: Turns
    seconds: float

    def now(self) -> float:
        return self.turns.now() + self.seconds

    def sleep(self, seconds: float) -> None:
        self.turns.sleep(seconds)
