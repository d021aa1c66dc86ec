"""Search of a command for runs, and for the manifests they were begun with."""

from __future__ import annotations

import os
from pathlib import Path

from layton_batch.cli.terminal import say
from layton_batch.errors import ManifestError, StoreError
from layton_batch.files.run_folder import MANIFEST
from layton_batch.runs.begun_runs import begun_runs
from layton_batch.runs.folders import (
    DEFAULT_RUNS,
    find_run,
    find_runs,
    manifest_file,
    named_runs,
    run_id_of,
    runs_at,
    shown_path,
)
from layton_batch.settings import Settings


def given_manifest(given: Path | None, runs: Path) -> tuple[Path, Path | None]:
    """Return the file of a manifest that is given as it is, or by its run's name or folder (None: the only run).

    Also return the folder of that run's runs; None where the file itself is given. Raises StoreError and ManifestError.
    """
    if given is None and not find_runs(runs):
        raise ManifestError(
            f"there is no run under {runs} to go on with: name a manifest; `layton-batch init` writes one"
        )
    # os.path says of a name that no path can have that it is not there
    if given is not None and (os.path.isfile(given) or not any(map(_has_manifest, (given, runs / given)))):
        return given, None
    folder = find_run(None if given is None else str(given), runs)
    path = manifest_file(folder)
    say(f"{run_id_of(folder)}: its manifest is {path}")
    return path, shown_path(folder.workspace.root)


def _has_manifest(folder: Path) -> bool:
    return os.path.exists(folder / MANIFEST)


def known_runs(named: str | None, settings: Settings) -> Path:
    """Return the folder of runs for a report: the one that is named, else ``runs`` in the working folder, else, where
    that has none, the only one in which this user began runs."""
    runs = named_runs(named, settings)
    if runs is not None or find_runs(DEFAULT_RUNS):
        return runs or DEFAULT_RUNS
    places = {run.place for run in begun_runs(settings) if run.root.exists()}
    if len(places) > 1:
        raise StoreError(f"no runs under {DEFAULT_RUNS.absolute()}; --runs names one of {', '.join(sorted(places))}")
    for place in places:
        say(f"runs are in {place}, where they were begun; --runs names another folder")
        return runs_at(place, settings)
    return DEFAULT_RUNS
