"""Run folders under ``--runs``: which there are, what each is called in its store, and where a manifest's run is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import orjson

from layton_batch.errors import LaytonBatchError, ManifestError, StoreError, file_error
from layton_batch.files.run_folder import RunFolder
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest
    from layton_batch.store.places import Place


def runs_at(place: str | Path, settings: Settings) -> Path:
    """The folder of runs at ``--runs``: for an address of object storage this machine's copy, as it is there now. The
    same copy is brought up to date when this is called again.

    Raises ManifestError where no runs can be kept there.
    """
    found = _ADDRESS.fullmatch(str(place))
    if found is None or found[1] == "file":
        return Path(place) if found is None else Path("/", unquote(found[2] or ""))
    scheme, rest = found[1], (found[2] or "").rstrip("/")
    try:
        from layton_batch.files.object_storage import SCHEMES, local_copy
    except ImportError as error:
        raise ManifestError(f"--runs {place}: pip install 'layton-batch[storage]'") from error
    if scheme not in SCHEMES or not rest:
        raise ManifestError(f"--runs {place}: write a folder, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://…")
    if not settings.state_url:
        raise ManifestError(
            f"--runs {place}: files can be kept there, and the state of runs cannot: set LAYTON_BATCH_STATE to a "
            "PostgreSQL database (postgresql+psycopg://user:password@host/database)"
        )
    from layton_batch.runs.engine import THREADS

    if settings.engine != THREADS:
        raise ManifestError(f"--runs {place}: with engine {settings.engine!r} all workers need one folder on a disk")
    return local_copy(f"{scheme}://{rest}", settings.copies, settings.environment)


_ADDRESS = re.compile(r"([a-z][a-z0-9]+):(?:/+(.*))?")
"""Also as a ``Path`` prints it, with one slash."""


def stored_manifest(folder: RunFolder) -> Manifest:
    """The manifest of a run's latest revision. Raises ManifestError where the folder holds none."""
    from layton_batch.manifest.manifest import Manifest  # loads pydantic, which who only looks at a store need not

    return Manifest.from_frozen(_content(folder), str(folder.manifest))


def run_id_of(folder: RunFolder) -> str:
    """What the run is called in its store, in its tags and in its events.

    Raises StoreError where the folder is a copy under another name: two folders must not work on one run.
    """
    told = _told(folder)
    name, run_id = _names(told)
    if folder.root.resolve().name not in (name, run_id):
        raise StoreError(
            f"{folder.root} is a copy of the run {name}, or was renamed: a run's folder has the run's name; "
            f"move it to another folder as {folder.root.parent.name}/{name}, and name that with --runs"
        )
    return run_id


def on_this_machine(folder: RunFolder) -> frozenset[str] | None:
    """The providers that a sandbox on this machine played for the run; None: an earlier version did not keep that."""
    try:
        kept = _told(folder).get("on_this_machine")
    except ManifestError:
        return None
    return frozenset(map(str, kept)) if isinstance(kept, list) else None


def find_runs(runs: Path) -> list[RunFolder]:
    """Every run under ``runs``, the one touched last at the end; copies and renamed folders are left out."""
    found = [path.parent for path in runs.glob("*/run.json")] if runs.is_dir() else []
    folders = [RunFolder(path) for path in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))]
    return [folder for folder in folders if _misplaced(folder) is None]


def runs_of_database(own: RunFolder, places: Sequence[Place]) -> tuple[list[RunFolder], list[Place]]:
    """The folders, elsewhere than beside ``own``, of other runs of its database; and those that cannot be had here."""
    beside = {folder.root.resolve() for folder in find_runs(own.root.parent)} | {own.root.resolve()}
    folders, away = [], []
    for place in places:
        folder = RunFolder(place.folder) if place.folder is not None else None
        if folder is None or not _is_run(folder, place.run_id):
            away.append(place)
        elif folder.root.resolve() not in beside:
            folders.append(folder)
    known = {run_id for root in beside if (run_id := _run_id(RunFolder(root))) is not None}
    return folders, [place for place in away if place.run_id not in known]


