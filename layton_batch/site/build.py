"""A run's site: the leaderboard, the bill and how it went on one page, and every item on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.leaderboard_columns import STORED
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.folders import made_up_note
from layton_batch.runs.status import Status
from layton_batch.scoring.leaderboard import RULE, complete
from layton_batch.site.board_pages import RankedRun, write_board_pages
from layton_batch.site.board_table import board_on_this_set, incomplete_models, show_board
from layton_batch.site.comparison import compares_items, has_comparison
from layton_batch.site.cost_page import COST_COLUMNS, USAGE_COLUMNS, show_bill, unpriced
from layton_batch.site.downloads import write_downloads
from layton_batch.site.explorer import item_pages
from layton_batch.site.item_list_page import ItemEntry, listed_item, write_list
from layton_batch.site.item_rows import item_ids
from layton_batch.site.model_facts import model_facts
from layton_batch.site.model_pages import ModelPages
from layton_batch.site.origin import sentence
from layton_batch.site.pages import more_assets, write
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
    pictures: Path | None = None,
) -> Path:
    """Write the pages of a run as far as it is, and return the path of ``index.html``.

    ``origin``: the digest of what the pages are made from, which :func:`made_from` then tells. ``home``: where the
    front page is, as seen from the folder, where this is one of several runs. ``bill_notes``: what the cost report
    says besides its sums. ``add_answers``: writes every answer into the file that it is given, or says that it cannot.
    ``add_sources``: writes what all of it is computed from. The folder ``out`` (default: the run's own) is replaced
    whole. ``pictures``: a site whose charts are taken where their data are the same; default: the replaced one.
    Raises FileError where it holds anything but an earlier site, or where a table cannot be read.
    """
    target = (out or folder.site).resolve()
    check_target(target)
    with atomic.writing_folder(target) as building:
        has_answers = add_answers is not None and add_answers(building / ANSWERS)
        given = {"home": home, "answers": ANSWERS * has_answers}
        count = _write_pages(folder, status, building, given, bill_notes, pictures or target)
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
    folder: RunFolder,
    status: Status,
    building: Path,
    given: Mapping[str, object],
    bill_notes: Sequence[str],
    earlier: Path,
) -> int:
    ask = board_settings(folder)
    stored_board = table(folder, "leaderboard", list(STORED))
    whole = complete(stored_board)
    on_these = board_on_this_set(whole)
    rows, here_rows = whole.to_dicts(), on_these.to_dicts()
    counted = failures(folder, rows[0]["metric"]) if RULE in whole["method"] else {}
    board = show_board(whole, ask, model_facts(folder, rows, ask.colours), counted)
    here = show_board(on_these, ask, model_facts(folder, here_rows, ask.colours)) if here_rows else None
    items, models = sum(map(len, item_ids(folder))), len({row.model for row in board.rows})
    progress = show_progress(status)
    about: dict[str, object] = {
        "run": progress.run, "title": ask.title or ask.name or progress.run, "date": date_of_tables(folder), "ask": ask,
        "sentence": sentence(ask, items, models, by_rule=board.by_rule, has_labels=board.has_labels),
        "board": board, "here": here, "made_up": made_up_note(folder), "item_count": items,
        "progress": progress, **given, "has_charts": any(row["score"] is not None for row in rows),
        "has_comparison": has_comparison(folder, len(rows)), "incomplete": incomplete_models(stored_board),
    }  # fmt: skip
    metric = str(rows[0]["metric"]) if rows else ask.metric
    order = list(dict.fromkeys(str(row["model"]) for row in rows))
    with ExitStack() as stack:
        spool = Path(stack.enter_context(TemporaryDirectory(prefix="layton-batch-pages-")))
        compares = compares_items(folder, len(rows), items)
        pages, sent = ModelPages(building, spool, board.rows, compares=compares), SentRequests(folder, stack)
        listed = _write_items(folder, metric, order, building, about, pages, sent)
        pages.write(board.rows, here.rows if here else (), sent, {**about, **more_assets()})
    costs = list(table(folder, "cost", COST_COLUMNS).iter_rows(named=True))
    bill = show_bill(costs, unpriced(table(folder, "usage", USAGE_COLUMNS)), status.unknown_cost_usd)
    names = [(item.name, item.item_id) for item in listed]
    ranked = RankedRun(ask, board, here, rows, here_rows, metric, names, pages.marks(board.rows))
    write_run_pages(folder, status, ranked, bill, bill_notes, sent.systems, building, about)
    index = {"bill": bill, "downloads": write_downloads(stored_board.to_dicts(), building)}
    write_board_pages(folder, ranked, building, about, index, earlier)
    return len(listed)


def _write_items(
    folder: RunFolder,
    metric: str,
    order: Sequence[str],
    building: Path,
    about: Mapping[str, object],
    models: ModelPages,
    sent: SentRequests,
) -> list[ItemEntry]:
    """Pages one at a time, each written when its successor is known, so that a large run needs little memory."""
    (building / "items").mkdir()
    listed: list[ItemEntry] = []
    for page, following in pairwise(chain(item_pages(folder, metric, order, sent, models.addresses), (None,))):
        if page is not None:
            models.add(page)
            neighbours = {
                "previous": listed[-1].name if listed else "",
                "following": following.name if following else "",
            }
            write(building / "items" / page.name, "item.html", **about, page=page, **neighbours)
            listed.append(listed_item(page, order))
    write_list(building / "items", listed, order, about)
    return listed
