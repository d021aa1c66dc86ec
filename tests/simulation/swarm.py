"""The troubles of a swarm's history, all at once: files, disk, object storage, workers, surroundings, silent providers.

Each history draws a subset of the kinds (`misfortunes/swarm.py`), over the one simulated world. The program may end
with a sentence because of a trouble: a timer starts it again, and a person puts back the files that the sentence names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import EngineError, LaytonBatchError, StorageError, StoreError
from layton_batch.files import sealed
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.verification.verify import verify_run
from tests.simulation.beside import Beside, Look
from tests.simulation.buckets import BadStorage, ObjectStorage
from tests.simulation.disks import BadDisk
from tests.simulation.in_process import Silence
from tests.simulation.rot import RESTS_SECONDS, Flip, Rot
from tests.simulation.surroundings import Change, Surroundings
from tests.simulation.workers import Loss, Workers

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest
    from layton_batch.runs.context import Run
    from tests.simulation.world import History


@dataclass(frozen=True, slots=True)
class Swarm:
    """The troubles of a history, each sorted by when it comes. ``kinds``: their names, and those of the rest of its
    plan. ``storage``: None: runs are on a disk alone. ``losses``: by piece of work of the engine; None: there is no
    engine but the process."""

    kinds: tuple[str, ...] = ()
    flips: tuple[Flip, ...] = ()
    disks: tuple[BadDisk, ...] = ()
    storage: tuple[BadStorage, ...] | None = None
    losses: tuple[tuple[int, Loss], ...] | None = None
    changes: tuple[Change, ...] = ()
    silences: tuple[Silence, ...] = ()
    looks: tuple[Look, ...] = ()

    @property
    def most_ends(self) -> int:
        """How often the program may end because of these."""
        writes = sum(disk.times for disk in self.disks) + sum(bad.times for bad in self.storage or ())
        return writes + 2 * len(self.flips) + len(self.losses or ())

    @property
    def changes_account(self) -> bool:
        """Whether a key becomes that of an account which has batches of a stranger."""
        return any(change.kind == "account" for change in self.changes)

    @property
    def leaves_doubts(self) -> bool:
        """Whether creates may be in doubt because of these, or their account is another one afterwards."""
        return bool(self.disks or self.storage or self.changes or self.silences or self.flips)


QUIET = Swarm()
"""No troubles at all."""


@dataclass(slots=True)
class Troubles:
    """What comes of a swarm in one history. ``last``: when something was last wrong, in true seconds."""

    found: History
    surroundings: Surroundings
    rot: Rot = field(init=False)
    beside: Beside = field(init=False)
    workers: Workers = field(init=False)
    storage: ObjectStorage | None = None
    last: float = 0.0
    ends: int = 0
    unnamed: list[str] = field(default_factory=list)
    _calls: int = 0
    _changed: int = 0
    _failures: int = 0
    _excused: dict[int, int] = field(default_factory=dict)  # failures so far, by the number of the program that ended
    _point_at: float = 0.0

    def __post_init__(self) -> None:
        swarm = self.found.plan.swarm
        self.rot, self.beside = Rot(swarm.flips), Beside(list(swarm.looks))
        self.workers = Workers(dict(swarm.losses or ()))
        if swarm.storage is not None:
            base = self.found.folder.workspace.root.parent
            self.storage = ObjectStorage(base, swarm.storage, self.found.plan.moving)
        self.found.course.disk.bad = swarm.disks

    @contextmanager
    def in_use(self, asked: Manifest) -> Iterator[None]:
        """While the block runs the history has these troubles."""
        found = self.found
        self._point_at = self.last = found.clock.true()
        found.providers.silence = self._silence
        found.providers.wait = found.clock.sleep
        found.course.meanwhile = lambda: self._pass(asked)
        with ExitStack() as stack:
            if self.storage is not None:
                stack.enter_context(self.storage.in_use())
            if found.plan.swarm.losses is not None:
                stack.enter_context(self.workers.in_use(found.clock))
            yield

    def begin_life(self) -> None:
        """The program is started again: in what surroundings it is, and with what files. Raises LaytonBatchError."""
        found, changes = self.found, self.found.plan.swarm.changes
        sealed._checked.clear()  # another process has hashed nothing yet
        self._note(self.rot.strike(found.folder, found.has_passed))
        while self._changed < len(changes) and changes[self._changed].at <= found.has_passed:
            self._change(changes[self._changed])
            self._changed += 1
        if self.storage is not None:
            self.storage.begin(found.folder)

    def check(self, run: Run) -> None:
        """Raise the sentence with which the program ends that leaves jobs to a person."""
        if run.trouble and (self.rot.damages or self.rot.returned):
            raise LaytonBatchError("; ".join(run.trouble.values()))

    def excuse(self, error: LaytonBatchError) -> bool:
        """Decide whether the program may end so: a place failed that it writes to, an old list of the storage lacks the
        run, or a file is damaged that the sentence names, and that a person has now put back, or has for another
        program."""
        failures = self._count_failures()
        hand = self.found.course.mine()
        number = 0 if hand is None else hand.number
        is_new = failures > self._excused.get(number, 0)  # another program may have met another failure since
        self._failures = self._excused[number] = failures
        of_places = (StorageError, EngineError, *([StoreError] if self.storage is not None else []))
        is_late = self.found.plan.programs > 1 and any(str(path) in str(error) for path in self.rot.returned)
        is_excused = self.rot.put_back(str(error)) or is_late or (is_new and isinstance(error, of_places))
        self.ends += is_excused
        self._note(is_excused)
        return is_excused

    def end(self) -> None:
        """The program is done: what is still damaged then is named by `verify`, and put back from a copy."""
        while self.rot.lasting():
            try:
                named = "\n".join(verify_run(self.found.folder, self.found.settings).differences)
            except LaytonBatchError as error:
                named = str(error)
            if not self.rot.put_back(named):
                self.unnamed += [str(damage.path) for damage in self.rot.lasting() if damage.path not in self._unused()]
                return

    def _unused(self) -> set[Path]:
        """The files of batches that were never sent."""
        root = self.found.folder.workspace.root
        with open_store(self.found.folder, self.found.settings) as store:
            return {root / batch.path for batch in store.batches() if batch.was_withdrawn}

    def broken(self) -> Iterator[str]:
        """Yield what these troubles brought to light."""
        yield from self.beside.broken
        yield from (f"{path} was damaged, and nothing names it" for path in self.unnamed)
        if self.storage is not None:
            yield from self.storage.differences(self.found.folder)

    def fired(self) -> dict[str, int]:
        """Count the troubles that came about."""
        return {
            "bits flipped": len(self.rot.flips[: self.rot.done]),
            "failed writes": self.found.course.disk.failed,
            "failed storage calls": self.storage.failed if self.storage else 0,
            "workers lost": self.workers.failed,
            "surroundings changed": self._changed,
            "commands beside": self.beside.done,
            "ends by a trouble": self.ends,
        }

    def _pass(self, asked: Manifest) -> None:
        """A point of the history is passed, outside a transaction."""
        now = self.found.clock.true()
        if now - self._point_at >= RESTS_SECONDS:
            self._note(self.rot.strike(self.found.folder, self.found.has_passed))
        self._point_at = self.found.clock.true()
        self._note(self._count_failures() > self._failures)
        self.beside.look(self.found, asked)

    def _silence(self) -> Silence | None:
        self._calls += 1
        silence = next((silence for silence in self.found.plan.swarm.silences if silence.at == self._calls), None)
        self._note(silence is not None)
        return silence

    def _count_failures(self) -> int:
        return self.found.course.disk.failed + self.workers.failed + (self.storage.failed if self.storage else 0)

    def _note(self, is_wrong: bool) -> None:
        if is_wrong:
            self.last = self.found.clock.true()

    def _change(self, change: Change) -> None:
        found = self.found
        if change.kind == "folder":
            before = found.folder.workspace.root
            root = self.surroundings.moved(before)
            self.rot.move(before, root)
            found.folder = RunFolder(root / found.folder.root.name)
            found.course.root, found.course.batches = found.folder.root, found.folder.batches
        elif change.kind == "account":
            self.switch(change.provider)
        else:
            self.surroundings.change(change)
        self._read_again()

    def switch(self, provider: str) -> None:
        """Have a person set the key of the account that is not set now."""
        self.surroundings.switch(provider)
        self.found.providers.renew_foreign()
        self._read_again()

    def _read_again(self) -> None:
        self.found.settings = Settings.from_environment(self.surroundings.environment, self.surroundings.cwd)
        self._note(True)
