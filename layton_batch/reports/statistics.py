"""Judges, label plans and comparisons for people; judges as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from layton_batch.reports.table import Table, columns, heading, say_line, show
from layton_batch.scoring.compare import Comparison, Standing
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judges import Diagnosis, JudgeFinding, SelfPreference
from layton_batch.scoring.label_plan import Plan
from layton_batch.text import NONE, number_text, one_line, percent, plural, range_text

_SHOWN_ROWS = 10
_TEXTS = ("", "judge", "model", "answers by", "vote", "item", "wrong judges")
_TARGETS = {"these": "on these items", "new": "on new items"}


def diagnosis_json(found: Diagnosis) -> Mapping[str, object]:
    """Everything about a jury. ``maker``, ``by_maker`` and ``own_favour`` are former names: they stand for one version
    beside ``family``, ``by_family`` and ``self_preference``, and so does ``worth`` beside ``effective_labels``."""
    document = asdict(found)
    for judge in document["judges"]:
        for one in (*judge["by_family"], *judge["self_preference"]):
            one["maker"] = one["family"]
        judge |= {"by_maker": judge["by_family"], "own_favour": judge["self_preference"]}
    for model in document["models"]:
        model |= {"effective_labels": model["worth"], "effective_labels_new": model["worth_new"]}
    return document


def print_diagnosis(found: Diagnosis, *, errors: bool) -> None:
    """Judges, jury, bins and models; the jury's mistakes only when asked for."""
    heading(f"Judges against human labels · {_words(found.metric)} · {plural(found.jury.labels, 'labelled answer')}")
    interval = f"{percent(found.level)} CI"
    _table(["judge", "labels", "accuracy", interval, "kappa", "leniency"], [_judge_line(one) for one in found.judges])
    say_line("leniency: verdict minus human label, in points; above 0 the judge is too lenient", "dim")
    heading("Leniency by the family that was judged")
    lines = [
        [one.judge, group.family, str(group.labels), _points(group.leniency), _plus_minus(group.standard_error)]
        for one in found.judges
        for group in one.by_family
    ]
    _table(["judge", "answers by", "labels", "leniency", "std. error"], lines)
    heading("Does a judge favour its own family?")
    for one in found.judges:
        say_line(f"{one.judge}: {_self_preference(one.self_preference)}")
    _jury(found)
    _slope(found)
    _worth(found)
    if errors:
        _mistakes(found)
    elif found.mistakes:
        answers = plural(len(found.mistakes), "answer")
        say_line(f"{answers} where the majority contradicts the human label: --errors lists them", "dim")


def _judge_line(one: JudgeFinding) -> list[str]:
    report = one.report
    accuracy, kappa = number_text(report.accuracy, 3), number_text(report.kappa, 3)
    interval = range_text(report.lower, report.upper, 3)
    return [one.judge, str(report.labels), accuracy, interval, kappa, _points(report.leniency)]


def _self_preference(found: Sequence[SelfPreference]) -> str:
    reasons = list(dict.fromkeys(one.reason for one in found if one.reason))
    known = [
        f"{_points(one.estimate)} {_plus_minus(one.standard_error)} points against {one.against} "
        f"({one.own} own, {one.other} other answers)"
        for one in found
        if one.estimate is not None
    ]
    return "; ".join(known or reasons)


def _jury(found: Diagnosis) -> None:
    jury, agree = found.jury, found.agreement
    heading("The jury")
    right, kappa = number_text(jury.majority_accuracy, 3), number_text(jury.majority_kappa, 3)
    error = NONE if jury.calibration_error is None else f"{100 * jury.calibration_error:.1f}"
    bias = _points(jury.bias)
    say_line(f"majority against human labels: accuracy {right}, kappa {kappa}")
    say_line(f"mean vote minus human labels: {bias} points; calibration error: {error} points")
    unanimous, fleiss = number_text(agree.unanimous, 3), number_text(agree.fleiss_kappa, 3)
    alpha = number_text(agree.krippendorff_alpha, 3)
    say_line(f"between judges, {plural(agree.items, 'answer')}: unanimous {unanimous}, Fleiss kappa {fleiss}, "
             f"Krippendorff alpha {alpha}")  # fmt: skip
    lines = [
        [_vote(one.yes, one.total), str(one.labels), str(one.positives), f"{one.positives / one.labels:.3f}",
         range_text(one.lower, one.upper, 3)]
        for one in found.bins
    ]  # fmt: skip
    _table(["vote", "labels", "correct", "rate", f"{percent(found.level)} CI"], lines)


def _vote(yes: int, total: int) -> str:
    return "unjudged" if total == 0 else f"{yes} of {total}"


