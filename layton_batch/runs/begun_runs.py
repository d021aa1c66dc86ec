"""List of the folders in which this user began runs.

The same command in another working folder means another ``runs``, and would pay for everything again. So every run is
kept in a list of the user's own: what its manifest asks, where that is, where the run is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from layton_batch.errors import LaytonBatchError, StoreError
from layton_batch.files.json_lines import append_json_line
from layton_batch.files.run_folder import MANIFEST, RunFolder
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.runs.folders import copied_address, home_of, other_places, runs_at
from layton_batch.settings import Settings

LIST = Path("layton-batch") / "runs.jsonl"


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that this user began. ``content``: what its manifest asked; ``manifest_folder``: where the manifest was."""

    content: str
    manifest_folder: str
    root: Path

    @property
    def place(self) -> str:
        """Return what ``--runs`` has to name for this run: its folder of runs, or that folder's address."""
        return copied_address(self.root.parent) or str(self.root.parent)

    def may_be_paid(self) -> bool:
        """Return whether the run's folder has intents to pay, or what cannot be read of it may be some."""
        from layton_batch.store.intents import read_intents  # loads SQLAlchemy, which `plan` of a new manifest need not

        try:
            return bool(read_intents(RunFolder(self.root).intents))
        except LaytonBatchError:
            return True


def load_where_it_goes_on(
    path: Path,
    runs: Path,
    settings: Settings,
    *,
    is_named: bool,
    note: Callable[[str], None],
    offline: bool = False,
) -> tuple[Manifest, Path]:
    """Return a manifest and the folder of runs in which its run begins or goes on; see :func:`where_it_goes_on`."""
    manifest = load_manifest(path, PromptFiles(settings, runs, offline=offline))
    folder = where_it_goes_on(manifest, runs, settings, is_named=is_named, note=note)
    if folder == runs:
        return manifest, runs
    return load_manifest(path, PromptFiles(settings, folder, offline=offline)), folder


def where_it_goes_on(
    manifest: Manifest, runs: Path, settings: Settings, *, is_named: bool, note: Callable[[str], None]
) -> Path:
    """Return the folder of runs in which the manifest's run begins or goes on.

    ``is_named``: somebody named ``runs``, and means it. Otherwise a run that is not there goes on where this user began
    it with this manifest; ``note`` gets a line about that. Raises StoreError where it may have been paid for with
    another copy of the manifest, and where ``runs`` is itself the folder of a run.
    """
    if (runs / MANIFEST).exists():
        raise StoreError(other_places(runs))
    if is_named or home_of(manifest, runs).root.exists():
        return runs
    elsewhere = _begun_elsewhere(manifest, runs, settings)
    if not elsewhere:
        return runs
    places = {run.place for run in elsewhere if run.manifest_folder == _folder(manifest)}
    if len(places) != 1:
        raise StoreError(
            f"{manifest.run_id()} was begun in {elsewhere[-1].root}, and may have been paid for there: "
            f"`--runs {elsewhere[-1].place}` continues that run; `--runs {runs}` begins a second one here and pays for "
            "everything again; for other questions, write another `name` in the manifest"
        )
    (place,) = places
    note(f"{manifest.run_id()} goes on in {place}, where it was begun; --runs names another folder")
    return runs_at(place, settings)


def _begun_elsewhere(manifest: Manifest, runs: Path, settings: Settings) -> list[KnownRun]:
    """Return the runs elsewhere that may be this manifest's and paid for: they ask the same, or a manifest of this name
    in this folder began them."""
    here = (runs / manifest.run_id()).absolute()
    return [
        run
        for run in begun_runs(settings)
        if run.content == manifest.content_id()
        or (run.root.name, run.manifest_folder) == (manifest.run_id(), _folder(manifest))
        if run.root != here and run.may_be_paid()
    ]


def remember(folder: RunFolder, manifest: Manifest, settings: Settings) -> None:
    """Enter a run into the user's list. A list that cannot be written stops no run."""
    run = KnownRun(manifest.content_id(), _folder(manifest), folder.root.absolute())
    if settings.user_state is None or run in begun_runs(settings):
        return
    path = settings.user_state / LIST
    with suppress(OSError, TypeError):  # TypeError: a path that is no Unicode
        path.parent.mkdir(parents=True, exist_ok=True)
        entry: dict[str, object] = {"run": run.content, "manifest": run.manifest_folder, "root": str(run.root)}
        append_json_line(path, entry)


def was_begun(folder: RunFolder, settings: Settings) -> bool:
    """Return whether this user began a run in the folder."""
    return any(run.root == folder.root.absolute() for run in begun_runs(settings))


def begun_runs(settings: Settings) -> list[KnownRun]:
    """Return the runs that this user began, in order. A line of the list that cannot be read is left out."""
    if settings.user_state is None:
        return []
    try:
        lines = (settings.user_state / LIST).read_bytes().splitlines()
    except OSError:
        return []
    runs = []
    for line in lines:
        try:
            entry = orjson.loads(line)
            runs.append(KnownRun(str(entry["run"]), str(entry["manifest"]), Path(entry["root"])))
        except (ValueError, KeyError, TypeError):
            continue  # half a line
    return runs


def _folder(manifest: Manifest) -> str:
    return str(manifest.folder.resolve())
