"""Findings on judges, in sections of tables and sentences: a terminal and a page show the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layton_batch.columns import Table, Texts, text_table
from layton_batch.makers import maker_name
from layton_batch.scoring.judge_quality import (
    AnnotatorAgreement,
    Diagnosis,
    JudgeDrift,
    JudgeFinding,
    JuryFamilyLeniency,
)
from layton_batch.scoring.verdict_counts import VerdictCounts
from layton_batch.text import NONE, number_text, one_line, percent, plural, range_text

TEXT_COLUMNS = ("", "judge", "model", "answers by", "vote", "item", "wrong judges")
"""Columns that hold words; the others hold figures."""


@dataclass(frozen=True, slots=True)
class JudgeNote:
    """A sentence; ``is_help``: it explains a column; ``about``: the judge or the model of whom it is said."""

    text: str
    is_help: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """``key``: a name that stays when the words change."""

    key: str
    title: str
    parts: tuple[Table[Texts] | JudgeNote, ...]


def diagnosis_told(diagnosis: Diagnosis) -> list[Section]:
    """Describe judges, jury, bins and models, as far as there is something to say. ``mistakes_told`` describes the
    jury's mistakes."""
    return [
        _in_short(diagnosis),
        _judges(diagnosis),
        *_drift(diagnosis),
        *_by_family(diagnosis),
        _jury(diagnosis),
    ]


def verdicts_told(counts: Sequence[VerdictCounts]) -> list[Section]:
    """Show how each judge's verdicts ended, where some of them are lacking."""
    if not any(judge.lacking for judge in counts):
        return []
    names = ("asked", "readable", "unreadable", "cut", "refused", "missing")
    rows = tuple((one_line(judge.judge), *(f"{getattr(judge, name):,}" for name in names)) for judge in counts)
    reasons = (JudgeNote(one_line(judge.reason), about=judge.judge) for judge in counts if judge.reason)
    return [Section("verdicts", "Verdicts that count", (_table(("judge", *names), rows), *reasons))]


def _in_short(diagnosis: Diagnosis) -> Section:
    """Say in sentences what the tables show: agreement, whom the jury favours, and how the judges differ."""
    jury = diagnosis.jury
    if jury.majority_accuracy is None or jury.bias is None:
        nothing = JudgeNote("No answer has a label: nobody can tell how often the jury is right.")
        return Section("short", "In short", (nothing,))
    agreed = f"{100 * jury.majority_accuracy:.0f} % of {plural(jury.labels, 'labelled answer')}"
    sentences = [
        f"The majority of the jury agrees with people on {agreed}.",
        f"The mean vote, in which every judge counts, is {_against_labels(jury.bias)} on these answers.",
        *_families(diagnosis.jury_by_family, diagnosis.level),
    ]
    leniencies = ((finding.judge, finding.report.leniency) for finding in diagnosis.judges)
    kindness = {judge: leniency for judge, leniency in leniencies if leniency is not None}
    if len(set(map(_points, kindness.values()))) > 1:
        strictest, *_, kindest = sorted(kindness, key=lambda judge: kindness[judge])
        sentences.append(
            f"Of the judges, {one_line(kindest)} says yes most readily ({_points(kindness[kindest])} points against "
            f"people), {one_line(strictest)} least ({_points(kindness[strictest])})."
        )
    return Section("short", "In short", tuple(JudgeNote(sentence) for sentence in sentences))


def _against_labels(leniency: float) -> str:
    points = f"{100 * abs(leniency):.1f}"
    if points == "0.0":
        return "as high as people’s labels"
    return f"{points} points {'above' if leniency > 0 else 'below'} people’s labels"


