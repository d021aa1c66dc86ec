"""Which predictions people should label next, and how much shorter intervals are expected to be then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layton_batch.errors import DataError, ManifestError
from layton_batch.scoring.counting import Counted, count_votes, in_order
from layton_batch.scoring.evidence import Ballot, Entrant, Label
from layton_batch.scoring.law import VoteLaw
from layton_batch.scoring.rules import Rules
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.planning import (
    LabelPlan,
    audit_labels,
    balanced_rows,
    expected_variance,
    plan_budget,
    plan_labels,
    rows_to_label,
)
from layton_batch.stats.posterior import Posterior
from layton_batch.stats.strata import FloatArray, IntArray

DESIGNS = ("contested", "balanced")
MAX_BALANCED = 20_000  # rows whose order is worked out one by one
MAX_COMPARED = 4_000  # of them only to say what the other design would take


@dataclass(frozen=True, slots=True)
class Aim:
    """What is wanted: a ``half_width`` (fraction) for every model, or the best use of so many ``labels``; not both.

    ``design``: ``contested`` asks where the outcome is least certain; ``balanced`` spreads labels evenly over
    providers, models and items, without regard to votes, as the layton-eval paper does. ``audit``: the share of the
    labels that is asked for at random, at every vote, so that people's word alone gives an estimate as well.
    """

    half_width: float | None = None
    labels: int | None = None
    design: str = DESIGNS[0]
    audit: float = 0.0

    def check(self) -> None:
        """Raises ManifestError for what cannot be aimed at."""
        if (self.half_width is None) == (self.labels is None):
            raise ManifestError("give either --half-width POINTS or --labels N")
        if self.half_width is not None and not 0 <= self.half_width < 1:
            raise ManifestError(f"--half-width {100 * self.half_width:g}: points from 0 to below 100, such as 1.0")
        if self.labels is not None and self.labels < 0:
            raise ManifestError(f"--labels {self.labels}: 0 or more")
        if not 0 <= self.audit < 1:
            raise ManifestError(f"--audit {100 * self.audit:g}: percent from 0 to below 100, such as 20")
        if self.design not in DESIGNS:
            raise ManifestError(f"--design {self.design!r}: one of {', '.join(DESIGNS)}")


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Labels to add to one model; half widths in points, by the normal approximation; ``unlabelled`` are left now."""

    model: str
    provider: str
    n_hints: int
    labels: int
    unlabelled: int
    half_width_now: float
    half_width_then: float


