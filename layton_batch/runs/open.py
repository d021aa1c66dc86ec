"""Opening runs: from a manifest, or from the folder an earlier command left behind."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NoReturn, cast

from layton_batch import __version__
from layton_batch.clock import Clock, Pacing, SystemClock
from layton_batch.errors import (
    AnotherDriverError,
    DataError,
    ManifestError,
    MissingKeyError,
    StoreError,
    TransientProviderError,
    file_error,
)
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.items import digest, read_items
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.manifest import Manifest, frozen_prices
from layton_batch.manifest.model_checks import asked_models, check_models
from layton_batch.processes import enable_sigint
from layton_batch.providers.protocol import Access, CallLimits, Provider, ReplyAccount
from layton_batch.providers.without_keys import without_keys
from layton_batch.records import Account, Item
from layton_batch.redaction import is_telling
from layton_batch.runs.connections import (
    account_digest,
    check_models_settings,
    connect_within,
    is_played,
    organisation_digest,
)
from layton_batch.runs.context import Providers, Run
from layton_batch.runs.environment_notes import is_own_address
from layton_batch.runs.folders import home_of, made_up, run_id_of, stored_manifest
from layton_batch.runs.job_engine import check_engine, opened_engine
from layton_batch.runs.jobs import asked_digest
from layton_batch.runs.own_prices import price_book
from layton_batch.runs.revisions import item_changes, run_json
from layton_batch.runs.stores import check_files, open_store, recording, store_at
from layton_batch.settings import Settings
from layton_batch.tasks.protocol import Task
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.runs.labels import Labels, LabelSources
    from layton_batch.scoring.gold import GoldSet
    from layton_batch.store.run_store import RunStore

THREADS = 128
"""More than the threads of all providers that anybody uses at once: each provider has a few."""


@contextmanager
def open_run(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    *,
    clock: Clock | None = None,
    poll_seconds: float | None = None,
    pacing: Pacing | None = None,
    before_it_begins: Callable[[], None] | None = None,
    only_scores: bool = False,
) -> Iterator[Run]:
    """Drive the manifest's run under ``runs``, begun or to begin, with what the manifest asks by now.

    Items and gold set are read and checked before this returns. ``pacing``: None: as the environment says.
    ``before_it_begins`` is called where there is no such run yet and all checks have passed, before anything is made.
    ``only_scores``: nothing will be asked of providers, so no key is needed.
    Raises AnotherDriverError where another process drives the run, StoreError where the run's state is elsewhere or
    cannot be used, DataError and ManifestError for what is wrong with the inputs.
    """
    clock, folder = clock or SystemClock(), home_of(manifest, runs)
    pacing = replace(pacing or settings.pacing, poll=poll_seconds or None)
    latest = _latest_revision(folder)
    inputs = _Inputs(
        manifest, folder, settings, clock, pacing, only_scores=only_scores, calls_providers=not only_scores
    )
    inputs.check()
    if before_it_begins is not None and not folder.manifest.exists():
        before_it_begins()
    with _opened(inputs, inputs.revision(), latest) as run:
        yield run


def _refuse_older(folder: RunFolder, run_id: str, latest: bytes | None) -> None:
    """Raise AnotherDriverError where the run has another revision than the latest one of before."""
    if _latest_revision(folder) != latest:
        raise AnotherDriverError(f"run {run_id} was begun or revised since this command read its manifest: call again")


def _latest_revision(folder: RunFolder) -> bytes | None:
    """Return what the folder says of the run's revisions; None before there is a run."""
    try:
        return folder.manifest.read_bytes()
    except OSError:
        return None


