"""Judges, label plans and comparisons on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from layton_batch.columns import DATA, FOR_PEOPLE, Column, Table
from layton_batch.reports.table import as_markdown, heading, markdown_text, say_line, show
from layton_batch.scoring.compare import ComparedModel, Comparison, Gate, GateResult
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import Diagnosis
from layton_batch.scoring.judges_told import Section, diagnosis_told, mistakes_told
from layton_batch.scoring.label_plan import LabellingPlan, ModelPlan
from layton_batch.scoring.leaderboard import CONDITION, NEW_ITEMS, THIS_SET, UNCALIBRATED
from layton_batch.text import one_line, percent, plural

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
    heading(f"{labels} to add · half widths for {plan.target} at {percent(plan.level)}, in points")
    show(Table(LABEL_PLANS, plan.models))
    if limited := _out_of_reach(plan):
        say_line(limited)
    for row in plan.rows[:_SHOWN_ROWS]:
        say_line(f"{row.item_id}  {row.model}")
    if len(plan.rows) > _SHOWN_ROWS:
        more = len(plan.rows) - _SHOWN_ROWS
        say_line(f"and {more} more: --out FILE writes them all, one JSON object a line", "dim")


LABEL_PLANS: tuple[Column[ModelPlan], ...] = (
    Column("model", is_text=True),
    Column("provider", surfaces=DATA),
    Column("n_hints", "hints"),
    Column("labels", "to label"),
    Column("unlabelled"),
    Column("half_width_now", "now", "{:.2f}"),
    Column("half_width_then", "expected", "{:.2f}"),
    Column("half_width_least", "with all", "{:.2f}"),
)
"""Labels to add to each model, and half widths in points."""


def label_plan_json(plan: LabellingPlan) -> dict[str, object]:
    """Return a label plan in the form of ``label plan --json``."""
    return asdict(plan) | {"models": Table(LABEL_PLANS, plan.models).records()}


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


def comparison_markdown(comparison: Comparison, target: str) -> str:
    """Return a comparison as Markdown, for a pull request."""
    title = f"{markdown_text(_title(comparison))}\n\n"
    return title + as_markdown(comparison_table(comparison, target))


def gate_markdown(gate: Gate) -> str:
    """Return a gate's decision as Markdown, below its comparison."""
    first, *more = gate_lines(gate)
    return "\n".join(["", f"**{markdown_text(first)}**", *map(markdown_text, more), ""])


def _title(comparison: Comparison) -> str:
    return f"{_name(comparison.first)}  against  {_name(comparison.second)} · {_words(comparison.metric)}"


def comparison_table(comparison: Comparison, target: str | None = None) -> Table[ComparedModel]:
    """Return what a comparison says of each target, or of one."""

    def interval(standing: ComparedModel) -> str:
        return f"{standing.lower:+.1f} to {standing.upper:+.1f}"

    shown = [standing for standing in comparison.standings if target in (None, standing.target)]
    return Table(
        (
            Column("target", text=lambda standing: _TARGETS[standing.target], is_text=True),
            Column("difference", format="{:+.1f}"),
            Column("lower", surfaces=DATA),
            Column("upper", surfaces=DATA),
            Column("interval", f"{percent(comparison.level)} CI", text=interval, surfaces=FOR_PEOPLE),
            Column("better", "P(first is better)", "{:.3f}"),
            Column("minimum_detectable_difference", "minimum detectable\ndifference", "{:.1f}"),
        ),
        shown,
    )


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """Return a comparison in the form of ``compare --format json``."""
    return asdict(comparison) | {"standings": comparison_table(comparison).records()}


def print_comparison(comparison: Comparison, target: str) -> None:
    """Print who is better on ``target`` (``new items`` or ``this set``), and how surely."""
    heading(_title(comparison))
    shown = [standing for standing in comparison.standings if standing.target == target]
    if shown:
        show(comparison_table(comparison, target))
        say_line("difference: first minus second, in points", "dim")
        say_line("minimum detectable difference (80 % power): of these two", "dim")
    else:
        say_line("A rule graded every answer: on this set the scores of the leaderboard are exact.")
    if comparison.method == UNCALIBRATED:
        say_line(f"{CONDITION} `layton-batch label plan RUN` says which answers to label.", "yellow")
    if any(standing.separated for standing in shown):
        say_line(f"The two are separated {_TARGETS[target]}: the interval leaves 0 out.")


def print_gate(gate: Gate) -> None:
    """Print the decision and what it rests on."""
    for line in gate_lines(gate):
        say_line(line)


def gate_lines(gate: Gate) -> Iterator[str]:
    """Yield the decision, what it rests on, and what to do where there is none."""
    model, baseline = _name(gate.model), _name(gate.baseline)
    yield f"{gate.result}: {model} against {baseline} · {_words(gate.metric)} · {_TARGETS[gate.target]}"
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


def _name(entrant: Entrant) -> str:
    return one_line(entrant.name)


def _words(metric: str) -> str:
    return metric.replace("_", " ")
