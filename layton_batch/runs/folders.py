"""Run folders under ``--runs``: which there are, what each is called in its store, and where a manifest's run is."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from layton_batch.errors import LaytonBatchError, ManifestError, StoreError
from layton_batch.files.atomic import append_json_line
from layton_batch.files.run_folder import MANIFEST, RunFolder
from layton_batch.settings import Settings
from layton_batch.text import did_you_mean, plural

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest

DEFAULT_RUNS = Path("runs")
"""The folder of runs unless somebody names another place."""
SANDBOX_STATE = ".sandbox"
"""The sandbox's own side in its folder of runs: no run can have this name."""


def sandbox_runs(runs: Path) -> Path:
    """Return the folder of runs that ``--sandbox`` keeps: beside ``runs``, or ``runs`` where a sandbox made it."""
    if (runs / SANDBOX_STATE).is_dir() or not (named := runs if runs.name else runs.absolute()).name:
        return runs
    return named.with_name(f"{named.name}-sandbox")


def run_source(folder: RunFolder) -> str:
    """Return the run as other commands take it: its path, or its name in the default folder."""
    root = shown_path(folder.root)
    return root.name if root.parent == DEFAULT_RUNS else str(root)


def shown_path(path: Path) -> Path:
    """Return the shortest form of a path in this working folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def runs_at(place: str | Path) -> Path:
    """Return the folder of runs that ``--runs`` names. Raises ManifestError if it is empty, a file or an address."""
    if not str(place).strip():
        raise ManifestError("--runs: the name is empty")
    if _ADDRESS.match(str(place)):
        raise ManifestError(f"--runs {place}: is an address, not a folder on this machine")
    if os.path.isfile(place):
        raise ManifestError(f"--runs {place}: is a file, not a folder")
    return Path(place)


def named_runs(place: str | Path | None, settings: Settings) -> Path | None:
    """Return the folder of runs at ``place``, else at LAYTON_BATCH_RUNS; None where nobody named any.

    Raises ManifestError as ``runs_at``.
    """
    named = place if place is not None else settings.get("LAYTON_BATCH_RUNS")
    return None if named is None else runs_at(named)


_ADDRESS = re.compile(r"[a-z][a-z0-9]+:/|(s3|gs|az):", re.IGNORECASE)
"""The beginning of an address, also with one slash, as a ``Path`` prints it."""


def stored_manifest(folder: RunFolder) -> Manifest:
    """Return the manifest of a run's latest revision. Raises ManifestError if the folder holds none."""
    from layton_batch.manifest.manifest import Manifest  # loads pydantic, which who only looks at a store need not

    return Manifest.from_frozen(_content(folder), str(folder.manifest))


def run_id_of(folder: RunFolder) -> str:
    """Return the run's name, by which its store and its events know it.

    Raises StoreError where another version of the program made the folder, and where the folder is a copy under another
    name: two folders must not work on one run.
    """
    document = _read_document(folder)
    name = str(document["manifest"].get("name"))
    if document.get("run_id") != name:
        raise StoreError(
            f"{folder.root} has the form of another version of layton-batch: use that version, or move the folder away "
            "and begin the run again"
        )
    if folder.root.resolve().name != name:
        raise StoreError(
            f"{folder.root} is a copy of the run {name}, or was renamed: a run's folder has the run's name; "
            f"name it {name} again, or, where it is a copy, move it out of the folder of runs"
        )
    return name


def on_this_machine(folder: RunFolder) -> frozenset[str]:
    """Return the providers that a sandbox on this machine played for the run; none if ``run.json`` is unreadable."""
    try:
        return frozenset(map(str, _read_document(folder).get("on_this_machine", ())))
    except ManifestError:
        return frozenset()


def made_up(folder: RunFolder) -> frozenset[str]:
    """Return the providers whose answers in the run a sandbox made up; none where its ``run.json`` cannot be read."""
    try:
        return frozenset(map(str, _read_document(folder).get("made_up", ())))
    except ManifestError:
        return frozenset()


