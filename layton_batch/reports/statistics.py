"""Judges, label plans and comparisons on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from layton_batch.reports.table import heading, say_line, show
from layton_batch.scoring.compare import ComparedModel, Comparison, Gate, GateResult
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import Diagnosis
from layton_batch.scoring.judges_told import TEXT_COLUMNS, Section, diagnosis_told, mistakes_told
from layton_batch.scoring.label_plan import LabellingPlan
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET
from layton_batch.scoring.uncalibrated import RAW_SHARE, UNCALIBRATED
from layton_batch.stats.planning import Separation
from layton_batch.text import Table, number_text, one_line, percent, plural, text_table

_SHOWN_ROWS = 10
_TARGETS = {NEW_ITEMS: "on new items", THIS_SET: "on this set"}


def print_diagnosis(diagnosis: Diagnosis, *, errors: bool) -> None:
    """Print judges, jury, bins and models; with ``errors`` also the jury's mistakes."""
    print_sections(diagnosis_told(diagnosis))
    if errors:
        print_sections([mistakes_told(diagnosis)])
    elif diagnosis.mistakes:
        answers = plural(len(diagnosis.mistakes), "answer")
        say_line(f"{answers} where the majority contradicts the human label: --errors lists them", "dim")


def print_sections(sections: Iterable[Section]) -> None:
    """Print each section below its heading."""
    for section in sections:
        heading(section.title)
        for part in section.parts:
            if isinstance(part, Table):
                if part.rows:
                    show(part)
            else:
                line = f"{part.about}: {part.text}" if part.about else part.text
                say_line(line, "dim" if part.is_help else "")


def print_label_plan(plan: LabellingPlan) -> None:
    """Print labels by model with half widths before and after, and the first predictions to label."""
    labels = plural(len(plan.rows), "label")
    heading(f"{labels} to add · {plan.design} · half widths for {plan.target} at {percent(plan.level)}, in points")
    lines = [
        [model.model, str(model.n_hints), str(model.unlabelled), str(model.labels), f"{model.half_width_now:.2f}",
         f"{model.half_width_then:.2f}", f"{model.half_width_least:.2f}"]
        for model in plan.models
    ]  # fmt: skip
    _table(["model", "hints", "unlabelled", "to label", "now", "expected", "with all"], lines)
    if limited := _out_of_reach(plan):
        say_line(limited)
    if plan.audit_aim:
        say_line(_planned_audit(plan))
    if plan.balanced_labels is not None and plan.balanced_labels > len(plan.rows):
        fewer = 100 * (1 - len(plan.rows) / plan.balanced_labels)
        say_line(f"a balanced design would take {plural(plan.balanced_labels, 'label')} for the same widest interval: "
                 f"this one takes {fewer:.0f} % fewer")  # fmt: skip
    for row in plan.rows[:_SHOWN_ROWS]:
        say_line(f"{row.item_id}  {row.model}")
    if len(plan.rows) > _SHOWN_ROWS:
        more = len(plan.rows) - _SHOWN_ROWS
        say_line(f"and {more} more: --out FILE writes them all, one JSON object a line", "dim")


def _planned_audit(plan: LabellingPlan) -> str:
    """Say what the audit of the plan could see, or why there is none."""
    if plan.audit is None:
        wanted = f"one that shows an error of ±{plan.audit_aim:g} points"
        return f"No audit of the corrected scores: {wanted} would take more than half of the labels (--audit)."
    labels = plural(plan.audit.labels, "label")
    picked = f"{labels} picked at random at every vote" if plan.audit.labels else "all labels"
    return (
        f"Audit of the corrected scores by {picked}: pooled over {plural(plan.audit.models, 'model')} it shows "
        f"an error of ±{plan.audit.detectable:.1f} points with a chance of 80 % or more. Label all of them."
    )


