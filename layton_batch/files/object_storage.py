"""Run folders in object storage (``s3://``, ``gs://``, ``az://``), each host with a local copy.

A file is put there before it has its name here, so before any state store tells of it. What other hosts put there comes
here when the state store tells of something that this process does not know. Only the run's driver writes.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError, PreconditionError
from obstore.store import ObjectStore, from_url

from layton_batch.clock import Deadlines
from layton_batch.errors import StorageError, file_error
from layton_batch.files import atomic
from layton_batch.files.run_folder import ADDRESS_FILE, BATCHES, MANIFEST

if TYPE_CHECKING:
    from obstore import UpdateVersion

SCHEMES = frozenset({"s3", "gs", "az"})
_CALLS_AT_ONCE = 16
_LOCKS = 256
_MADE_AGAIN = "site"
"""A folder of a run whose files are put there for people, and made again where another process needs them."""
_NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL")
"""Settings that are handed over by name, for a ``.env`` may give the keys. Obstore reads the others itself."""


class _StoredObject(NamedTuple):
    """An object as it was when it was put or got: its tag, and size in bytes and time of change in ns of its copy."""

    tag: str
    size: int
    changed: int


_log = logging.getLogger(__name__)
_open: dict[str, Bucket] = {}
_opening = Lock()


def local_copy(
    address: str, copies: Path, environment: Mapping[str, str], deadline: float = Deadlines().storage
) -> Path:
    """The folder below ``copies`` of what is at the address, as it is there now; what is written below it goes there.

    ``environment``: where access keys are. ``deadline``: seconds of one call to the storage; a call is repeated while
    so many seconds have not passed since its begin. Raises StorageError where the storage cannot be read.
    """
    with _opening:
        if address in _open:
            _open[address].fetch()
        else:
            home = copies / sha256(address.encode()).hexdigest()[:12]
            bucket = Bucket(address, home, _connected(address, environment, deadline))
            bucket.begin()
            _open[address] = bucket
            atomic.keep_at(bucket)
        return _open[address].root


def _connected(address: str, environment: Mapping[str, str], deadline: float) -> ObjectStore:
    given = {name: environment[name] for name in _NAMES if name in environment} if address.startswith("s3:") else {}
    is_plain = given.get("AWS_ENDPOINT_URL", "").startswith("http:")
    longest = timedelta(seconds=deadline)
    with _as_storage_error(address, "opened"):
        store: ObjectStore = from_url(  # type: ignore[call-overload]
            address,
            config=given or None,
            client_options={"allow_http": is_plain, "timeout": longest},
            retry_config={"retry_timeout": longest},
        )
    return store


class Bucket:
    """The files below ``root``, and the objects below an address. Threads and processes of one machine may share the
    local copy."""

    def __init__(self, address: str, home: Path, store: ObjectStore) -> None:
        self.address, self.root = address, home / "runs"
        self._index, self._locks, self._store = home / "index.json", home / "locks", store
        self._copies: dict[str, _StoredObject] = {}
        self._arrived: set[Hashable] = set()
        self._bad: set[str] = set()
        self._arriving = Lock()

    def begin(self) -> None:
        """Bring the local copy up to date with what it was when it was used last."""
        try:
            for folder in (self.root, self._locks):
                folder.mkdir(parents=True, exist_ok=True)
            self.root.with_name(ADDRESS_FILE).write_text(self.address, encoding="utf-8")
        except OSError as error:
            raise file_error(
                f"the local copy of {self.address} cannot be made in {self.root}: {error}", error
            ) from error
        with suppress(OSError, ValueError, TypeError):
            index = json.loads(self._index.read_text(encoding="utf-8"))
            self._copies = {
                name: copy for name, row in index.items() if self._is_here(name, copy := _StoredObject(*row))
            }
        self.fetch()
        self._forget_tables()
        atexit.register(self.keep_index)

    def arrive(self, keys: Collection[Hashable], own: Collection[Hashable] = ()) -> None:
        """Fetch, where one of the keys is new. ``own``: what this process will have written itself."""
        with self._arriving:
            if new := set(keys) - self._arrived:
                self.fetch()
                self._arrived |= new
            self._arrived.update(own)

    def fetch(self) -> None:
        """Get what was put there since, and remove what was removed there."""
        before = dict(self._copies)
        listing = Listing(self._store, urlsplit(self.address).path.strip("/"))
        with _as_storage_error(self.address, "listed"):
            tags = listing.tags(before)
        self._warn_of(listing.bad)
        for name in before.keys() - tags.keys():
            self._drop(name, before[name])
        runs = {name.partition("/")[0] for name in tags if name.count("/") == 1 and name.endswith(f"/{MANIFEST}")}
        new = [name for name, tag in tags.items() if _is_fetched(name, runs) and self._tag(name) != tag]
        with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
            list(pool.map(self._get, new, [tags[name] for name in new]))

    @contextmanager
    def storing(self, path: Path, content: Path) -> Iterator[None]:
        """See :class:`atomic.Storage`."""
        name = self._name(path)
        if name is None:
            yield
        elif content.is_dir():
            self._put_folder(name, content)
            yield
        else:
            with self._alone(name):
                self._put(name, content)
                yield

    @contextmanager
    def removing(self, path: Path) -> Iterator[None]:
        """See :class:`atomic.Storage`."""
        name = self._name(path)
        if name is None:
            yield
            return
        with self._alone(name):
            yield  # first: a file that is here alone would stay unseen elsewhere, one that is there alone comes back
            if name in self._copies:  # else it is not there: who may remove it has heard of what others put there
                self._delete(name)

    def append(self, path: Path) -> None:
        """See :class:`atomic.Storage`. Raises StorageError where another host's copy has grown."""
        if (name := self._name(path)) is None:
            return
        copy = self._copies.get(name)
        with self._alone(name):
            try:
                self._put(name, path, {"e_tag": copy.tag} if copy else "create")
            except (AlreadyExistsError, PreconditionError) as error:
                if self._is_there(name, path):
                    return  # it was put, and the reply was lost
                raise StorageError(
                    f"{self.address}/{name} was changed by another host: this one did not know its last lines. Stop "
                    "one of the two, start the other again, and repeat the last entry"
                ) from error

    def _is_there(self, name: str, path: Path) -> bool:
        """Read an object back, and return whether it is the file as it is here. Its tag is then known."""
        with _as_storage_error(self.address, f"read ({name})"), suppress(FileNotFoundError):
            stored, about = obstore.get(self._store, name), path.stat()
            if stored.meta["size"] == about.st_size and bytes(stored.bytes()) == path.read_bytes():
                self._copies[name] = _StoredObject(str(stored.meta["e_tag"]), about.st_size, about.st_mtime_ns)
                return True
        return False

    def _warn_of(self, bad: Collection[str]) -> None:
        """Say once of each object that its name cannot be a file's."""
        for name in sorted(set(bad) - self._bad):
            _log.warning(
                "%s holds an object that is ignored, for its name is not a file's: %r. Remove it: what another host "
                "writes beside it may stay unseen",
                self.address,
                name,
            )
        self._bad.update(bad)

    # ---- how ---------------------------------------------------------------------------------------------------

    def _name(self, path: Path) -> str | None:
        """Return the object's name; None for an unfinished file or folder, and for files below such a folder."""
        parts = path.relative_to(self.root).parts
        return None if any(part.startswith(".") for part in parts) else "/".join(parts)

    def _tag(self, name: str) -> str | None:
        copy = self._copies.get(name)
        return copy.tag if copy else None

    def _put_folder(self, name: str, content: Path) -> None:
        files = {
            f"{name}/{path.relative_to(content).as_posix()}": path for path in content.rglob("*") if path.is_file()
        }
        with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
            list(pool.map(self._put, files, files.values()))
        with _as_storage_error(self.address, "listed"):
            stored_names = {str(stored["path"]) for rows in obstore.list(self._store, f"{name}/") for stored in rows}
        for stale in stored_names - files.keys():
            self._delete(stale)

    def _put(self, name: str, content: Path, mode: Literal["create"] | UpdateVersion | None = None) -> None:
        about = content.stat()
        with _as_storage_error(self.address, f"written ({name})"):
            if mode is None:
                put = obstore.put(self._store, name, content)
            else:  # a condition is heeded in one piece only
                put = obstore.put(self._store, name, content, mode=mode, use_multipart=False)
        self._copies[name] = _StoredObject(str(put["e_tag"]), about.st_size, about.st_mtime_ns)

    def _delete(self, name: str) -> None:
        with _as_storage_error(self.address, f"written ({name})"), suppress(FileNotFoundError):
            obstore.delete(self._store, name)
        self._copies.pop(name, None)

    def _get(self, name: str, tag: str) -> None:
        path = self.root / name
        with self._alone(name), _as_storage_error(self.address, f"read ({name})"), suppress(FileNotFoundError):
            if self._tag(name) == tag:
                return  # it was put from here meanwhile
            stored = obstore.get(self._store, name)
            with atomic.receiving(path) as handle:
                for chunk in stored.stream():
                    handle.write(chunk)
            moment = int(stored.meta["last_modified"].timestamp() * 1e9)
            os.utime(path, ns=(moment, moment))
            self._copies[name] = _StoredObject(str(stored.meta["e_tag"]), path.stat().st_size, moment)

    def _drop(self, name: str, copy: _StoredObject) -> None:
        with self._alone(name):
            if self._copies.get(name) == copy:
                (self.root / name).unlink(missing_ok=True)
                del self._copies[name]

    def _forget_tables(self) -> None:
        """Parts of tables that another host has removed, of which this copy's index does not know."""
        for path in [*self.root.glob("*/tables/**/*.parquet")]:
            name = self._name(path)
            if name is not None and name not in self._copies:
                with self._alone(name), _as_storage_error(self.address, f"read ({name})"):
                    try:
                        obstore.head(self._store, name)
                    except FileNotFoundError:
                        path.unlink(missing_ok=True)

    def _is_here(self, name: str, copy: _StoredObject) -> bool:
        try:
            about = (self.root / name).stat()
        except OSError:
            return False
        return (about.st_size, about.st_mtime_ns) == (copy.size, copy.changed)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Keep other threads and processes of this machine from changing the file while the block runs."""
        number = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % _LOCKS
        with (self._locks / str(number)).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def keep_index(self) -> None:
        with suppress(OSError):
            atomic.write_text(self._index, json.dumps(self._copies))


_BAD_NAME = re.compile(r'Path "(.*?)":? (?:contained|Encountered)', re.DOTALL)


_PLAIN = re.compile(r"[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]*/")
"""A folder's name that may be listed, and what is below it."""
_MOST_SKIPPED = 100
"""Names that are passed over in one folder, before the rest of it is left alone."""


