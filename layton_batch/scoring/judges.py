"""How good the judges are: each against people, the jury as a whole, what it gets wrong, and what labels are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.errors import DataError
from layton_batch.scoring.board import Rules
from layton_batch.scoring.evidence import Ballot, Judged, Label, count_votes, in_order
from layton_batch.stats.agreement import Agreement, agreement
from layton_batch.stats.calibrated import posterior, posterior_mean
from layton_batch.stats.generalisation import new_items_moments
from layton_batch.stats.judges import (
    BinCalibration,
    JudgeReport,
    JuryReport,
    calibration,
    effective_sizes,
    judge_reports,
    jury_errors,
    jury_report,
)
from layton_batch.stats.leniency import Leniency, SelfPreference, leniency_by_group, self_preference
from layton_batch.stats.planning import expected_variance
from layton_batch.stats.strata import Ints


@dataclass(frozen=True, slots=True)
class MakerLeniency:
    """Verdict minus a person's word (mean, a fraction) over ``labels`` answers by models of one maker."""

    maker: str
    labels: int
    leniency: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class OwnFavour:
    """How much kinder (a fraction) a judge is to its own maker's models; ``reason`` where that cannot be known."""

    maker: str | None
    against: str
    estimate: float | None
    standard_error: float | None
    own: int
    other: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """One judge; everything is in fractions."""

    judge: str
    report: JudgeReport
    by_maker: tuple[MakerLeniency, ...]
    own_favour: tuple[OwnFavour, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A prediction whose majority a person contradicts; ``wrong_judges`` voted with the majority."""

    item_id: str
    model: str
    provider: str
    n_hints: int
    yes: int
    total: int
    human: bool
    contested: bool
    wrong_judges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelWorth:
    """What the jury adds to one model's labels: as many simple random labels as its interval is worth, and the gain."""

    model: str
    provider: str
    n_hints: int
    own_labels: int
    worth: float
    worth_new: float
    gain: float | None
    gain_new: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything about a jury on one metric."""

    metric: str
    level: float
    judges: tuple[JudgeFinding, ...]
    jury: JuryReport
    agreement: Agreement
    bins: tuple[BinCalibration, ...]
    mistakes: tuple[Mistake, ...]
    models: tuple[LabelWorth, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Arrays:
    """Verdicts [R, J] and people's words [R]: 1, 0, -1 for none."""

    judges: tuple[str, ...]
    makers: tuple[str, ...]
    verdicts: Ints
    human: Ints
    maker: Ints
    item: Ints

    @property
    def yes(self) -> Ints:
        return np.asarray((self.verdicts == 1).sum(axis=1), dtype=np.int64)

    @property
    def total(self) -> Ints:
        return np.asarray((self.verdicts >= 0).sum(axis=1), dtype=np.int64)


def diagnose(
    judged: Sequence[Judged],
    ballots: Sequence[Ballot],
    labels: Sequence[Label],
    judge_makers: Mapping[str, str],
    rules: Rules,
) -> Diagnosis:
    """Examine every judge that gave a verdict. ``judge_makers``: who made which judge, as far as that is known.

    Raises DataError where nobody judged anything.
    """
    rows = sorted(judged, key=lambda row: (row.entrant, row.item_id, row.content))
    arrays = _arrays(rows)
    if not arrays.judges:
        raise DataError("these sources hold no verdict of any judge on this metric")
    return Diagnosis(
        metric=rules.metric,
        level=rules.level,
        judges=_judges(arrays, judge_makers, rules),
        jury=jury_report(arrays.yes, arrays.total, arrays.human),
        agreement=agreement(arrays.yes, arrays.total),
        bins=calibration(arrays.yes, arrays.total, arrays.human, level=rules.level),
        mistakes=_mistakes(arrays, rows),
        models=_label_worths(ballots, labels, rules),
    )


def _arrays(rows: Sequence[Judged]) -> _Arrays:
    judges = tuple(sorted({name for row in rows for name in row.verdicts}))
    makers = tuple(sorted({row.maker for row in rows}))
    place = {maker: i for i, maker in enumerate(makers)}
    items = {item: i for i, item in enumerate(sorted({row.item_id for row in rows}))}
    verdicts = np.array([[int(row.verdicts.get(name, -1)) for name in judges] for row in rows], dtype=np.int64)
    return _Arrays(
        judges=judges,
        makers=makers,
        verdicts=verdicts.reshape(len(rows), len(judges)),
        human=np.array([-1 if row.human is None else int(row.human) for row in rows], dtype=np.int64),
        maker=np.array([place[row.maker] for row in rows], dtype=np.int64),
        item=np.array([items[row.item_id] for row in rows], dtype=np.int64),
    )


def _judges(arrays: _Arrays, judge_makers: Mapping[str, str], rules: Rules) -> tuple[JudgeFinding, ...]:
    reports = judge_reports(arrays.verdicts, arrays.human, level=rules.level)
    groups = leniency_by_group(arrays.verdicts, arrays.human, arrays.maker)
    place = {maker: i for i, maker in enumerate(arrays.makers)}
    own = np.array([place.get(judge_makers.get(name, ""), -1) for name in arrays.judges], dtype=np.int64)
    favours = self_preference(arrays.verdicts, arrays.human, own, arrays.maker, arrays.item, seed=rules.seed)
    return tuple(
        JudgeFinding(
            judge=name,
            report=reports[i],
            by_maker=tuple(_maker_leniency(arrays, one) for one in groups if one.judge == i),
            own_favour=tuple(_favour(arrays, one, judge_makers.get(name)) for one in favours if one.judge == i),
        )
        for i, name in enumerate(arrays.judges)
    )


def _maker_leniency(arrays: _Arrays, one: Leniency) -> MakerLeniency:
    return MakerLeniency(arrays.makers[one.group], one.count, one.mean, one.standard_error)


def _favour(arrays: _Arrays, one: SelfPreference, maker: str | None) -> OwnFavour:
    reason = one.reason if maker is not None else _unknown_maker(arrays, one.judge)
    return OwnFavour(maker, one.against, one.estimate, one.standard_error, one.own, one.other, reason)


def _unknown_maker(arrays: _Arrays, judge: int) -> str:
    given = arrays.verdicts[:, judge] >= 0
    never = [name for i, name in enumerate(arrays.makers) if not given[arrays.maker == i].any()]
    if never:
        return f"not identifiable if its maker is {' or '.join(never)}: it gave no verdict on their answers"
    return "the judge's maker is not known: say --judge-maker JUDGE=MAKER"


def _mistakes(arrays: _Arrays, rows: Sequence[Judged]) -> tuple[Mistake, ...]:
    mistakes = []
    for error in jury_errors(arrays.yes, arrays.total, arrays.human):
        row = rows[error.row]
        wrong = tuple(name for name, verdict in sorted(row.verdicts.items()) if int(verdict) != error.label)
        who = row.entrant
        mistakes.append(
            Mistake(row.item_id, who.model, who.provider, who.n_hints, error.yes, error.total, bool(error.label),
                    error.contested, wrong)
        )  # fmt: skip
    return tuple(mistakes)


def _label_worths(ballots: Sequence[Ballot], labels: Sequence[Label], rules: Rules) -> tuple[LabelWorth, ...]:
    if not ballots:
        return ()
    counted = count_votes(in_order(ballots), labels)
    strata = counted.strata
    post = posterior(strata, provider_shift=rules.provider_shift)
    _, new_variance = new_items_moments(strata.n, strata.known_zeros, post.alpha, post.beta)
    here, new = effective_sizes(
        posterior_mean(strata, post), expected_variance(strata, post), new_variance, strata.items
    )
    own = strata.own_labels.sum(axis=1).tolist()
    return tuple(
        LabelWorth(
            who.model, who.provider, who.n_hints, own[i], float(here[i]), float(new[i]),
            float(here[i]) / own[i] if own[i] else None, float(new[i]) / own[i] if own[i] else None,
        )
        for i, who in enumerate(counted.entrants)
    )  # fmt: skip