@dataclass(frozen=True, slots=True)
class LabelAsk:
    """One prediction to be labelled. Votes are left out on purpose: a person should not know what the jury said.

    ``propensity``: the chance with which this prediction was picked; None where some of its model's could not be.
    """

    item_id: str
    provider: str
    model: str
    n_hints: int
    propensity: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan by model, the one in most need first, and the predictions to label, the most useful first.

    ``balanced_labels``: how many the balanced design would take to make the widest interval as short, worked out here;
    None for that design itself and for more predictions than ``MAX_COMPARED``.
    """

    design: str
    level: float
    models: tuple[ModelPlan, ...]
    rows: tuple[LabelAsk, ...]
    balanced_labels: int | None


def plan_next(
    ballots: Sequence[Ballot], labels: Sequence[Label], aim: Aim, rules: Rules, models: Sequence[Entrant] = ()
) -> Plan:
    """What to label next for ``aim``, for all entrants or only for ``models``.

    Raises ManifestError for an aim that makes no sense, DataError for predictions that contradict each other.
    """
    aim.check()
    # what is known of a model comes from its own votes and from labels: the others' votes can be left out
    counted = count_votes(in_order([ballot for ballot in ballots if not models or ballot.entrant in models]), labels)
    rows = (_balanced if aim.design == "balanced" else _contested)(counted, aim, rules)
    balanced = None if aim.design == "balanced" else _balanced_labels(counted, rows, rules)
    return Plan(aim.design, rules.level, _model_plans(counted, rows, rules), _asks(counted, rows, aim.design), balanced)


def _contested(counted: Counted, aim: Aim, rules: Rules, post: Posterior | None = None) -> IntArray:
    """Rows of all models in turn, in the order of need, so that whoever stops early has helped each of them."""
    post = post or VoteLaw(counted, rules).posterior
    models = range(len(counted.entrants))
    if aim.labels is not None:
        first = aim.labels - round(aim.audit * aim.labels)
        plans: Sequence[LabelPlan] = plan_budget(counted.strata, first, models, level=rules.level, post=post)
    else:
        plans = [
            plan_labels(counted.strata, model, aim.half_width or 0.0, level=rules.level, post=post) for model in models
        ]
    plans = _with_audit(counted, plans, aim, rules, post)
    plans = sorted(plans, key=lambda plan: (-plan.count, plan.model))
    queues = [rows_to_label(counted.strata, counted.target, plan, seed=rules.seed, post=post) for plan in plans]
    turns = [(place / len(rows), at, int(row)) for at, rows in enumerate(queues) for place, row in enumerate(rows)]
    return np.array([row for _, _, row in sorted(turns)], dtype=np.int64)


def _with_audit(
    counted: Counted, plans: Sequence[LabelPlan], aim: Aim, rules: Rules, post: Posterior
) -> Sequence[LabelPlan]:
    """The plans and the audit's labels: as many at every vote of a model as there are answers, but at least one.

    With a half width the contested labels become fewer by what the audit's are worth.
    """
    if not plans or not aim.audit:
        return plans
    free = counted.strata.n - counted.strata.own_labels
    if aim.half_width is not None:
        return [_shortest(counted, plan, aim, rules, post) for plan in plans]
    room = [free[plan.model] - plan.labels for plan in plans]
    left = (aim.labels or 0) - sum(plan.count for plan in plans)
    more = audit_labels(np.array([part.sum() for part in room]), left).tolist()
    return [
        LabelPlan(plan.model, plan.labels + audit_labels(part, count))
        for plan, part, count in zip(plans, room, more, strict=True)
    ]


def _shortest(counted: Counted, plan: LabelPlan, aim: Aim, rules: Rules, post: Posterior) -> LabelPlan:
    """The fewest labels of one model, the audit's share among them, that are expected to reach the half width."""
    strata, model = counted.strata, plan.model
    free = strata.n[model] - strata.own_labels[model]
    goal = ((aim.half_width or 0.0) / two_sided_quantile(rules.level)) ** 2

    def both(count: int) -> LabelPlan:
        (first,) = plan_budget(strata, count, [model], level=rules.level, post=post)
        more = math.ceil(count * aim.audit / (1 - aim.audit))
        return LabelPlan(model, first.labels + audit_labels(free - first.labels, more))

    low, high = 0, plan.count
    while low < high:
        middle = (low + high) // 2
        extra = np.zeros_like(strata.n)
        extra[model] = both(middle).labels
        enough = float(expected_variance(strata, post, extra)[model]) <= goal + 1e-12
        low, high = (low, middle) if enough else (middle + 1, high)
    return both(low) if low else LabelPlan(model, np.zeros_like(plan.labels))


def _balanced(counted: Counted, aim: Aim, rules: Rules) -> IntArray:
    """The rows of the balanced order up to the number asked for, or to where every model is within the half width."""
    strata = counted.strata
    free = int(((strata.row_label < 0) & (strata.row_bin >= 0)).sum())
    if aim.labels is None and free > MAX_BALANCED:
        raise DataError(f"{free} predictions are unlabelled: with --design balanced give --labels N instead")
    order = balanced_rows(strata, counted.target, free if aim.labels is None else aim.labels, seed=rules.seed)
    if aim.half_width is None:
        return order
    low, high = 0, len(order)
    while low < high:  # more labels never widen in expectation
        middle = (low + high) // 2
        enough = _half_widths(counted, order[:middle], rules).max(initial=0.0) <= aim.half_width + 1e-12
        low, high = (low, middle) if enough else (middle + 1, high)
    return order[:low]


def _balanced_labels(counted: Counted, rows: IntArray, rules: Rules) -> int | None:
    free = int(((counted.strata.row_label < 0) & (counted.strata.row_bin >= 0)).sum())
    if not len(rows) or free > MAX_COMPARED:
        return None
    widest = float(_half_widths(counted, rows, rules).max(initial=0.0))
    return len(_balanced(counted, Aim(half_width=widest, design="balanced"), rules))


def _half_widths(counted: Counted, rows: IntArray, rules: Rules, post: Posterior | None = None) -> FloatArray:
    """[K] expected half widths (fractions) once ``rows`` are labelled."""
    strata = counted.strata
    extra = np.zeros_like(strata.n)
    np.add.at(extra, (counted.target.model[rows], strata.row_bin[rows]), 1)
    post = post or VoteLaw(counted, rules).posterior
    z = two_sided_quantile(rules.level)
    return np.asarray(z * np.sqrt(np.maximum(expected_variance(strata, post, extra), 0.0)))


def _model_plans(counted: Counted, rows: IntArray, rules: Rules) -> tuple[ModelPlan, ...]:
    none = np.zeros(0, dtype=np.int64)
    now, then = (_half_widths(counted, part, rules) for part in (none, rows))
    count = np.bincount(counted.target.model[rows], minlength=len(counted.entrants))
    left = counted.strata.n.sum(axis=1) - counted.strata.own_labels.sum(axis=1)
    plans = []
    for i in sorted(range(len(now)), key=lambda i: (-count[i], -now[i], i)):
        one = counted.entrants[i]
        widths = round(100 * float(now[i]), 2), round(100 * float(then[i]), 2)
        plans.append(ModelPlan(one.model, one.provider, one.n_hints, int(count[i]), int(left[i]), *widths))
    return tuple(plans)


