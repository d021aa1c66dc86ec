"""What there is of one model, its totals, and beside a board of several: the published table, ensembles, and what
abstaining is worth.

The published vote of an ensemble is on outcomes (right, wrong, neither), which nobody could hold without the gold
letters: two wrong models outvote a right one even where their letters differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt

from layton_batch.errors import ManifestError
from layton_batch.records import Grade, JsonValue
from layton_batch.tasks.mcq_idk_rules.metrics import (
    METRICS,
    AbstentionCounts,
    Bounds,
    Estimate,
    McqGrade,
    McqTally,
    intervals,
    selective,
)
from layton_batch.tasks.offline import GradedModel, GradedReply, GradedSet, percent
from layton_batch.text import NONE, Table, text_table


@dataclass(frozen=True, slots=True)
class LetterRow:
    """One prediction's letter (None: none could be read) and marks."""

    item_id: str
    letter: str | None
    marks: McqGrade

    def to_json(self) -> dict[str, JsonValue]:
        return {"item_id": self.item_id, "letter": self.letter, **self.marks.as_dict()}


@dataclass(slots=True)
class AbstentionReport:
    """The totals of one model. ``rows``: in the predictions' order, where they are kept. ``marks``: how often each
    combination occurs."""

    keep_rows: bool = True
    rows: list[LetterRow] = field(default_factory=list)
    tally: McqTally = field(default_factory=McqTally)
    marks: Counter[McqGrade] = field(default_factory=Counter)

    def add(self, reply: GradedReply) -> None:
        marks = marks_of(reply.grade)
        self.tally.add(marks)
        self.marks[marks] += 1
        if self.keep_rows:
            self.rows.append(LetterRow(reply.item.id, reply.prediction.answer, marks))

    def document(self) -> dict[str, JsonValue]:
        """``metrics``, ``n`` and ``rows``; means and standard errors are fractions, null where undefined."""
        return {
            "metrics": as_json(self.tally.estimates()),
            "n": self.tally.n,
            "rows": [row.to_json() for row in self.rows],
            "abstention": self.abstention(),
        }

    def abstention(self, *, level: float = 0.95, seed: int = 0) -> dict[str, JsonValue]:
        """The abstention-aware figures, and an interval of each and of every metric: beside what is published.

        The metrics' are bootstrapped, the figures' exact; ``upper`` is null where there is no bound.
        """
        view = selective(self.tally)
        bounds = {**intervals(self.marks, level=level, seed=seed), **view.bounds(level)}
        shown: dict[str, JsonValue] = {
            name: None if bound is None else {"lower": bound[0], "upper": bound[1]} for name, bound in bounds.items()
        }
        return {**view.to_json(), "level": level, "intervals": shown}


@dataclass(frozen=True, slots=True)
class PublishedTotals:
    """A model that came with its totals alone."""

    estimates: Mapping[str, Estimate]

    def add(self, reply: GradedReply) -> None:
        raise NotImplementedError(reply.item.id)

    def document(self) -> dict[str, JsonValue]:
        return {"metrics": as_json(self.estimates), "n": None, "rows": []}


def as_json(estimates: Mapping[str, Estimate]) -> dict[str, JsonValue]:
    """Means and standard errors by metric."""
    return {name: {"mean": estimate.mean, "se": estimate.se} for name, estimate in estimates.items()}


def marks_of(grade: Grade) -> McqGrade:
    """A grade's marks as the whole numbers they are."""
    return McqGrade(*(int(grade.marks[name]) for name in METRICS))


# ---- several models ------------------------------------------------------------------------------------------------

Member = tuple[str, AbstentionReport]


def table_rows(models: Sequence[GradedModel], ensembles: Sequence[BoardRow] = ()) -> list[BoardRow]:
    """The published table's rows in its order."""
    return ordered([*map(_row, models), *ensembles])


def views(models: Sequence[GradedModel]) -> dict[str, AbstentionCounts]:
    """Return the value of abstaining by model. Models without replies are left out."""
    return {name: selective(report.tally) for name, report in _members(models)}


def ensembles(models: Sequence[GradedModel], named: Mapping[str, Sequence[str]]) -> list[BoardRow]:
    """Return each ``named`` group of models as one, by a vote on what is right or wrong.

    Raises ManifestError for an unknown name, and for models that have no item in common.
    """
    members = dict(_members(models))
    groups = {name: _group(name, names, members) for name, names in named.items()}
    return [
        _voted(name, by_outcome([{row.item_id: row.marks for row in report.rows} for _, report in group]))
        for name, group in groups.items()
    ]


def _group(name: str, names: Sequence[str], members: Mapping[str, AbstentionReport]) -> list[Member]:
    unknown = [model for model in names if model not in members]
    if unknown:
        raise ManifestError(
            f"grade: --ensemble {name}: there are no replies of {', '.join(unknown)}, only of {', '.join(members)}"
        )
    return [(model, members[model]) for model in names]


def _members(models: Sequence[GradedModel]) -> list[Member]:
    return [(model.name, model.report) for model in models if isinstance(model.report, AbstentionReport)]


def _row(model: GradedModel) -> BoardRow:
    match model.report:
        case AbstentionReport(tally=tally):
            return BoardRow(model.name, tally.estimates())
        case PublishedTotals(estimates=estimates):
            return BoardRow(model.name, estimates)
    return BoardRow(model.name, {})


def _voted(name: str, votes: Votes) -> BoardRow:
    if not votes:
        raise ManifestError(f"grade: --ensemble: the models of {name} have no item in common")
    return BoardRow(name, vote_estimates(votes))


# ---- tables --------------------------------------------------------------------------------------------------------


