"""The leaderboard, one frame with the columns of ``LEADERBOARD``: a row an entrant, best first, for one target.

Scores are percent as printed, null where ``flags`` says why there is none. ``new_*`` and ``set_*`` hold both targets;
the columns without a prefix are those of the row's ``target``.
"""

from __future__ import annotations

import string
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl

from layton_batch.files.table_columns import ESTIMATE, LEADERBOARD, NEW, SET, STORED
from layton_batch.scoring.evidence import Entrant
from layton_batch.text import plural

SCHEMA: Mapping[str, pl.DataType] = {name: column.dtype for name, column in LEADERBOARD.items()}
HIERARCHICAL, PAPER, RULE, UNCALIBRATED = "hierarchical", "paper", "rule", "uncalibrated"
PAPER_LEVEL = 0.95
CONDITION = (
    "Uncalibrated: no human label counts here. Scores assume judges that are right in about nine of ten cases, and "
    "intervals in three of four; without labels nobody can tell worse judges."
)
AIM_POINTS = 3
"""The half width, in points, for which an uncalibrated board says how many labels it takes."""
METHOD_WORDS = {RULE: "graded by rule", HIERARCHICAL: "jury corrected by labels", PAPER: "the published method"}
"""Words of a heading for the ``method`` of a board's rows; other methods are called by their names."""
SHORT_JURY = "short_jury"
OTHER_JURY = "labels_of_another_jury"
DRIFTED = "judges_drifted"
OTHER_MODEL = "served_another_model"
OTHER_JUDGE = "judge_served_another_model"
OTHER_HINTS = "labels_of_other_hints"
UNKNOWN_MAKER = "maker_without_labels"
BORROWED_ONLY = "borrowed_only"
NO_OWN = "*"
"""Marks a row none of whose own answers has a label, on a board that rests on labels."""
FEW_VERDICTS = "few_verdicts"
ASSUMES = "Assumes that labels are right and that the jury is the one that was labelled."
FLAGS = {
    "empty_gold_bin": "For at least one number of yes votes there is no human label.",
    "no_gold": "There is no human label for this row; its interval says almost nothing.",
    "unjudged": "Some answers have no readable verdict; whether they are correct is unknown.",
    SHORT_JURY: "Some answers were judged by fewer judges than others or than were asked; the same share of fewer "
    "votes says less.",
    FEW_VERDICTS: "Half or more of the verdicts are missing: the score stands on the rest. See `layton-batch judges`.",
    OTHER_JURY: "The human labels are those of another jury; they say nothing sure about this one.",
    DRIFTED: "Judges say otherwise of labelled answers than when people labelled: votes may not mean what the labels "
    "say, and the interval is wider for it.",
    OTHER_MODEL: "Some of its answers came from another model than the one asked for, says the provider.",
    OTHER_JUDGE: "Some verdicts came from another model than the judge asked for, says the provider; labels are about "
    "the votes of the judges asked for.",
    UNKNOWN_MAKER: "No answer of this model's maker has a label: if the judges favour that maker, nothing shows it, "
    "and the interval can miss the truth.",
    BORROWED_ONLY: "None of this row's own answers has a label; all labels are borrowed.",
    OTHER_HINTS: "Some of the borrowed labels are other hints': on this model's answers at another hint level.",
}
"""Meaning of a row's ``flags``, by name, in a sentence each."""


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """Rules by which a board is scored. ``method``: hierarchical, or the paper's, which reproduces the published table
    at its level 0.95; ``other_jury``: the labels stand beside votes of another jury, which widens intervals;
    ``drifted``: the judges changed since people labelled, which widens them too; ``unsure``: the share of answers that
    people saw and are unsure about, which does so too; ``label_error``: the chance that a label is wrong;
    ``in_turn``: a third judge was asked only where two differ. The paper's method knows none of these."""

    method: str = HIERARCHICAL
    metric: str = "both_correct"
    level: float = 0.95
    seed: int = 0
    other_jury: bool = False
    drifted: bool = False
    unsure: float = 0.0
    label_error: float = 0.0
    in_turn: bool = False