def _asks(counted: Counted, rows: IntArray, design: str) -> tuple[LabelAsk, ...]:
    asks = []
    chance = _propensities(counted, rows, design)
    for row in rows.tolist():
        ballot = counted.ballots[row]
        asks.append(LabelAsk(ballot.item_id, ballot.entrant.provider, ballot.entrant.model, ballot.entrant.n_hints,
                             chance[row]))  # fmt: skip
    return tuple(asks)


# ---- for whoever labels now ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gain:
    """Intervals expected after so many more labels: half widths in points, the mean over models and the widest."""

    labels: int
    mean: float
    widest: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """The predictions to label next, and what that buys. ``gains``: after some numbers of labels, the first of them 0;
    ``halving``: how many would halve the interval of every model."""

    queue: tuple[LabelAsk, ...]
    unlabelled: int
    gains: tuple[Gain, ...]
    halving: int


def outlook(
    ballots: Sequence[Ballot],
    labels: Sequence[Label],
    rules: Rules,
    design: str = DESIGNS[0],
    *,
    steps: Sequence[int] = (),
    length: int = 100,
) -> Outlook:
    """What ``length`` more labels are best spent on, and the intervals after each number in ``steps``.

    The balanced order is that of all predictions, so that it goes on where it was when some of them are labelled.
    """
    counted = count_votes(in_order(ballots), labels)
    strata, post = counted.strata, VoteLaw(counted, rules).posterior
    free = np.flatnonzero((strata.row_bin >= 0) & (strata.row_label < 0))
    steps = sorted({min(step, len(free)) for step in steps})
    if design == "balanced":
        order = _balanced_queue(counted, free, max(length, *steps, 0), rules)
        orders = [order[:step] for step in steps]
    else:
        order = _contested(counted, Aim(labels=min(length, len(free))), rules, post)
        orders = [_contested(counted, Aim(labels=step), rules, post) for step in steps]
    parts = (order[:0], *orders)
    # where nothing is known the approximation is wider than the scale, which is 50 points to either side
    widths = [(len(rows), np.minimum(_half_widths(counted, rows, rules, post), 0.5)) for rows in parts]
    gains = tuple(Gain(count, *_points(then)) for count, then in widths)
    return Outlook(
        _asks(counted, order[:length], design), len(free), gains, _halving(counted, widths[0][1], rules, post)
    )


def _balanced_queue(counted: Counted, free: IntArray, length: int, rules: Rules) -> IntArray:
    """The first free rows of the balanced order of all rows."""
    strata = counted.strata
    unlabelled = replace(strata, row_label=np.full_like(strata.row_label, -1))
    taken = int((strata.row_bin >= 0).sum()) - len(free)
    order = balanced_rows(unlabelled, counted.target, length + taken, seed=rules.seed)
    return order[np.isin(order, free)]


def _points(widths: FloatArray) -> tuple[float, float]:
    return (round(100 * float(widths.mean()), 2), round(100 * float(widths.max()), 2)) if len(widths) else (0.0, 0.0)


def _halving(counted: Counted, now: FloatArray, rules: Rules, post: Posterior) -> int:
    goals = enumerate((now / 2).tolist())
    return sum(plan_labels(counted.strata, model, half, level=rules.level, post=post).count for model, half in goals)


def _propensities(counted: Counted, rows: IntArray, design: str) -> dict[int, float | None]:
    """Of each row the share of its model's unlabelled answers with its vote that are asked for: within a vote rows are
    drawn at random. None for a model with a vote at which none is. The balanced design does not look at votes."""
    strata = counted.strata
    free = strata.n - strata.own_labels
    asked = np.zeros_like(free)
    np.add.at(asked, (counted.target.model[rows], strata.row_bin[rows]), 1)
    if design == "balanced":
        share = np.broadcast_to(asked.sum(axis=1, keepdims=True) / np.maximum(free.sum(axis=1, keepdims=True), 1),
                                free.shape)  # fmt: skip
        whole = np.ones(len(free), dtype=np.bool_)
    else:
        share = asked / np.maximum(free, 1)
        whole = ((asked > 0) | (free == 0)).all(axis=1)
    found: dict[int, float | None] = {}
    for row in rows.tolist():
        model = int(counted.target.model[row])
        found[row] = round(float(share[model, strata.row_bin[row]]), 6) if whole[model] else None
    return found