def made_up_note(*folders: RunFolder) -> str | None:
    """Return a sentence for the readers of runs, some of which a sandbox answered; None if it answered none."""
    runs = [folder.root.name for folder in folders if made_up(folder)]
    where = f" in {', '.join(runs)}" if len(runs) < len(folders) else ""
    names = ", ".join(sorted({name for folder in folders for name in made_up(folder)}))
    return f"Made up{where}: a sandbox played {names}. No model was asked, and nothing was paid." if names else None


def replacement_note(folder: RunFolder, manifest: Manifest) -> str | None:
    """Say that the run is of another task or split so far; None where it is not, or has not begun."""
    try:
        before = stored_manifest(folder)
    except LaytonBatchError:
        return None
    if before.task != manifest.task:
        return (
            f"run {manifest.name} is of task {before.task} so far: its board is replaced by one of {manifest.task}. "
            "To keep both, give the manifest another name"
        )
    old, new = before.items.split, manifest.items.split
    if old == new:
        return None
    return (
        f"[items] split was {old!r}, is {new!r}: the jobs of run {manifest.name} are planned again. An answer or "
        "verdict to the same prompt is not paid for again"
    )


def find_runs(runs: Path) -> list[RunFolder]:
    """Return every run under ``runs``, the latest changed at the end. Copies, renamed folders and those of another
    version are left out.
    """
    paths = [path.parent for path in runs.glob("*/run.json")] if runs.is_dir() else []
    folders = [RunFolder(path) for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]
    return [folder for folder in folders if _misplaced(folder) is None]


def misplaced_runs(runs: Path) -> list[str]:
    """Return a sentence for each folder that is a copy of a run, is renamed, or is of another version."""
    paths = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    folders = [RunFolder(path) for path in paths]
    return [reason for folder in folders if folder.manifest.exists() and (reason := _misplaced(folder))]


def _misplaced(folder: RunFolder) -> str | None:
    try:
        run_id_of(folder)
    except StoreError as error:
        return str(error)
    except ManifestError:
        return None  # what is wrong with it is told by whoever opens it
    return None


def find_run(name: str | None, runs: Path) -> RunFolder:
    """Return the run of this name, in this folder or of this manifest; None: the only run under ``runs``.

    Raises StoreError naming the runs that exist, and ManifestError for a manifest that cannot be read.
    """
    if name is None:
        return _only_run(runs)
    run_id = manifest_name(Path(name)) if is_manifest(name) else name
    for path in (Path(name), runs / run_id):
        if os.path.exists(path / MANIFEST):  # False too for a name that no path can have
            return RunFolder(path)
    raise StoreError(_missing_run(name, run_id, runs))


def _missing_run(name: str, run_id: str, runs: Path) -> str:
    names = [folder.root.name for folder in find_runs(runs)]
    choices = f"there: {', '.join(names) or 'none'}" if os.path.isdir(runs) else f"there is no folder {runs.absolute()}"
    of_manifest = f" of {name}" if name != run_id else ""
    played = sandbox_runs(runs)
    hint = f"; {played} has one: --runs {played}" if os.path.exists(played / run_id / MANIFEST) else ""
    return f"there is no run {run_id!r}{of_manifest} under {runs} ({choices}){hint or did_you_mean(run_id, names)}"


def find_each_run(names: Sequence[str] | None, runs: Path) -> list[RunFolder]:
    """Return the runs as ``find_run`` does, each once; without names, the only run under ``runs``."""
    folders = [find_run(name, runs) for name in names or (None,)]
    return list({folder.root.resolve(): folder for folder in folders}.values())


def _only_run(runs: Path) -> RunFolder:
    folders = find_runs(runs)
    names = ", ".join(folder.root.name for folder in folders)
    if len(folders) == 1:
        return folders[0]
    if not folders:
        played = sandbox_runs(runs)
        hint = [f"{played} has {plural(count, 'run')}: --runs {played}"] if (count := len(find_runs(played))) else []
        raise StoreError("; ".join([f"there is no run under {runs}", *misplaced_runs(runs), *hint]))
    raise StoreError(f"there are several runs under {runs}: name one of {names}")


