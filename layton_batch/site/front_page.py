"""The front page of several runs: what was asked, and who leads each board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import orjson

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import STORED
from layton_batch.runs.folders import made_up_note
from layton_batch.scoring.leaderboard import ASSUMES, NO_OWN, complete
from layton_batch.site.board import first_rows, read_board
from layton_batch.site.pages import more_assets, render, short_line
from layton_batch.site.run_tables import board_settings, date_of_tables, table
from layton_batch.site.site_digests import write_digests

MARKER = "front.json"
"""Tells an ``index.html`` that this module wrote, and may write anew, from any other."""
HOME = "../index.html"
"""The front page as seen from a run's folder beside it."""
TOP = 5


def check_front(out: Path) -> None:
    """Raise FileError where the folder has an ``index.html`` of someone else."""
    if (out / "index.html").exists() and not (out / MARKER).is_file():
        raise FileError(f"{out / 'index.html'} is no front page of ours, so it is left alone; name another folder")


def write_front(out: Path, folders: Sequence[RunFolder]) -> Path:
    """Write ``index.html`` beside the runs' folders, and return its path. Raises FileError as ``check_front``, and
    where a table cannot be read or the page not be written."""
    check_front(out)
    runs = [_run(folder) for folder in folders]
    page = render("front.html", runs=runs, own_mark=NO_OWN, assumes=ASSUMES, home="", run="", date="", **more_assets())
    names = [run["address"] for run in runs]
    atomic.write_bytes(out / MARKER, orjson.dumps({"generator": "layton-batch", "runs": names}))
    atomic.write_bytes(out / "index.html", page)
    write_digests(out, (MARKER, "index.html"))
    return out / "index.html"


def _run(folder: RunFolder) -> dict[str, object]:
    """Return what the page says of a run. ``address``: its folder's name below the site; ``first``: a table of its
    first models; ``more``: the number of its other models."""
    ask, address = board_settings(folder), short_line(folder.root.name)
    board = read_board(folder, complete(table(folder, "leaderboard", list(STORED))), ask)
    title = ask.title or ask.name or address
    return {
        "address": address,
        "ask": ask,
        "title": title,
        "date": date_of_tables(folder),
        "items": table(folder, "items", ("item_id",)).height,
        "board": board,
        "first": first_rows(f"First models of {title}", board, TOP, f"{quote(address)}/"),
        "more": max(len(board.rows) - TOP, 0),
        "made_up": made_up_note(folder) or "",
    }
