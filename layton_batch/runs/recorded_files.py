"""The digests of a run's own files: its frozen manifest and items, copies of labels, imports, snapshots of boards.

Tables that are computed again have no digest. The files of a batch are recorded with the batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import DamagedTableError, FileError
from layton_batch.files import atomic
from layton_batch.files.digests import changed_files, file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import FileDigest

if TYPE_CHECKING:
    from layton_batch.store.run_store import RunStore


@contextmanager
def recording(store: RunStore, folder: RunFolder) -> Iterator[None]:
    """Record the digest of each file of the run that is not computed again and that this process writes meanwhile."""
    root = folder.workspace.root
    folders = (folder.root, folder.history, folder.labels, folder.part("items", "items").parent)

    @contextmanager
    def record(path: Path, content: Path) -> Iterator[None]:
        if path.parent not in folders:  # prompts are written anew, from run.json, whenever the run is opened
            yield
            return
        name = Path(os.path.abspath(path)).relative_to(root).as_posix()
        digest = file_digest(content, name)
        if path.exists():
            store.forget_file(name)  # a kill leaves either content without a record, which is no damage
        yield
        store.note_files([digest])

    with atomic.recorded(folder.root, record):
        yield


def recorded_files(store: RunStore, folder: RunFolder) -> list[FileDigest]:
    """Return the digests of the run's own files, under their paths in the workspace."""
    return store.files(f"{Path(os.path.abspath(folder.root)).name}/")


def check_files(store: RunStore, folder: RunFolder) -> None:
    """Raise FileError if a text file of the run was changed since it was written.

    A file that is gone is somebody else's to name: a run may go on without some of them. See ``check_items`` too.
    """
    recorded = [file for file in recorded_files(store, folder) if not file.name.endswith(".parquet")]
    for path in changed_files(folder.workspace.root, recorded):
        if path.exists():
            raise FileError(
                f"{path} was changed since layton-batch wrote it (its digest differs), and nothing is decided from it: "
                "put it back from a copy"
            )


def check_items(store: RunStore, folder: RunFolder) -> None:
    """Raise DamagedTableError if the frozen items of the run are gone or were changed since they were written."""
    root, table = folder.workspace.root, folder.part("items", "items")
    name = Path(os.path.abspath(table)).relative_to(root).as_posix()
    for path in changed_files(root, store.files(name)):
        raise DamagedTableError(
            f"{path} is gone, or was changed since layton-batch wrote it: put it back from a copy of the run; "
            "without it nobody knows what was asked",
            path,
        )