def published_table(models: Sequence[GradedModel]) -> Iterator[Table]:
    """Models that came as published totals, which no board can rank."""
    return estimates_table(
        "as published", [_row(model) for model in models if isinstance(model.report, PublishedTotals)]
    )


def estimates_table(title: str, rows: Sequence[BoardRow]) -> Iterator[Table]:
    """Means and standard errors, if there are any rows."""
    if rows:
        yield text_table(title, ["model", *METRICS], [row.cells() for row in rows])


def abstention_of_one(model: GradedModel) -> Iterator[Table]:
    """Coverage, accuracy, risk and penalty, a line each."""
    for _, report in _members([model]):
        view = selective(report.tally)
        bounds = view.bounds()
        figures = (("coverage", view.coverage), ("accuracy_answered", view.accuracy), ("risk", view.risk))
        lines = [(name, percent(figure), _range(bounds[name], 100)) for name, figure in figures]
        lines.append(("break_even_penalty", _penalty(view), _range(bounds["break_even_penalty"], 1)))
        yield text_table("abstention", ["figure", "value", "95 % interval"], lines)


def abstention_of_several(graded: GradedSet) -> Iterator[Table]:
    """Yield the abstention tables of several models, best first, with exact intervals."""
    seen = views(graded.models)
    lines = [[name, *_view_cells(seen[name])] for name in graded.ranked if name in seen]
    if lines:
        header = ["model", "coverage", "accuracy\nwhen answering", "risk", "break-even\npenalty"]
        yield text_table("abstention (95 % intervals)", header, lines)


def _view_cells(view: AbstentionCounts) -> Iterator[str]:
    bounds = view.bounds()
    for name, figure in (("coverage", view.coverage), ("accuracy_answered", view.accuracy)):
        yield NONE if figure is None else f"{100 * figure:.1f} {_range(bounds[name], 100)}"
    yield NONE if view.risk is None else f"{100 * view.risk:.1f}"
    bound = bounds["break_even_penalty"]
    yield _penalty(view) if bound is None else f"{_penalty(view)} {_range(bound, 1)}"


def _range(bounds: Bounds | None, scale: float) -> str:
    if bounds is None:
        return NONE
    lower, upper = bounds
    digits = 1 if scale > 1 else 2
    return f"{scale * lower:.{digits}f}–{'∞' if upper is None else f'{scale * upper:.{digits}f}'}"


def _penalty(view: AbstentionCounts) -> str:
    if view.break_even_penalty is None:
        return "∞" if view.correct else NONE
    return f"{view.break_even_penalty:.2f}"


# ---- the table as evaluate-idk prints it: the models' order, and every blank of the Markdown -----------------------


_MARKDOWN = re.compile(r"([\\`*\[\]<>|])")


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One line of the table: a model or an ensemble, and its estimates by metric; one that is missing prints as "-"."""

    name: str
    estimates: Mapping[str, Estimate]

    def cells(self) -> list[str]:
        """The line as text."""
        return [self.name, *(cell(self.estimates.get(metric)) for metric in METRICS)]


def ordered(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """Sort rows by trad_score, highest first, rows without a score last. The sort is stable."""
    none = Estimate(-inf, None)
    return sorted(rows, key=lambda row: -row.estimates.get("trad_score", none).mean)


def markdown(rows: Sequence[BoardRow]) -> str:
    """The table of the rows as they come, without a line break at its end."""
    header = ["Model", *(f"{metric} ± se" for metric in METRICS)]
    cells = [header, *([plain_cell(row.name), *row.cells()[1:]] for row in rows)]
    widths = [max(3, *(len(line[i]) for line in cells)) for i in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))


def cell(estimate: Estimate | None) -> str:
    """Percent with two decimals: "64.65 ± 3.41", "64.65" without a standard error, "-" without a value."""
    if estimate is None:
        return "-"
    value = f"{estimate.mean * 100:.2f}"
    return value if estimate.se is None else f"{value} ± {estimate.se * 100:.2f}"


def plain_cell(name: str) -> str:
    """A name that can end neither its cell nor its line, and is nothing but text."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return _MARKDOWN.sub(r"\\\1", " ".join(shown.split()))


# ---- several models as one: a vote on every item that all of them replied to ---------------------------------------


Votes = Mapping[str, int]
"""The vote by item: +1 right, -1 wrong, 0 neither."""


def vote_estimates(votes: Votes) -> Mapping[str, Estimate]:
    """Return estimates like the published table.

    Abstentions include ties and unreadable replies, and nothing fails to extract. Standard errors come from the
    population's variance (n), unlike a single model's.
    """
    values = list(votes.values())
    if not values:
        return {}
    n, right, wrong = len(values), values.count(1), values.count(-1)
    mean = (right - wrong) / n
    spread = (right * (1 - mean) ** 2 + wrong * (-1 - mean) ** 2 + (n - right - wrong) * mean**2) / n
    score = Estimate(mean, sqrt(spread / n))
    return dict(zip(METRICS, (_share(right, n), score, _share(n - right - wrong, n), Estimate(0.0, 0.0)), strict=True))


def by_outcome(members: Sequence[Mapping[str, McqGrade]]) -> Votes:
    """Return the published vote on each item that all members have, in the first member's order.

    ``members``: each model's marks by item; an unreadable reply votes 0, not -1.
    """
    if not members:
        return {}
    shared = [item for item in members[0] if all(item in member for member in members[1:])]
    return {item: _plurality([_vote(member[item]) for member in members]) for item in shared}


def _vote(marks: McqGrade) -> int:
    return 0 if marks.extract_fail else marks.idk_score


def _plurality(votes: Sequence[int]) -> int:
    ranked = Counter(votes).most_common(2)
    return 0 if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _share(count: int, n: int) -> Estimate:
    share = count / n
    return Estimate(share, sqrt(share * (1 - share) / n))