@contextmanager
def _opened(inputs: _Inputs, request_digest: str | None, latest: bytes | None = None) -> Iterator[Run]:
    """Open a run and yield it. ``request_digest``: digest of what the manifest asks now; None: keep the run's latest
    revision, and plan nothing else. ``latest``: what that one was before the manifest was read: a command that was
    suspended meanwhile would take a later edit back.
    """
    from layton_batch.store.intents import read_past
    from layton_batch.store.run_lock import driving

    enable_sigint()
    manifest, folder, settings, clock = inputs.manifest, inputs.folder, inputs.settings, inputs.clock
    run_id = run_id_of(folder) if folder.manifest.exists() else manifest.name
    _make(folder.workspace.root)
    past = read_past(folder)  # before the store is read: nothing beside it ever runs ahead of it
    with (
        store_at(folder, settings, run_id) as store,
        ThreadPoolExecutor(THREADS) as executor,
        opened_engine(settings.engine) as engine,
        ExitStack() as stack,
    ):
        past.check(store, has_run=store.knows_run())
        _same_folder(store, folder)
        _make(folder.root)
        stack.enter_context(driving(store, folder.lock, clock.now()))
        if request_digest is not None:
            _refuse_older(folder, run_id, latest)
        _sweep(folder)
        store.intents, store.now = folder.intents, clock.now
        if request_digest is not None:
            born = clock.now() if inputs.begins_at is None else inputs.begins_at
            store.enter(manifest.identity(), manifest.frozen_json(), __version__, born)
        check_files(store, folder)
        stack.enter_context(recording(store, folder))
        if request_digest is not None:
            store.note_revision(
                manifest.frozen_json(), clock.now(), prices=frozen_prices, request_digest=request_digest
            )
            atomic.write_text(
                folder.manifest,
                run_json(
                    folder,
                    run_id,
                    manifest,
                    clock.now(),
                    request_digest,
                    inputs.new_items,
                    inputs.local(),
                    inputs.played(),
                ),
            )
        run = inputs.run(store, executor, request_digest)
        run.engine.executor = engine
        try:
            yield run
        finally:
            run.stopping.set()  # nothing new is begun, and calls in progress are cut short after a moment
            executor.shutdown()
            run.providers.close()
            with suppress(OSError):
                _sweep(folder)  # what another process was writing when it was killed beside this one


@contextmanager
def open_folder(
    folder: RunFolder,
    settings: Settings,
    clock: Clock | None = None,
    poll_seconds: float | None = None,
    *,
    only_scores: bool = False,
    calls_providers: bool = True,
) -> Iterator[Run]:
    """Drive an existing run by its folder, with what its latest revision asks.

    ``calls_providers``: False where nothing will be asked of them, so that no key is needed. Raises AnotherDriverError
    where another process drives the run.
    """
    pacing = replace(settings.pacing, poll=poll_seconds or None)
    inputs = _Inputs(
        stored_manifest(folder), folder, settings, clock or SystemClock(), pacing=pacing, as_it_is=True,
        only_scores=only_scores, calls_providers=calls_providers and not only_scores,
    )  # fmt: skip
    inputs.check()
    with _opened(inputs, None) as run:
        yield run


@contextmanager
def read_run(folder: RunFolder, settings: Settings, revision: Manifest | None = None) -> Iterator[Run]:
    """Open an existing run by its folder, to read it. Another process may drive the run.

    ``revision``: the manifest that the run would be given; None: the one that it has.
    """
    manifest = revision or stored_manifest(folder)
    with open_store(folder, settings) as store, recording(store, folder), ThreadPoolExecutor(1) as executor:
        check_files(store, folder)
        yield _Inputs(manifest, folder, settings, SystemClock(), only_scores=True).run(store, executor)


@contextmanager
def open_to_decide(folder: RunFolder, settings: Settings) -> Iterator[Run]:
    """Open an existing run for a person's decision about one of its batches. Another process may drive the run."""
    from layton_batch.store.intents import read_past

    inputs = _Inputs(stored_manifest(folder), folder, settings, SystemClock(), as_it_is=True)
    inputs.check()
    past = read_past(folder)
    with open_store(folder, settings) as store, ThreadPoolExecutor(1) as executor:
        past.check(store, has_run=True)
        run = inputs.run(store, executor)
        try:
            yield run
        finally:
            run.providers.close()


