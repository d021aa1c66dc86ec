"""What each bill of a history was for, whatever its request was called: what the provider was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from layton_batch.files.run_folder import RunFolder

if TYPE_CHECKING:
    from tests.simulation.world import History

Print = tuple[str, str, bytes]
"""Provider, model, and the line of the batch file without its name."""
OF_NAMES = ("custom_id", "shard_id", "job_id")
"""Columns of what things are called, which hangs on the order of edits."""


def prints(found: History) -> dict[str, Print]:
    """What was billed, by custom_id."""
    lines = _lines(found.folder)
    return {row.custom_id: (row.provider, row.model, lines[row.custom_id]) for row in found.providers.ledger().rows}


def by_what_is_asked(found: History, question: Callable[[str], str]) -> Callable[[str], str]:
    """One name for all requests that ask the same: the questions of all of them."""
    known = prints(found)
    names: defaultdict[Print, set[str]] = defaultdict(set)
    for custom_id, asked in known.items():
        names[asked].add(question(custom_id))
    return lambda custom_id: " = ".join(sorted(names[known[custom_id]]))


def never_billed(found: History, wanted: frozenset[Print]) -> Iterator[str]:
    """What the last manifest asks, and no provider was ever asked."""
    for provider, model, _ in sorted(wanted - set(prints(found).values())):
        yield f"a question of the last manifest was never billed ({provider} {model})"


def without_names(table: pl.DataFrame, name: str, models: Collection[str]) -> pl.DataFrame:
    """What the last manifest asks of its models, whatever it is called and in whatever order it was asked."""
    if name == "leaderboard":
        return table
    if "retired" in table.columns:
        table = table.filter(~pl.col("retired"), pl.col("model").is_in(list(models)))
    table = table.drop(OF_NAMES, strict=False)
    return table if name == "items" else table.sort(table.columns)


def _attempt(path: Path) -> tuple[int, str]:
    name = path.parent.name
    return int(name.rpartition(".a")[2]), name


def _lines(folder: RunFolder) -> dict[str, bytes]:
    """By custom_id: the line with which it was first asked."""
    found: dict[str, bytes] = {}
    files = folder.batches.glob("*/request.jsonl")
    for path in sorted(files, key=_attempt):
        for line in path.read_bytes().splitlines():
            told = orjson.loads(line)
            name = str(told.get("custom_id") or told["key"])
            found.setdefault(name, line.replace(name.encode(), b""))
    return found
