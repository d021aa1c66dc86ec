"""What of a manifest's requests its run has asked already, or another run beside it has an answer to: for `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from layton_batch.batches.fingerprints import requests_of, without_retired
PaidBeside = None
from layton_batch.errors import LaytonBatchError
from layton_batch.files.item_list import digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, Job, ModelSpec
from layton_batch.runs.folders import home_of, run_id_of
from layton_batch.runs.stores import open_store, store_to_read
from layton_batch.runs.wanted_jobs import revision
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.store.places import Place


class AskedAlready:
    """``trouble``: why nothing can be told of the manifest's own run."""

    def __init__(
        self, manifest: Manifest, runs: Path, settings: Settings, wanted: Sequence[Job], items: Sequence[Item]
    ) -> None:
        self._folder = home_of(manifest, runs)
        self._beside: PaidBeside | None = None
        if manifest.policy.reuse:
            places = _places(manifest, self._folder, settings)
            self._beside = PaidBeside(self._folder, settings.is_on_this_machine, places)
        self._stored: dict[str, Job] = {}
        self._same_items = False
        self.trouble: str | None = None
        if self._folder.manifest.exists():
            try:
                self._look(settings, wanted, items)
            except LaytonBatchError as error:
                self.trouble = f"the run cannot be read, and all of it is counted as new: {error}"

    def _look(self, settings: Settings, wanted: Sequence[Job], items: Sequence[Item]) -> None:
        with open_store(self._folder, settings) as store:
            stored, row = store.all_jobs(), store.row()
        known = {job.id: job for job in stored}
        found = revision(stored, wanted, "", "", new_items=False)
        pairs = zip(wanted, found.jobs, strict=True)
        self._stored = {job.id: known[there.id] for job, there in pairs if there.id in known}
        self._same_items = row is not None and row.items == digest(items)

    def unchanged(self, job: Job) -> int | None:
        """How many requests the job has, where all of them were planned and nothing that they hang on has changed."""
        stored = self._stored.get(job.id)
        if stored is None or stored.retired or not (stored.planned and self._same_items):
            return None
        return without_retired(self._requests(stored)).height

    def _requests(self, stored: Job) -> pl.DataFrame:
        return requests_of(self._folder, stored.id)

    def out_of_reach(self, specs: Sequence[ModelSpec]) -> list[str]:
        """A sentence for each run of the database that asked one of these models, and whose folder is not here."""
        places = {place.run_id: place for spec in specs if self._beside for place in self._beside.out_of_reach(spec)}
        return [said_of_place(place) for place in places.values()]

    def may_have(self, spec: ModelSpec) -> bool:
        """Whether :meth:`has` can be true of any question to this model."""
        return bool(self._own) or (self._beside is not None and self._beside.may_have(spec))

    def has(self, spec: ModelSpec, fingerprint: str) -> bool:
        """Whether this was asked of the model."""
        if fingerprint in self._own:
            return True
        return self._beside is not None and self._beside.find(spec, fingerprint) is not None

    @cached_property
    def _own(self) -> frozenset[str]:
        try:
            return frozenset(asked_in(self._folder)) if self._stored else frozenset()
        except LaytonBatchError:
            return frozenset()  # `run` says which table is damaged

    def judged(self, job: Job) -> frozenset[str]:
        """The items of which the judge of this job was asked what its model answered."""
        stored = self._stored.get(job.id)
        if stored is None:
            return frozenset()
        return frozenset(without_retired(self._requests(stored))["item_id"])


def _places(manifest: Manifest, folder: RunFolder, settings: Settings) -> Sequence[Place]:
    """The other runs of the database, where there is one."""
    if not settings.state_url and not folder.workspace.database.exists():
        return ()
    from layton_batch.store.places import other_places

    run_id = run_id_of(folder) if folder.manifest.exists() else manifest.run_id()
    with store_to_read(folder, settings, run_id) as store:
        return other_places(store)
