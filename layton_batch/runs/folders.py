"""Run folders under ``--runs``: which there are, what each is called in its store, and where a manifest's run is."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

from layton_batch.errors import LaytonBatchError, ManifestError, StoreError
from layton_batch.files.content_kinds import ITEM_ENDINGS
from layton_batch.files.run_folder import ADDRESS_FILE, MANIFEST, RunFolder
from layton_batch.settings import STATE_FORM, Settings

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


def copied_address(runs: Path) -> str | None:
    """Return the address in object storage of which ``runs`` is this machine's copy; None where it is no such copy."""
    try:
        address = (runs.parent / ADDRESS_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return address if runs.name == "runs" and _ADDRESS.fullmatch(address) else None


def run_source(folder: RunFolder) -> str:
    """Return the run as other commands take it: its path, or its name in the default folder or at an address."""
    root = shown_path(folder.root)
    is_named = root.parent == DEFAULT_RUNS or copied_address(folder.workspace.root) is not None
    return root.name if is_named else str(root)


def shown_path(path: Path) -> Path:
    """Return the shortest form of a path in this working folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def runs_at(place: str | Path, settings: Settings) -> Path:
    """Return the folder of runs at ``--runs``; for an address of object storage this machine's up-to-date copy.

    Raises ManifestError where no runs can be kept there.
    """
    if not str(place).strip():
        raise ManifestError("--runs is empty: name the folder that holds the runs' folders, or leave it out")
    match = _ADDRESS.fullmatch(str(place))
    if match is None or match[1] == "file":
        folder = Path(place) if match is None else Path("/", unquote(match[2] or ""))
        if os.path.isfile(folder):
            raise ManifestError(f"--runs {place}: is a file; name the folder that holds the runs' folders")
        return folder
    scheme, rest = match[1].lower(), (match[2] or "").rstrip("/")
    try:
        from layton_batch.files.object_storage import SCHEMES, local_copy
    except ImportError as error:
        raise ManifestError(f"--runs {place}: run pip install '.[storage]' in the checkout of layton-batch") from error
    if scheme not in SCHEMES or not rest:
        raise ManifestError(f"--runs {place}: write a folder, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://…")
    if not settings.state_url:
        raise ManifestError(
            f"--runs {place}: files can be kept there, and the state of runs cannot: set LAYTON_BATCH_STATE to a "
            f"PostgreSQL database ({STATE_FORM})"
        )
    from layton_batch.runs.work_engine import THREADS

    if settings.engine != THREADS:
        raise ManifestError(f"--runs {place}: with engine {settings.engine!r} all workers need one folder on a disk")
    return local_copy(f"{scheme}://{rest}", settings.copies, settings.environment, settings.deadlines.storage)


def named_runs(place: str | Path | None, settings: Settings) -> Path | None:
    """Return the folder of runs at ``place``, else at LAYTON_BATCH_RUNS; None where nobody named any.

    Raises ManifestError where no runs can be kept there.
    """
    named = place if place is not None else settings.get("LAYTON_BATCH_RUNS")
    return None if named is None else runs_at(named, settings)


_ADDRESS = re.compile(r"([a-z][a-z0-9]+):(?:(?:/+|(?<=s3:)|(?<=gs:)|(?<=az:))(.*))?", re.IGNORECASE)
"""Also as a ``Path`` prints it, with one slash, and as people write it by mistake, with none."""


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


def reserves_expected(folder: RunFolder) -> bool:
    """Return whether the run sets a multiple of the expected cost aside, and not the most that a batch can cost."""
    try:
        budget = _read_document(folder)["manifest"].get("budget")
    except ManifestError:
        return False
    return isinstance(budget, dict) and budget.get("bound") is not None


def made_up_note(folder: RunFolder) -> str | None:
    """Return a sentence for the readers of a run that a sandbox answered; None for any other run."""
    names = ", ".join(sorted(made_up(folder)))
    return f"Made up: a sandbox played {names}. No model was asked, and nothing was paid." if names else None


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


def labels_elsewhere(folder: RunFolder, manifest: Manifest) -> list[str]:
    """Return a sentence for each run beside a new one that has labels on the same items, and how to take them over."""
    if folder.manifest.exists():
        return []
    sentences = []
    for other in find_runs(folder.root.parent):
        try:
            before = stored_manifest(other)
        except LaytonBatchError:
            continue
        is_same = (before.task, before.items.source) == (manifest.task, manifest.items.source)
        if is_same and before.folder == manifest.folder and any(other.labels.glob("*.jsonl")):
            run, name = run_source(other), other.root.name
            sentences.append(
                f"run {name} has labels on these items, which run {manifest.name} does not count: after the run, "
                f"`layton-batch export {run} --to annotations --out {name}-labels.jsonl`, then `layton-batch import "
                f"{run_source(folder)} --labels {name}-labels.jsonl`"
            )
    return sentences


def find_runs(runs: Path) -> list[RunFolder]:
    """Return every run under ``runs``, the latest changed at the end. Copies, renamed folders and those of another
    version are left out.
    """
    paths = [path.parent for path in runs.glob("*/run.json")] if runs.is_dir() else []
    folders = [RunFolder(path) for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]
    return [folder for folder in folders if _misplaced(folder) is None]


def misplaced_runs(runs: Path) -> list[str]:
    """Return a sentence for each folder that is a copy of a run, is renamed, is of another version, or lost its
    ``run.json``.
    """
    paths = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    reasons = [_without_mark(path, "MANIFEST") for path in paths if _was_run(path)]
    folders = [RunFolder(path) for path in paths]
    return reasons + [reason for folder in folders if folder.manifest.exists() and (reason := _misplaced(folder))]


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
    """Say that there is no such run, what ``name`` is instead, and what to name."""
    there, advice = f"under {runs} ({_listed(runs)})", other_places(runs)
    if without_mark := next((path for path in (Path(name), runs / run_id) if _was_run(path)), None):
        return _without_mark(without_mark, name if is_manifest(name) else "MANIFEST")
    if is_manifest(name):
        return f"the run {run_id!r} of {name} is not {there}: {_beginning(Path(name), 'it', runs)}"
    if os.path.isdir(name):
        if inside := [str(folder.root) for folder in find_runs(Path(name))]:
            return f"the folder {name} is no run, but holds runs: name {' or '.join(inside)}"
        if manifest := next((path for path in sorted(Path(name).glob("*.toml")) if _is_named(path)), None):
            return f"the folder {name} holds no run {there}: {_beginning(manifest, 'its run', runs)}"
        return f"the folder {name} holds no run, and there is no run {name!r} {there}; {advice}"
    if os.path.isfile(name) and Path(name).suffix.lower() in ITEM_ENDINGS:
        return (
            f"the file {name} is no run, and there is no run {name!r} {there}: `layton-batch run {name} --model "
            f"PROVIDER:ID` begins one that asks its questions; {advice}"
        )
    if os.path.isfile(name):
        return f"the file {name} is no run, and there is no run {name!r} {there}; {advice}"
    if Path(name).suffix and not os.path.exists(name):
        return f"there is no file {name}, and there is no run {name!r} {there}; {advice}"
    return f"there is no run {name!r} {there}; {advice}"


def _beginning(manifest: Path, run: str, runs: Path) -> str:
    """Say how to look at the sandbox's run of a manifest, where there is one, and how to begin the ``run`` itself."""
    begins, of_sandbox = f"`layton-batch run {manifest}` begins {run}", sandbox_runs(runs)
    if of_sandbox != runs and os.path.exists(of_sandbox / manifest_name(manifest) / MANIFEST):
        return f"add `--runs {of_sandbox}` for its rehearsal in the sandbox; {begins}, and sends paid requests"
    return f"{begins}; {other_places(runs)}"


def _was_run(path: Path) -> bool:
    """Return whether a folder without ``run.json`` has other parts of a run."""
    folder = RunFolder(path)
    parts_are_there = os.path.isdir(folder.tables) and os.path.isdir(folder.intents)  # False for a name of no path
    return parts_are_there and not os.path.exists(folder.manifest)


def _without_mark(path: Path, manifest: str) -> str:
    again = f"`layton-batch run {manifest} --runs {path.parent}`"
    return f"{path} is a run's folder without {MANIFEST}: put that file back from a copy; or {again} writes it again"


def is_run(name: str, runs: Path) -> bool:
    """Return whether the text names a run as ``find_run`` takes it."""
    try:
        find_run(name, runs)
    except LaytonBatchError:
        return False
    return True


def find_each_run(names: Sequence[str] | None, runs: Path) -> list[RunFolder]:
    """Return the runs as ``find_run`` does, each once; without names, the only run under ``runs``."""
    folders = [find_run(name, runs) for name in names or (None,)]
    return list({folder.root.resolve(): folder for folder in folders}.values())


def _only_run(runs: Path) -> RunFolder:
    folders = find_runs(runs)
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise StoreError("; ".join([f"there is no run under {runs}", *misplaced_runs(runs), other_places(runs)]))
    raise StoreError(f"there are several runs under {runs}: name one of {_names(folders)}")


def _listed(runs: Path) -> str:
    """Return the runs under a folder as ``there: a, b``, or that the folder is not there, with its whole path."""
    return f"there: {_names(find_runs(runs))}" if os.path.isdir(runs) else f"there is no folder {runs.absolute()}"


def _names(folders: Sequence[RunFolder]) -> str:
    return ", ".join(folder.root.name for folder in folders) or "none"


def other_places(runs: Path) -> str:
    """Say how to name another folder of runs, and which there is above or beside this one."""
    if os.path.exists(runs / MANIFEST):
        return f"{runs} is itself a run: `--runs {runs.parent}` is its folder of runs"
    of_sandbox = sandbox_runs(runs)
    names = _names(find_runs(of_sandbox))
    if of_sandbox == runs or names == "none":
        return "--runs names another folder"
    return f"--runs names another folder, such as `--runs {of_sandbox}` of the sandbox (there: {names})"


def is_manifest(name: str) -> bool:
    """Return whether the text names a manifest's file."""
    return name.endswith(".toml") and Path(name).is_file()


def _is_named(path: Path) -> bool:
    """Return whether a TOML file names a run, as a manifest does and a panel or a package's settings do not."""
    try:
        return bool(manifest_name(path))
    except ManifestError:
        return False


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


def manifest_files(home: Path, run_id: str) -> list[Path]:
    """Return the TOML files in a folder that give the run's name."""
    return [path for path in sorted(home.glob("*.toml")) if _has_name(path, run_id)]


def _has_name(path: Path, run_id: str) -> bool:
    try:
        return manifest_name(path) == run_id
    except ManifestError:
        return False


def home_of(manifest: Manifest, runs: Path) -> RunFolder:
    """Return the folder where the manifest's run is or will be."""
    return RunFolder(runs / manifest.run_id())


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
