"""Judges, label plans and comparisons for people: at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.cli.board_report import NONE
from layton_batch.cli.narrow_table import folded
from layton_batch.cli.terminal import console, one_line
from layton_batch.scoring.compare import Comparison, ProviderLoad
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judges import Diagnosis, JudgeFinding, OwnFavour
from layton_batch.scoring.label_plan import Plan

_SHOWN_ROWS = 10
_GAP, _LEAST = 2, 16
_TEXTS = ("judge", "model", "answers by", "vote")
_TARGETS = {"these": "on these items", "new": "on new items"}


def print_diagnosis(found: Diagnosis, *, errors: bool) -> None:
    """Judges, jury, bins and models; the jury's mistakes only when asked for."""
    _head(f"Judges against people · {found.metric.replace('_', ' ')} · {found.jury.labels} labelled answers")
    level = f"{100 * found.level:g} %"
    _table(["judge", "labels", "accuracy", level, "kappa", "leniency"], [_judge_line(one) for one in found.judges])
    _dim("leniency: verdict minus a person's word, in points; above 0 is too kind")
    _head("Leniency by whose answers were judged")
    lines = [
        [one.judge, group.maker, str(group.labels), f"{100 * group.leniency:+.1f}", _plus_minus(group.standard_error)]
        for one in found.judges
        for group in one.by_maker
    ]
    _table(["judge", "answers by", "labels", "leniency", "std. error"], lines)
    _head("Does a judge favour its own maker?")
    for one in found.judges:
        _say(f"{one_line(one.judge)}: {_favours(one.own_favour)}")
    _jury(found)
    _worth(found)
    if errors:
        _mistakes(found)
    elif found.mistakes:
        _dim(f"{len(found.mistakes)} answers have a majority that a person contradicts: --errors lists them")


def _judge_line(one: JudgeFinding) -> list[str]:
    report = one.report
    interval = NONE if report.lower is None or report.upper is None else f"{report.lower:.3f}–{report.upper:.3f}"
    leniency = NONE if report.leniency is None else f"{100 * report.leniency:+.1f}"
    return [one.judge, str(report.labels), _three(report.accuracy), interval, _three(report.kappa), leniency]


def _favours(favours: Sequence[OwnFavour]) -> str:
    reasons = list(dict.fromkeys(one.reason for one in favours if one.reason))
    known = [
        f"{100 * one.estimate:+.1f} {_plus_minus(one.standard_error)} points against {one.against} "
        f"({one.own} own, {one.other} other answers)"
        for one in favours
        if one.estimate is not None
    ]
    return one_line("; ".join(known or reasons))


def _jury(found: Diagnosis) -> None:
    jury, agree = found.jury, found.agreement
    _head("The jury")
    bias = NONE if jury.bias is None else f"{100 * jury.bias:+.1f} points"
    error = NONE if jury.calibration_error is None else f"{100 * jury.calibration_error:.1f} points"
    _say(f"majority right {_three(jury.majority_accuracy)}, kappa {_three(jury.majority_kappa)}; mean vote minus "
         f"people {bias}; calibration error {error}")  # fmt: skip
    _say(f"among judges, {agree.items} answers: unanimous {_three(agree.unanimous)}, Fleiss kappa "
         f"{_three(agree.fleiss_kappa)}, Krippendorff alpha {_three(agree.krippendorff_alpha)}")  # fmt: skip
    lines = []
    for one in found.bins:
        rate = f"{one.positives / one.labels:.3f}"
        lines.append(
            [_vote(one.yes, one.total), str(one.labels), str(one.positives), rate, f"{one.lower:.3f}–{one.upper:.3f}"]
        )
    _table(["vote", "labels", "right", "rate", f"{100 * found.level:g} %"], lines)


def _vote(yes: int, total: int) -> str:
    """A share of yes in lowest terms: 3 of 3 and 2 of 2 are one thing."""
    if total == 0:
        return "unjudged"
    return "all no" if yes == 0 else "all yes" if yes == total else f"{yes} of {total}"


def _worth(found: Diagnosis) -> None:
    if not found.models:
        return
    _head("What the jury adds to the labels")
    lines = [
        [one.model, str(one.own_labels), f"{one.worth:.0f}", _gain(one.gain), f"{one.worth_new:.0f}",
         _gain(one.gain_new)]
        for one in found.models
    ]  # fmt: skip
    _table(["model", "own labels", "worth", "gain", "worth, new", "gain, new"], lines)
    _dim("worth: as many labels drawn at random would give as short an interval by themselves")