@contextmanager
def open_copy(folder: RunFolder, settings: Settings) -> Iterator[Run]:
    """Drive the copy of a run, to compute from it without asking anybody: labels are those of its copies."""
    inputs = _Inputs(
        stored_manifest(folder), folder, settings, SystemClock(), as_it_is=True, only_scores=True, only_copies=True
    )
    with store_at(folder, settings, run_id_of(folder)) as store, ThreadPoolExecutor(1) as executor:
        yield inputs.run(store, executor)


@contextmanager
def open_copied(
    manifest: Manifest, folder: RunFolder, settings: Settings, clock: Clock, items: Sequence[Item]
) -> Iterator[Run]:
    """Drive the manifest's run in a copy of its workspace, to see what it would do: nobody is asked anything.

    Raises DataError and ManifestError for labels that a run refuses.
    """
    inputs = _Inputs(
        manifest, folder, settings.without_state_url(), clock, calls_providers=False, given_items=items,
        begins_at=0.0,  # so that each plan of a new run gives the same names
    )  # fmt: skip
    inputs.check_labels()
    with _opened(inputs, inputs.revision(), _latest_revision(folder)) as run:
        yield run


def providers_for(manifest: Manifest, settings: Settings, stopping: Event | None = None) -> Providers:
    """Connections made with the environment's keys, of which nothing they say holds one; dialects without any.
    ``stopping`` cuts their calls short. A key that is missing for batches of models that the manifest no longer has
    keeps nobody else from their answers: it is as if there were no way to the provider.
    """
    needed = _providers(manifest)
    dialects: dict[str, Provider] = {}
    named: defaultdict[str, ReplyAccount] = defaultdict(ReplyAccount)

    def dialect(name: str) -> Provider:
        if name not in dialects:
            dialects[name] = connect_within(manifest, name, None)
        return dialects[name]

    def connected(name: str) -> Provider:
        try:
            credentials = settings.access(name)
        except MissingKeyError as error:
            if name in needed:
                raise
            return cast("Provider", _UnreachableProvider(dialect(name), str(error)))
        access = Access(
            credentials.api_key,
            credentials.base_url,
            CallLimits(),
            stopping or Event(),
            settings.api_version(name),
            named[name],
        )
        return without_keys(connect_within(manifest, name, access), access.api_key)

    @functools.cache
    def key(name: str, salt: str) -> str | None:
        return account_digest(settings, name, salt)

    def account(name: str, salt: str) -> Account:
        return Account(key(name, salt), organisation_digest(named[name], name, salt))

    @functools.cache
    def elsewhere(name: str) -> str | None:
        url = settings.address(name)
        return None if url is None or is_own_address(name, url) else url.rstrip("/")

    return Providers(connected, dialect, account, elsewhere)


@dataclass(frozen=True)
class _UnreachableProvider:
    """A provider that cannot be called, since its key is missing. Each call raises TransientProviderError."""

    _dialect: Provider
    _why: str

    def __getattr__(self, name: str) -> object:
        value = getattr(self._dialect, name)
        return self._refuse if callable(value) and name != "close" else value

    def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        detail = f"{self._why}: batches of models that the manifest no longer has wait for it"
        raise TransientProviderError(detail, is_sent=False)


def refuse_keys(manifest: Manifest, settings: Settings) -> None:
    """Raise ManifestError if the manifest contains the value of a key, under any name."""
    place = manifest.place_of([secret for secret in settings.secrets() if is_telling(secret)])
    if place is not None:
        raise ManifestError(
            f"{manifest.name}: {place} holds the value of a key that is set in the environment or in .env: it would be "
            "written to the run's files and the batch files; take it out"
        )


