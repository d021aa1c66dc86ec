"""Sources of a board as commands take them: runs, files and tables, one or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from layton_batch.commands.notes import NOTES, warn
from layton_batch.commands.parameters import environment, run_name, runs_folder
from layton_batch.errors import DataError
from layton_batch.frames import as_files, as_frame, check_scores, read_frame
from layton_batch.grading.board_sources import BoardOptions, read_jury_sources, read_sources
from layton_batch.grading.board_sources import Sources as SourcesRead
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.reports.run_result import RunResult
from layton_batch.text import one_line

if TYPE_CHECKING:
    from layton_batch.commands.parameters import Source


def read_board_sources(
    source: Source | Sequence[Source] | None, options: BoardOptions, runs: str | Path | None
) -> SourcesRead:
    """Read sources, and log what a reader of their board has to know. Raises DataError, ManifestError, StoreError."""
    settings, given = environment(), named_sources(source)
    options.check()
    for argument, entry in given.items():
        if isinstance(entry, pl.DataFrame) and not options.columns.score:
            check_scores(entry, argument, options.min_score, options.max_score or 1.0)
    with as_files(given) as names:
        evidence = read_sources(names, runs_folder(runs, settings), settings, options)
    warn(map(one_line, evidence.notes), NOTES)
    return evidence


def read_judged_sources(
    source: Source | Sequence[Source] | None, options: BoardOptions, runs: str | Path | None, *, verdicts: bool = False
) -> SourcesRead:
    """Read sources that a jury judged; with ``verdicts`` also every judge's. Raises DataError if no jury judged."""
    settings = environment()
    with as_files(named_sources(source)) as names:
        return read_jury_sources(names, runs_folder(runs, settings), settings, options, verdicts=verdicts)


def named_sources(source: object, argument: str = "source") -> dict[str, object]:
    """Return the sources by what messages call them: a frame, or the text that names a run or a file; none for None,
    which is the only run.
    """
    if source is None:
        return {}
    frame = as_frame(source, argument)
    if frame is None and isinstance(source, list | tuple):
        if not source:
            raise DataError(f"{argument}: is empty; give a run, a file or a table")
        return {f"{argument}[{n}]": _name_or_frame(entry, f"{argument}[{n}]") for n, entry in enumerate(source)}
    return {argument: _name_or_frame(source if frame is None else frame, argument)}


def _name_or_frame(source: object, argument: str) -> object:
    if isinstance(source, Leaderboard):
        raise DataError(
            f"{argument}: is a leaderboard, which has one row a model; give the run, the file or the table of scores "
            "that it was made from"
        )
    return run_name(source) if isinstance(source, str | Path | RunResult) else read_frame(source, argument)