def is_manifest(name: str) -> bool:
    """Return whether the text names a manifest's file."""
    return name.endswith(".toml") and Path(name).is_file()


def manifest_name(path: Path) -> str:
    """Return the run's name in a manifest's file. Raises ManifestError for a file that gives none."""
    try:
        name = tomllib.loads(path.read_text(encoding="utf-8")).get("name")
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path}: cannot be read as a manifest ({error})") from error
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{path}: it is no manifest, for it gives no run a `name`")
    return name


def manifest_file(folder: RunFolder) -> Path:
    """Return the file of a run's manifest: the only TOML file with the run's name in the folder it was begun from.

    Raises ManifestError where there is none, or more than one.
    """
    run_id, home = run_id_of(folder), Path(str(_read_document(folder).get("folder")))
    files = manifest_files(home, run_id)
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise ManifestError(f"run {run_id} was begun with a manifest in {home} (of that name there: {names}); name it")
    return shown_path(files[0])


def given_manifest(given: Path | None, runs: Path) -> tuple[Path, Path | None]:
    """Return the file of a manifest that is given as it is, or by its run's name or folder (None: the only run).

    Also return the folder of that run's runs; None where the file itself is given. Raises StoreError and ManifestError.
    """
    # os.path says of a name that no path can have that it is not there
    if given is not None and (os.path.isfile(given) or not any(map(_has_manifest, (given, runs / given)))):
        return given, None
    folder = find_run(None if given is None else str(given), runs)
    return manifest_file(folder), shown_path(folder.workspace.root)


def _has_manifest(folder: Path) -> bool:
    return os.path.exists(folder / MANIFEST)


def manifest_files(home: Path, run_id: str) -> list[Path]:
    """Return the TOML files in a folder that give the run's name."""
    return [path for path in sorted(home.glob("*.toml")) if _has_name(path, run_id)]


def _has_name(path: Path, run_id: str) -> bool:
    try:
        return manifest_name(path) == run_id
    except ManifestError:
        return False


def home_of(manifest: Manifest, runs: Path) -> RunFolder:
    """Return the folder where the manifest's run is or will be. Raises StoreError if ``runs`` is itself a run."""
    if os.path.exists(runs / MANIFEST):
        raise StoreError(f"--runs {runs}: is itself a run; its folder of runs is {runs.parent}")
    return RunFolder(runs / manifest.name)


def _read_document(folder: RunFolder) -> Mapping[str, Any]:
    try:
        document = orjson.loads(_content(folder))
    except ValueError as error:
        raise ManifestError(f"{folder.manifest}: not a frozen manifest ({error})") from error
    if not isinstance(document, dict) or not isinstance(document.get("manifest"), dict):
        raise ManifestError(f"{folder.manifest}: not a frozen manifest")
    return document


def _content(folder: RunFolder) -> bytes:
    try:
        return folder.manifest.read_bytes()
    except OSError as error:
        raise ManifestError(f"{folder.manifest} cannot be read: {error.strerror}") from error


LIST = Path("layton-batch") / "runs.jsonl"


def remember(folder: RunFolder, settings: Settings) -> None:
    """Enter a run into the user's list. A list that cannot be written stops no run."""
    if settings.user_state is None or was_begun(folder, settings):
        return
    path = settings.user_state / LIST
    with suppress(OSError, TypeError):  # TypeError: a path that is no Unicode
        path.parent.mkdir(parents=True, exist_ok=True)
        append_json_line(path, {"root": str(folder.root.absolute())})


def was_begun(folder: RunFolder, settings: Settings) -> bool:
    """Return whether this user began a run in the folder. Lines of the list that cannot be read do not count."""
    if settings.user_state is None:
        return False
    try:
        lines = (settings.user_state / LIST).read_bytes().splitlines()
    except OSError:
        return False
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            if orjson.loads(line)["root"] == str(folder.root.absolute()):
                return True
    return False
