"""What of a manifest's requests its run has asked already, or another run beside it has an answer to: for `plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from layton_batch.batches.fingerprints import requests_of, without_retired
from layton_batch.batches.paid_answers import asked_in, paid_beside
from layton_batch.errors import LaytonBatchError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job, ModelSpec
from layton_batch.run.folders import home_of
from layton_batch.run.open import open_store
from layton_batch.run.wanted_jobs import revision
from layton_batch.settings import Settings


class AskedAlready:
    """``trouble``: why nothing can be told of the manifest's own run."""

    def __init__(self, manifest: Manifest, runs: Path, settings: Settings, wanted: Sequence[Job]) -> None:
        self._folder, self._reuse = home_of(manifest, runs), manifest.policy.reuse
        self._known: dict[tuple[str, str], frozenset[str]] = {}
        self._stored: dict[str, str] = {}
        self.trouble: str | None = None
        if self._folder.manifest.exists():
            try:
                self._stored = dict(_stored(self._folder, settings, wanted))
            except LaytonBatchError as error:
                self.trouble = f"the run cannot be read, and all of it is counted as new: {error}"

    def fingerprints(self, spec: ModelSpec) -> frozenset[str]:
        """Of what this model was asked."""
        key = spec.provider, spec.model
        if key not in self._known:
            own = set(asked_in(self._folder, spec)) if self._stored else set()
            beside = {known for known, _ in paid_beside(self._folder, spec)} if self._reuse else set()
            self._known[key] = frozenset(own | beside)
        return self._known[key]

    def judged(self, job: Job) -> frozenset[str]:
        """The items of which the judge of this job was asked what its model answered."""
        stored = self._stored.get(job.id)
        if stored is None:
            return frozenset()
        requests = requests_of(self._folder, stored, job.spec.provider, job.spec.model)
        return frozenset(without_retired(requests)["item_id"])


def _stored(folder: RunFolder, settings: Settings, wanted: Sequence[Job]) -> Iterator[tuple[str, str]]:
    """By the manifest's name of a job: the one that the run has for it."""
    with open_store(folder, settings) as store:
        stored = store.all_jobs()
    known = {job.id for job in stored}
    found = revision(stored, wanted, "", "", new_items=False)
    for job, there in zip(wanted, found.jobs, strict=True):
        if there.id in known:
            yield job.id, there.id