def _families(families: Sequence[JuryFamilyLeniency], level: float) -> Iterator[str]:
    """Yield a sentence for each family for whose models the mean vote errs for certain, and one for the others."""
    certain, unclear, few = [], [], []
    for family in families:
        name = _maker(family.family)
        if family.half_width is None:
            few.append(name)
        elif abs(family.leniency) <= family.half_width:
            unclear.append(name)
        else:
            certain.append((family, family.half_width))
    for family, half_width in sorted(certain, key=lambda pair: -abs(pair[0].leniency)):
        yield (
            f"For {_maker(family.family)}’s models the mean vote is {_against_labels(family.leniency)} "
            f"(± {100 * half_width:.1f}, {plural(family.labels, 'label')})."
        )
    if unclear:
        names = _listed(unclear)
        yield f"For the models of {names} no such difference is certain, at {percent(level)} for all makers at once."
    if few:
        yield f"For the models of {_listed(few)} there are too few labels to tell."


def _maker(family: str) -> str:
    return one_line(maker_name(family)) or "an unnamed maker"


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


def _judges(diagnosis: Diagnosis) -> Section:
    heads = ("judge", "labels", "accuracy", f"{percent(diagnosis.level)} CI", "kappa", "leniency")
    labels = plural(diagnosis.jury.labels, "labelled answer")
    parts: tuple[Table[Texts] | JudgeNote, ...] = (
        _table(heads, tuple(_judge_line(judge) for judge in diagnosis.judges)),
        JudgeNote("leniency: verdict minus human label, in points; above 0 the judge is too lenient", True),
    )
    if not diagnosis.jury.labels:
        parts = (JudgeNote(_NO_LABELS),)
    return Section("judges", f"Judges against human labels · {diagnosis.metric.replace('_', ' ')} · {labels}", parts)


_NO_LABELS = (
    "no judged answer has a person's label, so nobody knows how often the judges are right: `layton-batch label plan` "
    "says which answers to label first"
)


def _judge_line(finding: JudgeFinding) -> tuple[str, ...]:
    report = finding.report
    accuracy, kappa = number_text(report.accuracy, 3), number_text(report.kappa, 3)
    interval = range_text(report.lower, report.upper, 3)
    return finding.judge, str(report.labels), accuracy, interval, kappa, _points(report.leniency)


def _drift(diagnosis: Diagnosis) -> list[Section]:
    """Say whether judges still judge as they did when the labels were given."""
    remarks = tuple(JudgeNote(_drift_words(drift, 1 - diagnosis.level), about=drift.judge) for drift in diagnosis.drift)
    return [Section("drift", "Do judges judge as they did?", remarks)] if remarks else []


def _drift_words(drift: JudgeDrift, error: float) -> str:
    answers = plural(drift.answers, "answer")
    changes = f"{drift.more_yes} more and {drift.fewer_yes} fewer"
    moved = f"of {answers} that it judged before, it says yes to {changes}"
    if drift.p_value <= error:
        return f"{moved} (p {drift.p_value:.3f}): its votes may not mean what they did when people labelled"
    return f"{moved}: no drift; one of ±{100 * drift.detectable:.0f} points would be seen with a chance of 80 %"


def _by_family(diagnosis: Diagnosis) -> list[Section]:
    """Compare the jury's and each judge's verdicts with the labels: a row a maker, a column a judge."""
    families = dict.fromkeys(group.family for finding in diagnosis.judges for group in finding.by_family)
    jury = {family.family: (str(family.labels), _points(family.leniency)) for family in diagnosis.jury_by_family}
    cells = {
        (finding.judge, group.family): f"{_points(group.leniency)} {_plus_minus(group.standard_error)}"
        for finding in diagnosis.judges
        for group in finding.by_family
    }
    judges = [finding.judge for finding in diagnosis.judges if finding.by_family]
    rows = tuple(
        (_maker(family), *jury.get(family, (NONE, NONE)), *(cells.get((judge, family), NONE) for judge in judges))
        for family in sorted(families, key=lambda family: maker_name(family).lower())
    )
    if not rows:
        return []
    table = _table(("answers by", "labels", "the jury", *judges), rows)
    explained = JudgeNote("verdict minus human label, in points, ± its standard error", True)
    return [Section("families", "Leniency by the maker that was judged", (table, explained))]


