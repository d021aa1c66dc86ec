"""What a plan of labels promises, and what the board says once people gave these labels."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from layton_batch.scoring.board import rank_board
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import ENTRANT, LABELS
from layton_batch.scoring.label_plan import LabellingPlan, LabelTarget, plan_next
from layton_batch.scoring.leaderboard import ScoringRules
from tests.stats.truth_worlds import WORLDS, draw, named
from tests.support.tiers import tiered

RULES = ScoringRules()
SHARE_OF_PROMISE = {True: (0.75, 1.3), False: (0.85, 1.15)}
"""Of the half width on this set, which goes by steps of an answer, and on new items."""


def planned_and_delivered(world: str, seed: int, aim: LabelTarget) -> tuple[LabellingPlan, list[float]]:
    """A plan, and the half widths of its models once its answers have the labels that people would give."""
    board = draw(WORLDS[world], np.random.default_rng(seed))
    votes, labels = named(board)
    plan = plan_next(JuryBoard(votes, labels, RULES), aim)
    rows = pl.DataFrame([(row.model, row.provider, row.n_hints, row.item_id) for row in plan.rows],
                        schema=[*ENTRANT, "item_id"], orient="row")  # fmt: skip
    truth = votes.with_columns(correct=pl.Series(board.correct))
    given = truth.join(rows, on=[*ENTRANT, "item_id"], how="semi").select(*LABELS)
    ranked = rank_board(JuryBoard(votes, pl.concat([labels, given]), RULES))
    prefix = "set" if aim.this_set else "new"
    width = {row["model"]: (row[f"{prefix}_upper"] - row[f"{prefix}_lower"]) / 2 for row in ranked.to_dicts()}
    return plan, [width[model.model] for model in plan.models]


@pytest.mark.parametrize(
    ("world", "this_set"),
    tiered(
        ("no labels", "10 labels", "honest", "noisy .75, 10 labels"), (True, False),
        ci=[("no labels", True), ("10 labels", False)],
    ),
)  # fmt: skip
def test_a_plan_delivers_about_what_it_promises(world: str, this_set: bool) -> None:
    aim = LabelTarget(half_width=0.03 if this_set else 0.07, this_set=this_set)
    plan, delivered = planned_and_delivered(world, 0, aim)
    promised = [model.half_width_then for model in plan.models]
    least, most = SHARE_OF_PROMISE[this_set]
    assert least < np.mean(delivered) / np.mean(promised) < most
    for model in plan.models:
        goal = max(100 * (aim.half_width or 0), 1.05 * model.half_width_least)
        assert model.half_width_then <= goal + 0.3
        if model.labels:
            assert model.half_width_then > 0.65 * goal
    assert len(plan.rows) == sum(model.labels for model in plan.models)


@pytest.mark.parametrize("labels", tiered((40, 200), ci=(40,)))
def test_so_many_labels_do_what_the_plan_says(labels: int) -> None:
    plan, delivered = planned_and_delivered("5 labels", 1, LabelTarget(labels=labels))
    assert len(plan.rows) == labels
    promised = [model.half_width_then for model in plan.models]
    least, most = SHARE_OF_PROMISE[False]
    assert least < np.mean(delivered) / np.mean(promised) < most
    assert np.mean(promised) < np.mean([model.half_width_now for model in plan.models])
