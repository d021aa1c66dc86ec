"""Sources of a leaderboard that are files of votes: few models as any other source, very many by counts alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import polars as pl

from layton_batch.cli.board_sources import METRICS, Asked, is_votes, known_name, of_labels
from layton_batch.errors import ManifestError
from layton_batch.files.kept_frames import KeptFrames
from layton_batch.scoring import large_board
from layton_batch.scoring.board import BoardRow
from layton_batch.scoring.rules import Rules
from layton_batch.scoring.vote_files import vote_files
from layton_batch.settings import Settings

AT_ONCE = 2
"""Sources that are scored side by side: each takes some tens of megabytes."""

SHOWN = 100
"""Models in a table for a terminal."""


def large_frame(sources: Sequence[str], settings: Settings, asked: Asked) -> tuple[pl.DataFrame, list[str]] | None:
    """The table ``leaderboard`` of sources among which are votes on more models than joint draws are made for, and what
    a reader has to know; None of any other sources. Raises as ``board_sources.read_sources``."""
    archives = [source for source in sources if is_votes(source)]
    if not archives:
        return None
    rules = asked.rules(Rules(metric=known_name("metric", asked.metric, METRICS) or METRICS[0]))
    kept = KeptFrames(settings.copies / "votes" / _place(archives))
    votes = [file for source in archives for file in vote_files(source)]
    size = large_board.size_of(votes, rules.metric, kept)
    if size.models <= large_board.LARGE:
        return None
    if others := [source for source in sources if source not in archives]:
        raise ManifestError(
            f"{others[0]}: beside votes on more than {large_board.LARGE:,} models nothing else is ranked; give labels "
            "with --labels FILE"
        )
    notes = ["Of several answers of a model to an item the first counts."] if size.samples > 1 else []
    given = [of_labels(path, settings, rules.metric) for path in asked.labels]
    labels = list(dict.fromkeys(label for one in given for label in one.labels))
    rules = replace(rules, other_jury=any(one.other_jury for one in given))
    with ThreadPoolExecutor(AT_ONCE) as executor:
        return large_board.large_board(votes, labels, rules, kept, executor), notes


def shown_of(board: pl.DataFrame, form: str) -> tuple[list[BoardRow], list[str]]:
    """The rows of such a table that are printed in one of ``reports.leaderboard.FORMATS``, and what is left out."""
    shown = board.head(SHOWN) if form == "table" else board
    rows = []
    for row in shown.iter_rows(named=True):
        counts = {kind: row[f"n_{kind}"] for kind in ("abstained", "unparsed", "missing", "unjudged")}
        rows.append(BoardRow(**row, failures={kind: count for kind, count in counts.items() if count}))
    cut = f"the first {SHOWN} of {board.height:,} models; --format csv | json | md has all"
    return rows, [cut] if shown.height < board.height else []


def _place(archives: Sequence[str]) -> str:
    """A folder for what is kept of these archives, which grow."""
    names = "\0".join(str(Path(one).resolve()) for one in archives)
    return sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