def _behind_bad(name: str) -> str | None:
    """Return a name that can be read and comes behind all names that are bad as this one is; None where this one is
    not known to be bad. Nothing that a run has comes between them."""
    if (control := re.search(r"[\x00-\x1f\x7f]", name)) is not None:
        return name[: control.start()] + " "
    parts = name.split("/")
    number = next((number for number, part in enumerate(parts) if part in ("", ".", "..")), None)
    return None if number is None else "/".join(parts[: number + 1]) + "0"


@dataclass(slots=True)
class Listing:
    """One list of the objects below an address. The storage's library gives up a list in which a name holds ``..``,
    ``//`` or a control character; the folders beside that name are then listed one by one.

    ``prefix``: of the address within its bucket. ``bad``: the names that were passed over.
    """

    store: ObjectStore
    prefix: str
    bad: set[str] = field(default_factory=set)

    def tags(self, earlier_names: Collection[str]) -> dict[str, str]:
        """Return the tag of each object by name. ``known``: names of objects from before. Those that the list lacks are
        asked for one by one: the list may be older than the object. Raises errors of the storage."""
        try:
            tags = self._all("")
        except InvalidPathError as error:
            self._pass_over(error)
            tags = self._walked("", earlier_names)
        missing = [name for name in earlier_names if name not in tags]
        with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
            for answer in pool.map(self._asked, missing):
                tags |= answer
        return tags

    def _all(self, folder: str, offset: str | None = None) -> dict[str, str]:
        listed = obstore.list(self.store, folder or None, offset=offset)
        return {str(entry["path"]): str(entry["e_tag"]) for rows in listed for entry in rows}

    def _walked(self, folder: str, earlier_names: Collection[str]) -> dict[str, str]:
        """List a folder of which some name cannot be read: its files and, one by one, its folders."""
        tags: dict[str, str] = {}
        start = f"{folder}/" if folder else ""
        try:
            level = obstore.list_with_delimiter(self.store, folder or None)
            tags = {str(entry["path"]): str(entry["e_tag"]) for entry in level["objects"]}
            folders = {str(entry) for entry in level["common_prefixes"]}
        except InvalidPathError:
            tags = self._behind(folder)
            names = [name.removeprefix(start) for name in (*earlier_names, *tags, *self.bad) if name.startswith(start)]
            folders = {start + name.partition("/")[0] for name in names if _PLAIN.match(name)}
        for below in sorted(folders):
            try:
                tags |= self._all(below)
            except InvalidPathError as error:
                self._pass_over(error)
                tags |= self._walked(below, earlier_names)
        return tags

    def _behind(self, folder: str) -> dict[str, str]:
        """List the objects of a folder from the first usual name on, and again behind each name that cannot be read."""
        offset = f"{folder}/0" if folder else "0"
        for _ in range(_MOST_SKIPPED):
            try:
                return self._all(folder, offset)
            except InvalidPathError as error:
                behind = _behind_bad(self._pass_over(error))
                if behind is None or behind <= offset:
                    break
                offset = behind
        return {}

    def _pass_over(self, error: InvalidPathError) -> str:
        """Note the name, below the address, that a list was given up for."""
        match = _BAD_NAME.search(str(error))
        name = match[1] if match else str(error).partition("\n")[0]
        name = name.removeprefix(f"{self.prefix}/" if self.prefix else "")
        self.bad.add(name)
        return name

    def _asked(self, name: str) -> dict[str, str]:
        try:
            return {name: str(obstore.head(self.store, name)["e_tag"])}
        except FileNotFoundError:
            return {}


def _is_fetched(name: str, runs: Collection[str]) -> bool:
    """Return whether a run may read the object: a file of one of these runs, or of a batch, be its run gone or not."""
    parts = name.split("/")
    if parts[0] == BATCHES:
        return len(parts) > 3
    return parts[0] in runs and len(parts) > 1 and parts[1] != _MADE_AGAIN


@contextmanager
def _as_storage_error(address: str, action: str) -> Iterator[None]:
    """Raise StorageError with a sentence for whatever the storage refuses in the block."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError, FileNotFoundError):
        raise
    except (BaseError, OSError) as error:
        reason = " ".join(str(error).split("\n\nDebug source", 1)[0].split())[:300]
        message = f"{address} cannot be {action}: {reason}. Nothing is lost; run the same command again"
        raise StorageError(message) from error
