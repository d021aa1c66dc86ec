"""Checks that the rows of a run agree with each other, with its files and with the indexes of its database.

Numbers of answers are computed again from the raw replies, elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from sqlalchemy import and_, select

from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.store import schema
from layton_batch.store.engine import shown
from layton_batch.store.run_store import RunStore

_MOST_NAMED = 20


def check_rows(folder: RunFolder, store: RunStore, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each row that contradicts another one, a file or an index. Raises what a value raises that
    cannot be read."""
    place = shown(store.engine.url)
    with store.reading() as connection:
        if store.engine.dialect.name == "sqlite":
            lines = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_NAMED})").scalars()
            yield from (f"{place}: {line}" for line in lines if line != "ok")
        runs = schema.runs
        frozen = connection.scalar(select(runs.c.manifest).where(runs.c.run_id == store.run_id))
        is_same = frozen is not None and json.loads(frozen) == manifest.frozen()
        if not is_same and not _was_stopped_at_an_edit(store):
            yield f"{place}: its manifest of run {store.run_id} is not the one in {folder.manifest}"
        requests, jobs = schema.requests, schema.jobs
        mine = and_(jobs.c.key == requests.c.job, jobs.c.run_id == store.run_id)
        is_first = and_(requests.c.reask == 0, requests.c.doublings == 0, requests.c.fingerprint.is_not(None))
        other = select(jobs.c.job_id, requests.c.custom_id).where(mine, is_first)
        other = other.where(requests.c.fingerprint != requests.c.answer).limit(_MOST_NAMED)
        for job_id, custom_id in connection.execute(other):
            yield f"{place}: job {job_id} ({custom_id}): its row wants an answer of another fingerprint"
        batch_ids = {batch.id for batch in store.batches()}
        provider_batches = schema.provider_batches
        names = set(
            connection.execute(
                select(provider_batches.c.batch_id).where(provider_batches.c.run_id == store.run_id)
            ).scalars()
        )
        yield from (
            f"{place}: table {provider_batches.name} names batch {name!r}, which is none" for name in names - batch_ids
        )
    yield from _check_batches(folder, store, place)


def _was_stopped_at_an_edit(store: RunStore) -> bool:
    """Return whether nothing happened since another manifest was entered: ``run.json`` is written after the row."""
    return [event.kind for event in store.events()[-1:]] in (["manifest_changed"], ["prices_changed"])


def _check_batches(folder: RunFolder, store: RunStore, place: str) -> Iterator[str]:
    """Check the path of each batch file, and the provider's id of each batch."""
    provider_ids = store.provider_ids()
    for batch in store.batches():
        if batch.provider_id is not None and batch.provider_id not in provider_ids:
            yield f"{place}: batch {batch.id}: no row knows its provider's id {batch.provider_id!r}"
        path = folder.batch(batch.id).request_file
        if batch.path and path.relative_to(folder.workspace.root).as_posix() != batch.path:
            yield f"{place}: batch {batch.id}: its batch file is {path}, and its row says {batch.path!r}"
