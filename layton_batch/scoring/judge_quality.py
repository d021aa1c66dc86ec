"""Quality of the judges: each against people, the jury as a whole, what it gets wrong, and to whom it is lenient; and
agreement of the people who label with each other.

Fractions throughout; leniency is verdict minus label, so +0.02 is two points too kind.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.scoring.annotations import JoinedLabels, majority
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.verdict_counts import VerdictCounts
from layton_batch.stats.distributions import exact_sign_test, jeffreys_interval, two_sided_t_quantile
from layton_batch.stats.ranks import detectable
from layton_batch.stats.raters import Agreement, Kappa, agreement, cohen_kappa, kappa

DRIFT_LEVEL = 0.1
"""The p-value up to which a board says that its judges drifted."""
LEAST_ITEMS = 5
"""Labelled items behind an interval of a jury's leniency."""


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """One judge against people on `labels` answers: the four counts, accuracy with Jeffreys' interval, Cohen's kappa.

    None where a quantity is undefined: no labels at all, or none of one kind for a sensitivity or specificity.
    """

    labels: int
    true_positives: int
    true_negatives: int
    false_positives: int
    false_negatives: int
    accuracy: float | None
    lower: float | None
    upper: float | None
    kappa: float | None
    sensitivity: float | None
    specificity: float | None
    leniency: float | None


@dataclass(frozen=True, slots=True)
class FamilyLeniency:
    """Verdict minus human label (mean) over ``labels`` answers of one family's models."""

    family: str
    labels: int
    leniency: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class JuryFamilyLeniency:
    """Vote of the jury minus human label (mean) over ``labels`` answers of one family's models.

    ``half_width``: of an interval that holds for all families at once; None where labels are too few for one.
    """

    family: str
    labels: int
    leniency: float
    half_width: float | None


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """One judge, also by the family of the models that it judged."""

    judge: str
    report: JudgeReport
    by_family: tuple[FamilyLeniency, ...]


@dataclass(frozen=True, slots=True)
class JuryReport:
    """The jury's vote against people: majority accuracy and kappa, and `bias`, the mean vote minus the mean label.

    A majority is more than half; an even split is no majority and counts as no.
    """

    labels: int
    majority_accuracy: float | None
    majority_kappa: float | None
    bias: float | None


@dataclass(frozen=True, slots=True)
class BinCalibration:
    """Labels and positives among answers of one vote, and Jeffreys' interval for their rate."""

    yes: int
    total: int
    labels: int
    positives: int
    lower: float
    upper: float


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
    """A prediction whose majority a person contradicts; ``wrong_judges`` voted with the majority; ``contested``: the
    jury was split."""

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


