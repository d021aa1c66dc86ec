"""status: where a run stands, and where all runs of a workspace do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders, runs_folder
from layton_batch.errors import LaytonBatchError
from layton_batch.reports.run_result import RunResult
from layton_batch.reports.table import Document
from layton_batch.runs.folders import find_runs, misplaced_runs
from layton_batch.runs.stores import open_store, open_stores


@dataclass(frozen=True, slots=True)
class WorkspaceStatus(Document):
    """Status of every run under ``folder``. ``code``: the exit code of the last run that cannot be read, else 0."""

    folder: Path
    results: Sequence[RunResult]
    code: int

    def end(self) -> int:
        return self.code

    def show(self) -> None:
        for result in self.results:
            result.show()
        if not self.results:
            warn((f"no runs under {self.folder}",))

    def as_json(self) -> object:
        return [result.as_json() for result in self.results]


def status(run: OneRun = None, *, runs: Runs = None) -> RunResult:
    """Return where a run stands, with its tables: answers, verdicts, leaderboard, bill. ``run``: None: the only one."""
    settings = environment()
    (folder,) = run_folders(run, runs, settings)
    with open_store(folder, settings) as store:
        return RunResult.read(folder, store)


def statuses(*, runs: Runs = None) -> WorkspaceStatus:
    """Return where all runs of a workspace stand. Copies of runs, and runs that cannot be read, are left out with a
    warning."""
    settings = environment()
    place = runs_folder(runs, settings)
    warn(f"left out: {line}" for line in misplaced_runs(place))
    results, code = list[RunResult](), 0
    with open_stores(settings) as store_of:
        for folder in find_runs(place):
            try:
                results.append(RunResult.read(folder, store_of(folder)))
            except LaytonBatchError as error:
                warn((f"left out: {error}",))
                code = error.exit_code
    return WorkspaceStatus(place, results, code)
