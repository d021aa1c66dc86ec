"""Payments about to be made, told beside the store: a store that has lost its end must not make them again.

An intent is an empty file whose name is the batch and the moment. It is made while the row is being committed, and
comes to its name and to the disk after the commit and before the call that pays. So an intent that the store does not
know means that the store is older than a payment, and nothing else does; such a store is refused when it is opened.
A file of its own for each intent needs no lock: only the process that drives the run writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from layton_batch.errors import StoreError, file_error
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder, Workspace
from layton_batch.store import schema
from layton_batch.store.engine import shown
from layton_batch.store.transactions import Transactions

INTENT = "submitting"
"""The event that an intent is committed with."""
_FILES = "[!.]*@*"
"""Names of intents; a file that is still being written has a dot before its name."""


def writing_intent(folder: Path | None, batch_id: str, at: float) -> AbstractContextManager[object]:
    """Have the intent's file be durable when the block ends, which holds its transaction. ``at``: of its event, epoch
    seconds. Without a folder nothing is written."""
    return nullcontext() if folder is None else atomic.writing(folder / _name(batch_id, at))


def _name(batch_id: str, at: float) -> str:
    return f"{batch_id}@{at!r}"


def strange_intents(folder: Path, store: Transactions) -> list[Path]:
    """Return the files of a run's intents of which the database has no event. Raises OSError."""
    names = known_intents(store)
    return [path for path in sorted(folder.glob(_FILES)) if path.name not in names]


def read_intents(folder: Path) -> list[str]:
    """Return the names of a run's intents by its folder."""
    try:
        return sorted(path.name for path in folder.glob(_FILES))
    except OSError as error:
        raise file_error(f"{folder} cannot be read: {error.strerror or error}", error) from error


def known_intents(store: Transactions) -> set[str]:
    """Return the names of the intents that the database knows of, of every run."""
    events = schema.events
    with store.reading() as connection:
        intents = connection.execute(select(events.c.batch_id, events.c.at).where(events.c.kind == INTENT))
        return {_name(batch_id, at) for batch_id, at in intents}


def refuse_new_database(workspace: Workspace) -> None:
    """Raise StoreError where the workspace has no database, and a run in it has intents: a new one would pay again."""
    if workspace.database.exists():
        return
    paid = sorted({intent.parent.parent.name for intent in _all_intents(workspace)})
    if paid and not workspace.database.exists():  # else another process has just made it, and paid
        raise StoreError(
            f"the state store {workspace.database} is not there, and batches were paid for: the files in intents/ of "
            f"{', '.join(paid)} name them. Is LAYTON_BATCH_STATE set as it was when the runs began, and were their "
            f"folders copied together with their state? Put {workspace.database.name} back with its -wal file, or move "
            "those folders away to pay for everything again"
        )


def _all_intents(workspace: Workspace) -> Iterator[Path]:
    return workspace.root.glob(f"*/intents/{_FILES}")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files beside the store of a run that is opened. ``intents``: by run folder of the workspace, the run's own
    first, the intents to pay. ``traces``: files that only a run that is in a store can have written."""

    folder: RunFolder
    intents: Mapping[Path, Sequence[str]]
    traces: tuple[str, ...]

    def check(self, store: Transactions, *, has_run: bool) -> None:
        """Raise StoreError where the store is not the one of this workspace, or an older copy of it: whichever run is
        driven, it would pay again for what the store has forgotten."""
        if self.traces and not has_run:
            raise StoreError(
                f"{self.folder.root} has files of a run ({', '.join(self.traces)}), and the state store "
                f"{shown(store.engine.url)} does not know the run: it may have been paid for. Is LAYTON_BATCH_STATE "
                "set as it was when the run began, and was the folder copied together with its state? Put the store "
                "back (state.sqlite3 with its -wal file, or that database), or move the folder away to pay for "
                "everything again"
            )
        intents_known = known_intents(store)
        for root, intents in self.intents.items():
            if unknown := [intent for intent in intents if intent not in intents_known]:
                raise StoreError(
                    f"the state store of {root.name} is older than its folder: {RunFolder(root).intents} tells of the "
                    f"payment for {unknown[-1]}, and {shown(store.engine.url)} does not know of it. Put back "
                    "the whole store (state.sqlite3 with its -wal file, or the database it was in). If the folder is "
                    "from another store, move it away; if the store is lost, cancel at the providers what the "
                    f"folder's log.jsonl says was submitted, move {root.name} away, and start it again under another "
                    "name"
                )


def read_past(folder: RunFolder) -> RunFiles:
    """Read what lies beside the store now. To be read before the store is: its writers commit there first."""
    written = (folder.manifest, folder.tables, folder.batches)
    other_roots = sorted({path.parent.parent for path in _all_intents(folder.workspace)} - {folder.root})
    intents = {root: read_intents(RunFolder(root).intents) for root in (folder.root, *other_roots)}
    return RunFiles(folder, intents, tuple(path.name for path in written if path.exists()))
