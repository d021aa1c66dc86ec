"""Raw results of a collected batch that the disk has damaged are downloaded again while the provider keeps them."""

from __future__ import annotations

from layton_batch.batches import raw_results
from layton_batch.errors import DamagedTableError, LaytonBatchError, StoppedError
from layton_batch.files import tables
from layton_batch.files.digests import changed_files
from layton_batch.records import Batch, Snapshot
from layton_batch.runs.context import Run
from layton_batch.states import Lifecycle


def stored_snapshot(batch: Batch) -> Snapshot:
    """Return what the store knows of an ended batch, as a reading of its status."""
    return Snapshot(
        provider_id=str(batch.provider_id),
        provider_status=batch.provider_status or "",
        state=Lifecycle.ENDED,
        outcome=batch.outcome,
        results_ref=batch.results_ref,
        errors_ref=batch.errors_ref,
    )


def require_raw_results(run: Run, batch: Batch) -> None:
    """Have the raw results of a collected batch on disk as they were recorded; download them again where they are not.

    Raises DamagedTableError that names file and batch where they cannot be had. Nothing is paid for.
    """
    folder = run.folder.batch(batch.id).root
    root = run.folder.workspace.root
    recorded = run.store.files(f"{folder.relative_to(root).as_posix()}/")
    changed = changed_files(root, recorded)
    if not changed:
        return
    names = ", ".join(path.name for path in changed)
    for path in changed:
        tables.set_aside(path)
    try:
        raw_results.store(folder, run.providers.get(batch.provider).results(stored_snapshot(batch)))
    except StoppedError:
        raise
    except LaytonBatchError as error:
        raise DamagedTableError(
            f"{changed[0]}: raw results of batch {batch.id} ({names}) are gone or were changed since they came, and "
            f"{batch.provider} does not give them again ({error}): put them back from a copy; nothing is asked again",
            changed[0],
        ) from error
    run.store.note_files(raw_results.digests(folder, root), gone=[file.name for file in recorded])
    detail = f"{names}: gone or changed since they came; downloaded again, and the damaged files put aside"
    run.store.add_event(run.clock.now(), batch.id, "results_downloaded_again", detail)
