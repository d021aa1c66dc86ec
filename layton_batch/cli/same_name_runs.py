"""Where this user began which run: the same command in another working folder means another `runs`, and would pay for
everything again. Every run is kept, by what its manifest asks, with its place, in a list of the user's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from layton_batch.errors import LaytonBatchError, StoreError
from layton_batch.files.json_lines import append_json_line
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.folders import home_of
from layton_batch.settings import Settings
from layton_batch.store.marks import read_marks

LIST = Path("layton-batch") / "runs.jsonl"


def not_begun_elsewhere(manifest: Manifest, runs: Path, settings: Settings) -> None:
    """Raises StoreError where the manifest's run is not in ``runs`` and may have been sent from another folder, that
    is still there."""
    here = (runs / manifest.run_id()).absolute()
    for root in () if home_of(manifest, runs).root.exists() else _known(settings, manifest.content_id()):
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


def remember(folder: RunFolder, manifest: Manifest, settings: Settings) -> None:
    """Enter a run into the user's list. A list that cannot be written stops no run."""
    root, asked = folder.root.absolute(), manifest.content_id()
    if settings.user_state is None or root in _known(settings, asked):
        return
    path = settings.user_state / LIST
    with suppress(OSError, TypeError):  # TypeError: a path that is no Unicode
        path.parent.mkdir(parents=True, exist_ok=True)
        append_json_line(path, {"run": asked, "root": str(root)})


def _known(settings: Settings, asked: str) -> list[Path]:
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
            if told["run"] == asked:
                found.append(Path(told["root"]))
        except (ValueError, KeyError, TypeError):
            continue  # half a line
    return found