def refuse_to_mix(manifest: Manifest, folder: RunFolder, settings: Settings) -> None:
    """Raise ManifestError where a run that a sandbox answered would now ask the providers themselves."""
    played = made_up(folder) & _providers(manifest)
    if real := [provider for provider in sorted(played) if not settings.is_on_this_machine(provider)]:
        raise ManifestError(
            f"the answers of run {manifest.name} are made up, for a sandbox played {', '.join(real)}: `layton-batch "
            "run --sandbox` goes on with it; to ask the models themselves, give the manifest another name, or --runs "
            "another folder; nothing was sent"
        )


def _providers(manifest: Manifest) -> frozenset[str]:
    return frozenset(spec.provider for spec in manifest.all_specs())


@dataclass(eq=False)
class _Inputs:
    """Inputs of a run, each read once and only when needed."""

    manifest: Manifest
    folder: RunFolder
    settings: Settings
    clock: Clock
    pacing: Pacing = field(default_factory=Pacing)
    as_it_is: bool = False  # nothing is added to what the run asks
    only_scores: bool = False
    """Nothing is asked of providers, and labels that cannot be read are an error."""
    calls_providers: bool = True
    """Keys and addresses of all providers are needed."""
    only_copies: bool = False
    """Labels are those of the run's copies; no other source is looked at."""
    given_items: Sequence[Item] | None = None
    """The items, where they were loaded already."""
    begins_at: float | None = None
    """The moment at which a new run counts as entered (epoch seconds); None: now."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.manifest.addressed(self.settings))

    def check(self) -> None:
        """Check everything before anything is sent: keys, settings, items, gold set."""
        check_engine(self.settings.engine)
        if self.calls_providers:
            refuse_to_mix(self.manifest, self.folder, self.settings)
            check_models_settings(self.manifest, self.settings)
            self._check_keys()
            for provider in self._providers():
                self.settings.check_pacing(provider)
        if not self.folder.manifest.exists():
            refuse_keys(self.manifest, self.settings)
            # only at the beginning: a model that ends during a run must not keep anybody from the answers paid for
            if refused := check_models(self.manifest, self.settings, self.clock).refused:
                raise ManifestError("\n".join(refused))
        self.items()
        self.check_labels()

    def check_labels(self) -> None:
        """Check the gold set and the annotations. Raises DataError and ManifestError."""
        if self.manifest.gold is None:
            return
        from layton_batch.runs.rejudging import check_labels

        gold = self.gold()
        if gold is not None and self.task.uses_jury:
            check_labels(self.manifest, gold)
        self.labels.check()

    @cached_property
    def task(self) -> Task:
        return manifest_task(self.manifest, self.folder.prompts if self.folder.root.exists() else None)

    def revision(self) -> str:
        """Return the digest of what the manifest and its items ask."""
        return asked_digest(self.manifest, digest(self.items()))

    @functools.cache  # noqa: B019  lives as long as the run
    def items(self) -> Sequence[Item]:
        """Load the items. Use the run's own copy if the source is unchanged, and is an address or cannot be read.

        So a run goes on without its manifest's files.
        """
        if self.given_items is not None:
            return self.given_items
        is_kept = self.folder.part("items", "items").exists() and self._items_are_named_as_before()
        if is_kept and (self.as_it_is or is_address(self.manifest.items.source)):
            return read_items(self.folder)
        try:
            return load_items(self.manifest, self.task, self.settings, self.clock)
        except DataError:
            if not is_kept:
                raise
            return read_items(self.folder)

    def local(self) -> frozenset[str]:
        """Return the providers whose addresses are on this machine."""
        return frozenset(filter(self.settings.is_on_this_machine, self._providers()))

    def played(self) -> frozenset[str]:
        """Return the providers that a sandbox plays."""
        return frozenset(provider for provider in self._providers() if is_played(self.settings, provider))

    def _providers(self) -> frozenset[str]:
        return _providers(self.manifest)

    def _check_keys(self) -> None:
        """Raise MissingKeyError with every provider that lacks a key, a line each."""
        models = {spec.provider for spec in self.manifest.model_specs()}
        lines = []
        needed = {spec.provider for spec in asked_models(self.manifest)}
        for provider in sorted(needed, key=lambda name: (name not in models, name)):
            try:
                self.settings.access(provider)
            except MissingKeyError as error:
                lines.append(str(error) if provider in models else f"{error}; or name other judges under [jury]")
        if lines:
            raise MissingKeyError("\n".join(lines))

    def new_items(self) -> str | None:
        """Describe the changes of the items in a sentence; None: nothing changed."""
        if not self.folder.part("items", "items").exists():
            return None
        return item_changes(read_items(self.folder), self.items())

    def _items_are_named_as_before(self) -> bool:
        try:
            return stored_manifest(self.folder).items == self.manifest.items
        except ManifestError:
            return False

    @functools.cache  # noqa: B019  lives as long as the run
    def gold(self) -> GoldSet | None:
        return _read_gold(self.manifest, self.task, self.folder, self.settings, self.clock)

    @cached_property
    def labels(self) -> LabelSources:
        from layton_batch.runs.labels import LabelSources

        is_bundled = self.manifest.gold is not None and self.manifest.gold.source == BUNDLED
        bundled = self.task.bundled(self.manifest.items.split) if is_bundled else None
        return LabelSources(
            self.manifest, self.folder, self.settings, self.clock, bundled,
            forgiving=not self.only_scores, only_copies=self.only_copies,
        )  # fmt: skip

    def read_labels(self) -> Labels:
        """Read people's labels as they are now."""
        return self.labels.read()

    def run(self, store: RunStore, executor: Executor, request_digest: str | None = None) -> Run:
        if self.manifest.gold is not None:
            self.labels.keep_first(self.gold())
        stopping = Event()
        return Run(
            id=store.run_id,
            manifest=self.manifest,
            folder=self.folder,
            store=store,
            task=manifest_task(self.manifest, self.folder.prompts),
            clock=self.clock,
            providers=providers_for(self.manifest, self.settings, stopping),
            executor=executor,
            prices=price_book(self.manifest, self.clock.now()),
            load_items=self.items,
            load_gold=self.gold,
            load_labels=self.read_labels,
            pacing=self.pacing,
            stopping=stopping,
            revision=request_digest,
        )


