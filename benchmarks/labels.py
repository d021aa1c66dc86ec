"""Whether ``label-plan`` delivers the half widths it promises, and how many labels it takes by either design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from layton_batch.scoring.counting import count_votes
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.label_plan import LabellingPlan, LabelTarget, plan_next
from layton_batch.scoring.law import VotePosterior
from layton_batch.scoring.rules import ScoringRules
from tests.stats.worlds import WORLDS, Board, World, draw
from tests.support.evidence import Ballot, Label, frames

SEED, BOARDS = 20_261_123, 12
CHOSEN = {
    "fair judges": World(labels=20),
    "adverse judges": World(rates=(0.03, 0.30, 0.65, 0.93), labels=20),
    "slope 0.35": WORLDS["20 labels"],
}
DESIGNS = {
    "contested": LabelTarget(),
    "contested, audit ±5": LabelTarget(audit=0.05),
    "balanced": LabelTarget(design="balanced"),
}
TARGETS = {"new items": (0.0, False), "these items": (0.02, True)}
"""Half width aimed at (fraction), and whether it is of the interval for these items. For new items: as short as labels
can make it."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Labels of one plan, and half widths in points over its models: as promised and as they became."""

    labels: int
    promised: float
    delivered: float
    within: float


def main() -> None:
    print(
        f"label-plan: {BOARDS} boards a world, seven models with 20 labels, four with none; for new items as short as"
    )
    print("labels can make it, for these items ±2; half widths in points, mean over models that were to get labels\n")
    print("| target | world | design | labels | fewer than balanced | promised | delivered | delivered within 10 % |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for (target, (half_width, this_set)), (name, world) in product(TARGETS.items(), CHOSEN.items()):
        rng = np.random.default_rng(SEED)
        boards = [draw(world, rng) for _ in range(BOARDS)]
        aims = {design: replace(aim, half_width=half_width, this_set=this_set) for design, aim in DESIGNS.items()}
        found = {design: [follow(board, aim) for board in boards] for design, aim in aims.items()}
        most = float(np.mean([one.labels for one in found["balanced"]]))
        for design, rows in found.items():
            labels, promised, delivered, within = (
                float(np.mean([getattr(one, field) for one in rows])) for field in Delivered.__dataclass_fields__
            )
            fewer = f"{100 * (1 - labels / most):.0f} %"
            cells = (
                target,
                name,
                design,
                f"{labels:.0f}",
                fewer,
                f"{promised:.2f}",
                f"{delivered:.2f}",
                f"{within:.2f}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


def follow(board: Board, aim: LabelTarget) -> Delivered:
    """Make the plan, give the labels it asks for, and score again."""
    rules = ScoringRules()
    ballots, labels = _named(board)
    plan = plan_next(*frames(ballots, labels), aim, rules)
    row_of = {(one.entrant.model, one.item_id): i for i, one in enumerate(ballots)}
    rows = [row_of[ask.model, ask.item_id] for ask in plan.rows]
    labels += [_label(ballots[row], bool(board.correct[row])) for row in rows]
    counted = count_votes(*frames(ballots, labels))
    widths = {}
    for i, one in enumerate(VotePosterior(counted, rules).scores()):
        ends = (one.lower, one.upper) if aim.this_set else (one.new_lower, one.new_upper)
        widths[counted.entrants[i].model] = 50 * ((ends[1] or 0.0) - (ends[0] or 0.0))
    return _compare(plan, widths)


def _compare(plan: LabellingPlan, widths: dict[str, float]) -> Delivered:
    asked = [one for one in plan.models if one.labels]
    promised = np.array([one.half_width_then for one in asked])
    became = np.array([widths[one.model] for one in asked])
    return Delivered(
        len(plan.rows), float(promised.mean()), float(became.mean()), float((became <= 1.1 * promised + 0.3).mean())
    )


def _named(board: Board) -> tuple[list[Ballot], list[Label]]:
    target = board.target
    makers = target.provider[target.model].tolist()
    rows = zip(target.model.tolist(), makers, target.item.tolist(), target.yes.tolist(), target.total.tolist(),
               strict=True)  # fmt: skip
    ballots = [
        Ballot(Entrant(f"model-{model:02}", f"maker-{maker}", 0), f"{item:03}", yes, total)
        for model, maker, item, yes, total in rows
    ]
    return ballots, [_label(ballots[row], bool(board.correct[row])) for row in board.gold.own_target_row.tolist()]


def _label(ballot: Ballot, correct: bool) -> Label:
    return Label(ballot.entrant, ballot.item_id, ballot.yes, ballot.total, correct, ballot.content)
