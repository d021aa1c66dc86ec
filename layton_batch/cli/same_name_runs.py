"""Where a report looks for runs: beside the working folder, or where this user began them."""

from __future__ import annotations

from pathlib import Path

from layton_batch.cli.terminal import say
from layton_batch.errors import StoreError
from layton_batch.runs.begun_runs import begun_runs
from layton_batch.runs.folders import DEFAULT_RUNS, find_runs, named_runs, runs_at
from layton_batch.settings import Settings


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
