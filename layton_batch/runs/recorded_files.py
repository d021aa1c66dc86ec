"""The digests of a run's text files: its frozen manifest, copies of labels, imports, snapshots of boards.

Tables carry their digests in themselves, and what a batch sent and brought is recorded with the batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.digests import changed_files, file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import FileDigest

if TYPE_CHECKING:
    from layton_batch.store.run_store import RunStore


@contextmanager
def recording(store: RunStore, folder: RunFolder) -> Iterator[None]:
    """Record the digest of each text file of the run that this process writes while the block lasts."""
    root = folder.workspace.root
    folders = (folder.root, folder.history, folder.labels)

    def record(path: Path, content: Path) -> None:
        if path.parent in folders:  # prompts are written anew, from run.json, whenever the run is opened
            name = Path(os.path.abspath(path)).relative_to(root).as_posix()
            earlier = (file_digest(path, name).sha256,) if path.is_file() else ()
            store.note_files([replace(file_digest(content, name), earlier_sha256=earlier)])

    with atomic.recorded(folder.root, record):
        yield


def recorded_files(store: RunStore, folder: RunFolder) -> list[FileDigest]:
    """Return the digests of the run's text files, under their paths in the workspace."""
    return store.files(f"{Path(os.path.abspath(folder.root)).name}/")


def check_files(store: RunStore, folder: RunFolder) -> None:
    """Raise FileError where a text file of the run was changed since it was written.

    A file that is gone is somebody else's to name: a run may go on without some of them.
    """
    for path in changed_files(folder.workspace.root, recorded_files(store, folder)):
        if path.exists():
            raise FileError(
                f"{path} was changed since layton-batch wrote it (its digest differs), and nothing is decided from it: "
                "put it back from a copy"
            )