def diagnose(judged: pl.DataFrame, board: JuryBoard, drift: Sequence[JudgeDrift] = ()) -> Diagnosis:
    """Examine every judge that gave a verdict on the answers of a board. ``judged``: the frame of verdicts; ``drift``:
    of judges that were asked once more about labelled answers, else it is what verdicts tell that were recorded
    before."""
    answers = judged.sort(PREDICTION, maintain_order=True).with_row_index("row")
    verdicts = answers.select("row", "human", "family", "verdicts").explode("verdicts").unnest("verdicts")
    verdicts = verdicts.drop_nulls("verdict")
    counts = verdicts.group_by("row").agg(yes=pl.col("verdict").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    answers = answers.join(counts, on="row", how="left", maintain_order="left")
    answers = answers.with_columns(pl.col("yes", "total").fill_null(0))
    labelled = answers.drop_nulls("human")
    rules = board.rules
    return Diagnosis(
        metric=rules.metric,
        level=rules.level,
        judges=tuple(_finding(judge, verdicts, rules.level) for judge in sorted(verdicts["judge"].unique())),
        jury=_jury_report(labelled.filter(pl.col("total") > 0)),
        agreement=agreement(answers["yes"].to_numpy(), answers["total"].to_numpy()),
        bins=_calibration(labelled, rules.level),
        mistakes=_mistakes(labelled),
        ability_slope=board.slope if board.votes.height and board.labels.height else None,
        drift=tuple(drift) or tuple(drift_of(verdicts.drop_nulls("recorded"), rules.level)),
        jury_by_family=tuple(_jury_by_family(labelled.filter(pl.col("total") > 0), rules.level)),
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


def _finding(judge: str, verdicts: pl.DataFrame, level: float) -> JudgeFinding:
    given = verdicts.filter(judge=judge).drop_nulls("human")
    verdict, label = (given[name].cast(pl.Int64).to_numpy() for name in ("verdict", "human"))
    tn, fn, fp, tp = np.bincount(2 * verdict + label, minlength=4).tolist()
    lower, upper = jeffreys_interval(tp + tn, given.height, level)
    report = JudgeReport(
        labels=given.height,
        true_positives=tp,
        true_negatives=tn,
        false_positives=fp,
        false_negatives=fn,
        accuracy=_ratio(tp + tn, given.height),
        lower=lower if given.height else None,
        upper=upper if given.height else None,
        kappa=cohen_kappa(verdict, label),
        sensitivity=_ratio(tp, tp + fn),
        specificity=_ratio(tn, tn + fp),
        leniency=_ratio(fp - fn, given.height),
    )
    by_family = given.select("family", gap=pl.col("verdict").cast(pl.Float64) - pl.col("human").cast(pl.Float64))
    return JudgeFinding(judge, report, tuple(_leniency_by_family(by_family)))


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _leniency_by_family(gaps: pl.DataFrame) -> Iterator[FamilyLeniency]:
    """Yield the leniency towards each family; equal gaps count as if one of them differed by 1."""
    for (family,), part in gaps.sort("family", maintain_order=True).group_by("family", maintain_order=True):
        gap, error = part["gap"].to_numpy(), None
        if len(gap) > 1:
            root = math.sqrt(len(gap))
            error = (float(gap.std(ddof=1)) or 1 / root) / root
        yield FamilyLeniency(str(family), len(gap), float(gap.mean()), error)


def _jury_report(labelled: pl.DataFrame) -> JuryReport:
    """Compare the votes of answers with a verdict and a label."""
    if labelled.is_empty():
        return JuryReport(0, None, None, None)
    yes, total, label = (labelled[name].cast(pl.Int64).to_numpy() for name in ("yes", "total", "human"))
    majority = (2 * yes > total).astype(np.int64)
    return JuryReport(
        labels=len(label),
        majority_accuracy=float((majority == label).mean()),
        majority_kappa=cohen_kappa(majority, label),
        bias=float((yes / total - label).mean()),
    )


def _calibration(labelled: pl.DataFrame, level: float) -> tuple[BinCalibration, ...]:
    """Return the rate of positive labels at every vote that has one, by rising share and then by verdicts: one judge's
    yes is not three judges'. (0, 0), no verdict, comes last."""
    share = pl.when(pl.col("total") > 0).then(pl.col("yes") / pl.col("total")).otherwise(2.0)
    votes = labelled.group_by("yes", "total").agg(labels=pl.len(), positives=pl.col("human").sum())
    rows = votes.sort(share, "total").iter_rows()
    return tuple(
        BinCalibration(yes, total, labels, positives, *jeffreys_interval(positives, labels, level))
        for yes, total, labels, positives in rows
    )


def _mistakes(labelled: pl.DataFrame) -> tuple[JuryMistake, ...]:
    """Return every labelled answer that the majority gets wrong, the unanimous ones (the worrying kind) first."""
    yes, total = pl.col("yes"), pl.col("total")
    wrong = labelled.filter(total > 0, (2 * yes > total) != pl.col("human"))
    wrong = wrong.with_columns(contested=(yes > 0) & (yes < total)).sort("contested", "row", maintain_order=True)
    names = [field.name for field in fields(JuryMistake)][:-1]
    return tuple(
        JuryMistake(
            **{name: row[name] for name in names},
            wrong_judges=tuple(sorted(given["judge"] for given in row["verdicts"] if given["verdict"] != row["human"])),
        )
        for row in wrong.iter_rows(named=True)
    )


def _jury_by_family(labelled: pl.DataFrame, level: float) -> Iterator[JuryFamilyLeniency]:
    """Yield vote minus label for every family with labelled votes.

    Answers to one item stand or fall together, so an error is one over items.
    """
    gap = pl.col("yes") / pl.col("total") - pl.col("human").cast(pl.Int64)
    answers = labelled.select("family", "item_id", gap=gap).sort("family", maintain_order=True)
    each = 1 - (1 - level) / max(answers["family"].n_unique(), 1)
    for (family,), part in answers.group_by("family", maintain_order=True):
        gaps = part["gap"].to_numpy()
        _, place = np.unique(part["item_id"].to_numpy(), return_inverse=True)
        sums, half = np.bincount(place, weights=gaps - gaps.mean()), None
        if len(sums) >= LEAST_ITEMS:
            spread = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) or 1.0  # as if one of them differed
            half = two_sided_t_quantile(each, len(sums) - 1) * spread / len(gaps)
        yield JuryFamilyLeniency(str(family), len(gaps), float(gaps.mean()), half)


# ---- people ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """``labels``: by annotator; ``several``: answers with two labels or more; ``ties``: those of them without a
    majority, which nobody settled; ``kappa``: None where no answer has two labels."""

    labels: dict[str, int]
    several: int
    ties: int
    level: float
    kappa: Kappa | None

    def without_names(self) -> AnnotatorAgreement:
        """Return the agreement with numbers instead of the annotators' names, most labels first."""
        counts = sorted(self.labels.values(), reverse=True)
        return replace(self, labels={f"person {number}:": count for number, count in enumerate(counts, 1)})


def annotator_agreement(joined: JoinedLabels, metric: str, level: float) -> AnnotatorAgreement | None:
    """Measure how far the annotators of a run's answers agree; None without annotations on this metric.

    Annotators without a name count as one annotator. Adjudicated labels are left out.
    """
    given = [
        (
            {
                annotation.annotator: mark
                for annotation in people.values()
                if not annotation.adjudicated and (mark := annotation.mark(metric)) is not None
            },
            any(annotation.adjudicated for annotation in people.values()),
        )
        for people in joined.by_prediction.values()
    ]
    counts = Counter(name for marks, _ in given for name in marks)
    if not counts:
        return None
    names = sorted(counts)
    ratings = np.array([[int(marks.get(name, -1)) for name in names] for marks, _ in given], dtype=np.int64)
    several = [(marks, is_settled) for marks, is_settled in given if len(marks) > 1]
    return AnnotatorAgreement(
        labels={name: counts[name] for name in names},
        several=len(several),
        ties=sum(majority([*marks.values()]) is None and not is_settled for marks, is_settled in several),
        level=level,
        kappa=kappa(ratings, level=level),
    )


# ---- beside the board, for its pages ---------------------------------------------------------------------------------


TABLE = "judges"


@dataclass(frozen=True, slots=True)
class DiagnosisRecord:
    """Diagnosis of the jury, agreement of the people who labelled, where they are named, and how verdicts ended."""

    diagnosis: Diagnosis
    annotators: AnnotatorAgreement | None
    verdicts: tuple[VerdictCounts, ...] = ()


def write_record(path: Path, record: DiagnosisRecord | None) -> None:
    """Write the table of one record, or of none where nobody judged."""
    # json, not orjson: what is not a number stays one that can be told from nothing
    rows = [] if record is None else [{"document": json.dumps(asdict(record), ensure_ascii=True)}]
    tables.write(path, tables.frame(TABLE, rows))


def read_record(folder: Path) -> DiagnosisRecord | None:
    """Read the record from a run's tables; None where there is none yet. Raises DamagedTableError."""
    rows = tables.read(folder, TABLE, ("document",))
    if rows.is_empty():
        return None
    try:
        return _form().validate_json(rows.item(0, 0))
    except ValidationError as error:
        path = folder / TABLE
        raise DamagedTableError(f"{path} holds no record of judges: move it away, and the next board makes it", path) \
            from error  # fmt: skip


@cache
def _form() -> TypeAdapter[DiagnosisRecord]:
    return TypeAdapter(DiagnosisRecord)
