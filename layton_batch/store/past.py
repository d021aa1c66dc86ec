"""What a run's folder shows of the run's past, held against the store: one that knows less would pay again."""

from __future__ import annotations

from dataclasses import dataclass

from layton_batch.errors import StoreError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.log import last_payment
from layton_batch.store.marks import Mark, mark_known, read_marks, unknown_marks
from layton_batch.store.run_store import RunStore


@dataclass(frozen=True, slots=True)
class Past:
    """``marks``: the intents to pay; where no program has kept any yet, what the log says was paid for last.
    ``traces``: files that only a run that is in a store can have written."""

    folder: RunFolder
    marks: list[Mark] | None
    logged: tuple[int, str]
    traces: tuple[str, ...]

    def check(self, store: RunStore) -> None:
        """Raises StoreError where the store is not the one of this folder, or an older copy of it."""
        if self.traces and store.row() is None:
            raise StoreError(
                f"{self.folder.root} has files of a run ({', '.join(self.traces)}), and the state store knows of none: "
                "what they tell of may have been paid for. Is LAYTON_BATCH_STATE set as it was when the run began? "
                "If so, put the store back (state.sqlite3 with its -wal file, or that database), or move the folder "
                "away to pay for everything again"
            )
        if unknown := unknown_marks(store, self.marks or []):
            self._refuse(store, f"{self.folder.intents} tells of the payment for {unknown[-1].batch_id}")
        if self.logged[0] > store.last_event():
            self._refuse(store, f"{self.folder.log} ends with event {self.logged[0]} ({self.logged[1]})")
        if self.marks is None:
            atomic.make_folder(self.folder.intents)
            mark_known(store, self.folder.intents)

    def _refuse(self, store: RunStore, shown: str) -> None:
        raise StoreError(
            f"the state store of {store.run_id} is older than its folder: {shown}, and the store, which ends with "
            f"event {store.last_event()}, does not know of it. Put back the whole store (state.sqlite3 with its -wal "
            "file, or the database it was in); if that is lost, cancel at the providers what log.jsonl says was "
            "submitted, move the folder away and start again"
        )


def read_past(folder: RunFolder) -> Past:
    """What is beside the store now. To be read before the store is: its writers commit there first."""
    marks = read_marks(folder.intents)
    logged = last_payment(folder.log, folder.root.name) if marks is None else (0, "")
    written = (folder.manifest, folder.root / "requests", folder.root / "raw", folder.tables)
    return Past(folder, marks, logged, tuple(path.name for path in written if path.exists()))
