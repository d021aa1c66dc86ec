"""The gold set: a frame of predictions that people labelled, with the verdicts of every judge.

How it stands in a file is in :mod:`layton_batch.scoring.gold_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from layton_batch.scoring.evidence import ANSWERED, JUDGED, LABELS, PREDICTION, VOTES, rounds
from layton_batch.scoring.jury_record import JudgeRecord

VERDICT = {
    "answer_correct": "is_answer_correct_",
    "justification_correct": "is_justification_correct_",
    "both_correct": "both_correct_",
}
"""Beginning of a judge's column, by metric; the judge's name follows."""
HUMAN = {metric: f"human_{metric}" for metric in VERDICT}
"""The column of people's word, by metric."""
GOLD: Mapping[str, pl.DataType] = {
    **{name: VOTES[name] for name in PREDICTION},
    **dict.fromkeys(("answer", "justification", "kind"), pl.String()),
    **dict.fromkeys(("silent", "ranked"), pl.Boolean()),
    "sample": pl.Int64(),
}
"""Columns that are not about decisions. ``silent``: there is no answer; the texts are left out where only their digest
``content`` is kept."""


@dataclass(frozen=True, eq=False)
class GoldSet:
    """A gold set. ``judges`` are the names in the file's column names, in column order; ``rows``: the columns of
    ``GOLD``, ``VERDICT`` by judge and ``HUMAN``; ``recorded``: what more the file says of judges, by name;
    ``other_jury``: whether it is a run's export whose labels stand beside another jury's votes."""

    judges: tuple[str, ...]
    rows: pl.DataFrame
    recorded: Mapping[str, JudgeRecord] = field(default_factory=dict)
    other_jury: bool = False

    @property
    def labelled(self) -> pl.DataFrame:
        """The rows with a person's word on any metric."""
        return self.rows.filter(pl.any_horizontal(pl.col(list(HUMAN.values())).is_not_null()))

    def has(self, metric: str) -> bool:
        """Return whether a judge or a person decided anything on a metric."""
        columns = [VERDICT[metric] + judge for judge in self.judges] + [HUMAN[metric]]
        return any(self.rows[column].count() for column in columns)

    def on(self, metric: str) -> pl.DataFrame:
        """The rows with ``yes`` and ``total`` of their judges and people's word, ``correct``, on a metric."""
        verdicts = pl.col([VERDICT[metric] + judge for judge in self.judges])
        return self.rows.with_columns(
            yes=pl.sum_horizontal(verdicts).cast(pl.Int64),
            total=pl.sum_horizontal(verdicts.is_not_null()).cast(pl.Int64),
            correct=HUMAN[metric],
        )


def rounds_of(gold: GoldSet, metric: str) -> tuple[list[tuple[pl.DataFrame, pl.DataFrame]], dict[str, int]]:
    """Return votes and labels by round, and how often each model was asked. A prediction without an answer counts as
    wrong."""
    rows = gold.on(metric).select(*LABELS, "kind", "silent", "ranked", "sample")
    rows = rows.with_columns(kind=_KIND, judges=pl.lit(None, pl.Int64))
    frames, samples = rounds(rows.filter("ranked").with_columns(pl.col("sample").fill_null(1)))
    unranked = rows.filter(~pl.col("ranked"))
    parts = []
    for number, votes in enumerate(frames, 1):
        labelled = [votes, unranked.filter(pl.col("sample").fill_null(number) == number)]
        labels = pl.concat(part.drop_nulls("correct").select(*LABELS) for part in labelled)
        parts.append((votes.select(*VOTES), labels))
    return parts, samples


_KIND = (
    pl.when(pl.col("kind").is_not_null())
    .then("kind")
    .when(pl.col("silent") & (pl.col("total") == 0))
    .then(pl.lit("missing"))
    .otherwise(pl.lit(ANSWERED))
)


def labels_of(gold: GoldSet, metric: str) -> pl.DataFrame:
    """The predictions a person judged on this metric, with their jury's votes; what several samples say is one."""
    labels, is_sample = gold.on(metric).drop_nulls("correct"), pl.col("sample").is_not_null()
    is_first = pl.struct(*PREDICTION, is_sample.alias("is_sample")).is_first_distinct()
    return labels.filter(~is_sample | is_first).select(*LABELS)


def judged_of(gold: GoldSet, metric: str) -> pl.DataFrame:
    """Every recorded prediction of the first round with each judge's verdict on this metric; the provider stands for
    the family."""
    verdicts = []
    for judge in gold.judges:
        verdict, never = pl.col(VERDICT[metric] + judge), pl.lit(None, pl.Boolean)
        decided = pl.struct(judge=pl.lit(judge), verdict=verdict, recorded=never)
        verdicts.append(pl.when(verdict.is_not_null()).then(decided))
    first = gold.rows.filter(pl.col("sample").fill_null(1) == 1)
    judged = first.with_columns(
        family="provider", human=HUMAN[metric], verdicts=pl.concat_list(verdicts).list.drop_nulls()
    )
    return judged.select(pl.col(name).cast(dtype) for name, dtype in JUDGED.items())
