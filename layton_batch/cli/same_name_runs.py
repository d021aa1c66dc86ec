"""What `run` says before it begins a run: where, and what is under way already that may have been meant.

Every run that this user began is kept, with its place, in a list of the user's own: the same command in another working
folder means another `runs`, and would pay for everything again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import orjson

from layton_batch.errors import LaytonBatchError, StoreError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.run.open import find_runs, open_store
from layton_batch.run.status import RunState, read_status
from layton_batch.settings import Settings
from layton_batch.store.marks import read_marks

LIST = Path("layton-batch") / "runs.jsonl"
_OVER = frozenset({RunState.DONE, RunState.CANCELLED})


def unfinished_same_name_runs(manifest: Manifest, runs: Path, settings: Settings) -> Iterator[str]:
    """A sentence for every run of the manifest's name that is not over, where the manifest's own is not begun yet.

    A changed manifest is often meant for the run that is under way, and everything would be paid for beside it.
    """
    if RunFolder(runs / manifest.run_id()).manifest.exists():
        return
    for folder in find_runs(runs):
        name = folder.root.name
        state = _state(folder, settings) if name.rpartition("-")[0] == manifest.name else RunState.DONE
        if state not in _OVER:
            yield (
                f"{manifest.run_id()} is a new run: this manifest asks for something else than {name}, which is "
                f"{state.replace('_', ' ')}. Everything is asked and paid for again. `layton-batch cancel {name}` "
                f"stops {name}; undo the change to continue it."
            )


def not_begun_elsewhere(manifest: Manifest, runs: Path, settings: Settings) -> None:
    """Raises StoreError where the manifest's run is not in ``runs`` and may have been sent from another folder, that
    is still there."""
    here = (runs / manifest.run_id()).absolute()
    for root in () if here.exists() else _known(settings, manifest.run_id()):
        if root != here and _may_be_paid(root):
            raise StoreError(
                f"{manifest.run_id()} was begun in {root}, and may have been paid for there: `--runs {root.parent}` "
                f"continues that run; `--runs {runs}` begins a second one here and pays for everything again"
            )


def _may_be_paid(root: Path) -> bool:
    """Whether the folder has marks of payments, or what cannot be read of it may be some."""
    try:
        return bool(read_marks(RunFolder(root).intents))
    except LaytonBatchError:
        return True


def remember(folder: RunFolder, settings: Settings) -> None:
    """Enter a run into the user's list. A list that cannot be written stops no run."""
    root = folder.root.absolute()
    if settings.user_state is None or root in _known(settings, root.name):
        return
    path = settings.user_state / LIST
    with suppress(OSError, TypeError):  # TypeError: a path that is no Unicode
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = orjson.dumps({"run": root.name, "root": str(root)}, option=orjson.OPT_APPEND_NEWLINE)
        with path.open("ab+") as lines:
            lines.write(entry if _is_at_line_start(lines) else b"\n" + entry)


def _is_at_line_start(lines: BinaryIO) -> bool:
    """Whether the file's last line is whole: an entry that was cut short must not swallow the next one."""
    if not lines.seek(0, os.SEEK_END):
        return True
    lines.seek(-1, os.SEEK_END)
    return lines.read(1) == b"\n"


def _known(settings: Settings, run_id: str) -> list[Path]:
    """The folders in which this user began the run."""
    if settings.user_state is None:
        return []
    try:
        lines = (settings.user_state / LIST).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            told = orjson.loads(line)
            if told["run"] == run_id:
                found.append(Path(told["root"]))
        except (ValueError, KeyError, TypeError):
            continue  # half a line
    return found


def _state(folder: RunFolder, settings: Settings) -> RunState:
    """A run that cannot be read says nothing of itself here: it would not go on either."""
    if not settings.state_url and not folder.database.exists():
        return RunState.DONE
    try:
        with open_store(folder, settings) as store:
            return read_status(store).state
    except LaytonBatchError:
        return RunState.DONE