def _read_gold(manifest: Manifest, task: Task, folder: RunFolder, settings: Settings, clock: Clock) -> GoldSet | None:
    """Read the gold set: the run folder's copy if there is one, so that it is fetched once and stays the same."""
    if manifest.gold is None or manifest.gold.source is None:
        return None
    from layton_batch.scoring.gold import read_gold

    source = manifest.gold.source
    copy = folder.gold(source)
    if copy.exists():
        return read_gold(str(copy.resolve()), manifest.folder, settings, clock)
    bundled = task.bundled(manifest.items.split) if source == BUNDLED else None
    return read_gold(source, manifest.folder, settings, clock, bundled)


def _same_folder(store: RunStore, folder: RunFolder) -> None:
    """Raise StoreError where the store knows batches or jobs of the run and their folder is not here."""
    from layton_batch.store.engine import shown

    batches = [batch for batch in store.batches() if batch.path]
    jobs = [] if batches else store.all_jobs()  # a run that reuses every answer has no batch of its own
    places = (folder.root, folder.batches) if batches else (folder.root,)
    gone = [path for path in places if not path.is_dir()]
    if gone and (batches or jobs):
        contents = plural(len(batches), "batch", "batches") if batches else plural(len(jobs), "job")
        raise StoreError(
            f"the state store {shown(store.engine.url)} knows run {store.run_id} with {contents}, and {gone[0]} is not "
            "there; nothing was sent: put the folder back, or share the folder it was started in, or give the "
            "manifest another name"
        )


def _sweep(folder: RunFolder) -> None:
    atomic.sweep(folder.root)
    atomic.sweep(folder.batches)


def _make(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(
            f"cannot make the run folder {root}: {error.strerror}; --runs names another place", error
        ) from error