def _is_run(folder: RunFolder, run_id: str) -> bool:
    return _run_id(folder) == run_id


def _run_id(folder: RunFolder) -> str | None:
    try:
        return run_id_of(folder)
    except LaytonBatchError:
        return None


def misplaced_runs(runs: Path) -> list[str]:
    """A sentence for each folder that is a copy of a run, or a renamed one."""
    found = sorted(path.parent for path in runs.glob("*/run.json")) if runs.is_dir() else []
    return [reason for path in found if (reason := _misplaced(RunFolder(path))) is not None]


def _misplaced(folder: RunFolder) -> str | None:
    try:
        run_id_of(folder)
    except StoreError as error:
        return str(error)
    except ManifestError:
        return None  # what is wrong with it is told by whoever opens it
    return None


def find_run(name: str, runs: Path) -> RunFolder:
    """The run of this name, folder, or former folder's name. Raises StoreError naming what there is."""
    for path in (Path(name), runs / name):
        if (path / "run.json").exists():
            return RunFolder(path)
    known = find_runs(runs)
    matching = [folder for folder in known if name in _known_names(folder)]
    if matching:
        return matching[-1]
    names = ", ".join(folder.root.name for folder in known) or "none"
    raise StoreError(f"there is no run {name!r} under {runs} (there: {names}); --runs names another folder")


def home_of(manifest: Manifest, runs: Path) -> RunFolder:
    """Where the manifest's run is: ``runs/<name>/``, or a folder that an earlier version named by the manifest's
    content, as long as nobody took it over: the one of this manifest, else the one of this name touched last."""
    home = RunFolder(runs / manifest.run_id())
    if home.root.exists():
        return home
    older = [folder for folder in find_runs(runs) if _is_older(folder, manifest.name)]
    same = [folder for folder in older if folder.root.name == manifest.content_id()]
    return (same or older or [home])[-1]


def take_over(folder: RunFolder, manifest: Manifest) -> RunFolder:
    """The run's folder under its name; one of an earlier version is renamed. Another process may have been first."""
    home = RunFolder(folder.root.parent / manifest.run_id())
    if folder.root == home.root or home.root.exists():
        return home
    try:
        folder.root.rename(home.root)
    except OSError as error:
        if not home.manifest.exists():
            raise file_error(f"{folder.root} cannot be renamed to {home.root.name}: {error.strerror}", error) from error
    return home


def _is_older(folder: RunFolder, name: str) -> bool:
    try:
        known, run_id = _names(_told(folder))
    except ManifestError:
        return False
    return known == name and folder.root.name == run_id != name


def _known_names(folder: RunFolder) -> Iterator[str]:
    try:
        yield from _names(_told(folder))
    except ManifestError:
        return


def _names(told: Mapping[str, object]) -> tuple[str, str]:
    """The run's name, and what it is called in its store: by its content, where an earlier version began it."""
    manifest = told.get("manifest")
    name = str(manifest["name"]) if isinstance(manifest, dict) and "name" in manifest else ""
    return name, str(told.get("run_id") or f"{name}-{str(told.get('identity'))[:8]}")


def _told(folder: RunFolder) -> Mapping[str, object]:
    try:
        told = orjson.loads(_content(folder))
    except ValueError as error:
        raise ManifestError(f"{folder.manifest}: not a frozen manifest ({error})") from error
    if not isinstance(told, dict) or not isinstance(told.get("manifest"), dict):
        raise ManifestError(f"{folder.manifest}: not a frozen manifest")
    return told


def _content(folder: RunFolder) -> bytes:
    try:
        return folder.manifest.read_bytes()
    except OSError as error:
        raise ManifestError(f"{folder.manifest} cannot be read: {error.strerror}") from error
