"""The leaderboard's page: the board, what it is about, what earlier boards said, and files to take away."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from layton_batch.clock import utc
from layton_batch.costs.report import CostReport
from layton_batch.files import tables
from layton_batch.scoring.history import BoardSnapshot, changes, snapshots
from layton_batch.scoring.leaderboard import ASSUMES
from layton_batch.site.board import RunSite, board_table, failures_by_kind
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import PageManifest
from layton_batch.text import number_text, plural, with_guard

if TYPE_CHECKING:
    from layton_batch.site.charts import Chart

MOST_BOARDS = 60
"""Earlier boards that the page tells of; all of them stay in the run's folder."""
_MOST_CHANGES = 40
_DOWNLOADS = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
_LICENCES = {
    "rvienne/layton-eval": "The riddles are layton-eval’s, by Vienne et al., under CC BY-SA: whoever shares them names "
    "their source and shares alike.",
    "bundled": "The items are layton-batch’s own and stand under its licence, Apache-2.0.",
}


def write_leaderboard_page(
    site: RunSite, stored: pl.DataFrame, charts: Sequence[Chart], bill: CostReport | None
) -> None:
    """Write the page and the leaderboard as files. ``stored``: the table with models that are not complete."""
    board = site.board
    incomplete = stored.filter(pl.col("progress").is_not_null())["model", "progress"]
    site.write(
        "index.html", bill=bill,
        table=board_table(f"Leaderboard of {site.title}", board, site.here),
        failures=failures_by_kind(site.folder, board),
        makers=sorted({row.maker for row in board.rows} - {""}), assumes=ASSUMES,
        incomplete=[(short_line(model), short_line(progress)) for model, progress in incomplete.iter_rows()],
        first_charts=[chart for chart in charts if chart.name.startswith("cost")],
        boards=_history(snapshots(site.folder.history)), downloads=_write_downloads(stored, site.building),
        licence=licence(site.manifest), citation=citation(site.manifest, site.title, site.date),
    )  # fmt: skip


def _write_downloads(board: pl.DataFrame, building: Path) -> list[tuple[str, str]]:
    """Write ``data/leaderboard.*`` and return (address, name) of each; none where there is no board."""
    if board.is_empty():
        return []
    folder = building / "data"
    folder.mkdir()
    safe = board.with_columns(pl.col(pl.String).map_elements(with_guard, pl.String))
    safe.write_csv(folder / "leaderboard.csv")
    (folder / "leaderboard.json").write_bytes(orjson.dumps(board.to_dicts(), option=orjson.OPT_INDENT_2))
    tables.write(folder / "leaderboard.parquet", board)
    return [(f"data/leaderboard.{ending}", name) for ending, name in _DOWNLOADS.items()]


def _history(boards: Sequence[BoardSnapshot]) -> list[Mapping[str, object]]:
    """Return the last boards, the latest first, each with what differs from the one before it."""
    shown: list[Mapping[str, object]] = []
    for before, after in reversed(list(zip([None, *boards], boards, strict=False))[-MOST_BOARDS:]):
        sentences = changes(before, after) if before else []
        leader, score = next(((name, row["score"]) for name, row in after.lines() if row["rank"] == 1), ("", None))
        shown.append({
            "date": f"{utc(after.at):%Y-%m-%d %H:%M} UTC", "models": after.board.height, "leader": short_line(leader),
            "score": number_text(score),
            "changes": [short_line(sentence, 300) for sentence in sentences[:_MOST_CHANGES]],
        })  # fmt: skip
    return shown


# ---- what the board is about ---------------------------------------------------------------------------------------


def lead(hints: str, items: int, models: int, *, by_rule: bool, has_labels: bool) -> str:
    """Describe the models, the items and the grading in one sentence. ``hints``: how many are given, if any."""
    if not models:
        return f"{plural(items, 'item')}; no model is done yet."
    with_hints = f" with {hints} {'hint' if hints == '1' else 'hints'}" if hints else ""
    corrected = ", corrected by people’s labels" if has_labels else ""
    graded = "a rule graded" if by_rule else "a jury of models from other makers judged"
    return f"{plural(models, 'model')} answered {plural(items, 'item')}{with_hints}; {graded} each answer{corrected}."


def licence(manifest: PageManifest) -> str:
    """Return the licence of the items, if known: what the manifest says, else what is known of the source."""
    if manifest.site.license:
        return f"Licence: {manifest.site.license}."
    source = manifest.items.source if manifest.items else ""
    licences = (words for part, words in _LICENCES.items() if part in source)
    return next(licences, "The licence of the items is that of their source.")


def citation(manifest: PageManifest, title: str, date: str) -> str:
    """Cite the board as BibTeX, with the author and the address that the manifest states."""
    letters = unicodedata.normalize("NFKD", title.replace("ß", "ss"))  # ü as u and its dots
    key = "".join(letter for letter in letters if letter.isascii() and (letter.isalnum() or letter in "-_"))
    fields = {
        "author": manifest.site.author,
        "title": f"{title}: leaderboard",
        "year": date[:4],
        "url": manifest.address,
        "note": f"Last updated {date or 'on an unknown day'}, written by layton-batch",
    }
    without_braces = str.maketrans("", "", "{}\\")  # they would end a field
    lines = "".join(f"  {name} = {{{value.translate(without_braces)}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{key or 'leaderboard'},\n{lines}}}"
