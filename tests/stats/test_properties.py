"""What must hold on every board: order does not matter, like bins are one bin, labels help, nothing leaves [0, 1]."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from layton_batch.stats.counts import LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import summarize
from layton_batch.stats.paper import NO_LABEL, paper_scores
from layton_batch.stats.ranks import rank_ranges, score_ranks

from .boards import rows_of, scored

FITTED = settings(max_examples=settings().max_examples // 16)  # a fit takes a tenth of a second
seeds = st.integers(0, 2**32 - 1)
Pair = tuple[Predictions, LabelledAnswers]


def random_board(seed: int) -> Pair:
    """A small board of any shape: missing verdicts, unjudged items, known zeros, gaps, own labels, strangers."""
    rng = np.random.default_rng(seed)
    models, items, votes = int(rng.integers(1, 6)), int(rng.integers(1, 25)), int(rng.integers(1, 5))
    model, item = (v.ravel() for v in np.meshgrid(np.arange(models), np.arange(items), indexing="ij"))
    keep = (rng.random(len(model)) < rng.choice([1.0, 0.8])) | (item == 0)
    model, item = model[keep], item[keep]
    total = rng.integers(0, votes + 1, len(model)) if rng.random() < 0.5 else np.full(len(model), votes)
    yes = rng.binomial(total, rng.choice([0.1, 0.5, 0.9], len(model)))
    zero = rng.random(len(model)) < 0.1
    provider = rng.integers(0, 3, models)
    own = np.flatnonzero(rng.random(len(model)) < rng.choice([0.0, 0.4]))
    strangers = int(rng.integers(0, 40))
    g_total = np.concatenate([total[own], np.full(strangers, votes)])
    g_yes = np.concatenate([yes[own], rng.integers(0, votes + 1, strangers)])
    gold = LabelledAnswers(
        author=np.concatenate([model[own], np.full(strangers, -1)]),
        maker=np.concatenate([provider[model[own]], rng.integers(0, 4, strangers)]),
        yes=g_yes,
        total=g_total,
        correct=rng.binomial(1, np.clip(g_yes / np.maximum(g_total, 1), 0.05, 0.95)),
        row=np.concatenate([own, np.full(strangers, -1)]),
    )
    return Predictions(model, item, yes, total, zero, provider), gold


def shuffled(board: Pair, models: Any, rows: Any, labels: Any) -> Pair:
    """The same board with models renumbered and rows and labels in another order."""
    target, gold = board
    place = np.argsort(models)
    row_place = np.argsort(rows)
    moved = Predictions(
        place[target.model][rows], target.item[rows], target.yes[rows], target.total[rows], target.known_zero[rows],
        target.maker[models],
    )  # fmt: skip
    of = np.where(gold.author >= 0, place[gold.author], -1)
    row = np.where(gold.row >= 0, row_place[gold.row], -1)
    fields = (of, gold.maker, gold.yes, gold.total, gold.correct, row)
    return moved, LabelledAnswers(*(v[labels] for v in fields))


def numbers(rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    def tidy(value: Any) -> Any:
        return round(value, 9) if isinstance(value, float) else value

    return [tuple(map(tidy, dataclasses.astuple(r) if dataclasses.is_dataclass(r) else r)) for r in rows]


@FITTED
@given(seeds)
def test_permuting_models_items_and_labels_and_renaming_items_changes_nothing(seed: int) -> None:
    board = random_board(seed)
    rng = np.random.default_rng(seed + 1)
    target, gold = board
    models = rng.permutation(len(target.maker))
    other = shuffled(board, models, rng.permutation(len(target.model)), rng.permutation(len(gold.correct)))
    first, second = numbers(paper_scores(count(*board))), numbers(paper_scores(count(*other)))
    assert [first[m] for m in models] == second
    renamed = dataclasses.replace(target, item=np.random.default_rng(seed).permutation(1000)[target.item])
    assert numbers(scored(renamed, gold)) == numbers(scored(target, gold))


@FITTED
@given(seeds)
def test_every_score_is_possible_or_a_gap_with_a_reason(seed: int) -> None:
    board = random_board(seed)
    counts = count(*board)
    for i, row in enumerate(scored(*board)):
        assert 0 <= row.lower <= row.score <= row.upper <= 1
        assert 0 <= row.new_lower <= row.new_score + 1e-12
        assert row.new_score <= row.new_upper + 1e-12 <= 1 + 1e-12
        low, high = (round(end * int(counts.items[i])) for end in (row.lower, row.upper))
        known = int(counts.own_positives[i].sum())
        refused = int((counts.own_labels[i] - counts.own_positives[i]).sum() + counts.known_zeros[i])
        assert known <= low <= high <= int(counts.items[i]) - refused
    for paper in paper_scores(counts):
        assert (paper.score is None) == (NO_LABEL in paper.flags)
        if paper.score is not None:
            assert paper.lower is not None
            assert paper.upper is not None
            assert np.isfinite([paper.score, paper.half_width, paper.mean]).all()
            assert paper.lower <= paper.upper


@FITTED
@given(seeds)
def test_rank_sets_contain_the_rank(seed: int) -> None:
    target, gold = random_board(seed)
    counts = count(target, gold)
    found = summarize(fit(counts), draws=200, seed=1)
    scores, draws, new = [row.score for row in rows_of(found)], found.here.draws, found.new.draws
    ranks = score_ranks(scores)
    sets = rank_ranges(draws, rank=ranks)
    if len(scores):
        assert (sets.best <= ranks).all()
        assert (ranks <= sets.worst).all()
        assert (sets.best >= 1).all()
        assert (sets.worst <= len(scores)).all()
        drawn = rankdata(-draws, method="min", axis=1)[100:]  # the half that had no part in the shape of the ranges
        assert ((drawn >= sets.best) & (drawn <= sets.worst)).all(axis=1).mean() >= 0.95
        assert (new >= 0).all()
        assert (new <= 1 + 1e-12).all()
