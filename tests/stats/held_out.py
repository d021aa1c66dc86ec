"""Real labels held out and foretold: part of every model's own, or all of a whole model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layton_batch.stats.strata import GoldPredictions, IntArray, TargetPredictions
from tests.stats.boards import FIELDS, LAYTON, Board
from tests.stats.gate import ends_of

PARTS = 4  # how often half of a model's labels are held out
SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class HeldOut:
    """In how many of the cases the interval held what people said."""

    what: str
    cases: int
    held: int
    half_width: float


def read_rows() -> list[dict[str, Any]] | None:
    """The real predictions, None where they are not at hand."""
    path = LAYTON / "ppi_llm.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else None


def held_out(rows: list[dict[str, Any]]) -> list[HeldOut]:
    """Every model with labels, three metrics."""
    rng = np.random.default_rng(SEED)
    boards = [Board(rows, field) for field in FIELDS]
    cases: dict[str, list[tuple[Board, int, IntArray]]] = {"half of a model": [], "a whole model": []}
    for board in boards:
        for model in range(len(board.names)):
            mine = np.flatnonzero((board.model == model) & (board.human >= 0))
            if len(mine):
                cases["a whole model"].append((board, model, mine))
                halves = [np.sort(rng.permutation(mine)[: len(mine) // 2]) for _ in range(PARTS)]
                cases["half of a model"] += [(board, model, half) for half in halves]
    return [_count(what, found) for what, found in cases.items()]


def _count(what: str, cases: Sequence[tuple[Board, int, IntArray]]) -> HeldOut:
    held, widths = 0, []
    for board, model, out in cases:
        low, high = _interval(board, model, out)
        held += bool(low - 1e-9 <= board.human[out].mean() <= high + 1e-9)
        widths.append((high - low) / 2)
    return HeldOut(what, len(cases), held, float(np.mean(widths)))


def _interval(board: Board, model: int, out: IntArray) -> tuple[float, float]:
    """On the answers whose labels are held out; labels of the model's other answers count as its own."""
    kept = np.ones(len(board.human), dtype=np.bool_)
    kept[(board.model == model)] = False
    kept[out] = True
    rows = np.flatnonzero(kept)
    row_of = np.full(len(kept), -1)
    row_of[rows] = np.arange(len(rows))
    labelled = np.setdiff1d(np.flatnonzero(board.human >= 0), out)
    target = TargetPredictions(
        board.model[rows], board.item[rows], board.yes[rows], board.total[rows], np.zeros(len(rows), dtype=np.bool_),
        board.provider,
    )  # fmt: skip
    gold = GoldPredictions(
        board.model[labelled], board.provider[board.model[labelled]], board.yes[labelled], board.total[labelled],
        board.human[labelled], row_of[labelled],
    )  # fmt: skip
    found = ends_of(target, gold)[model]
    return found[0], found[1]
