"""What there is of one model, its totals, and beside a board of several: the published table, ensembles, and what
abstaining is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from layton_batch.errors import ManifestError
from layton_batch.records import Grade, JsonValue
from layton_batch.tasks.mcq_idk import McqIdkTask
from layton_batch.tasks.mcq_idk_rules.abstention import Bounds, Selective, selective
from layton_batch.tasks.mcq_idk_rules.ensembles import Ensemble, by_letter, by_outcome
from layton_batch.tasks.mcq_idk_rules.intervals import intervals
from layton_batch.tasks.mcq_idk_rules.letters import Key, idk_letter
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, Estimate, Marks, Tally
from layton_batch.tasks.mcq_idk_rules.table import BoardRow, cell, ordered
from layton_batch.tasks.offline import NONE, GradedModel, GradedReply, GradedSet, ReportTable, percent

_TOP = 3


@dataclass(frozen=True, slots=True)
class LetterRow:
    """One prediction's letter (None: none could be read) and marks, and what they were held against."""

    item_id: str
    letter: str | None
    marks: Marks
    key: Key

    def to_json(self) -> dict[str, JsonValue]:
        return {"item_id": self.item_id, "letter": self.letter, **self.marks.as_dict()}


@dataclass(slots=True)
class AbstentionReport:
    """The totals of one model. ``rows``: in the predictions' order, where they are kept. ``marks``: how often each
    combination occurs."""

    task: McqIdkTask
    keep_rows: bool = True
    rows: list[LetterRow] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    marks: Counter[Marks] = field(default_factory=Counter)

    def add(self, reply: GradedReply) -> None:
        marks = marks_of(reply.grade)
        self.tally.add(marks)
        self.marks[marks] += 1
        if self.keep_rows:
            key = self.task.key(reply.item)
            self.rows.append(LetterRow(reply.item.id, reply.prediction.answer, marks, key))

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
        spread = intervals(self.marks, level=level, seed=seed)
        bounds: dict[str, JsonValue] = {
            name: None if one is None else {"lower": one[0], "upper": one[1]}
            for name, one in view.bounds(level).items()
        }
        metrics = {name: {"lower": one.lower, "upper": one.upper} for name, one in spread.items()}
        return {**view.to_json(), "level": level, "intervals": {**metrics, **bounds}}


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
    return {name: {"mean": one.mean, "se": one.se} for name, one in estimates.items()}


def marks_of(grade: Grade) -> Marks:
    """A grade's marks as the whole numbers they are."""
    return Marks(*(int(grade.marks[name]) for name in METRICS))


# ---- several models ------------------------------------------------------------------------------------------------

Member = tuple[str, AbstentionReport]


def table_rows(models: Sequence[GradedModel], ensembles: Sequence[BoardRow] = ()) -> list[BoardRow]:
    """The published table's rows in its order."""
    return ordered([*map(_row, models), *ensembles])


def views(models: Sequence[GradedModel]) -> dict[str, Selective]:
    """What abstaining is worth, by model; models without replies are left out."""
    return {name: selective(report.tally) for name, report in _members(models)}


def ensembles(models: Sequence[GradedModel], *, by_letter_too: bool) -> list[BoardRow]:
    """All models as one and, of more than three, the best three by trad_score: as published, by what is right or wrong.

    ``by_letter_too``: also a vote on letters, which needs no gold to be cast. Raises ManifestError for fewer than two
    models with replies, and for models that have no item in common.
    """
    members = _members(models)
    if len(members) < 2:
        raise ManifestError("grade: --ensembles needs the replies of two models or more")
    groups = {f"ensemble-all{len(members)}": members}
    if len(members) > _TOP:
        rows = ordered(BoardRow(name, report.tally.estimates()) for name, report in members)
        best = {row.name: place for place, row in enumerate(rows)}
        groups = {f"ensemble-top{_TOP}": sorted(members, key=lambda member: best[member[0]])[:_TOP], **groups}
    found = []
    for name, group in groups.items():
        found.append(_voted(name, by_outcome([{row.item_id: row.marks for row in one.rows} for _, one in group])))
        if by_letter_too:
            found.append(_voted(f"{name}-letters", _by_letter(group)))
    return found


