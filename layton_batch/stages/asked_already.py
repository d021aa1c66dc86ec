"""Requests of a manifest that its run has asked already, or that another run of the workspace has answers to: for
`plan`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import LaytonBatchError
from layton_batch.files.item_list import digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, Job, ModelSpec
from layton_batch.runs.folders import home_of, on_this_machine, run_id_of
from layton_batch.runs.stores import store_to_read
from layton_batch.runs.wanted_jobs import revision
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.runs.paid_answers import PaidAnswers


@contextmanager
def asked_already(
    manifest: Manifest, runs: Path, settings: Settings, wanted: Sequence[Job], items: Sequence[Item]
) -> Iterator[AskedAlready]:
    """Look into the workspace's state store while the block lasts; where there is none nothing was asked."""
    folder = home_of(manifest, runs)
    with ExitStack() as stack:
        if not settings.state_url and not folder.workspace.database.exists():
            yield AskedAlready(trouble=_trouble_of(folder))
            return
        from layton_batch.runs.paid_answers import PaidAnswers  # loads SQLAlchemy, which an empty workspace need not

        try:
            run_id = run_id_of(folder) if folder.manifest.exists() else manifest.run_id()
            store = stack.enter_context(store_to_read(folder, settings, run_id))
            specs = [job.spec for job in wanted]
            local = {spec.provider for spec in specs if settings.is_on_this_machine(spec.provider)}
            paid = PaidAnswers(manifest, folder, store, local | on_this_machine(folder))
            asked = _look(paid, wanted, items)
        except LaytonBatchError as error:
            asked = AskedAlready(trouble=_unreadable(error))
        yield asked


def _trouble_of(folder: RunFolder) -> str | None:
    if not folder.manifest.exists():
        return None
    return _unreadable(f"{folder.workspace.database} is not there")


def _unreadable(why: object) -> str:
    return f"the run cannot be read, and all of it is counted as new: {why}"


def _look(paid: PaidAnswers, wanted: Sequence[Job], items: Sequence[Item]) -> AskedAlready:
    stored, row = paid.store.all_jobs(), paid.store.row()
    known = {job.id: job for job in stored}
    jobs = revision(stored, wanted, "", "", new_items=False).jobs
    there = {job.id: known[kept.id] for job, kept in zip(wanted, jobs, strict=True) if kept.id in known}
    same_items = row is not None and row.items == digest(items)
    return AskedAlready(paid, there, paid.store.fingerprints(), same_items=same_items)


@dataclass(frozen=True, slots=True)
class AskedAlready:
    """``trouble``: why nothing can be told of the manifest's own run."""

    _paid: PaidAnswers | None = None
    _stored: Mapping[str, Job] = field(default_factory=dict)
    _own: frozenset[bytes] = frozenset()
    same_items: bool = False
    trouble: str | None = None

    def unchanged(self, job: Job) -> int | None:
        """Count the requests of a job, where all of them were planned and nothing that they hang on has changed."""
        stored = self._stored.get(job.id)
        if stored is None or stored.retired or not (stored.planned and self.same_items):
            return None
        return len(self._items(stored))

    def out_of_reach(self) -> list[str]:
        """Return a sentence for each run whose answers are wanted, and whose folder is not here."""
        if self._paid is None:
            return []
        from layton_batch.runs.paid_answers import out_of_reach_sentence

        runs = self._paid.out_of_reach
        return [out_of_reach_sentence(run_id, place) for run_id, place in runs.items()]

    def known(self, spec: ModelSpec, digests: Collection[bytes]) -> frozenset[bytes]:
        """Return those of these requests to a model that this run asked, or whose answers are bought or on their
        way."""
        if self._paid is None:
            return frozenset()
        digest_of = {self._paid.fingerprint(spec, digest): digest for digest in digests}
        statuses = self._paid.look_up(digest_of.keys() - self._own)
        elsewhere = [fingerprint for fingerprint, status in statuses.items() if not status.is_to_ask]
        return frozenset(digest_of[fingerprint] for fingerprint in (*(digest_of.keys() & self._own), *elsewhere))

    def judged(self, job: Job) -> frozenset[str]:
        """Return the items of which the judge of this job was asked what its model answered."""
        stored = self._stored.get(job.id)
        return frozenset() if stored is None else frozenset(self._items(stored))

    def _items(self, stored: Job) -> Sequence[str]:
        return list(self._paid.store.items_of(stored.id).values()) if self._paid else ()
