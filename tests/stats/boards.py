"""Boards for the statistics tests: the real text split of layton-eval where it is at hand, and small made ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import hierarchical_scores
from layton_batch.stats.label_table import label_table
from layton_batch.stats.posterior import ModelScore
from layton_batch.stats.strata import GoldPredictions, Strata, TargetPredictions, build_strata
from tests.support.paths import SHARED_DATA

LAYTON = SHARED_DATA / "layton"
JUDGES = ("mistral-large-2512", "claude-opus-4-5-20251101", "gpt-5.1-2025-11-13", "gemini-3-pro-preview")
FIELDS = ("both_correct", "is_answer_correct", "is_justification_correct")


def read_json(name: str) -> Any:
    return json.loads((LAYTON / name).read_text(encoding="utf-8"))


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (LAYTON / name).read_text(encoding="utf-8").splitlines()]


class Board:
    """The real predictions as arrays; `names` in the file's order."""

    def __init__(self, rows: list[dict[str, Any]], field: str) -> None:
        human = "human_" + field.removeprefix("is_")
        self.names = list(dict.fromkeys(r["model"] for r in rows))
        self.providers = list(dict.fromkeys(r["provider"] for r in rows))
        self.items = list(dict.fromkeys(r["riddle_id"] for r in rows))
        provider_of = {r["model"]: r["provider"] for r in rows}
        codes = {True: 1, False: 0, None: -1}
        self.verdicts = np.array([[codes[r[f"{field}_{j}"]] for j in JUDGES] for r in rows])
        self.human = np.array([codes[r[human]] for r in rows])
        self.model = np.array([self.names.index(r["model"]) for r in rows])
        self.item = np.array([self.items.index(r["riddle_id"]) for r in rows])
        self.provider = np.array([self.providers.index(provider_of[n]) for n in self.names])
        self.yes = (self.verdicts == 1).sum(axis=1)
        self.total = (self.verdicts >= 0).sum(axis=1)
        self.target = TargetPredictions(
            self.model, self.item, self.yes, self.total, np.zeros(len(rows), dtype=bool), self.provider
        )
        at = np.flatnonzero(self.human >= 0)
        self.gold = GoldPredictions(
            self.model[at], self.provider[self.model[at]], self.yes[at], self.total[at], self.human[at], at
        )
        self.strata = build_strata(self.target, self.gold)


def scored(target: TargetPredictions, gold: GoldPredictions, *, level: float = 0.95) -> tuple[ModelScore, ...]:
    """The scores of all models of a board."""
    strata = build_strata(target, gold, by_seats=True)
    found = fit(label_table(target, gold, strata), len(strata.items))
    return hierarchical_scores(strata, found, level=level)


def make_strata(
    bins: list[tuple[int, int]],
    n: list[list[int]],
    pool: list[list[tuple[int, int]]],
    *,
    own: list[list[tuple[int, int]]] | None = None,
    known_zeros: list[int] | None = None,
) -> Strata:
    """Strata from counts: `pool` and `own` hold (labels, positives) per model and bin."""
    counts = np.array(n, dtype=np.int64).reshape(len(n), len(bins))
    zeros = np.array(known_zeros if known_zeros is not None else [0] * len(n), dtype=np.int64)
    labels = np.array(pool, dtype=np.int64).reshape(*counts.shape, 2)
    mine = np.zeros_like(labels) if own is None else np.array(own, dtype=np.int64).reshape(labels.shape)
    return Strata(
        bin_yes=np.array([b[0] for b in bins], dtype=np.int64),
        bin_total=np.array([b[1] for b in bins], dtype=np.int64),
        n=counts,
        pool_labels=labels[..., 0],
        pool_positives=labels[..., 1],
        borrowed_labels=labels[..., 0],
        borrowed_positives=labels[..., 1],
        own_labels=mine[..., 0],
        own_positives=mine[..., 1],
        known_zeros=zeros,
        items=counts.sum(axis=1) + zeros,
        row_bin=np.zeros(0, dtype=np.int64),
        row_label=np.zeros(0, dtype=np.int64),
    )