def _worth(found: Diagnosis) -> None:
    if not found.models:
        return
    heading("What the jury adds to the labels")
    lines = [
        [one.model, str(one.own_labels), f"{one.worth:.0f}", _gain(one.gain), f"{one.worth_new:.0f}",
         _gain(one.gain_new)]
        for one in found.models
    ]  # fmt: skip
    _table(["model", "own labels", "effective labels", "gain", "effective, new", "gain, new"], lines)
    say_line("effective labels: how many randomly drawn ones give as short an interval without a jury", "dim")
    say_line("gain: effective per own label · new: for new items of this kind", "dim")
    for one in found.models:
        if one.human_only is not None and one.human_only_half_width is not None:
            say_line(f"{one.model}: {_beside(one.score, one.human_only, one.human_only_half_width)}")
    say_line("own labels only: right where they were picked at random among the model's answers", "dim")


def _beside(score: float, human: float, half: float) -> str:
    agree = "agree" if abs(score - human) <= half + 5e-4 else "differ"
    return f"corrected {100 * score:.1f}, own labels only {100 * human:.1f} ± {100 * half:.1f}: {agree}"


def _slope(found: Diagnosis) -> None:
    if found.ability_slope is None:
        return
    mean, lower, upper = found.ability_slope
    say_line(f"ability slope: {mean:+.2f} ({percent(found.level)} CI {lower:+.2f} to {upper:+.2f})")
    say_line("0: a vote means the same for every model, which --method calibrated takes for granted", "dim")
    say_line("1: it means more for a better model, as where judges err alike on everybody's answers", "dim")


def _gain(value: float | None) -> str:
    return NONE if value is None else f"×{value:.2f}"


def _mistakes(found: Diagnosis) -> None:
    heading("What the jury gets wrong")
    lines = [
        [one.item_id, one.model, f"{one.yes} of {one.total}", "correct" if one.human else "wrong",
         ", ".join(one.wrong_judges)]
        for one in found.mistakes
    ]  # fmt: skip
    _table(["item", "model", "vote", "human label", "wrong judges"], lines)
    if not lines:
        say_line("nothing: every majority agrees with the human label")


def print_label_plan(plan: Plan) -> None:
    """Labels by model with widths before and after, and the first predictions to label."""
    labels = plural(len(plan.rows), "label")
    heading(f"{labels} to add · {plan.design} · half widths at {percent(plan.level)}, in points")
    lines = [
        [one.model, str(one.n_hints), str(one.unlabelled), str(one.labels), f"{one.half_width_now:.2f}",
         f"{one.half_width_then:.2f}"]
        for one in plan.models
    ]  # fmt: skip
    _table(["model", "hints", "unlabelled", "to label", "now", "expected"], lines)
    if plan.balanced_labels is not None and plan.balanced_labels > len(plan.rows):
        fewer = 100 * (1 - len(plan.rows) / plan.balanced_labels)
        say_line(f"a balanced design would take {plural(plan.balanced_labels, 'label')} for the same widest interval: "
                 f"this one takes {fewer:.0f} % fewer")  # fmt: skip
    for row in plan.rows[:_SHOWN_ROWS]:
        say_line(f"{row.item_id}  {row.model}")
    if len(plan.rows) > _SHOWN_ROWS:
        more = len(plan.rows) - _SHOWN_ROWS
        say_line(f"and {more} more: --output FILE writes them all, one JSON object a line", "dim")


def print_comparison(found: Comparison) -> None:
    """Who is better, on these items and on new ones, and what would tell the two apart."""
    first, second = (_name(one) for one in (found.first, found.second))
    heading(f"{first}  against  {second} · {_words(found.metric)}")
    names = ["", "P(first is better)", "difference", f"{percent(found.level)} CI", "minimum detectable\ndifference"]
    _table(names, [_standing_line(one) for one in found.standings])
    say_line("difference: first minus second, in points", "dim")
    say_line("minimum detectable difference (80 % power): between neighbours on this board", "dim")
    need = found.labels
    if need is not None and need.count == 0:
        say_line("The existing labels already separate the two on these items.")
    elif need is not None:
        shares = f"{need.first_labels} of the first, {need.second_labels} of the second"
        say_line(f"{plural(need.count, 'more label')} ({shares}) should separate the two on these items, "
                 "if their scores stay as they are.")  # fmt: skip
    if found.items is not None:
        items = f"About {plural(found.items, 'item')} of this kind"
        say_line(f"{items} (now {found.n_items}) should separate the two on new items.")


def _standing_line(one: Standing) -> list[str]:
    interval = f"{one.lower:+.1f} to {one.upper:+.1f}"
    difference, least = f"{one.difference:+.1f}", number_text(one.minimum_detectable_difference)
    return [_TARGETS[one.target], f"{one.better:.3f}", difference, interval, least]


def _name(one: Entrant) -> str:
    return one_line(one.model) + (f" (hint level {one.n_hints})" if one.n_hints else "")


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _points(fraction: float | None) -> str:
    return NONE if fraction is None else f"{100 * fraction:+.1f}"


def _plus_minus(error: float | None) -> str:
    return NONE if error is None else f"± {100 * error:.1f}"


def _table(headers: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    if lines:
        show(Table(columns(*headers, text=_TEXTS), tuple(map(tuple, lines))))