def _out_of_reach(plan: LabellingPlan) -> str:
    """Say where the items, and not the labels, keep intervals from the half width that was asked for."""
    if plan.half_width is None:
        return ""
    least = [model_plan.half_width_least for model_plan in plan.models if model_plan.half_width_least > plan.half_width]
    if not least:
        return ""
    models = "the interval" if len(least) == 1 else f"the intervals of {len(least)} models"
    return (
        f"More labels cannot make {models} shorter than ±{min(least):.1f}"
        f"{'' if len(least) == 1 else f' to ±{max(least):.1f}'}; more items can. "
        "For these items alone: --this-set."
    )


def print_comparison(comparison: Comparison, target: str) -> None:
    """Print who is better on ``target`` (``new items`` or ``this set``), and what would tell the two apart there."""
    first, second = (_name(entrant) for entrant in (comparison.first, comparison.second))
    heading(f"{first}  against  {second} · {_words(comparison.metric)}")
    shown = [standing for standing in comparison.standings if standing.target == target]
    names = [
        "",
        "P(first is better)",
        "difference",
        f"{percent(comparison.level)} CI",
        "minimum detectable\ndifference",
    ]
    _table(names, [_standing_line(standing) for standing in shown])
    if shown:
        say_line("difference: first minus second, in points", "dim")
        say_line("minimum detectable difference (80 % power): of these two", "dim")
    elif comparison.method == UNCALIBRATED:
        say_line("Nothing is known of exactly these items without a label.")
    else:
        say_line("A rule graded every answer: on this set the scores of the leaderboard are exact.")
    if comparison.method == UNCALIBRATED:
        say_line(f"{RAW_SHARE} `layton-batch label-plan RUN` says which answers to label.", "yellow")
    if any(standing.separated for standing in shown):
        say_line(f"The two are separated {_TARGETS[target]}: the interval leaves 0 out.")
    elif target == NEW_ITEMS:
        _say_items(comparison)
    elif comparison.labels is not None:
        _say_labels(comparison.labels)


def print_gate(gate: Gate) -> None:
    """Print the decision, what it rests on, and what to do where there is none."""
    model, baseline = _name(gate.model), _name(gate.baseline)
    say_line(f"{gate.result}: {model} against {baseline} · {_words(gate.metric)} · {_TARGETS[gate.target]}")
    if gate.difference is None or gate.lower is None or gate.upper is None:
        say_line("No label says how far the jury can be trusted, so it decides nothing: `layton-batch label-plan` says "
                 "which answers to label.")  # fmt: skip
        return
    interval = f"{gate.lower:+.1f} to {gate.upper:+.1f}"
    difference = f"difference {gate.difference:+.1f} points ({percent(gate.level)} CI {interval})"
    say_line(f"{difference}, margin {gate.margin:g} points")
    if gate.result is GateResult.UNDECIDED:
        say_line(f"The interval contains minus the margin. More items (now {gate.n_items}), more labels or a wider "
                 "margin can decide.")  # fmt: skip


def _say_items(comparison: Comparison) -> None:
    if comparison.items is not None:
        items = f"About {plural(comparison.items, 'item')} of this kind"
        say_line(f"{items} (now {comparison.n_items}) should separate the two on new items.")


def _say_labels(need: Separation) -> None:
    shares = f"{need.first_labels} of the first, {need.second_labels} of the second"
    say_line(f"{plural(need.count, 'more label')} ({shares}) should separate the two on this set, "
             "if their scores stay as they are.")  # fmt: skip


def _standing_line(compared: ComparedModel) -> list[str]:
    interval = f"{compared.lower:+.1f} to {compared.upper:+.1f}"
    difference, least = f"{compared.difference:+.1f}", number_text(compared.minimum_detectable_difference)
    return [_TARGETS[compared.target], f"{compared.better:.3f}", difference, interval, least]


def _name(entrant: Entrant) -> str:
    return one_line(entrant.model) + (f" (hint level {entrant.n_hints})" if entrant.n_hints else "")


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _table(headers: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    if lines:
        show(text_table("", headers, lines, text=TEXT_COLUMNS))