def _jury(diagnosis: Diagnosis) -> Section:
    jury, agree = diagnosis.jury, diagnosis.agreement
    right, kappa = number_text(jury.majority_accuracy, 3), number_text(jury.majority_kappa, 3)
    unanimous, fleiss = number_text(agree.unanimous, 3), number_text(agree.fleiss_kappa, 3)
    alpha = number_text(agree.krippendorff_alpha, 3)
    rows = tuple(
        (_vote(vote.yes, vote.total), str(vote.labels), str(vote.positives), f"{vote.positives / vote.labels:.3f}",
         range_text(vote.lower, vote.upper, 3))
        for vote in diagnosis.bins
    )  # fmt: skip
    between = f"between judges, {plural(agree.items, 'answer')}: unanimous {unanimous}, Fleiss kappa {fleiss}, "
    against_people = (
        JudgeNote(f"majority against human labels: accuracy {right}, kappa {kappa}"),
        JudgeNote(f"mean vote minus human labels: {_points(jury.bias)} points"),
    )
    remarks = (*(against_people if jury.labels else ()), JudgeNote(f"{between}Krippendorff alpha {alpha}"))
    table = _table(("vote", "labels", "correct", "rate", f"{percent(diagnosis.level)} CI"), rows)
    return Section("jury", "The jury", (*remarks, table, *_slope(diagnosis)))


def _vote(yes: int, total: int) -> str:
    return "unjudged" if total == 0 else f"{yes} of {total}"


def _slope(diagnosis: Diagnosis) -> tuple[JudgeNote, ...]:
    if diagnosis.ability_slope is None:
        return ()
    mean, lower, upper = diagnosis.ability_slope
    return (
        JudgeNote(f"ability slope: {mean:+.2f} ({percent(diagnosis.level)} CI {lower:+.2f} to {upper:+.2f})"),
        JudgeNote("slope 0: a vote means the same for every model", True),
        JudgeNote("slope 1: it means more for a better model, as where judges err alike on everybody's answers", True),
    )


def mistakes_told(diagnosis: Diagnosis) -> Section:
    """List the answers where the majority contradicts a person."""
    rows = tuple(
        (mistake.item_id, mistake.model, f"{mistake.yes} of {mistake.total}", "correct" if mistake.human else "wrong",
         ", ".join(mistake.wrong_judges))
        for mistake in diagnosis.mistakes
    )  # fmt: skip
    table = _table(("item", "model", "vote", "human label", "wrong judges"), rows)
    compared = any(vote.total and vote.labels for vote in diagnosis.bins)
    sentence = (
        "nothing: every majority agrees with the human label" if compared else "no answer has a vote and a human label"
    )
    return Section("mistakes", "What the jury gets wrong", (table if rows else JudgeNote(sentence),))


def annotators_told(agreement: AnnotatorAgreement | None) -> list[Section]:
    """Describe the annotators' numbers of labels and their agreement; empty without annotated answers."""
    if agreement is None:
        return []
    counts = ", ".join(f"{one_line(name) or '(no name)'} {count}" for name, count in agreement.labels.items())
    several = plural(agreement.several, "answer")
    remarks = [
        JudgeNote(f"labels: {counts}"),
        JudgeNote(
            f"{several} with several labels, {plural(agreement.ties, 'tie')} (an answer with a tie has no label)"
        ),
    ]
    if text := kappa_text(agreement):
        remarks.append(JudgeNote(text))
    return [Section("annotators", "Annotators", tuple(remarks))]


def kappa_text(agreement: AnnotatorAgreement) -> str:
    """Say how far people agree; empty if no answer was labelled twice."""
    if (kappa := agreement.kappa) is None:
        return ""
    interval = f", {percent(agreement.level)} CI {range_text(kappa.lower, kappa.upper, 2)}"
    agree = f"on {plural(kappa.rated, 'answer')} they agree in {100 * kappa.agreement:.1f} %"
    agree += f"; {kappa.name}'s kappa {number_text(kappa.value, 2)}"
    return agree + ("" if kappa.lower is None else interval)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table[Texts]:
    return text_table("", heads, rows, text=TEXT_COLUMNS)


def _points(fraction: float | None) -> str:
    return NONE if fraction is None else f"{round(100 * fraction, 1) + 0.0:+.1f}"  # not -0.0


def _plus_minus(error: float | None) -> str:
    return NONE if error is None else f"± {100 * error:.1f}"
