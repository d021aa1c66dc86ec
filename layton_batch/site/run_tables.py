"""The run's tables and frozen manifest, read for display."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import orjson
import polars as pl

from layton_batch.clock import utc
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring import history
from layton_batch.site.pages import short_line

DEFAULT_LEVEL = 0.95
_ADDRESS = re.compile(r"https?://[^\s@]+")
_LOGO = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """Settings of the manifest that the pages show; missing settings are empty or None."""

    name: str = ""
    hints: int | str | None = None
    """How many, or the numbers of them, each a job of its own."""
    metric: str = ""
    method: str = ""
    level: float = DEFAULT_LEVEL
    source: str = ""
    title: str = ""
    description: str = ""
    links: tuple[tuple[str, str], ...] = ()
    """Name and address of each link."""
    logo: str = ""
    """A data URL."""
    license: str = ""
    author: str = ""
    address: str = ""
    """URL of the published site, with a slash at its end."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of charts by maker, as ``#rrggbb``."""


def table(folder: RunFolder, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """Read columns of a table; no rows if the table does not exist yet. Raises DamagedTableError naming its file."""
    return tables.read(folder.tables, name, columns)


def selected(
    folder: RunFolder, name: str, columns: Sequence[str], column: str, values: Collection[str]
) -> pl.DataFrame:
    """Read the rows of a table in which ``column`` is one of ``values``. Raises DamagedTableError as ``table``."""
    is_wanted = pl.col(column).is_in(pl.Series(values=list(values), dtype=pl.String).implode())
    parts = tables.parts(folder.tables, name)
    try:
        scan = tables.scan_parts(parts) if parts else None
        return table(folder, name, columns) if scan is None else scan.filter(is_wanted).select(columns).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return table(folder, name, columns).filter(is_wanted)  # names the damaged part


def failures(folder: RunFolder, metric: str) -> dict[str, dict[str, int]]:
    """Count the rule's failures by model and kind. Raises DamagedTableError as ``table``."""
    flags = table(folder, "scores", ["model", "metric", "flag"]).filter(pl.col("metric") == metric).drop_nulls("flag")
    counts: dict[str, dict[str, int]] = {}
    for model, flag, count in flags.group_by("model", "flag", maintain_order=True).len().iter_rows():
        counts.setdefault(model, {})[flag] = count
    return counts


def _levels(value: object) -> int | str:
    return ", ".join(map(str, value)) if isinstance(value, list) else int(str(value))


def board_settings(folder: RunFolder) -> BoardSettings:
    """The frozen manifest's words; nothing but defaults where there is none that can be read."""
    try:
        frozen = orjson.loads(folder.manifest.read_bytes())
        manifest = frozen["manifest"]
        items, scoring = manifest.get("items", {}), manifest.get("scoring", {})
        site = manifest.get("site") or {}
        return BoardSettings(
            name=short_line(manifest["name"]),
            hints=_levels(items.get("hints", 0)),
            metric=str(scoring.get("metric", "")),
            method=str(scoring.get("method") or ""),
            level=float(scoring.get("level", DEFAULT_LEVEL)),
            source=short_line(items.get("source")),
            title=short_line(site.get("title")),
            description=short_line(site.get("description"), 1_000),
            links=_links(site.get("links", {})),
            logo=_matching(_LOGO, frozen.get("logo")),
            license=short_line(site.get("license")),
            author=short_line(site.get("author")),
            address=f"{address.rstrip('/')}/" if (address := _matching(_ADDRESS, site.get("address"))) else "",
            colours={name: colour for name, text in site.get("colours", {}).items()
                     if (colour := _matching(_COLOUR, text))},
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return BoardSettings()


def _links(addresses: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    shown = ((short_line(name), _matching(_ADDRESS, address)) for name, address in addresses.items())
    return tuple((name, address) for name, address in shown if address)


def _matching(pattern: re.Pattern[str], value: object) -> str:
    """Return a text of this form; empty for any other value, as a manifest that was changed by hand may hold."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""


def date_of_tables(folder: RunFolder) -> str:
    """Return the date of the leaderboard's snapshot, which a copy of the folder keeps: ``2026-11-21 04:10 UTC``.

    Where there is no snapshot of this leaderboard, the date is of its file, or of the newest table. Raises FileError.
    """
    board = folder.part("leaderboard", "leaderboard")
    written = history.taken_at(folder.history, tables.read_part(board)) if board.exists() else None
    if written is None:
        paths = [board] if board.exists() else folder.tables.rglob("*.parquet")
        written = max((path.stat().st_mtime for path in paths), default=None)
    return "" if written is None else utc(written).strftime("%Y-%m-%d %H:%M UTC")
