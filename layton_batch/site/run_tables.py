"""The run's tables and frozen manifest, read for display: settings, dates, and the replies with all that is known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import orjson
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from layton_batch.clock import utc
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.form import ItemsTable, ScoringTable, SiteTable
from layton_batch.scoring import history
from layton_batch.site.pages import LONGEST
from layton_batch.states import PredictionKind

METRICS = ("answer_correct", "justification_correct", "both_correct")
"""Metrics on which people's labels say something."""


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


# ---- the manifest --------------------------------------------------------------------------------------------------


class PageManifest(BaseModel):
    """Part of a frozen manifest that the pages show; without ``items`` there is none that can be read. ``logo``: a data
    URL."""

    model_config = ConfigDict(frozen=True)
    name: str = ""
    items: ItemsTable | None = None
    scoring: ScoringTable = ScoringTable()
    site: SiteTable = SiteTable()
    logo: Annotated[str, Field(pattern=r"^(data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2})?$")] = ""

    @property
    def hints(self) -> str:
        """Return the numbers of hints that models are given, each a job of its own; empty if all are given none."""
        levels = self.items.levels if self.items else ()
        return ", ".join(map(str, levels)) if any(levels) else ""

    @property
    def address(self) -> str:
        """Return the URL of the published site, with a slash at its end; empty if the manifest gives none."""
        return f"{self.site.address.rstrip('/')}/" if self.site.address else ""


def frozen_manifest(folder: RunFolder) -> Mapping[str, object]:
    """Read the run's frozen manifest and what stands beside it; empty where there is none that can be read."""
    try:
        frozen = orjson.loads(folder.manifest.read_bytes())
    except (OSError, ValueError):
        return {}
    return frozen if isinstance(frozen, dict) else {}


def page_manifest(folder: RunFolder) -> PageManifest:
    """Read the frozen manifest; defaults if it cannot be read, or holds what no manifest holds."""
    frozen: Any = frozen_manifest(folder)
    try:
        return PageManifest.model_validate({**frozen["manifest"], "logo": frozen.get("logo", "")})
    except (ValueError, KeyError, TypeError):
        return PageManifest()


# ---- the board -----------------------------------------------------------------------------------------------------


def failures(folder: RunFolder, metric: str) -> dict[str, dict[str, int]]:
    """Count the rule's failures by model and kind. Raises DamagedTableError as ``table``."""
    flags = table(folder, "scores", ["model", "metric", "flag"]).filter(metric=metric).drop_nulls("flag")
    counts: dict[str, dict[str, int]] = {}
    for model, flag, count in flags.group_by("model", "flag", maintain_order=True).len().iter_rows():
        counts.setdefault(model, {})[flag] = count
    return counts


def is_graded_by_rule(folder: RunFolder, metric: str) -> bool:
    """Return whether a rule graded any answer. Raises DamagedTableError as ``table``."""
    scores = table(folder, "scores", ("metric", "total", "vote")).filter(metric=metric)
    return not scores.filter(pl.col("total").is_null() & pl.col("vote").is_not_null()).is_empty()


def date_of_tables(folder: RunFolder) -> str:
    """Return the date of the leaderboard's snapshot, which a copy of the folder keeps: ``2026-11-21 04:10 UTC``.

    Where there is no snapshot of this leaderboard, the date is of its file; empty without a leaderboard. Raises
    FileError.
    """
    board = folder.part("leaderboard", "leaderboard")
    if not board.exists():
        return ""
    written = history.taken_at(folder.history, tables.read_part(board)) or board.stat().st_mtime
    return utc(written).strftime("%Y-%m-%d %H:%M UTC")


# ---- items and replies ---------------------------------------------------------------------------------------------

AT_ONCE = 40_000
"""Replies that are in memory at a time."""
KEY = ("item_id", "model", "n_hints", "sample")
_VERDICT = ("judge", "judge_provider", "is_answer_correct", "is_justification_correct", "note", "reason")
_TOKENS = ("custom_id", "input_tokens", "output_tokens", "reasoning_tokens", "cost_usd")
_LONG = ("raw_text", "note", "finish_reason", "custom_id")
STANDINGS = {"right": "right", "partly": "split jury", "wrong": "wrong", "void": "unanswered", "open": "no vote",
             "disputed": "disputed by people"}  # fmt: skip
"""Results of one reply: full yes, in between, full no, nothing to judge, no vote, and people who say the opposite of
the whole jury."""
_LETTERS = {"right": "1", "partly": "2", "wrong": "0", "void": "0", "open": "-"}


def item_ids(folder: RunFolder) -> list[str]:
    """Return the ids of the items table in its order, then ids that only predictions have."""
    listed = table(folder, "items", ("item_id",))["item_id"].to_list()
    predicted = table(folder, "predictions", ("item_id",))["item_id"].unique(maintain_order=True)
    have = set(listed)
    return listed + [item_id for item_id in predicted if item_id not in have]


