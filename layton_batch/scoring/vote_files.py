"""Votes in Parquet files: what `export --to votes` writes of a run, and an archive of many runs holds.

A row is a prediction and its votes on one metric: ``item_id, model, provider, n_hints, sample, metric, flag, yes,
total, content``. ``flag`` is ``abstained``, ``unparsed`` or ``missing`` for an answer that is wrong without a jury;
``content`` tells which answer it was (``evidence.content_key``). ``n_hints`` may be left out (0), so may ``sample`` (1)
and ``content`` (then no label is known to be of this very answer). A model's rows are in one file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

import polars as pl

from layton_batch.errors import DataError, file_error
from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.vote_table import ballots_of

CONTENT_OF_FILE = "layton_batch.votes"
"""The key in a file's metadata of the digest of all that is in it."""
SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("item_id", "model", "provider"), pl.String()),
    **dict.fromkeys(("n_hints", "sample"), pl.Int64()),
    **dict.fromkeys(("metric", "flag"), pl.String()),
    **dict.fromkeys(("yes", "total", "content"), pl.Int64()),
}
WHO = ("model", "provider", "n_hints")
_OPTIONAL = {"n_hints": 0, "sample": 1, "content": 0, "flag": None}
_GIVEN = ("item_id", "model", "provider", "yes", "total")


@dataclass(frozen=True, slots=True)
class VoteFile:
    """One file. ``key``: two files with one key hold the same votes."""

    path: Path
    key: str

    def __str__(self) -> str:
        return str(self.path)

    def read(self, metric: str, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of the rows on a metric. Raises DataError for a file, a column or a value that is no vote."""
        try:
            found = pl.scan_parquet(self.path, glob=False)
            there = found.collect_schema()
            lacking = [name for name in SCHEMA if name not in there and name not in _OPTIONAL]
            if lacking:
                raise DataError(f"{self}: not a file of votes, it has no column {', '.join(lacking)}")
            rows = found.filter(pl.col("metric") == metric).select(
                pl.col(name).cast(SCHEMA[name], strict=True) if name in there else _left_out(name) for name in columns
            )
            votes = rows.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"{self}: cannot be read as a Parquet file of votes: {error}") from error
        for name in columns:
            if name in _GIVEN and votes[name].has_nulls():
                raise DataError(f"{self}: a row on {metric!r} has no {name}")
        return votes


def _left_out(name: str) -> pl.Expr:
    return pl.lit(_OPTIONAL[name], SCHEMA[name]).alias(name)


def is_votes(source: str) -> bool:
    """Whether a source is a file of votes, or a folder of such files that is no run."""
    path = Path(source)
    if path.is_dir():
        return not (path / "run.json").exists() and any(path.glob("*.parquet"))
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return {"metric", "yes", "total"} <= set(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, OSError):
        return False


def vote_files(source: str) -> list[VoteFile]:
    """The files of a source, in the order of their names. Raises DataError for one that cannot be opened."""
    path = Path(source)
    return [VoteFile(one, _key(one)) for one in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]


def _key(path: Path) -> str:
    """By the end of the file, where Parquet says what is in it and where, with the digest that our export puts there;
    by all of it where there is none. Size and time besides, since a tool that edits a file may copy that digest."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            file.seek(max(about.st_size - 8, 0))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(about.st_size - 8 - length, 0))
            end = file.read()
            if CONTENT_OF_FILE.encode() in end:
                return sha256(end + f"{about.st_size} {about.st_mtime_ns}".encode()).hexdigest()
            file.seek(0)
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise file_error(f"{path} cannot be read: {error.strerror}", error) from error


def rounds(files: Sequence[VoteFile], metric: str) -> tuple[list[Ballots], dict[str, int]]:
    """The ballots of every round, and how often each model was asked; a model with fewer samples begins again with its
    first. Raises DataError as :meth:`VoteFile.read`."""
    votes = pl.concat([one.read(metric, list(SCHEMA)) for one in files])
    check_votes(votes, ", ".join(map(str, files)))
    whose = votes.select(*WHO, "sample").group_by(WHO, maintain_order=True).agg(samples=pl.col("sample").n_unique())
    entrants = [Entrant(*who) for who in whose.select(WHO).iter_rows()]
    numbered = votes.join(whose.with_row_index("who"), on=WHO, how="left", maintain_order="left")
    numbered = numbered.with_columns(sample=pl.col("sample").rank("dense").over("who"))
    cast = [
        ballots_of(entrants, numbered.filter(pl.col("sample") == 1 + number % pl.col("samples")))
        for number in range(whose["samples"].max() or 1)  # type: ignore[arg-type]
    ]
    return cast, dict(whose.select("model", "samples").iter_rows())


def check_votes(votes: pl.DataFrame, name: str) -> None:
    """Raises DataError for more yes than votes."""
    wrong = votes.filter((pl.col("yes") < 0) | (pl.col("yes") > pl.col("total")))
    if wrong.height:
        model, yes, total = (wrong[column][0] for column in ("model", "yes", "total"))
        raise DataError(f"{name}: an answer of model {model!r} has {yes} yes of {total} votes")
