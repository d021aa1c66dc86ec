"""How good the judges are: each against people, the jury as a whole, and what it gets wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from layton_batch.scoring.counting import count_votes
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.law import VotePosterior
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.distributions import exact_sign_test
from layton_batch.stats.joint import detectable
from layton_batch.stats.judges import (
    BinCalibration,
    JudgeReport,
    JuryReport,
    Leniency,
    calibration,
    judge_reports,
    jury_errors,
    jury_leniency,
    jury_report,
    leniency_by_group,
)
from layton_batch.stats.raters import Agreement, agreement
from layton_batch.stats.strata import Ints

DRIFT_LEVEL = 0.1
"""The p-value up to which a board says that its judges drifted."""


@dataclass(frozen=True, slots=True)
class FamilyLeniency:
    """Verdict minus human label (mean, a fraction) over ``labels`` answers of one family's models."""

    family: str
    labels: int
    leniency: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class JuryFamilyLeniency:
    """Vote of the jury minus human label (mean, a fraction) over ``labels`` answers of one family's models.

    ``half_width``: of an interval that holds for all families at once; None where labels are too few for one.
    """

    family: str
    labels: int
    leniency: float
    half_width: float | None


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """One judge; everything is in fractions."""

    judge: str
    report: JudgeReport
    by_family: tuple[FamilyLeniency, ...]


@dataclass(frozen=True, slots=True)
class JudgeDrift:
    """Difference of a judge's verdicts from those that the gold set records of it, on the same ``answers``.

    ``more_yes``, ``fewer_yes``: answers to which it says yes now and did not, and the other way round; ``more_right``,
    ``fewer_right``: answers on which it agrees with people now and did not, and the other way round; ``p_value``: of
    McNemar's exact test that neither more nor fewer yes is likelier; ``detectable``: the shift (a fraction) that so
    many answers show with a chance of 80 %.
    """

    judge: str
    answers: int
    more_yes: int
    fewer_yes: int
    more_right: int
    fewer_right: int
    p_value: float
    detectable: float


