"""A run's site: the leaderboard, the bill and how it went on one page, and every item on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.leaderboard_columns import STORED
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.folders import made_up_note
from layton_batch.runs.status import Status
from layton_batch.scoring.leaderboard import RULE
from layton_batch.site.board_pages import RankedRun, write_board_pages
from layton_batch.site.board_table import board_on_this_set, show_board
from layton_batch.site.comparison import has_comparison
from layton_batch.site.cost_page import COST_COLUMNS, USAGE_COLUMNS, show_bill, unpriced
from layton_batch.site.explorer import ItemPage, item_pages
from layton_batch.site.item_extras import answer_cells
from layton_batch.site.item_list_page import ItemEntry, listed_item, write_list
from layton_batch.site.model_facts import model_facts
from layton_batch.site.model_pages import ModelPages
from layton_batch.site.pages import write
from layton_batch.site.progress_page import show_progress
from layton_batch.site.run_pages import write_run_pages
from layton_batch.site.run_tables import board_settings, date_of_tables, failures, table
from layton_batch.site.sent import SentRequests
from layton_batch.site.site_digests import write_digests

ANSWERS = "every_eval_ever.zip"
SOURCES = "sources.tar.zst"
MARKER = "site.json"
"""Tells a folder that this module wrote, and may write anew, from any other."""


def build_site(
    folder: RunFolder,
    status: Status,
    out: Path | None = None,
    origin: str | None = None,
    home: str = "",
    bill_notes: Sequence[str] = (),
    add_answers: Callable[[Path], bool] | None = None,
    add_sources: Callable[[Path], None] | None = None,
) -> Path:
    """Write the pages of a run as far as it is, and return the path of ``index.html``.

    ``origin``: the digest of what the pages are made from, which :func:`made_from` then tells. ``home``: where the
    front page is, as seen from the folder, where this is one of several runs. ``bill_notes``: what the cost report
    says besides its sums. ``add_answers``: writes every answer into the file that it is given, or says that it cannot;
    the leaderboard's page then names the command. ``add_sources``: writes what all of it is computed from. The folder
    ``out`` (default: the run's own) is replaced whole.
    Raises FileError where it holds anything but an earlier site, or where a table cannot be read.
    """
    target = (out or folder.site).resolve()
    check_target(target)
    with atomic.writing_folder(target) as building:
        has_answers = add_answers is not None and add_answers(building / ANSWERS)
        count = _write_pages(folder, status, building, {"home": home, "answers": ANSWERS * has_answers}, bill_notes)
        mark = {"generator": "layton-batch", "run": status.run, "items": count, "made_from": origin, "home": home}
        (building / MARKER).write_bytes(orjson.dumps(mark, option=orjson.OPT_APPEND_NEWLINE))
        if add_sources is not None:
            add_sources(building / SOURCES)
        write_digests(building)
    return target / "index.html"


def made_from(site: Path) -> str | None:
    """Read the digest that a site was written with; None without a site or a recorded digest."""
    try:
        digest = orjson.loads((site / MARKER).read_bytes())["made_from"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if isinstance(digest, str) else None


def check_target(target: Path) -> None:
    """Raises FileError where the folder holds anything but an earlier site."""
    try:
        if not target.exists() or (target / MARKER).is_file():
            return
        if target.is_dir() and not any(target.iterdir()):
            return
    except OSError as error:
        raise FileError(f"cannot look at {target}: {error.strerror or error}") from error
    if target.is_file():
        raise FileError(f"{target} is a file; name a new or an empty folder")
    raise FileError(
        f"{target} exists and is not a site of layton-batch, so it is left alone; name a new or an empty folder"
    )


def _write_pages(
    folder: RunFolder, status: Status, building: Path, given: Mapping[str, object], bill_notes: Sequence[str]
) -> int:
    ask = board_settings(folder)
    whole = table(folder, "leaderboard", list(STORED))
    on_these = board_on_this_set(whole)
    rows, here_rows = whole.to_dicts(), on_these.to_dicts()
    board = show_board(whole, ask, failures(folder, rows[0]["metric"]) if RULE in whole["method"] else {})
    here = show_board(on_these, ask) if here_rows else None
    progress = show_progress(status)
    about: dict[str, object] = {
        "run": progress.run, "title": ask.title or ask.name or progress.run, "date": date_of_tables(folder), "ask": ask,
        "board": board, "here": here, "made_up": made_up_note(folder),
        "progress": progress, **given, "has_charts": any(row["score"] is not None for row in rows),
        "has_comparison": has_comparison(folder, len(rows)),
    }  # fmt: skip
    board_metric = str(rows[0]["metric"]) if rows else ask.metric
    models = ModelPages(board.rows, here.rows if here else ())
    about["model_pages"] = models.names
    with ExitStack() as stack:
        sent = SentRequests(folder, stack)
        listed = _write_items(folder, (board_metric, rows), building, about, models, sent)
    costs = list(table(folder, "cost", COST_COLUMNS).iter_rows(named=True))
    bill = show_bill(costs, unpriced(table(folder, "usage", USAGE_COLUMNS)), status.unknown_cost_usd)
    pages = [(item.name, item.item_id) for item in listed]
    facts, here_facts = model_facts(folder, rows), model_facts(folder, here_rows)
    ranked = RankedRun(progress.run, ask, board, here, rows, here_rows, board_metric, pages, facts, here_facts)
    models.write(building, ranked.facts, sent, about)
    write_run_pages(folder, status, ranked, bill, bill_notes, sent.systems, building, about)
    write_board_pages(folder, ranked, building, about, {"bill": bill, "item_count": len(listed)})
    return len(listed)


def _write_items(
    folder: RunFolder,
    ranked: tuple[str, list[dict[str, object]]],
    building: Path,
    about: dict[str, object],
    models: ModelPages,
    sent: SentRequests,
) -> list[ItemEntry]:
    """Pages one at a time, each written when its successor is known, so that a large run needs little memory.
    ``ranked``: the board's metric and rows."""
    metric, order = ranked[0], list(dict.fromkeys(str(row["model"]) for row in ranked[1]))
    (building / "items").mkdir()
    listed: list[ItemEntry] = []
    waiting: ItemPage | None = None
    for page in item_pages(folder, metric, order, sent):
        models.add(page)
        if waiting is not None:
            _write_item(building, about, listed, waiting, page.name, order)
        waiting = page
    if waiting is not None:
        _write_item(building, about, listed, waiting, "", order)
    write_list(building / "items", listed, order, about)
    return listed


def _write_item(
    building: Path, about: dict[str, object], listed: list[ItemEntry], page: ItemPage, following: str, order: list[str]
) -> None:
    names: Mapping[tuple[str, str, int], str] = about["model_pages"]  # type: ignore[assignment]
    previous = listed[-1].name if listed else ""
    grid = page.extras.grid
    replies = [
        (
            reply,
            names.get((reply.model, reply.provider, reply.hints), ""),
            answer_cells(reply.answer.text, grid) if grid and reply.answer else (),
        )
        for reply in page.replies
    ]
    write(building / "items" / page.name, "item.html", **about, page=page, replies=replies, previous=previous,
          following=following)  # fmt: skip
    listed.append(listed_item(page, order))
