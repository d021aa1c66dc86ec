"""evaluate-idk's table of several models, and its ensembles.

The published vote of an ensemble is on outcomes (right, wrong, neither), which nobody could hold without the gold
letters: two wrong models outvote a right one even if their letters differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import polars as pl

from layton_batch.tasks.mcq_idk.task import METRICS
from layton_batch.tasks.offline import Estimate

# ---- the table: the models' order, and every blank of the Markdown -------------------------------------------------


_MARKDOWN = re.compile(r"([\\`*\[\]<>|])")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of the table: a model or an ensemble, and its estimates by metric; a missing one prints as "-"."""

    name: str
    estimates: Mapping[str, Estimate]


def ordered(rows: Iterable[TableRow]) -> list[TableRow]:
    """Sort rows by trad_score, highest first, rows without a score last. The sort is stable."""
    none = Estimate(-inf, None)
    return sorted(rows, key=lambda row: -row.estimates.get("trad_score", none).mean)


def markdown(rows: Sequence[TableRow]) -> str:
    """Return the table of the rows as they come, without a line break at its end."""
    header = ["Model", *(f"{metric} ± se" for metric in METRICS)]
    lines = [[plain_cell(row.name), *(cell(row.estimates.get(metric)) for metric in METRICS)] for row in rows]
    widths = [max(3, *(len(line[i]) for line in (header, *lines))) for i in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in (header, *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (padded[0], rule, *padded[1:]))


def cell(estimate: Estimate | None) -> str:
    """Percent with two decimals: "64.65 ± 3.41", "64.65" without a standard error, "-" without a value."""
    if estimate is None:
        return "-"
    value = f"{estimate.mean * 100:.2f}"
    return value if estimate.se is None else f"{value} ± {estimate.se * 100:.2f}"


def plain_cell(name: str) -> str:
    """Return a name that can end neither its cell nor its line, and is nothing but text."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return _MARKDOWN.sub(r"\\\1", " ".join(shown.split()))


# ---- several models as one: a vote on every item that all of them replied to ---------------------------------------


def ensemble_votes(frames: Sequence[pl.DataFrame]) -> list[int]:
    """Return the published vote on each item that all models have: +1 right, -1 wrong, 0 neither.

    ``frames``: each model's graded rows. An unreadable reply votes 0, not -1.
    """
    votes_by_model = [
        dict(frame.select("item_id", pl.col("idk_score") + pl.col("extract_fail")).iter_rows()) for frame in frames
    ]
    shared = [item for item in votes_by_model[0] if all(item in votes for votes in votes_by_model)]
    return [_plurality([int(votes[item]) for votes in votes_by_model]) for item in shared]


def vote_estimates(votes: Sequence[int]) -> dict[str, Estimate]:
    """Return estimates like the published table.

    Abstentions include ties and unreadable replies, and nothing fails to extract. Standard errors come from the
    population's variance (n), unlike a single model's.
    """
    if not votes:
        return {}
    n, right, wrong = len(votes), votes.count(1), votes.count(-1)
    mean = (right - wrong) / n
    spread = (right * (1 - mean) ** 2 + wrong * (-1 - mean) ** 2 + (n - right - wrong) * mean**2) / n
    score = Estimate(mean, sqrt(spread / n))
    return dict(zip(METRICS, (_share(right, n), score, _share(n - right - wrong, n), Estimate(0.0, 0.0)), strict=True))


def _plurality(votes: Sequence[int]) -> int:
    ranked = Counter(votes).most_common(2)
    return 0 if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _share(count: int, n: int) -> Estimate:
    share = count / n
    return Estimate(share, sqrt(share * (1 - share) / n))
