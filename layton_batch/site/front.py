"""The front page of several runs: what was asked, and who leads each board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import orjson
from markupsafe import Markup

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.leaderboard_columns import STORED
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.folders import made_up_note
from layton_batch.scoring.leaderboard import ASSUMES, NO_OWN, complete
from layton_batch.site.board_table import Board, first_rows_html, show_board
from layton_batch.site.model_facts import model_facts
from layton_batch.site.pages import more_assets, render, short_line
from layton_batch.site.run_tables import BoardSettings, board_settings, date_of_tables, table
from layton_batch.site.site_digests import write_digests

MARKER = "front.json"
"""Tells an ``index.html`` that this module wrote, and may write anew, from any other."""
HOME = "../index.html"
"""The front page as seen from a run's folder beside it."""
TOP = 5


@dataclass(frozen=True, slots=True)
class SiteRun:
    """One run on the front page. ``address``: its folder's name below the site; ``first``: a table of its first models;
    ``more``: the number of its other models."""

    address: str
    ask: BoardSettings
    date: str
    items: int
    board: Board
    first: Markup
    more: int
    made_up: str


def check_front(out: Path) -> None:
    """Raises FileError where the folder has an ``index.html`` of someone else."""
    if (out / "index.html").exists() and not (out / MARKER).is_file():
        raise FileError(f"{out / 'index.html'} is no front page of ours, so it is left alone; name another folder")


def write_front(out: Path, folders: Sequence[RunFolder]) -> Path:
    """Write ``index.html`` beside the runs' folders, and return its path. Raises FileError as ``check_front``, and
    where a table cannot be read or the page not be written."""
    check_front(out)
    runs = [_run(folder) for folder in folders]
    page = render("front.html", runs=runs, own_mark=NO_OWN, assumes=ASSUMES, home="", run="", date="", **more_assets())
    atomic.write_bytes(out / MARKER, orjson.dumps({"generator": "layton-batch", "runs": [run.address for run in runs]}))
    atomic.write_bytes(out / "index.html", page)
    write_digests(out, (MARKER, "index.html"))
    return out / "index.html"


def _run(folder: RunFolder) -> SiteRun:
    ask = board_settings(folder)
    address, frame = short_line(folder.root.name), complete(table(folder, "leaderboard", list(STORED)))
    board = show_board(frame, ask, model_facts(folder, frame.to_dicts(), ask.colours))
    items = table(folder, "items", ("item_id",)).height
    first = first_rows_html(f"First models of {ask.title or ask.name or address}", board, TOP, f"{quote(address)}/")
    more = max(len(board.rows) - TOP, 0)
    return SiteRun(address, ask, date_of_tables(folder), items, board, first, more, made_up_note(folder) or "")
