"""Where the program can be stopped: every instant at which something outside its memory changes.

A point is reached before and after each commit of the state store, each file renamed or removed in the run folder, and
each HTTP call (sent: the provider has not seen it; executed: it was carried out and the reply is on its way).
Between two points nothing that survives the program changes, so stopping it at every point is stopping it anywhere.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy.engine.default import DefaultDialect

from layton_batch import atomic


class Killed(BaseException):
    """The program is no more. Not an Exception, as nothing may get hold of it."""


class Course:
    """The points of one history, numbered from 1 over all lives of the program, and the numbers at which it is stopped."""

    def __init__(self, root: Path, stops: Iterable[int] = ()) -> None:
        self.root = root
        self.stops = frozenset(stops)
        self.points: list[str] = []
        self.lives = 1
        self.dead = False

    def reach(self, what: str) -> None:
        """The program is about to do, or has just done, ``what``."""
        if self.dead:
            raise Killed
        self.points.append(what)
        if len(self.points) in self.stops:
            self.dead = True
            raise Killed

    def restart(self) -> None:
        self.dead = False
        self.lives += 1

    def owns(self, path: object) -> bool:
        """Whether the path is the program's, not the providers'."""
        return self.root in Path(str(path)).parents

    def name(self, path: object) -> str:
        return Path(str(path)).relative_to(self.root).as_posix()


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
            (Path, "replace", _replacing(course)),
            (Path, "unlink", _unlinking(course)),
            (shutil, "rmtree", _removing(course)),
            (atomic, "os", _Process(course)),
        ):
            stack.enter_context(mock.patch.object(target, name, replacement))
        stack.enter_context(mock.patch("layton_batch.runs.ThreadPoolExecutor", lambda _threads: Inline(shuffle)))
        yield


def _committing(course: Course) -> Callable[..., None]:
    original = DefaultDialect.do_commit

    def do_commit(dialect: DefaultDialect, connection: Any) -> None:
        course.reach("commit")
        original(dialect, connection)
        course.reach("committed")

    return do_commit


def _replacing(course: Course) -> Callable[..., Path]:
    original = Path.replace

    def replace(path: Path, target: str | os.PathLike[str]) -> Path:
        if not course.owns(target):
            return original(path, target)
        course.reach(f"rename {course.name(target)}")
        done = original(path, target)
        course.reach(f"renamed {course.name(target)}")
        return done

    return replace


def _unlinking(course: Course) -> Callable[..., None]:
    original = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if course.owns(path) and course.dead:
            return
        if course.owns(path) and not is_temporary(path):
            course.reach(f"remove {course.name(path)}")
        original(path, missing_ok)

    return unlink


def _removing(course: Course) -> Callable[..., None]:
    original = shutil.rmtree

    def rmtree(path: Any, *arguments: Any, **options: Any) -> None:
        if course.owns(path) and course.dead:
            return
        if course.owns(path) and not is_temporary(path):
            course.reach(f"remove {course.name(path)}")
        original(path, *arguments, **options)

    return rmtree


class _Process:
    """The ``os`` module as a process sees it whose id is another in every life, and whose disk syncs at once."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def getpid(self) -> int:
        return 1_000_000 + self._course.lives

    def fsync(self, _descriptor: int) -> None:
        """Nothing here outlives the machine; the process tests sync for real."""


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

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any], **_options: Any) -> Iterator[Any]:
        calls: Sequence[tuple[Any, ...]] = list(zip(*iterables, strict=False))
        order = list(range(len(calls)))
        if self._shuffle is not None:
            self._shuffle.shuffle(order)
        results = {number: function(*calls[number]) for number in order}
        return iter([results[number] for number in range(len(calls))])
