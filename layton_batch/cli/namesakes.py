"""What `run` says before it begins a run whose manifest had another of the same name under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from layton_batch.errors import LaytonBatchError
from layton_batch.manifest import Manifest
from layton_batch.run_folder import RunFolder
from layton_batch.runs import find_runs, open_store
from layton_batch.settings import Settings
from layton_batch.status import RunState, read_status

_OVER = frozenset({RunState.DONE, RunState.CANCELLED})


def unfinished_namesakes(manifest: Manifest, runs: Path, settings: Settings) -> Iterator[str]:
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
                f"{manifest.run_id()} is a run of its own, for this manifest asks for something else than {name}, "
                f"which is {state.replace('_', ' ')}: everything is asked and paid for again. "
                f"`layton-batch cancel {name}` stops that one; to go on with it, undo the change"
            )


def _state(folder: RunFolder, settings: Settings) -> RunState:
    """A run that cannot be read says nothing of itself here: it would not go on either."""
    if not settings.state_url and not folder.database.exists():
        return RunState.DONE
    try:
        with open_store(folder, settings) as store:
            return read_status(store).state
    except LaytonBatchError:
        return RunState.DONE
