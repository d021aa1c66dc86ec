"""One execution of a manifest: everything a stage needs, handed in from outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from threading import Event, Lock
from typing import TYPE_CHECKING

from layton_batch.clock import Clock, Pacing
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import DamagedTableError, StoppedError
from layton_batch.files.items import read_items, shown_digest, write_items
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers.protocol import Provider
from layton_batch.records import Account, Batch, Item, ModelSpec
from layton_batch.runs.folders import on_this_machine
from layton_batch.runs.job_engine import JobEngine
from layton_batch.runs.jobs import job_identity, predict_id, run_mark
from layton_batch.runs.provider_threads import ProviderThread, ProviderThreads
from layton_batch.runs.requests import PromptCache
from layton_batch.runs.stores import check_items
from layton_batch.states import Role
from layton_batch.tasks.protocol import Task

if TYPE_CHECKING:
    from layton_batch.runs.labels import Labels
    from layton_batch.runs.past_usage import PastUsage
    from layton_batch.runs.rejudging import RejudgeJob
    from layton_batch.runs.requests import PaidAnswers
    from layton_batch.scoring.gold import GoldSet
    from layton_batch.scoring.leaderboard import ScoringRules
    from layton_batch.store.run_store import RunStore


@dataclass(slots=True)
class Providers:
    """The run's connections, one for each provider thread, made when first needed and kept."""

    connect: Callable[[str], Provider]
    dialect: Callable[[str], Provider]  # limits, encode and decode only: needs no key
    account: Callable[[str, str], Account] = lambda _name, _salt: Account()
    """The account that a provider is called with (``runs/connections.py``), for a run's salt."""
    elsewhere: Callable[[str], str | None] = lambda _name: None
    """The address that a provider is called at, if it is not the provider's own."""
    ended_custom_ids: defaultdict[str, dict[str, frozenset[str]]] = field(default_factory=lambda: defaultdict(dict))
    """The custom_ids that this process has read of ended batches, by provider and the provider's id."""
    _open: dict[ProviderThread, Provider] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: str) -> Provider:
        """Return the connected provider of the thread that ticks. Provider threads have connections of their own.

        Raises MissingKeyError, ManifestError (unknown name).
        """
        return self.of(ProviderThread(name, -1))

    def of(self, thread: ProviderThread) -> Provider:
        """Return the connected provider of this thread alone. Raises the same errors."""
        with self._lock:
            if thread not in self._open:
                self._open[thread] = self.connect(thread.provider)
            return self._open[thread]

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for provider in self._open.values():
                close = getattr(provider, "close", None)
                if close is not None:
                    close()
            self._open.clear()


