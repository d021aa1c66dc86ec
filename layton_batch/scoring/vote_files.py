"""Votes in Parquet files: `export --to votes` writes one file of a run, and a folder of such files is a board.

A row is a prediction and its votes on one metric: ``item_id, model, provider, n_hints, sample, metric, flag, yes,
total, judges, content``. ``flag`` is ``abstained``, ``unparsed`` or ``missing`` for an answer that is wrong without a
jury; ``judges``: judges that were asked; ``content`` tells which answer it was (``evidence.content_key``). ``n_hints``
may be left out (0), so may ``sample`` (1), ``judges`` (unknown) and ``content`` (then no label is known to be of this
very answer).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.scoring.evidence import ANSWERED, VOTES
from layton_batch.states import PredictionKind

SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("item_id", "model", "provider"), pl.String()),
    **dict.fromkeys(("n_hints", "sample"), pl.Int64()),
    **dict.fromkeys(("metric", "flag"), pl.String()),
    **dict.fromkeys(("yes", "total", "judges", "content"), pl.Int64()),
}
_OPTIONAL = {"n_hints": 0, "sample": 1, "judges": None, "content": 0, "flag": None}
_NEVER_JUDGED = tuple(str(kind) for kind in PredictionKind if kind != ANSWERED)
_NEVER_NULL = ("item_id", "model", "provider", "yes", "total")


def is_votes(source: str) -> bool:
    """Tell whether a source is a file of votes, or a folder of such files that is no run."""
    path = Path(source)
    if path.is_dir():
        return not (path / "run.json").exists() and any(path.glob("*.parquet"))
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return {"metric", "yes", "total"} <= set(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, OSError):
        return False


def read_votes(source: str, metric: str) -> pl.DataFrame:
    """Read the rows on a metric from a file of votes, or from all files of a folder in the order of their names.

    Return the columns of ``SCHEMA`` but ``metric``. Raises DataError, which names the file, for a file that cannot be
    read, a missing column and a value that is no vote.
    """
    path = Path(source)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return pl.concat([_read_file(file, metric) for file in files])


def metrics_of(source: str) -> set[str]:
    """Return the metrics on which a file, or a folder of files, has votes. What cannot be read has none here. Raises
    DataError for a pipe, which would be waited for."""
    path = Path(source)
    metrics: set[str] = set()
    for file in path.glob("*.parquet") if path.is_dir() else [path]:
        limits.check_is_file(file, str(file))
        with suppress(pl.exceptions.PolarsError, OSError):
            metrics.update(pl.scan_parquet(file, glob=False).select(pl.col("metric").unique()).collect()["metric"])
    return metrics


def _read_file(path: Path, metric: str) -> pl.DataFrame:
    limits.check_is_file(path, str(path))
    limits.check_parquet(path, str(path))
    try:
        scan = pl.scan_parquet(path, glob=False)
        present = scan.collect_schema()
        if missing := [name for name in SCHEMA if name not in present and name not in _OPTIONAL]:
            raise DataError(f"{path}: not a file of votes, it has no column {', '.join(missing)}")
        columns = (_column(name, name in present) for name in SCHEMA if name != "metric")
        votes = scan.filter(pl.col("metric") == metric).select(columns).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: cannot be read as a Parquet file of votes: {error}") from error
    for name in _NEVER_NULL:
        if votes[name].has_nulls():
            raise DataError(f"{path}: a row on {metric!r} has no {name}")
    yes, total, judges = pl.col("yes"), pl.col("total"), pl.col("judges")
    wrong = votes.filter((yes < 0) | (yes > total) | (total > judges))
    if wrong.height:
        model, *row = wrong.select("model", "yes", "total", judges.fill_null(total)).row(0)
        raise DataError(f"{path}: an answer of model {model!r} has {row[0]} yes of {row[1]} votes of {row[2]} judges")
    return votes


def _column(name: str, is_present: bool) -> pl.Expr:
    values = pl.col(name) if is_present else pl.lit(_OPTIONAL[name]).alias(name)
    return values.cast(SCHEMA[name], strict=True)


def votes_of(scores: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``scores`` on one metric, of which the models' ``provider`` is known, as the frame of votes: no votes on
    what is wrong without a jury."""
    never = pl.col("flag").is_in(_NEVER_JUDGED)
    return scores.with_columns(
        pl.when(never).then(0).otherwise(pl.col("yes", "total", "judges")).name.keep(),
        kind=pl.when(never).then("flag").otherwise(pl.lit(ANSWERED)),
    ).select(pl.col(name).cast(dtype) for name, dtype in VOTES.items())
