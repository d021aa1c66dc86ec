"""Sites: a run's, with the leaderboard, the bill and how it went, and every item on its own; and the front page of
several runs. A list of digests stands in each, by which a downloaded copy can be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import orjson

from layton_batch.costs.report import CostReport
from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.atomic import file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import STORED
from layton_batch.runs.folders import made_up_note
from layton_batch.runs.status import Status
from layton_batch.scoring.leaderboard import ASSUMES, NO_OWN, complete
from layton_batch.site.board import RunSite, first_rows, read_board, this_set
from layton_batch.site.cost_page import write_cost_page
from layton_batch.site.items import write_item_pages, write_items_page
from layton_batch.site.judges_page import write_judges_page
from layton_batch.site.leaderboard_page import lead, write_leaderboard_page
from layton_batch.site.method_page import write_method_page
from layton_batch.site.model_pages import has_comparison, write_compare_page, write_model_pages
from layton_batch.site.pages import more_assets, render, short_line
from layton_batch.site.run_page import notices, write_run_page
from layton_batch.site.run_tables import date_of_tables, is_graded_by_rule, item_ids, page_manifest, table
from layton_batch.site.sent import SentRequests
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
        count = write_pages(folder, status, bill, building, given, target)
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


def write_pages(
    folder: RunFolder, status: Status, bill: CostReport | None, building: Path, given: dict[str, str], earlier: Path
) -> int:
    """Write every page, and return the number of items."""
    manifest = page_manifest(folder)
    stored = table(folder, "leaderboard", list(STORED))
    ranked = complete(stored)
    board = read_board(folder, ranked, manifest)
    on_these = this_set(ranked)
    here = read_board(folder, on_these, manifest) if on_these.height else None
    ids, models = item_ids(folder), len({row.model for row in board.rows})
    run, date, is_by_rule = short_line(status.run), date_of_tables(folder), is_graded_by_rule(folder, board.metric)
    title = manifest.site.title or short_line(manifest.name) or run
    variables: dict[str, object] = {
        "run": run, "title": title, "date": date, "ask": manifest,
        "sentence": lead(manifest.hints, len(ids), models, by_rule=board.by_rule, has_labels=board.has_labels),
        "board": board, "here": here, "made_up": made_up_note(folder), "item_count": len(ids),
        "status": status, "spent": money(status.spent_usd), "notices": notices(status), "by_rule": is_by_rule, **given,
        "has_charts": any(row.number("score") is not None for row in board.rows),
        "has_comparison": has_comparison(folder, len(board.rows)),
    }  # fmt: skip
    site = RunSite(folder, building, manifest, board, here, ids, title, date, is_by_rule, variables)
    with ExitStack() as stack:
        sent = SentRequests(folder, stack)
        items = write_item_pages(site, sent)
    write_items_page(site, items)
    marks = write_model_pages(site, items)
    if variables["has_comparison"]:
        write_compare_page(site, items, marks)
    write_judges_page(site, items)
    write_cost_page(site, bill)
    write_method_page(site, list(sent.systems))
    write_run_page(site, status)
    charts: Sequence[Chart] = ()
    if variables["has_charts"]:
        from layton_batch.site.charts import write_charts  # Altair takes a second

        charts = write_charts(site, earlier)
    write_leaderboard_page(site, stored, charts, bill)
    return len(items)


# ---- the front page ------------------------------------------------------------------------------------------------

FRONT = "front.json"
"""Tells an ``index.html`` that this module wrote, and may write anew, from any other."""
HOME = "../index.html"
"""The front page as seen from a run's folder beside it."""
TOP = 5


def check_front(out: Path) -> None:
    """Raise FileError where the folder has an ``index.html`` of someone else."""
    if (out / "index.html").exists() and not (out / FRONT).is_file():
        raise FileError(f"{out / 'index.html'} is no front page of ours, so it is left alone; name another folder")


def write_front(out: Path, folders: Sequence[RunFolder]) -> Path:
    """Write ``index.html`` beside the runs' folders, and return its path. Raises FileError as ``check_front``, and
    where a table cannot be read or the page not be written."""
    check_front(out)
    runs = [_run(folder) for folder in folders]
    page = render("front.html", runs=runs, own_mark=NO_OWN, assumes=ASSUMES, home="", run="", date="", **more_assets())
    names = [run["address"] for run in runs]
    atomic.write_bytes(out / FRONT, orjson.dumps({"generator": "layton-batch", "runs": names}))
    atomic.write_bytes(out / "index.html", page)
    write_digests(out, (FRONT, "index.html"))
    return out / "index.html"


def _run(folder: RunFolder) -> dict[str, object]:
    """Return what the page says of a run. ``address``: its folder's name below the site; ``first``: a table of its
    first models; ``more``: the number of its other models."""
    ask, address = page_manifest(folder), short_line(folder.root.name)
    board = read_board(folder, complete(table(folder, "leaderboard", list(STORED))), ask)
    title = ask.site.title or short_line(ask.name) or address
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


# ---- digests -------------------------------------------------------------------------------------------------------

DIGESTS = "digests.json"
_MOST_NAMED = 20


def write_digests(site: Path, names: Iterable[str] | None = None) -> None:
    """Write the list for a site, or for some of its files."""
    (site / DIGESTS).write_bytes(_list(site, sorted(names) if names is not None else _names(site)))


def differing_files(site: Path) -> Iterator[str]:
    """Yield a sentence for each file of a site that is not as its list says. Raises OSError."""
    path = site / DIGESTS
    content = path.read_bytes()
    try:
        listed: dict[str, dict[str, object]] = dict(orjson.loads(content)["files"])
        names = sorted(map(str, listed))
    except (ValueError, KeyError, TypeError):
        yield f"{path}: is damaged: it is no list of digests"
        return
    gone = [name for name in names if not (is_file_name(name) and _is_below(site, name) and (site / name).is_file())]
    yield from (f"{site / name[:_LONGEST_PART]}: is gone, or {path} is damaged" for name in gone)
    for name in names if not gone else [name for name in names if name not in gone]:
        file = file_digest(site / name, name)
        if listed[name] != {"bytes": file.size_bytes, "sha256": file.sha256}:
            yield f"{site / name}: was changed since the site was written, or its line in {path} was"
    if not gone and content != _list(site, names):
        yield f"{path}: is not as it was written, or lists a file that was changed"
    if "index.html" in names and "front.json" not in names:
        for name in sorted(set(_names(site)) - set(names))[:_MOST_NAMED]:
            yield f"{site / name}: is no part of the site: {path} does not list it"


_LONGEST_PART, _LONGEST_NAME = 255, 1_000
"""Limits of file systems, in bytes."""


def is_file_name(name: str) -> bool:
    """Return whether a name from a list of digests, which may be a stranger's, can be one of a file below a site."""
    parts = name.split("/")
    is_short = len(name.encode()) <= _LONGEST_NAME and all(len(part.encode()) <= _LONGEST_PART for part in parts)
    return is_short and name.isprintable() and set(parts).isdisjoint({"", ".", ".."})


def _is_below(site: Path, name: str) -> bool:
    return (site / name).resolve().is_relative_to(site.resolve())


def _list(site: Path, names: Iterable[str]) -> bytes:
    files = {name: file_digest(site / name, name) for name in names}
    rows = {name: {"bytes": file.size_bytes, "sha256": file.sha256} for name, file in files.items()}
    document = {"generator": "layton-batch", "files": rows}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _names(site: Path) -> list[str]:
    paths = (path for path in site.rglob("*") if path.is_file())
    return sorted(name for path in paths if (name := path.relative_to(site).as_posix()) != DIGESTS)
