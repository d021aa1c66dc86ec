"""How good the judges are: each against people, the jury as a whole, what it gets wrong, and what labels are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.audit import picked_labels
from layton_batch.scoring.counting import CountedVotes, count_votes
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.law import VotePosterior
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.distributions import exact_sign_test, two_sided_quantile
from layton_batch.stats.joint import detectable
from layton_batch.stats.judges import (
    BinCalibration,
    JudgeReport,
    JuryReport,
    Leniency,
    PreferenceEstimate,
    calibration,
    effective_sizes,
    judge_reports,
    jury_errors,
    jury_leniency,
    jury_report,
    leniency_by_group,
    self_preference,
)
from layton_batch.stats.planning import expected_variance
from layton_batch.stats.posterior import new_items_moments, posterior_mean
from layton_batch.stats.raters import Agreement, agreement
from layton_batch.stats.strata import Ints
from layton_batch.stats.surveys import Audit, SampledLabels, audit_scores
from layton_batch.text import did_you_mean


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
class SelfPreference:
    """Excess leniency (a fraction) of a judge for its own family's models; ``reason``: why there is no estimate."""

    family: str | None
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
    by_family: tuple[FamilyLeniency, ...]
    self_preference: tuple[SelfPreference, ...]


@dataclass(frozen=True, slots=True)
class JudgeDrift:
    """Difference of a judge's verdicts from those that the gold set records of it, on the same ``answers``.

    ``more_yes``, ``fewer_yes``: answers to which it says yes now and did not, and the other way round; ``p_value``: of
    McNemar's exact test that neither is likelier; ``detectable``: the shift (a fraction) that so many answers show with
    a chance of 80 %.
    """

    judge: str
    answers: int
    more_yes: int
    fewer_yes: int
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
class JuryGain:
    """Value that the jury adds to one model's labels.

    ``effective_labels``: the number of simple random labels that give the same interval; ``gain``: effective per own
    label. ``score``: corrected, a fraction. ``human_only``: the share of right answers by the model's own labels, and
    its half width. Labels picked by `label-plan` represent all answers if every vote has them. Otherwise all labels
    count as picked at random.
    """

    model: str
    provider: str
    n_hints: int
    own_labels: int
    effective_labels: float
    effective_labels_new: float
    gain: float | None
    gain_new: float | None
    score: float
    human_only: float | None
    human_only_half_width: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything about a jury on one metric.

    ``ability_slope``: how much more the same vote means for a better model (log odds of a person's yes per log odds of
    accuracy; 0: as much for all), with its interval; None without labels. ``drift``: of the judges that judged labelled
    answers again. ``audit``: of the corrected scores by labels that `label-plan` picked; None where there are none at
    every vote of some model.
    """

    metric: str
    level: float
    judges: tuple[JudgeFinding, ...]
    jury: JuryReport
    agreement: Agreement
    bins: tuple[BinCalibration, ...]
    mistakes: tuple[JuryMistake, ...]
    models: tuple[JuryGain, ...]
    ability_slope: tuple[float, float, float] | None
    drift: tuple[JudgeDrift, ...] = ()
    audit: Audit | None = None
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
    judge_families: Mapping[str, str],
    rules: ScoringRules,
) -> Diagnosis:
    """Examine every judge that gave a verdict. ``judged``: the frame of verdicts; ``judge_families``: the family of
    each judge, as far as that is known.
    """
    answers = judged.sort(PREDICTION, maintain_order=True).with_row_index("row")
    verdicts = answers.select("row", "verdicts").explode("verdicts").unnest("verdicts").drop_nulls("verdict")
    arrays = _arrays(answers, verdicts)
    counted = None if votes.is_empty() else count_votes(votes, labels)
    law = None if counted is None else VotePosterior(counted, rules)
    worths, audit = _label_worths(law) if law else ((), None)
    return Diagnosis(
        metric=rules.metric,
        level=rules.level,
        judges=_judges(arrays, judge_families, rules),
        jury=jury_report(arrays.yes, arrays.total, arrays.human),
        agreement=agreement(arrays.yes, arrays.total),
        bins=calibration(arrays.yes, arrays.total, arrays.human, level=rules.level),
        mistakes=_mistakes(arrays),
        models=worths,
        ability_slope=law.slope if law and labels.height else None,
        drift=tuple(_drift(verdicts.drop_nulls("recorded"), rules.level)),
        audit=audit,
        jury_by_family=tuple(_jury_by_family(arrays, rules.level)),
    )


def check_families(judged: pl.DataFrame, families: Mapping[str, str]) -> None:
    """Raise DataError where a person names the family of a judge that these verdicts do not have."""
    verdicts = judged["verdicts"].explode().struct.unnest().drop_nulls("verdict")
    judges = sorted(verdicts["judge"].unique())
    for name in families:
        if name not in judges:
            reason = f"no judge is called {name!r}; the judges are {', '.join(judges)}{did_you_mean(name, judges)}"
            raise DataError(f"--judge-family: {reason}")


def has_verdicts(judged: pl.DataFrame) -> bool:
    """Tell whether any judge gave a verdict on an answer."""
    return bool(judged["verdicts"].explode().struct.field("verdict").is_not_null().any())


def _drift(pairs: pl.DataFrame, level: float) -> Iterator[JudgeDrift]:
    """The drift of each judge, on the answers that it judged before and now."""
    before, now = pl.col("recorded"), pl.col("verdict")
    counts = pairs.group_by("judge").agg(pl.len(), more=(now & ~before).sum(), fewer=(before & ~now).sum())
    for judge, answers, more, fewer in counts.sort("judge").iter_rows():
        changed = (more + fewer + 1) / (answers + 2)  # a judge that changed nothing yet may
        least = min(detectable(math.sqrt(changed / answers), level), 1.0)
        yield JudgeDrift(judge, answers, more, fewer, exact_sign_test(more, fewer), least)


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


def _judges(arrays: _Arrays, judge_families: Mapping[str, str], rules: ScoringRules) -> tuple[JudgeFinding, ...]:
    reports = judge_reports(arrays.verdicts, arrays.human, level=rules.level)
    groups = leniency_by_group(arrays.verdicts, arrays.human, arrays.family)
    place = {family: i for i, family in enumerate(arrays.families)}
    own = np.array([place.get(judge_families.get(name, ""), -1) for name in arrays.judges], dtype=np.int64)
    preferences = self_preference(arrays.verdicts, arrays.human, own, arrays.family, arrays.item, seed=rules.seed)
    return tuple(
        JudgeFinding(
            judge=name,
            report=reports[i],
            by_family=tuple(_family_leniency(arrays, estimate) for estimate in groups if estimate.judge == i),
            self_preference=tuple(
                _preference(arrays, estimate, judge_families) for estimate in preferences if estimate.judge == i
            ),
        )
        for i, name in enumerate(arrays.judges)
    )


def _family_leniency(arrays: _Arrays, leniency: Leniency) -> FamilyLeniency:
    return FamilyLeniency(arrays.families[leniency.group], leniency.count, leniency.mean, leniency.standard_error)


def _jury_by_family(arrays: _Arrays, level: float) -> Iterator[JuryFamilyLeniency]:
    groups = jury_leniency(arrays.yes, arrays.total, arrays.human, arrays.family, arrays.item, level=level)
    for group in groups:
        yield JuryFamilyLeniency(arrays.families[group.group], group.count, group.mean, group.half_width)


def _preference(arrays: _Arrays, preference: PreferenceEstimate, judge_families: Mapping[str, str]) -> SelfPreference:
    family = judge_families.get(arrays.judges[preference.judge])
    reason = preference.reason if family is not None else _unknown_family(arrays, preference.judge)
    return SelfPreference(
        family,
        preference.against,
        preference.estimate,
        preference.standard_error,
        preference.own,
        preference.other,
        reason,
    )


def _unknown_family(arrays: _Arrays, judge: int) -> str:
    given = arrays.verdicts[:, judge] >= 0
    never = [name for i, name in enumerate(arrays.families) if not given[arrays.family == i].any()]
    if never:
        return f"not identifiable if its family is {' or '.join(never)}: it judged none of their answers"
    return "the judge's family is not known: give --judge-family JUDGE=FAMILY"


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


def _label_worths(law: VotePosterior) -> tuple[tuple[JuryGain, ...], Audit | None]:
    """Return what the labels of every model are worth, and the audit of the scores by those that a plan picked."""
    counted, post, rules = law.counted, law.posterior, law.rules
    strata = counted.strata
    _, new_variance = new_items_moments(strata.n, strata.known_zeros, post.alpha, post.beta)
    score = posterior_mean(strata, post)
    here, new = effective_sizes(score, expected_variance(strata, post), new_variance, strata.items)
    own = strata.own_labels.sum(axis=1).tolist()
    picks = picked_labels(counted)
    labels_alone = _labels_alone(counted, picks, rules.level)
    worths = tuple(
        JuryGain(
            entrant.model, entrant.provider, entrant.n_hints, own[i], float(here[i]), float(new[i]),
            float(here[i]) / own[i] if own[i] else None, float(new[i]) / own[i] if own[i] else None,
            float(score[i]), *alone,
        )
        for i, (entrant, alone) in enumerate(zip(counted.entrants, labels_alone, strict=True))
    )  # fmt: skip
    # the share of labels that are yes is not the score where labels can be wrong
    auditable = picks.covered.any() and not rules.label_error
    if not auditable:
        return worths, None
    rates = post.alpha / (post.alpha + post.beta)
    return worths, audit_scores(picks, law.draws()[0].theta, rates, level=rules.level)


def _labels_alone(
    counted: CountedVotes, picks: SampledLabels, level: float
) -> list[tuple[float, float] | tuple[None, None]]:
    """Share of right answers and half width of every model by its own labels alone, None without any."""
    strata, z = counted.strata, two_sided_quantile(level)
    judged = (strata.n.sum(axis=1) / np.maximum(strata.items, 1)).tolist()
    labels, yes = strata.own_labels.sum(axis=1).tolist(), strata.own_positives.sum(axis=1).tolist()
    by_plan = zip(picks.covered.tolist(), picks.shares().tolist(), picks.variance(picks.rates).tolist(), strict=True)
    alone: list[tuple[float, float] | tuple[None, None]] = []
    for i, (covered, share, variance) in enumerate(by_plan):
        if covered:
            alone.append((share, z * math.sqrt(variance)))
        elif labels[i]:
            rate = (yes[i] + 0.5) / (labels[i] + 1)
            unlabelled_share = max(1 - labels[i] / strata.n[i].sum(), 0.0)
            error = math.sqrt(rate * (1 - rate) / (labels[i] + 1) * unlabelled_share)
            alone.append((judged[i] * yes[i] / labels[i], judged[i] * z * error))
        else:
            alone.append((None, None))
    return alone
