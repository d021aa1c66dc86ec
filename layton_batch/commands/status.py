"""status: where a run stands."""

from __future__ import annotations

from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.commands.run_result import RunResult
from layton_batch.runs.stores import open_store


def status(run: OneRun = None, *, runs: Runs = None) -> RunResult:
    """Return where a run stands, with its tables: answers, verdicts, leaderboard, bill. ``run``: None: the only one."""
    settings = environment()
    (folder,) = run_folders(run, runs, settings)
    with open_store(folder, settings) as store:
        return RunResult.read(folder, store)