def portions(folder: RunFolder, values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield items or models in portions of not much more than ``AT_ONCE`` replies."""
    rows = table(folder, "predictions", ("item_id",)).height
    size = max(1, AT_ONCE * len(values) // max(rows, 1))
    for start in range(0, len(values), size):
        yield values[start : start + size]


def replies(
    folder: RunFolder, metric: str, column: str, values: Collection[str], *, whole: bool = True
) -> pl.DataFrame:
    """Read the replies in which ``column`` (``item_id`` or ``model``) is one of ``values``, as the predictions are
    ordered, each with its verdicts, its result, the people who labelled it, and tokens and cost.

    ``standing``: a name of ``STANDINGS``; ``verdict``: the result in words; ``vote``: the jury's, in words; ``mark``:
    ``1`` right by the jury or the rule, ``2`` partly, ``0`` wrong, ``-`` not judged. ``whole``: with the reply as it
    came, of which the first ``LONGEST`` characters are kept (``raw_size``: all of them). Raises DamagedTableError.
    """

    def rows(name: str, *columns: str) -> pl.DataFrame:
        frame = selected(folder, name, (*KEY, *columns), column, values)
        return frame.with_columns(pl.col("n_hints").fill_null(0), pl.col("sample").fill_null(1))

    predictions = rows("predictions", "provider", "kind", "answer", "justification", *(_LONG if whole else ()))
    if whole:
        # A reply may be a megabyte long: what no page will show is dropped before it becomes Python text.
        raw = pl.col("raw_text")
        predictions = predictions.with_columns(raw.str.slice(0, LONGEST), raw_size=raw.str.len_chars())
        predictions = predictions.join(_usage(folder, predictions["custom_id"]), on="custom_id", how="left",
                                       maintain_order="left")  # fmt: skip
    scores = rows("scores", "metric", "yes", "total", "vote", "flag").filter(metric=metric).drop("metric")
    verdicts = rows("verdicts", *_VERDICT).group_by(KEY, maintain_order=True).agg(
        judges=pl.struct(_VERDICT), has_jury=pl.col("judge_provider").is_not_null().any()
    )  # fmt: skip
    labels = rows("labels", "labels", *METRICS)
    for other in (
        scores.with_columns(is_scored=True).unique(KEY, keep="last"),
        verdicts,
        labels.unique(KEY, keep="last"),
    ):
        predictions = predictions.join(other, on=KEY, how="left", maintain_order="left")
    return _with_results(predictions, pl.col(metric) if metric in METRICS else pl.lit(None, pl.Boolean))


def _with_results(rows: pl.DataFrame, label: pl.Expr) -> pl.DataFrame:
    """Add results to replies. ``label``: what people say on the board's metric."""
    yes, total, vote = pl.col("yes"), pl.col("total").fill_null(0), pl.col("vote")
    tag = pl.col("flag").fill_null("").str.slice(0, 60).str.replace_all("_", " ", literal=True)
    by_rule = pl.col("total").is_null() & vote.is_not_null()
    standing = (
        pl.when(pl.col("kind").ne_missing(str(PredictionKind.ANSWERED))).then(pl.lit("void"))
        .when(by_rule & (tag == "")).then(pl.lit("right"))
        .when(by_rule & vote.is_between(0, 1, closed="none")).then(pl.lit("partly"))
        .when(by_rule).then(pl.lit("wrong"))
        .when(total == 0).then(pl.lit("open"))
        .when(yes == total).then(pl.lit("right"))
        .when(yes > 0).then(pl.lit("partly"))
        .otherwise(pl.lit("wrong"))
    )  # fmt: skip
    rows = rows.with_columns(standing=standing, by_rule=by_rule, tag=tag)
    standing, tag = pl.col("standing"), pl.col("tag")
    disputed = pl.when(label).then(standing == "wrong").otherwise(label.is_not_null() & (standing == "right"))
    verdict = (
        pl.when(disputed & label).then(pl.lit("labelled right, the jury says wrong"))
        .when(disputed).then(pl.lit("labelled wrong, the jury says right"))
        .when((standing == "void") & by_rule & (tag != "")).then("tag")
        .when(standing == "void").then("kind")
        .when(by_rule & (standing == "partly")).then(pl.format("{}, {}%", "tag", (100 * vote).round().cast(pl.Int64)))
        .when(by_rule & (standing == "wrong")).then("tag")
        .otherwise(standing.replace(STANDINGS))
    )  # fmt: skip
    empty_seat = pl.when(pl.col("flag") == "short_jury").then(pl.lit(", a seat was empty")).otherwise(pl.lit(""))
    words = pl.when(pl.col("has_jury") & (total > 0)).then(pl.format("{} of {} yes{}", yes, total, empty_seat))
    mark = pl.when("is_scored").then(standing.replace_strict(_LETTERS)).otherwise(pl.lit("-"))
    is_disputed = pl.when(disputed).then(pl.lit("disputed")).otherwise(standing)
    return rows.with_columns(verdict=verdict, vote=words.otherwise(pl.lit("")), mark=mark, standing=is_disputed)


def _usage(folder: RunFolder, custom_ids: pl.Series) -> pl.DataFrame:
    """Return tokens and cost by custom_id, also of answers that another run paid for."""
    ids = custom_ids.drop_nulls().to_list()
    own, reused = (selected(folder, name, _TOKENS, "custom_id", ids) for name in ("usage", "reused"))
    both = pl.concat([own.with_columns(is_reused=False), reused.with_columns(is_reused=True)])
    return both.unique("custom_id", keep="last")
