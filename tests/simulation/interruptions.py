"""Where the program can be stopped: every instant at which something outside its memory changes.

A point is reached before and after each commit of the state store, each file renamed or removed in the run folder, and
each HTTP call (sent: the provider has not seen it; executed: it was carried out and the reply is on its way).
Between two points nothing that survives the program changes, so stopping it at every point is stopping it anywhere.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from sqlalchemy.engine.default import DefaultDialect

from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.provider_threads import ProviderThreads
from layton_batch.store import driver
from tests.simulation.disks import Disk

_NUMBERS = re.compile(r"\.[0-9a-f]{8}-[^/]*\.tmp")


WITHIN = frozenset({"statement", "commit"})
"""Points within a transaction."""


class Killed(BaseException):
    """The program is no more. Not an Exception, as nothing may get hold of it."""


@dataclass(slots=True)
class Hand:
    """One program at work on the run; another process in each of its lives."""

    number: int
    lives: int = 1
    dead: bool = False

    @property
    def pid(self) -> int:
        return 1_000_000 + 1_000 * self.number + self.lives


class Course:
    """The points of one history, numbered from 1 over all lives of the program, and the numbers at which it is stopped.

    ``moving``: every life is on another machine, which cannot tell whether the one before is dead. ``pause`` is called
    at every point outside a transaction: where another program may get its turn. Before that ``meanwhile`` is: what
    others do to files, and look at. ``disk`` is what the program writes to. ``dies`` is called when a program is
    stopped, ``is_buried`` when nothing of it runs any more and before its next life, ``is_cut_off`` where it loses
    the server of its state: at points numbered in ``breaks``.
    """

    def __init__(
        self, root: Path, stops: Iterable[int] = (), breaks: Iterable[int] = (), *, moving: bool = False
    ) -> None:
        self.root = root
        self.batches = RunFolder(root).batches
        self.stops = frozenset(stops)
        self.breaks = frozenset(breaks)
        self.moving = moving
        self.points: list[str] = []
        self.hands: dict[int, Hand] = {}
        self.disk = Disk()
        self.meanwhile: Callable[[], None] = lambda: None
        self.pause: Callable[[], None] = lambda: None
        self.dies: Callable[[Hand], None] = lambda _hand: None
        self.is_cut_off: Callable[[Hand, str], None] = lambda _hand, _what: None
        self.is_buried: Callable[[Hand], None] = lambda _hand: None

    def enter(self) -> Hand:
        """This thread is a program from now on."""
        hand = Hand(len(self.hands) + 1)
        self.hands[threading.get_ident()] = hand
        return hand

    def mine(self) -> Hand | None:
        """The program that this thread is; None for a thread beside it, which no point stops."""
        return self.hands.get(threading.get_ident())

    def reach(self, what: str) -> None:
        """The program is about to do, or has just done, ``what``."""
        hand = self.mine()
        if hand is None:
            return
        if hand.dead:
            raise Killed
        self.points.append(what)
        if len(self.points) in self.stops:
            hand.dead = True
            self.dies(hand)
            raise Killed
        if len(self.points) in self.breaks:
            self.is_cut_off(hand, what)
        if what not in WITHIN:
            self.meanwhile()
            self.pause()

    def writes(self) -> bool:
        """Whether this thread is a program that is alive, so that what it writes gets to its disk."""
        hand = self.mine()
        return hand is not None and not hand.dead

    @property
    def dead(self) -> bool:
        hand = self.mine()
        return hand is not None and hand.dead

    # ---- who the program is: another process in every life, and on another machine where the run moves

    def machine(self) -> str:
        hand = self.mine()
        return f"machine-{hand.pid if hand is not None and self.moving else 1}"

    def myself(self) -> tuple[str, int, str]:
        hand = self.mine()
        return self.machine(), hand.pid if hand is not None else 1, "1"

    def is_gone(self, where: str, pid: int, _begun: str) -> bool:
        return where == self.machine() and pid not in {hand.pid for hand in self.hands.values() if not hand.dead}

    # ---- what is its own

    def owns(self, path: object) -> bool:
        """Whether the path is the program's, not the providers'."""
        return not {self.root, self.batches}.isdisjoint(Path(str(path)).parents)

    def name(self, path: object) -> str:
        """The path as a point names it: the same in every replay, so without the number in a temporary name."""
        found = Path(str(path))
        beside = self.root if self.root in found.parents else self.root.parent
        return _NUMBERS.sub(".tmp", found.relative_to(beside).as_posix())


def is_temporary(path: object) -> bool:
    return any(part.startswith(".") and part.endswith(".tmp") for part in Path(str(path)).parts)


@contextmanager
def instrumented(course: Course, shuffle: random.Random | None = None) -> Iterator[None]:
    """While the block runs the program passes through ``course``, one thread at a time, in an order ``shuffle`` draws.

    What a killed program does on its way out (``finally`` blocks) has no effect: a killed process does none of it.
    """
    with ExitStack() as stack:
        for target, name, replacement in (
            (DefaultDialect, "do_commit", _committing(course)),
            (Path, "replace", _renaming(course, Path.replace)),
            (Path, "rename", _renaming(course, Path.rename)),
            (Path, "unlink", _removing(course, Path.unlink)),
            (shutil, "rmtree", _removing(course, shutil.rmtree)),
            (atomic, "os", _QuickDisk(course)),
            *((module, "myself", course.myself) for module in (atomic, driver)),
            *((module, "is_gone", course.is_gone) for module in (atomic, driver)),
            (atomic, "machine", course.machine),
        ):
            stack.enter_context(mock.patch.object(target, name, replacement))
        stack.enter_context(mock.patch("layton_batch.runs.open.ThreadPoolExecutor", return_value=Inline(shuffle)))
        stack.enter_context(mock.patch.object(ProviderThreads, "work", _in_drawn_order(shuffle)))
        yield


def _in_drawn_order(shuffle: random.Random | None) -> Callable[..., bool]:
    original = ProviderThreads.work

    def work(threads: ProviderThreads, step: Any, to_send: Mapping[Any, Any], patience: float | None) -> bool:
        drawn = list(to_send)
        if shuffle is not None:
            shuffle.shuffle(drawn)
        return original(threads, step, {thread: to_send[thread] for thread in drawn}, patience)

    return work


def _committing(course: Course) -> Callable[..., None]:
    original: Callable[..., None] = DefaultDialect.do_commit
    begun_by: WeakKeyDictionary[object, tuple[str, int, str]] = WeakKeyDictionary()

    def do_commit(dialect: DefaultDialect, connection: Any) -> None:
        ghost = begun_by.setdefault(connection._pool, course.myself()) != course.myself() and course.mine() is not None
        if course.dead or ghost:  # a generator that is closed only now, long after its program was killed
            dialect.do_rollback(connection)  # type: ignore[no-untyped-call]
            return
        course.reach("commit")
        fault = course.disk.begin("commit") if course.writes() else None
        original(dialect, connection)
        if fault is not None:
            course.disk.fail("commit", fault)
        course.reach("committed")

    return do_commit


def _renaming(course: Course, original: Callable[..., Any]) -> Callable[..., Any]:
    def rename(path: Path, target: Any) -> Any:
        if not course.owns(target):
            return original(path, target)
        course.reach(f"rename {course.name(target)}")
        fault = course.disk.begin("rename") if course.writes() else None
        done = original(path, target)
        if fault is not None:
            course.disk.fail("rename", fault)
        course.reach(f"renamed {course.name(target)}")
        return done

    return rename


def _removing(course: Course, original: Callable[..., None]) -> Callable[..., None]:
    def remove(path: Any, *arguments: Any, **options: Any) -> None:
        if course.owns(path):
            if course.dead:
                return
            if not is_temporary(path):
                course.reach(f"remove {course.name(path)}")
        original(path, *arguments, **options)

    return remove


class _QuickDisk:
    """The ``os`` module with a disk that syncs at once, or fails: nothing here outlives the machine, the process tests
    do."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, _descriptor: int) -> None:
        if self._course.writes():
            self._course.disk.begin("sync")


class Inline(Executor):
    """Does what it is given at once, in this thread, in a drawn order; results come in the order asked for."""

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._shuffle = shuffle

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_options: Any) -> Iterator[Any]:
        calls: Sequence[tuple[Any, ...]] = list(zip(*iterables, strict=False))
        order = list(range(len(calls)))
        if self._shuffle is not None:
            self._shuffle.shuffle(order)
        results = {number: fn(*calls[number]) for number in order}
        return iter([results[number] for number in range(len(calls))])