def _members(models: Sequence[GradedModel]) -> list[Member]:
    return [(one.name, one.report) for one in models if isinstance(one.report, AbstentionReport)]


def _row(one: GradedModel) -> BoardRow:
    match one.report:
        case AbstentionReport(tally=tally):
            return BoardRow(one.name, tally.estimates())
        case PublishedTotals(estimates=estimates):
            return BoardRow(one.name, estimates)
    return BoardRow(one.name, {})


def _voted(name: str, ensemble: Ensemble) -> BoardRow:
    if not ensemble.votes:
        raise ManifestError(f"grade: --ensembles: the models of {name} have no item in common")
    return BoardRow(name, ensemble.estimates())


def _by_letter(group: Sequence[Member]) -> Ensemble:
    keys = {row.item_id: row.key for row in group[0][1].rows}
    gold: Mapping[str, str] = {item: key.gold for item, key in keys.items()}
    idk = {item: idk_letter(key.n_options) for item, key in keys.items()}
    return by_letter([{row.item_id: row.letter for row in one.rows} for _, one in group], gold, idk)


# ---- tables --------------------------------------------------------------------------------------------------------


def published_table(models: Sequence[GradedModel]) -> Iterator[ReportTable]:
    """Models that came as published totals, which no board can rank."""
    return estimates_table("as published", [_row(one) for one in models if isinstance(one.report, PublishedTotals)])


def estimates_table(title: str, rows: Sequence[BoardRow]) -> Iterator[ReportTable]:
    """Means and standard errors, if there are any rows."""
    if rows:
        lines = [[row.name, *(cell(row.estimates.get(metric)) for metric in METRICS)] for row in rows]
        yield ReportTable(title, ["model", *METRICS], lines)


def abstention_of_one(model: GradedModel) -> Iterator[ReportTable]:
    """Coverage, accuracy, risk and penalty, a line each."""
    for _, report in _members([model]):
        view = selective(report.tally)
        bounds = view.bounds()
        figures = (("coverage", view.coverage), ("accuracy_answered", view.accuracy), ("risk", view.risk))
        lines = [(name, percent(figure), _range(bounds[name], 100)) for name, figure in figures]
        lines.append(("break_even_penalty", _penalty(view), _range(bounds["break_even_penalty"], 1)))
        yield ReportTable("abstention", ["figure", "value", "95 % interval"], lines)


def abstention_of_several(graded: GradedSet) -> Iterator[ReportTable]:
    """The same of several models, best first, with exact intervals."""
    seen = views(graded.models)
    lines = [[name, *_view_cells(seen[name])] for name in graded.ranked if name in seen]
    if lines:
        header = ["model", "coverage", "accuracy\nwhen answering", "risk", "break-even\npenalty"]
        yield ReportTable("abstention (95 % intervals)", header, lines)


def _view_cells(view: Selective) -> Iterator[str]:
    bounds = view.bounds()
    for name, figure in (("coverage", view.coverage), ("accuracy_answered", view.accuracy)):
        yield NONE if figure is None else f"{100 * figure:.1f} {_range(bounds[name], 100)}"
    yield NONE if view.risk is None else f"{100 * view.risk:.1f}"
    found = bounds["break_even_penalty"]
    yield _penalty(view) if found is None else f"{_penalty(view)} {_range(found, 1)}"


def _range(bounds: Bounds | None, scale: float) -> str:
    if bounds is None:
        return NONE
    lower, upper = bounds
    digits = 1 if scale > 1 else 2
    return f"{scale * lower:.{digits}f}–{'∞' if upper is None else f'{scale * upper:.{digits}f}'}"


def _penalty(view: Selective) -> str:
    if view.break_even_penalty is None:
        return "∞" if view.correct else NONE
    return f"{view.break_even_penalty:.2f}"