@dataclass(frozen=True, slots=True)
class JuryMistake:
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
class Diagnosis:
    """Everything about a jury on one metric.

    ``ability_slope``: how much more the same vote means for a better model (log odds of a person's yes per log odds of
    accuracy; 0: as much for all), with its interval; None without labels. ``drift``: of the judges that judged labelled
    answers again.
    """

    metric: str
    level: float
    judges: tuple[JudgeFinding, ...]
    jury: JuryReport
    agreement: Agreement
    bins: tuple[BinCalibration, ...]
    mistakes: tuple[JuryMistake, ...]
    ability_slope: tuple[float, float, float] | None
    drift: tuple[JudgeDrift, ...] = ()
    jury_by_family: tuple[JuryFamilyLeniency, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Arrays:
    """Verdicts [R, J] and people's words [R]: 1, 0, -1 for none; row r is row r of ``answers``."""

    answers: pl.DataFrame
    judges: tuple[str, ...]
    families: tuple[str, ...]
    verdicts: Ints
    human: Ints
    family: Ints
    item: Ints

    @property
    def yes(self) -> Ints:
        return np.asarray((self.verdicts == 1).sum(axis=1), dtype=np.int64)

    @property
    def total(self) -> Ints:
        return np.asarray((self.verdicts >= 0).sum(axis=1), dtype=np.int64)


def diagnose(
    judged: pl.DataFrame,
    votes: pl.DataFrame,
    labels: pl.DataFrame,
    rules: ScoringRules,
    drift: Sequence[JudgeDrift] = (),
) -> Diagnosis:
    """Examine every judge that gave a verdict. ``judged``: the frame of verdicts; ``drift``: of judges that were asked
    once more about labelled answers, else it is what verdicts tell that were recorded before."""
    answers = judged.sort(PREDICTION, maintain_order=True).with_row_index("row")
    verdicts = answers.select("row", "human", "verdicts").explode("verdicts").unnest("verdicts").drop_nulls("verdict")
    arrays = _arrays(answers, verdicts)
    counted = None if votes.is_empty() else count_votes(votes, labels)
    law = None if counted is None else VotePosterior(counted, rules)
    return Diagnosis(
        metric=rules.metric,
        level=rules.level,
        judges=_judges(arrays, rules),
        jury=jury_report(arrays.yes, arrays.total, arrays.human),
        agreement=agreement(arrays.yes, arrays.total),
        bins=calibration(arrays.yes, arrays.total, arrays.human, level=rules.level),
        mistakes=_mistakes(arrays),
        ability_slope=law.slope if law and labels.height else None,
        drift=tuple(drift) or tuple(drift_of(verdicts.drop_nulls("recorded"), rules.level)),
        jury_by_family=tuple(_jury_by_family(arrays, rules.level)),
    )


def has_verdicts(judged: pl.DataFrame) -> bool:
    """Tell whether any judge gave a verdict on an answer."""
    return bool(judged["verdicts"].explode().struct.field("verdict").is_not_null().any())


def drift_of(pairs: pl.DataFrame, level: float) -> Iterator[JudgeDrift]:
    """Yield the drift of each judge on answers with the verdict ``recorded`` before, the ``verdict`` now and people's
    word, ``human``."""
    before, now = pl.col("recorded"), pl.col("verdict")
    is_right, was_right = now == pl.col("human"), before == pl.col("human")
    counts = pairs.group_by("judge").agg(
        pl.len(),
        more=(now & ~before).sum(),
        fewer=(before & ~now).sum(),
        more_right=(is_right & ~was_right).sum(),
        fewer_right=(was_right & ~is_right).sum(),
    )
    for judge, answers, more, fewer, more_right, fewer_right in counts.sort("judge").iter_rows():
        changed = (more + fewer + 1) / (answers + 2)  # a judge that changed nothing yet may
        least = min(detectable(math.sqrt(changed / answers), level), 1.0)
        p_value = exact_sign_test(more, fewer)
        yield JudgeDrift(judge, answers, more, fewer, more_right, fewer_right, p_value, least)


def is_drift(drift: Sequence[JudgeDrift]) -> bool:
    """Return whether the judges together judge labelled answers otherwise than before, by McNemar's exact tests: of
    more or fewer yes, and of more or fewer that agree with people.

    A false warning widens intervals and costs little, so the level is ``DRIFT_LEVEL``.
    """
    more, fewer = sum(judge.more_yes for judge in drift), sum(judge.fewer_yes for judge in drift)
    better, worse = sum(judge.more_right for judge in drift), sum(judge.fewer_right for judge in drift)
    return 2 * min(exact_sign_test(more, fewer), exact_sign_test(better, worse)) <= DRIFT_LEVEL


def _arrays(answers: pl.DataFrame, verdicts: pl.DataFrame) -> _Arrays:
    judges, families = (sorted(names.unique()) for names in (verdicts["judge"], answers["family"]))
    items = answers["item_id"].unique().sort()
    given = np.full((answers.height, len(judges)), -1, dtype=np.int64)
    given[verdicts["row"], _codes(verdicts["judge"], judges)] = verdicts["verdict"].cast(pl.Int64)
    return _Arrays(
        answers=answers,
        judges=tuple(judges),
        families=tuple(families),
        verdicts=given,
        human=answers["human"].cast(pl.Int64).fill_null(-1).to_numpy(),
        family=_codes(answers["family"], families),
        item=_codes(answers["item_id"], items),
    )


def _codes(names: pl.Series, order: Sequence[str] | pl.Series) -> Ints:
    return names.cast(pl.Enum(order)).to_physical().cast(pl.Int64).to_numpy()


def _judges(arrays: _Arrays, rules: ScoringRules) -> tuple[JudgeFinding, ...]:
    reports = judge_reports(arrays.verdicts, arrays.human, level=rules.level)
    groups = leniency_by_group(arrays.verdicts, arrays.human, arrays.family)
    return tuple(
        JudgeFinding(
            judge=name,
            report=reports[i],
            by_family=tuple(_family_leniency(arrays, estimate) for estimate in groups if estimate.judge == i),
        )
        for i, name in enumerate(arrays.judges)
    )


def _family_leniency(arrays: _Arrays, leniency: Leniency) -> FamilyLeniency:
    return FamilyLeniency(arrays.families[leniency.group], leniency.count, leniency.mean, leniency.standard_error)


def _jury_by_family(arrays: _Arrays, level: float) -> Iterator[JuryFamilyLeniency]:
    groups = jury_leniency(arrays.yes, arrays.total, arrays.human, arrays.family, arrays.item, level=level)
    for group in groups:
        yield JuryFamilyLeniency(arrays.families[group.group], group.count, group.mean, group.half_width)


def _mistakes(arrays: _Arrays) -> tuple[JuryMistake, ...]:
    mistakes = []
    for error in jury_errors(arrays.yes, arrays.total, arrays.human):
        model, provider, n_hints, item_id, *_ = arrays.answers.select(PREDICTION).row(error.row)
        given = zip(arrays.judges, arrays.verdicts[error.row].tolist(), strict=True)
        wrong = tuple(name for name, verdict in given if verdict not in (-1, error.label))
        mistakes.append(
            JuryMistake(
                item_id, model, provider, n_hints, error.yes, error.total, bool(error.label), error.contested, wrong
            )
        )
    return tuple(mistakes)
