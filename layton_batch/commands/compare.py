"""compare: which of two models is better, and how surely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

import polars as pl
import typer

from layton_batch.columns import DATA, FOR_PEOPLE, Column, Table
from layton_batch.commands.parameters import Metric, Runs, Sources, ThisSet, names_of
from layton_batch.commands.sources import read_board_sources
from layton_batch.errors import ManifestError
from layton_batch.grading.board_sources import BoardOptions
from layton_batch.interchange.score_table import TableColumns
from layton_batch.reports.table import Document, as_markdown, heading, markdown_text, say_line, show
from layton_batch.scoring.compare import (
    ComparedModel,
    Comparison,
    Gate,
    GateResult,
    compare_models,
    gate,
)
from layton_batch.scoring.leaderboard import CONDITION, NEW_ITEMS, THIS_SET, UNCALIBRATED
from layton_batch.text import one_line, percent

CODES = {GateResult.NOT_WORSE: 0, GateResult.WORSE: 6, GateResult.UNDECIDED: 7}
"""Exit codes of a comparison with a margin."""
_TARGETS = {NEW_ITEMS: "on new items", THIS_SET: "on this set"}


@dataclass(frozen=True, slots=True)
class ComparisonDocument(Document):
    """A comparison on new items of the kind and on this set; people are shown one ``target``. ``decision``: None
    without a margin."""

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
        rows = [{**names, **standing, **counts} for standing in self._table().records()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def end(self) -> int:
        return 0 if self.decision is None else CODES[self.decision.result]

    def show(self) -> None:
        """Print who is better, and how surely; with a margin the decision and what it rests on."""
        if self.decision is not None:
            for line in _decision_lines(self.decision):
                say_line(line)
            return
        heading(self._title)
        table = self._table(self.target)
        if table.rows:
            show(table)
            say_line("difference: first minus second, in points", "dim")
            say_line("minimum detectable difference (80 % power): of these two", "dim")
        else:
            say_line("A rule graded every answer: on this set the scores of the leaderboard are exact.")
        if self.comparison.method == UNCALIBRATED:
            say_line(f"{CONDITION} `layton-batch label plan RUN` says which answers to label.", "yellow")
        if any(standing.separated for standing in table.rows):
            say_line(f"The two are separated {_TARGETS[self.target]}: the interval leaves 0 out.")

    def as_json(self) -> object:
        if self.decision is not None:
            return asdict(self.decision)
        return asdict(self.comparison) | {"standings": self._table().records()}

    def text(self, form: str) -> str:
        """Return the comparison as Markdown, for a pull request; with a margin the decision below it."""
        compared = f"{markdown_text(self._title)}\n\n{as_markdown(self._table(self.target))}"
        if self.decision is None:
            return compared
        first, *more = map(markdown_text, _decision_lines(self.decision))
        return "\n".join([compared, f"**{first}**", *more, ""])

    @property
    def _title(self) -> str:
        first, second = one_line(self.comparison.first.name), one_line(self.comparison.second.name)
        return f"{first}  against  {second} · {self.comparison.metric.replace('_', ' ')}"

    def _table(self, target: str | None = None) -> Table[ComparedModel]:
        """Return what the comparison says of each target, or of one."""

        def interval(standing: ComparedModel) -> str:
            return f"{standing.lower:+.1f} to {standing.upper:+.1f}"

        return Table(
            (
                Column("target", text=lambda standing: _TARGETS[standing.target], is_text=True),
                Column("difference", format="{:+.1f}"),
                Column("lower", surfaces=DATA),
                Column("upper", surfaces=DATA),
                Column("interval", f"{percent(self.comparison.level)} CI", text=interval, surfaces=FOR_PEOPLE),
                Column("better", "P(first is better)", "{:.3f}"),
                Column("minimum_detectable_difference", "minimum detectable\ndifference", "{:.1f}"),
            ),
            [standing for standing in self.comparison.standings if target in (None, standing.target)],
        )


def _decision_lines(gate: Gate) -> Iterator[str]:
    """Yield the decision, what it rests on, and what to do where there is none."""
    model, baseline = one_line(gate.model.name), one_line(gate.baseline.name)
    yield f"{gate.result}: {model} against {baseline} · {gate.metric.replace('_', ' ')} · {_TARGETS[gate.target]}"
    if gate.difference is None or gate.lower is None or gate.upper is None:
        yield (
            "No label says how far the jury can be trusted, so it decides nothing: `layton-batch label plan` says "
            "which answers to label."
        )
        return
    interval = f"{gate.lower:+.1f} to {gate.upper:+.1f}"
    difference = f"difference {gate.difference:+.1f} points ({percent(gate.level)} CI {interval})"
    yield f"{difference}, margin {gate.margin:g} points"
    if gate.result is GateResult.UNDECIDED:
        yield (
            f"The interval contains minus the margin. More items (now {gate.n_items}), more labels or a wider margin "
            "can decide."
        )


def _split(names: list[str]) -> Mapping[str, object]:
    if len(names) < 2:
        raise ManifestError("compare: give two models, and before them the sources that they are in")
    *sources, first, second = names
    return {"source": sources or None, "first": first, "second": second}


def compare(
    source: Annotated[
        Sources,
        list[str],
        _split,
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
    comparison = compare_models(evidence.marks or evidence.rounds[0], models)
    target = THIS_SET if this_set else NEW_ITEMS
    return ComparisonDocument(comparison, target, None if margin is None else gate(comparison, target, margin))
