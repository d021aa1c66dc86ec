"""Real labels held out and foretold: part of every model's own, all of a model, or all of a maker's models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layton_batch.stats.counts import IntArray, LabelledAnswers, Predictions
from tests.stats.boards import FIELDS, LAYTON, Board, scored

PARTS = 4  # how often a part of a model's labels is held out
OWN_LABELS = (5, 10, 20)
SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class HeldOut:
    """In how many of the cases the interval held what people said."""

    what: str
    cases: int
    held: int
    half_width: float


def main() -> None:
    """Print how often the intervals hold what people said."""
    rows = read_rows()
    if rows is None:
        print("real labels: the optional folder of real data is absent")
        return
    print("real labels held out, text split of layton-eval, three metrics; the answers whose labels are held out are")
    print("scored, and people's verdict on them is the truth\n")
    print("| held out | cases | held | half width |")
    print("|---|---:|---:|---:|")
    for cases in held_out(rows):
        print(f"| {cases.what} | {cases.cases} | {cases.held} | {100 * cases.half_width:.2f} |", flush=True)


def read_rows() -> list[dict[str, Any]] | None:
    """The real predictions, None where they are not at hand."""
    path = LAYTON / "ppi_llm.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else None


@dataclass(frozen=True, slots=True)
class _Case:
    """A model to score on the answers ``out``, whose labels are the truth. ``hidden``: all labels that are not used."""

    board: Board
    model: int
    out: IntArray
    hidden: IntArray


def held_out(rows: list[dict[str, Any]]) -> list[HeldOut]:
    """Every model with labels, three metrics."""
    rng = np.random.default_rng(SEED)
    cases: dict[str, list[_Case]] = {f"all but {own} of a model": [] for own in OWN_LABELS}
    cases |= {"half of a model": [], "a whole model": [], "all models of a maker": []}
    for board in (Board(rows, field) for field in FIELDS):
        labelled = np.flatnonzero(board.human >= 0)
        for model in range(len(board.names)):
            mine = labelled[board.model[labelled] == model]
            if not len(mine):
                continue
            for own in OWN_LABELS:
                for _ in range(PARTS if len(mine) > own else 0):
                    out = np.sort(rng.permutation(mine)[own:])
                    cases[f"all but {own} of a model"].append(_Case(board, model, out, out))
            for _ in range(PARTS):
                half = np.sort(rng.permutation(mine)[: len(mine) // 2])
                cases["half of a model"].append(_Case(board, model, half, half))
            cases["a whole model"].append(_Case(board, model, mine, mine))
            of_maker = labelled[board.provider[board.model[labelled]] == board.provider[model]]
            cases["all models of a maker"].append(_Case(board, model, mine, of_maker))
    return [_count(what, of_kind) for what, of_kind in cases.items()]


def _count(what: str, cases: Sequence[_Case]) -> HeldOut:
    held, widths = 0, []
    for case in cases:
        low, high = _interval(case)
        held += bool(low - 1e-9 <= case.board.human[case.out].mean() <= high + 1e-9)
        widths.append((high - low) / 2)
    return HeldOut(what, len(cases), held, float(np.mean(widths)))


def _interval(case: _Case) -> tuple[float, float]:
    """Score the answers whose labels are held out; labels of the model's other answers count as its own."""
    board, model = case.board, case.model
    is_scored = board.model != model
    is_scored[case.out] = True
    rows = np.flatnonzero(is_scored)
    row_of = np.full(len(is_scored), -1)
    row_of[rows] = np.arange(len(rows))
    labelled = np.setdiff1d(np.flatnonzero(board.human >= 0), case.hidden)
    target = Predictions(
        board.model[rows], board.item[rows], board.yes[rows], board.total[rows], np.zeros(len(rows), dtype=np.bool_),
        board.provider,
    )  # fmt: skip
    gold = LabelledAnswers(
        board.model[labelled], board.provider[board.model[labelled]], board.yes[labelled], board.total[labelled],
        board.human[labelled], row_of[labelled],
    )  # fmt: skip
    score = scored(target, gold)[model]
    return score.lower, score.upper
