"""One execution of a manifest: everything a stage needs, handed in from outside."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from threading import Event, Lock

from layton_batch import item_table
from layton_batch.clock import Clock
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import StoppedError
from layton_batch.gold import Gold
from layton_batch.lanes import Lanes
from layton_batch.leaderboard import Rules
from layton_batch.manifest import Manifest
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Item
from layton_batch.run_folder import RunFolder
from layton_batch.store import DESK, Gate, RunStore
from layton_batch.tasks.protocol import Task


@dataclass(slots=True)
class Providers:
    """The run's connections, one a provider, made when first needed and kept."""

    connect: Callable[[str], Provider]
    dialect: Callable[[str], Provider]  # limits, encode and decode only: needs no key
    _open: dict[str, Provider] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: str) -> Provider:
        """The connected provider. Raises MissingKeyError, ManifestError (unknown name)."""
        with self._lock:
            if name not in self._open:
                self._open[name] = self.connect(name)
            return self._open[name]

    def close(self) -> None:
        """Let go of every connection."""
        with self._lock:
            for provider in self._open.values():
                close = getattr(provider, "close", None)
                if close is not None:
                    close()
            self._open.clear()


@dataclass
class Run:
    """The handles of one run. ``load_items`` reads the manifest's source; it is asked once, when the run begins."""

    id: str
    manifest: Manifest
    folder: RunFolder
    store: RunStore
    task: Task
    clock: Clock
    providers: Providers
    executor: Executor
    prices: PriceBook
    load_items: Callable[[], Sequence[Item]]
    load_gold: Callable[[], Gold | None]
    poll_seconds: float | None = None
    stopping: Event = field(default_factory=Event)
    overtaken: bool = False
    """Another process wrote tables while this one thought it did: look at them once more before saying `done`."""
    filing: Lock = field(default_factory=Lock)
    """One batch's results are held in memory at a time, however many lanes there are."""
    lanes: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.executor)

    def taken(self, batches: Iterable[Batch], gate: Gate | None = None) -> Generator[Batch, None, None]:
        """Each of ``batches`` that is still due, in its state and in nobody's hands: claimed before it is handed out,
        fresh from the store, and let go when the next one is asked for.

        So several processes on one run share its batches. ``gate`` weighs those about to be sent.
        """
        held: list[str] = []
        try:
            for batch in batches:
                if self.stopping.is_set():
                    return
                now = self.clock.now()
                claimed = self.store.claim(now, states=[batch.state], ids=[batch.id], gate=gate, release=held)
                held = [one.id for one in claimed]
                yield from claimed
        finally:
            self.store.release(held)

    def heed_stop(self) -> None:
        """To be called during long work. Raises StoppedError where the program was told to stop."""
        if self.stopping.is_set():
            raise StoppedError(f"run {self.id}: the program was told to stop")

    @contextmanager
    def desk(self) -> Iterator[bool]:
        """Whether this process may plan and write tables while the block lasts: one at a time does."""
        ours = self.store.claim_named(DESK, self.clock.now())
        try:
            yield ours
        finally:
            if ours:
                self.overtaken = not self.store.release_named(DESK)

    @cached_property
    def items(self) -> Sequence[Item]:
        """The run's items as frozen at its beginning."""
        return item_table.read(self.folder)

    def item(self, item_id: str) -> Item:
        """One of the run's items."""
        return self._by_id[item_id]

    @cached_property
    def _by_id(self) -> dict[str, Item]:
        return {item.id: item for item in self.items}

    @property
    def rules(self) -> Rules:
        """How the manifest wants its board scored."""
        scoring = self.manifest.scoring
        metric = scoring.metric or self.task.metrics[0]
        return Rules(method=scoring.method, metric=metric, level=scoring.level, seed=scoring.seed)

    @property
    def tag_prefix(self) -> str:
        """Starts every tag of this run; the moment is in it, so that a second run of a manifest is told apart."""
        return f"lb-{self.manifest.identity()[:8]}-{sha256(repr(self.born).encode()).hexdigest()[:8]}"

    @cached_property
    def born(self) -> float:
        """When the run was entered into its store."""
        row = self.store.row()
        return row.created_at if row else 0.0
