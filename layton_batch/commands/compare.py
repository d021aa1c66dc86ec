"""compare: which of two models is better, and how surely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

import polars as pl
import typer

from layton_batch.commands.parameters import CommandLineForm, Metric, Runs, Sources, ThisSet, names_of
from layton_batch.commands.sources import read_board_sources
from layton_batch.errors import ManifestError
from layton_batch.grading.board_sources import BoardOptions
from layton_batch.interchange.score_table import TableColumns
from layton_batch.reports.document import Document
from layton_batch.reports.statistics import (
    comparison_json,
    comparison_markdown,
    comparison_table,
    gate_markdown,
    print_comparison,
    print_gate,
)
from layton_batch.scoring.compare import Comparison, Gate, GateResult, compare_marks, compare_votes, gate
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET

CODES = {GateResult.NOT_WORSE: 0, GateResult.WORSE: 6, GateResult.UNDECIDED: 7}
"""Exit codes of a comparison with a margin."""


@dataclass(frozen=True, slots=True)
class ComparisonDocument(Document):
    """A comparison on new items of the kind and on this set. ``decision``: None without a margin."""

    FORMATS: ClassVar = ("table", "json", "md")
    comparison: Comparison
    target: str
    decision: Gate | None

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row for new items and one for this set (if a jury judged).

        ``difference``, ``lower``, ``upper``: first minus second in points; ``better``: probability that the first is.
        """
        compared = self.comparison
        names = {
            "first": compared.first.model,
            "second": compared.second.model,
            "metric": compared.metric,
            "method": compared.method,
        }
        counts = {"level": compared.level, "n_items": compared.n_items}
        rows = [{**names, **standing, **counts} for standing in comparison_table(compared).records()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def end(self) -> int:
        return 0 if self.decision is None else CODES[self.decision.result]

    def show(self) -> None:
        if self.decision is not None:
            print_gate(self.decision)
        else:
            print_comparison(self.comparison, self.target)

    def as_json(self) -> object:
        return comparison_json(self.comparison) if self.decision is None else asdict(self.decision)

    def text(self, form: str) -> str:
        below = "" if self.decision is None else gate_markdown(self.decision)
        return comparison_markdown(self.comparison, self.target) + below


def _split(names: list[str]) -> Mapping[str, object]:
    if len(names) < 2:
        raise ManifestError("compare: give two models, and before them the sources that they are in")
    *sources, first, second = names
    return {"source": sources or None, "first": first, "second": second}


def compare(
    source: Annotated[
        Sources,
        CommandLineForm(list[str], split=_split),
        typer.Argument(metavar="[SOURCE]... A B", help="Sources (default: the only run), then two models."),
    ],
    first: str,
    second: str,
    *,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Points of 100 by which A may be worse: 2.0 is 2 %.")
    ] = None,
    metric: Metric = None,
    this_set: ThisSet = False,
    min_score: float = 0.0,
    max_score: float | None = None,
    column: str | Sequence[str] | None = None,
    runs: Runs = None,
) -> ComparisonDocument:
    """Tell which of two models is better, and how surely.

    On new items of this kind; with --this-set on exactly these. A model that is there at several hint levels, or of
    several providers, is PROVIDER/MODEL@HINTS. Sources are those of `leaderboard`.

    With --margin, for CI, the exit code says whether A, a new model, is worse than B by more than the margin: 0 not
    worse (the whole interval of the difference is at or above minus the margin), 6 worse (all of it is below), 7
    undecided. A jury without labels decides nothing.
    """
    columns = TableColumns.of(names_of(column, "column"))
    options = BoardOptions(metric=metric, max_score=max_score, min_score=min_score, columns=columns)
    evidence, models = read_board_sources(source, options, runs), (first, second)
    marks = evidence.marks
    comparison = compare_votes(evidence.rounds[0], models) if marks is None else compare_marks(marks, models)
    target = THIS_SET if this_set else NEW_ITEMS
    return ComparisonDocument(comparison, target, None if margin is None else gate(comparison, target, margin))