def _gain(value: float | None) -> str:
    return NONE if value is None else f"×{value:.2f}"


def _mistakes(found: Diagnosis) -> None:
    _head("What the jury gets wrong")
    lines = [
        [one.item_id, one.model, f"{one.yes} of {one.total}", "right" if one.human else "wrong",
         ", ".join(one.wrong_judges)]
        for one in found.mistakes
    ]  # fmt: skip
    _table(["item", "model", "vote", "people say", "judges at fault"], lines, left=("item", "judges at fault"))
    if not lines:
        _say("nothing: every majority agrees with people")


def print_plan(plan: Plan) -> None:
    """Labels by model with widths before and after, and the first predictions to label."""
    _head(f"{len(plan.rows)} labels to add · {plan.design} · half widths at {100 * plan.level:g} %, in points")
    lines = [
        [one.model, str(one.n_hints), str(one.unlabelled), str(one.labels), f"{one.half_width_now:.2f}",
         f"{one.half_width_then:.2f}"]
        for one in plan.models
    ]  # fmt: skip
    _table(["model", "hints", "unlabelled", "to label", "now", "expected"], lines)
    for row in plan.rows[:_SHOWN_ROWS]:
        _say(f"{one_line(row.item_id)}  {one_line(row.model)}")
    if len(plan.rows) > _SHOWN_ROWS:
        _dim(f"and {len(plan.rows) - _SHOWN_ROWS} more: --output FILE writes them all, one JSON object a line")


def print_comparison(found: Comparison) -> None:
    """Who is better, on these items and on new ones, and what would tell the two apart."""
    first, second = (_name(one) for one in (found.first, found.second))
    _head(f"{first}  against  {second} · {found.metric.replace('_', ' ')}")
    level = f"{100 * found.level:g} %"
    _table(
        ["", "P(first is better)", "difference", level, "resolvable"],
        [_standing_line(one) for one in found.standings],
        left=("",),
    )
    _dim("difference: first minus second, in points")
    _dim("resolvable: what neighbours on this board must differ by to be told apart")
    need = found.labels
    if need is not None and need.count == 0:
        _say("the labels there are separate them on these items already")
    elif need is not None:
        _say(f"{need.count} more labels ({need.first_labels} of the first, {need.second_labels} of the second) should "
             "separate them on these items, if their scores stay where they are")  # fmt: skip
    if found.items is not None:
        _say(f"about {found.items:,} items of this kind ({found.n_items} now) should separate them on new ones")


def _standing_line(one: ProviderLoad) -> list[str]:
    resolvable = NONE if one.resolvable is None else f"{one.resolvable:.1f}"
    interval = f"{one.lower:+.1f} to {one.upper:+.1f}"
    return [_TARGETS[one.target], f"{one.better:.3f}", f"{one.difference:+.1f}", interval, resolvable]


def _name(one: Entrant) -> str:
    return one_line(one.model) + (f" (hint level {one.n_hints})" if one.n_hints else "")


def _three(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _plus_minus(error: float | None) -> str:
    return NONE if error is None else f"± {100 * error:.1f}"


def _table(headers: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[str] = ()) -> None:
    """Text columns to the left, figures to the right; a long name goes on in a second line."""
    from rich.table import Table
    from rich.text import Text

    if not lines:
        return
    cells = [list(headers), *([one_line(cell) for cell in line] for line in lines)]
    texts = [name in (*left, *_TEXTS) for name in headers]
    screen = console()
    widths = _fitted([max(len(line[i]) for line in cells) for i in range(len(headers))], texts, screen.width)
    table = Table(box=None, header_style="bold", padding=(0, _GAP, 0, 0), pad_edge=False)
    for name, is_text in zip(headers, texts, strict=True):
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for line in cells[1:]:
        table.add_row(*(Text(folded(cell, width)) for cell, width in zip(line, widths, strict=True)))
    screen.print(table)


def _fitted(widths: list[int], texts: Sequence[bool], screen: int) -> list[int]:
    """Column widths that fit the screen: the widest column of text gives way, to no less than 16."""
    widths = list(widths)
    while sum(widths) + _GAP * (len(widths) - 1) > screen:
        widest = max((i for i, is_text in enumerate(texts) if is_text), key=widths.__getitem__)
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    return widths


def _head(text: str) -> None:
    from rich.text import Text

    console().print(Text(f"\n{one_line(text)}", style="bold"))


def _say(text: str) -> None:
    console().print(text, markup=False)


def _dim(text: str) -> None:
    console().print(text, style="dim", markup=False)