@dataclass
class Run:
    """The handles of one run. ``load_items`` reads the manifest's source; it is asked once, when the run begins.

    ``load_gold``: the gold set as it was then, which answers are judged again by; ``load_labels``: people's labels as
    they are now.
    """

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
    load_gold: Callable[[], GoldSet | None]
    load_labels: Callable[[], Labels]
    pacing: Pacing = field(default_factory=Pacing)
    revision: str | None = None
    """Digest of what this process's revision of the manifest asks; None: it keeps to what the store's jobs ask."""
    stopping: Event = field(default_factory=Event)
    repriced: bool = False
    """This process did what a change of prices asks for, as far as the tables could be read."""
    prompt_cache: PromptCache = field(default_factory=PromptCache)
    waited_for: frozenset[str] = frozenset()
    """The other runs that ask for answers which this one wants, as far as an event says so."""
    decided_juries: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """Digests of the verdicts from which third judges were found, by predict job."""
    filing: Lock = field(default_factory=Lock)
    """One batch's results are held in memory at a time, however many provider threads there are."""
    _tasks: dict[int, Task] = field(default_factory=dict)
    _item_digests: dict[str, str] = field(default_factory=dict)
    threads: ProviderThreads = field(init=False)
    engine: JobEngine = field(init=False)

    def __post_init__(self) -> None:
        self.threads = ProviderThreads(self.executor, self.providers.dialect)
        self.engine = JobEngine(self.folder.tables, self._note)

    def _note(self, event: str, detail: str) -> None:
        self.store.add_event(self.clock.now(), None, event, detail)

    @cached_property
    def paid_answers(self) -> PaidAnswers:
        """Return the look-up of answers that were bought or are being bought, as far as this run may use them."""
        from layton_batch.runs.requests import PaidAnswers

        return PaidAnswers(self.manifest, self.store, on_this_machine(self.folder), self.providers.elsewhere)

    @cached_property
    def past_usage(self) -> PastUsage:
        """Return the tokens of earlier answers in this workspace, also of this run's earlier processes."""
        from layton_batch.runs.past_usage import PastUsage

        return PastUsage(self.manifest, self.store)

    def heed_stop(self) -> None:
        """Raise StoppedError if the program is to stop. Long work calls this again and again."""
        if self.stopping.is_set():
            raise StoppedError(f"run {self.id}: the program was told to stop")

    @cached_property
    def items(self) -> Sequence[Item]:
        """Return the run's items as frozen at its beginning. Raises DamagedTableError if they are not as written."""
        check_items(self.store, self.folder)
        return read_items(self.folder)

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        """Return the run's items by id."""
        return {item.id: item for item in self.items}

    def item(self, item_id: str) -> Item:
        """Return one of the run's items. Raises DamagedTableError where it is none of them: a program that was killed
        within an edit has written the new items, and the jobs still ask about the old ones."""
        if (item := self.by_id.get(item_id)) is None:
            path = self.folder.part("items", "items")
            reason = f"item {item_id!r} is not in {path}: an edit of the manifest was cut short; `run` ends it"
            raise DamagedTableError(reason, path)
        return item

    def item_digest(self, item_id: str) -> str | None:
        """Return the digest of what people who label see of an item; None: the run does not have the item."""
        if item_id not in self._item_digests and item_id in self.by_id:
            self._item_digests[item_id] = shown_digest(self.by_id[item_id])
        return self._item_digests.get(item_id)

    def freeze(self, items: Sequence[Item]) -> None:
        """Make these the run's items from now on."""
        write_items(self.folder, items)
        self.forget_items()
        self.items = items

    def forget_items(self) -> None:
        """Forget the items, because others were written. They are read when they are needed next."""
        self.__dict__.pop("items", None)
        self.__dict__.pop("by_id", None)
        self._item_digests.clear()
        self.forget_jobs()

    def task_of(self, spec: ModelSpec) -> Task:
        """Return the task with the hint level of a job of this spec."""
        if spec.hints is None or spec.hints == self.manifest.items.levels[0]:
            return self.task
        if spec.hints not in self._tasks:
            self._tasks[spec.hints] = manifest_task(self.manifest, self.folder.prompts, spec.hints)
        return self._tasks[spec.hints]

    def model_ids(self) -> Mapping[str, str]:
        """Return by name the ids of the manifest's models at their providers. Models from a file have none."""
        return {spec.name: spec.model for spec in self.manifest.model_specs()}

    def forget_jobs(self) -> None:
        """Forget all that was derived from the jobs. It is derived again when it is needed."""
        for name in ("wanted_rejudging", "rejudging", "_windows"):
            self.__dict__.pop(name, None)

    @cached_property
    def wanted_rejudging(self) -> Sequence[RejudgeJob]:
        """Return the labelled answers of the gold set that go before the run's jury, by the manifest's job names."""
        gold = self.load_gold() if self.task.uses_jury else None
        if gold is None:
            return ()
        from layton_batch.runs.rejudging import rejudge_jobs

        return rejudge_jobs(self.manifest, gold, self.by_id)

    @cached_property
    def rejudging(self) -> Mapping[str, RejudgeJob]:
        """Return the labelled answers that go before the run's jury, by the store's job."""
        jobs = self.store.jobs()
        ids = {job.identity: job.id for job in jobs if job.role is Role.REJUDGE}
        first = [job for job in jobs if job.role is Role.PREDICT and job.spec.sample == 1]
        own = {predict_id(job.spec): job.id for job in first} | {
            predict_id(replace(job.spec, hints=self.manifest.hints_of(job.spec))): job.id for job in first
        }
        rejudged_by_job = {}
        for rejudged in self.wanted_rejudging:
            job_id = ids.get(job_identity(self.manifest, rejudged.job, rejudged.about), rejudged.job.id)
            own_job = own.get(rejudged.own, rejudged.own) if rejudged.own else None
            rejudged_by_job[job_id] = replace(rejudged, job=replace(rejudged.job, id=job_id), own=own_job)
        return rejudged_by_job

    @cached_property
    def has_labels_of_another_jury(self) -> bool:
        """Return whether another jury than this run's gave the votes in the gold set."""
        gold = self.load_gold() if self.task.uses_jury else None
        if gold is None:
            return False
        from layton_batch.runs.rejudging import differences

        return bool(differences(self.manifest, gold))

    def window(self, batch: Batch) -> str | None:
        """Return the completion window of the batch by the manifest; None: its provider's usual window."""
        return self._windows.get(batch.job_id)

    @cached_property
    def _windows(self) -> dict[str, str | None]:
        return {
            job.id: self.manifest.window(job.spec.name, judge=job.role is not Role.PREDICT) for job in self.store.jobs()
        }

    @property
    def rules(self) -> ScoringRules:
        """Return the manifest's rules for scoring its board."""
        from layton_batch.scoring.leaderboard import HIERARCHICAL, ScoringRules

        scoring = self.manifest.scoring
        metric = scoring.metric or self.task.metrics[0]
        gold = self.manifest.gold
        return ScoringRules(
            method=scoring.method or HIERARCHICAL,
            metric=metric,
            level=scoring.level,
            seed=scoring.seed,
            label_error=gold.label_error if gold is not None else 0.0,
            in_turn=self.manifest.in_turn,
        )

    @property
    def tag_prefix(self) -> str:
        """Starts every tag of this run; the moment is in it, so that a second run of a manifest is told apart."""
        return f"lb-{self.first_identity[:8]}-{sha256(repr(self.born).encode()).hexdigest()[:8]}"

    @cached_property
    def mark(self) -> str:
        """Return the eight characters in every custom_id of this run."""
        return run_mark(self.first_identity, self.born)

    def account(self, provider: str) -> Account:
        """Return the account that the provider's batches are paid with now."""
        return self.providers.account(provider, f"{self.first_identity} {self.born!r}")

    @cached_property
    def first_identity(self) -> str:
        """Return the identity of the run's first manifest. No revision changes it, so it marks the run's batches."""
        return self.store.row().identity

    @cached_property
    def born(self) -> float:
        """Return the time when the run was entered into its store."""
        return self.store.row().created_at
