"""Object storage in memory that has troubles: 503, a write whose reply is lost, a list that is old, foreign objects."""

from __future__ import annotations

import atexit
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

import obstore
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from layton_batch.files import atomic, object_storage
from layton_batch.files.object_storage import Bucket
from layton_batch.files.run_folder import RunFolder
from tests.simulation.interruptions import Inline

ADDRESS = "s3://bucket/runs"
FOREIGN = ("readme.md", "backup/run/run.json", "batches/x", "site/index.html", "strangers/tables/votes/a.parquet")
_CHANGES = ("put", "delete")


@dataclass(frozen=True, slots=True)
class BadStorage:
    """Calls number ``first`` to ``first + times - 1`` fail: "503" before they are carried out, "lost" after a change.

    "stale": lists of these calls lack the objects of the last ``times`` writes.
    """

    first: int
    times: int
    kind: Literal["503", "lost", "stale"]


@dataclass(slots=True)
class ObjectStorage:
    """The storage of one history, and the local copy of the host at work.

    ``is_new_host``: each life of the program is on another host, which has no copy yet.
    """

    base: Path
    bad: Sequence[BadStorage]
    is_new_host: bool
    store: MemoryStore = field(default_factory=MemoryStore)
    calls: int = 0
    failed: int = 0
    _puts: list[str] = field(default_factory=list)
    _bucket: Bucket | None = None

    def begin(self, folder: RunFolder) -> None:
        """Bring the copy of the host up to date, as each command does that is started. Raises StorageError."""
        self.leave()
        if self.is_new_host:
            for root in (folder.root, folder.batches):
                shutil.rmtree(root, ignore_errors=True)
            (self.base / "index.json").unlink(missing_ok=True)
        self._bucket = Bucket(ADDRESS, self.base, self.store)
        self._bucket.begin()
        atomic._storages[:] = [self._bucket]

    def leave(self) -> None:
        """The process is gone, and kept no index of its copy."""
        atomic._storages.clear()
        if self._bucket is not None:
            atexit.unregister(self._bucket.keep_index)

    def differences(self, folder: RunFolder) -> Iterator[str]:
        """Yield each file of tables and batches that is not in the storage as it is here, and the other way round."""
        names = {str(row["path"]) for rows in obstore.list(self.store) for row in rows}
        root = folder.workspace.root
        here = {
            path.relative_to(root).as_posix(): path
            for place in (folder.tables, folder.batches)
            for path in place.rglob("*")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
        }
        places = [place.relative_to(root).as_posix() + "/" for place in (folder.tables, folder.batches)]
        for name in sorted(here.keys() | {name for name in names if any(map(name.startswith, places))}):
            if name not in here:
                yield f"{name} is in the storage only"
            elif name not in names:
                yield f"{name} is not in the storage"
            elif bytes(obstore.get(self.store, name).bytes()) != here[name].read_bytes():
                yield f"{name} is another file in the storage"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While the block runs, the program's storage is this one."""
        for name in FOREIGN:
            obstore.put(self.store, name, b"{}")
        library = SimpleNamespace(**{name: self._calling(name) for name in ("put", "get", "head", "delete")})
        library.list = self._list
        library.list_with_delimiter = obstore.list_with_delimiter
        with ExitStack() as stack:
            stack.callback(self.leave)
            stack.enter_context(mock.patch.object(atomic, "_storages", []))
            stack.enter_context(mock.patch.object(object_storage, "obstore", library))
            stack.enter_context(mock.patch.object(object_storage, "ThreadPoolExecutor", return_value=Inline()))
            yield

    def _calling(self, name: str) -> Any:
        original = getattr(obstore, name)

        def call(store: MemoryStore, path: str, *arguments: Any, **named: Any) -> Any:
            fault = self._fault()
            if fault is not None and (fault.kind == "503" or (fault.kind == "lost" and name not in _CHANGES)):
                self._fail(f"{name} {path}: HTTP 503 Service Unavailable, 10 retries")
            done = original(store, path, *arguments, **named)
            if name == "put":
                self._puts.append(path)
            if fault is not None and fault.kind == "lost":
                self._fail(f"{name} {path}: connection reset by peer, 10 retries")
            return done

        return call

    def _list(self, store: MemoryStore, *arguments: Any, **named: Any) -> Any:
        fault = self._fault()
        if fault is not None and fault.kind != "stale":
            self._fail("list: HTTP 503 Service Unavailable, 10 retries")
        unseen = set(self._puts[-fault.times :]) if fault is not None else set()
        self.failed += bool(unseen)
        return [[row for row in rows if row["path"] not in unseen] for rows in obstore.list(store, *arguments, **named)]

    def _fault(self) -> BadStorage | None:
        self.calls += 1
        return next((bad for bad in self.bad if bad.first <= self.calls < bad.first + bad.times), None)

    def _fail(self, reason: str) -> None:
        self.failed += 1
        raise GenericError(reason)


def draw_storage(draw: random.Random, most: int) -> tuple[BadStorage, ...]:
    """Draw the troubles of a storage that is called up to ``most`` times."""
    kinds: tuple[Literal["503", "lost", "stale"], ...] = ("503", "503", "lost", "lost", "stale")
    count = draw.choice((0, 1, 2, 4))
    return tuple(
        BadStorage(draw.randrange(2, most), draw.choice((1, 1, 2, 6)), draw.choice(kinds)) for _ in range(count)
    )
