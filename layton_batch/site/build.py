"""A run's site: the leaderboard, the bill and how it went on one page, and every item on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from layton_batch.costs.report import CostReport
from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import STORED
from layton_batch.runs.folders import made_up_note
from layton_batch.runs.status import Status
from layton_batch.scoring.leaderboard import complete
from layton_batch.site.board import read_board, this_set
from layton_batch.site.compare_page import has_comparison, write_compare_page
from layton_batch.site.cost_page import write_cost_page
from layton_batch.site.item_pages import write_item_pages
from layton_batch.site.items_page import write_items_page
from layton_batch.site.judges_page import write_judges_page
from layton_batch.site.leaderboard_page import lead, write_leaderboard_page
from layton_batch.site.method_page import write_method_page
from layton_batch.site.model_pages import write_model_pages
from layton_batch.site.pages import short_line
from layton_batch.site.run_page import notices, write_run_page
from layton_batch.site.run_site import RunSite
from layton_batch.site.run_tables import board_settings, date_of_tables, is_graded_by_rule, item_ids, table
from layton_batch.site.sent import SentRequests
from layton_batch.site.site_digests import write_digests
from layton_batch.text import money

if TYPE_CHECKING:
    from layton_batch.site.charts import Chart

ANSWERS = "every_eval_ever.zip"
SOURCES = "sources.tar.zst"
MARKER = "site.json"
"""Tells a folder that this module wrote, and may write anew, from any other."""


def build_site(
    folder: RunFolder,
    status: Status,
    bill: CostReport | None = None,
    out: Path | None = None,
    origin: str | None = None,
    home: str = "",
    add_answers: Callable[[Path], bool] | None = None,
    add_sources: Callable[[Path], None] | None = None,
) -> Path:
    """Write the pages of a run as far as it is, and return the path of ``index.html``.

    ``bill``: the run's, by provider, model and stage, where one was computed. ``origin``: the digest of what the pages
    are made from, which :func:`made_from` then tells. ``home``: where the front page is, as seen from the folder, where
    this is one of several runs. ``add_answers``: writes every answer into the file that it is given, or says that it
    cannot. ``add_sources``: writes what all of it is computed from. The folder ``out`` (default: the run's own) is
    replaced whole. Raises FileError where it holds anything but an earlier site, or where a table cannot be read.
    """
    target = (out or folder.site).resolve()
    check_target(target)
    with atomic.writing_folder(target) as building:
        has_answers = add_answers is not None and add_answers(building / ANSWERS)
        given = {"home": home, "answers": ANSWERS * has_answers}
        count = _write_pages(folder, status, bill, building, given, target)
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
    """Raise FileError where the folder holds anything but an earlier site."""
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
    folder: RunFolder, status: Status, bill: CostReport | None, building: Path, given: dict[str, str], earlier: Path
) -> int:
    """Write every page, and return the number of items."""
    settings = board_settings(folder)
    stored = table(folder, "leaderboard", list(STORED))
    ranked = complete(stored)
    board = read_board(folder, ranked, settings)
    on_these = this_set(ranked)
    here = read_board(folder, on_these, settings) if on_these.height else None
    ids, models = item_ids(folder), len({row.model for row in board.rows})
    run, date, is_by_rule = short_line(status.run), date_of_tables(folder), is_graded_by_rule(folder, board.metric)
    title = settings.title or settings.name or run
    variables: dict[str, object] = {
        "run": run, "title": title, "date": date, "ask": settings,
        "sentence": lead(settings, len(ids), models, by_rule=board.by_rule, has_labels=board.has_labels),
        "board": board, "here": here, "made_up": made_up_note(folder), "item_count": len(ids),
        "status": status, "spent": money(status.spent_usd), "notices": notices(status), "by_rule": is_by_rule, **given,
        "has_charts": any(row.number("score") is not None for row in board.rows),
        "has_comparison": has_comparison(folder, len(board.rows)),
    }  # fmt: skip
    site = RunSite(folder, building, settings, board, here, ids, title, date, is_by_rule, variables)
    with ExitStack() as stack:
        sent = SentRequests(folder, stack)
        items = write_item_pages(site, sent)
    write_items_page(site, items)
    marks = write_model_pages(site, items, sent)
    if variables["has_comparison"]:
        write_compare_page(site, items, marks)
    write_judges_page(site, items)
    write_cost_page(site, bill)
    write_method_page(site, sent.systems)
    write_run_page(site, status)
    charts: Sequence[Chart] = ()
    if variables["has_charts"]:
        from layton_batch.site.charts import write_charts  # Altair takes a second

        charts = write_charts(site, earlier)
    write_leaderboard_page(site, stored, charts, bill)
    return len(items)