NEW_ITEMS, THIS_SET = "new items", "this set"
"""Targets of a row: new items of the same kind as these, or exactly these."""
PREFIX = {NEW_ITEMS: NEW, THIS_SET: SET}
"""Beginning of the columns that hold a target's estimate."""


def leaderboard() -> pl.DataFrame:
    """Return a board without rows."""
    return pl.DataFrame(schema=SCHEMA)


def on_this_set(board: pl.DataFrame) -> pl.DataFrame:
    """The board for exactly these items, also one that was read from a table."""
    return best_first(board.with_columns(target=pl.lit(THIS_SET)))


def complete(board: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the complete models."""
    return board.filter(pl.col("progress").is_null())


def with_incomplete(board: pl.DataFrame, models: Iterable[tuple[Entrant, str]]) -> pl.DataFrame:
    """Return the rows of the complete models and, below, a row without score and rank for each of ``models``, which
    have their progress with them. A board without a complete model stays empty."""
    ranked = complete(board)
    if ranked.is_empty():
        return ranked
    shared = ranked.select("method", "metric", "level", "target").row(0, named=True)
    rows = [shared | asdict(model) | {"progress": progress} for model, progress in models]
    return pl.concat([ranked, pl.DataFrame(rows, schema=board.schema)])


def need(labels: Sequence[int | None]) -> str:
    """Explain an uncalibrated board in words. ``labels``: the number of labels that each row needs."""
    needed = [count for count in labels if count is not None]
    if not sum(needed):
        return CONDITION
    return (
        f"{CONDITION} About {plural(sum(needed), 'label')} would give ± {AIM_POINTS} points for every model on these "
        f"items: `layton-batch label plan RUN --this-set --half-width {AIM_POINTS}` says on which answers."
    )


def stored(board: pl.DataFrame) -> pl.DataFrame:
    """The columns that stand in tables and files."""
    return board.select(*STORED)


def best_first(board: pl.DataFrame) -> pl.DataFrame:
    """Let rows, which know both targets and their own, show the latter, and order them by it: those without a rank come
    last."""
    names = [name for name in ESTIMATE if NEW + name in board.columns]
    is_set = pl.col("target") == THIS_SET
    shown = [pl.when(is_set).then(SET + name).otherwise(NEW + name).alias(name) for name in names]
    return board.with_columns(shown).sort("rank", nulls_last=True, maintain_order=True)


def with_flag(board: pl.DataFrame, flag: str, models: Collection[str] | pl.Expr | None = None) -> pl.DataFrame:
    """The board, on which each row says so as well; with ``models``, names or a condition, only theirs."""
    if not isinstance(models, pl.Expr):
        models = pl.lit(value=True) if models is None else pl.col("model").is_in(list(models))
    flags = pl.col("flags")
    longer = pl.when(flags == "").then(pl.lit(flag)).otherwise(flags + f", {flag}")
    return board.with_columns(flags=pl.when(models).then(longer).otherwise(flags))


def flags_of(flags: object) -> list[str]:
    """The names in a row's ``flags``."""
    return [flag.strip() for flag in str(flags or "").split(",") if flag.strip()]


def alike(ranges: Sequence[tuple[int | None, int | None]]) -> list[str]:
    """Letters for rank ranges: two of them share one exactly where they overlap, so that the two models cannot be told
    apart. "A–C" is A, B and C; empty where there is no range."""
    rank_ranges = [(best, worst) for best, worst in ranges if best is not None and worst is not None]
    starts, shared, before = sorted({best for best, _ in rank_ranges}), [], 0
    for end in sorted({worst for _, worst in rank_ranges}):
        # one group for each end before which another range starts: it is of those that are open there
        if bisect_right(starts, end) > bisect_right(starts, before):
            shared.append(end)
        before = end
    return [
        "" if best is None or worst is None else _letters(bisect_left(shared, best), bisect_right(shared, worst) - 1)
        for best, worst in ranges
    ]


def _letters(first: int, last: int) -> str:
    if last - first > 1:
        return f"{_letter(first)}–{_letter(last)}"
    return _letter(first) + (_letter(last) if last > first else "")


def _letter(number: int) -> str:
    return (_letter(number // 26 - 1) if number >= 26 else "") + string.ascii_uppercase[number % 26]
