"""site: static pages of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.commands.export import FilesDocument
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import Runs, SeveralRuns, environment, run_folders
from layton_batch.files.sources import user_path
from layton_batch.sites import update_boards, write_sites


def site(
    run: SeveralRuns,
    out: Annotated[str | Path, Path, typer.Option("--out", help="The folder to write pages into.")],
    *,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Add what `verify` computes it again from: raw replies, items, labels.")
    ] = False,
    runs: Runs = None,
) -> FilesDocument:
    """Write static pages of a run, or one site of several.

    The leaderboard, charts, two models beside each other, the bill, and every answer with its verdicts. Several runs
    get a folder each, and a front page. Labels count as they are now.
    """
    settings = environment()
    folders = run_folders(run, runs, settings)
    warn(update_boards(folders, settings))
    pages = [page for _, page in write_sites(folders, user_path(out), settings, with_data=with_data)]
    return FilesDocument(tuple(map(str, pages)), pages[-1])
