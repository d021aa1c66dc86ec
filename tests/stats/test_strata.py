"""Bins are integers, labels land where they belong, and every item is in exactly one bin or a known zero."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from layton_batch.stats.strata import Flag, GoldPredictions, Strata, TargetPredictions, build_strata

from .boards import FIELDS, Board


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def target(**changes: Any) -> TargetPredictions:
    base = TargetPredictions(
        model=ints(0, 0, 0, 1, 1, 1),
        item=ints(0, 1, 2, 0, 1, 2),
        yes=ints(3, 2, 0, 1, 2, 0),
        total=ints(3, 3, 0, 2, 2, 0),
        known_zero=np.array([False, False, False, False, False, True]),
        provider=ints(0, 1),
    )
    return dataclasses.replace(base, **changes)


def gold(**changes: Any) -> GoldPredictions:
    base = GoldPredictions(
        model=ints(0, 0, 1, -1, -1),
        provider=ints(0, 0, 1, 0, 2),
        yes=ints(3, 2, 2, 3, 1),
        total=ints(3, 3, 2, 3, 3),
        label=ints(1, 0, 1, 1, 0),
        own_target_row=ints(0, 1, 4, -1, -1),
    )
    return dataclasses.replace(base, **changes)


def column(strata: Strata, yes: int, total: int) -> int:
    return int(np.flatnonzero((strata.bin_yes == yes) & (strata.bin_total == total))[0])


def test_bins_are_votes_in_lowest_terms_and_the_unjudged_bin_comes_last() -> None:
    strata = build_strata(target(), gold())
    assert list(zip(strata.bin_yes.tolist(), strata.bin_total.tolist(), strict=True)) == [
        (1, 2),
        (2, 3),
        (1, 1),
        (0, 0),
    ]
    assert strata.n.tolist() == [[0, 1, 1, 1], [1, 0, 1, 0]]


def test_three_of_three_and_two_of_two_share_a_bin_as_equal_means_do() -> None:
    strata = build_strata(target(), gold())
    assert strata.row_bin[0] == strata.row_bin[4] == column(strata, 1, 1)


def test_every_item_is_in_one_bin_or_a_known_zero() -> None:
    strata = build_strata(target(), gold())
    assert strata.items.tolist() == [3, 3]
    assert strata.known_zeros.tolist() == [0, 1]
    assert strata.unjudged.tolist() == [1, 0]


def test_pool_is_other_providers_and_borrowed_is_all_but_the_own_predictions() -> None:
    strata = build_strata(target(), gold())
    ones = column(strata, 1, 1)
    # (1, 1) holds: model 0 of provider 0, model 1 of provider 1, a stranger of provider 0
    assert strata.pool_labels[:, ones].tolist() == [1, 2]
    assert strata.borrowed_labels[:, ones].tolist() == [2, 2]
    assert strata.own_labels[:, ones].tolist() == [1, 1]
    assert strata.own_positives[:, ones].tolist() == [1, 1]


def test_an_own_label_is_filed_under_the_vote_of_its_target_row() -> None:
    strata = build_strata(target(), gold(yes=ints(0, 2, 2, 3, 1)))  # the gold file saw another jury
    assert strata.own_labels[0, column(strata, 1, 1)] == 1
    assert (strata.own_labels <= strata.n).all()


def test_a_label_on_another_prediction_of_the_model_is_borrowed() -> None:
    strata = build_strata(target(), gold(own_target_row=ints(-1, 1, 4, -1, -1)))
    ones = column(strata, 1, 1)
    assert strata.own_labels[0, ones] == 0
    assert strata.borrowed_labels[0, ones] == 3


def test_a_label_on_a_known_zero_adds_nothing() -> None:
    strata = build_strata(target(), gold(model=ints(0, 0, 1, -1, -1), own_target_row=ints(0, 1, 5, -1, -1)))
    assert strata.own_labels[1].sum() == 0


def test_unjudged_gold_is_a_bin_like_any_other() -> None:
    strata = build_strata(target(), gold(total=ints(3, 3, 2, 3, 0), yes=ints(3, 2, 2, 3, 0)))
    assert strata.pool_labels[:, column(strata, 0, 0)].tolist() == [1, 1]


def test_flags_say_what_is_missing() -> None:
    strata = build_strata(target(), gold())
    first, second = strata.flags(strata.pool_labels)
    assert first == (Flag.EMPTY_GOLD_BIN, Flag.UNJUDGED)
    assert second == (Flag.EMPTY_GOLD_BIN, Flag.KNOWN_ZEROS)
    assert strata.flags(np.zeros_like(strata.pool_labels))[0][0] == Flag.NO_GOLD
    assert strata.smallest_gold_bin(strata.pool_labels) == [0, 0]


def test_no_gold_and_no_target_are_counts_of_zero() -> None:
    nothing = ints()
    none = GoldPredictions(nothing, nothing, nothing, nothing, nothing, nothing)
    strata = build_strata(target(), none)
    assert strata.pool_labels.sum() == strata.borrowed_labels.sum() == 0
    empty = TargetPredictions(nothing, nothing, nothing, nothing, np.zeros(0, dtype=bool), ints(0, 1))
    assert build_strata(
        empty, gold(model=ints(-1, -1, -1, -1, -1), own_target_row=ints(-1, -1, -1, -1, -1))
    ).n.shape == (2, 0)


@pytest.mark.parametrize(
    ("where", "changes", "message"),
    [
        ("target", {"yes": ints(3, 4, 0, 1, 2, 0)}, "row 1: target: yes votes"),
        ("target", {"yes": ints(3, 2, 0, -1, 2, 0)}, "row 3: target: yes votes"),
        ("target", {"model": ints(0, 0, 0, 1, 1, 7)}, "row 5: target: model index"),
        ("target", {"item": ints(0, 1, 1, 0, 1, 2)}, "row 2: target: item 1 occurs twice for model 0"),
        ("target", {"item": ints(0)}, "target: model, item"),
        ("target", {"provider": ints(0, -1)}, "row 1: target: provider"),
        ("gold", {"label": ints(1, 0, 1, 1, 2)}, "row 4: gold: label must be 0 or 1"),
        ("gold", {"model": ints(0, 0, 1, -1, 9)}, "row 4: gold: model index"),
        ("gold", {"provider": ints(0, 0, 1, 0, -1)}, "row 4: gold: provider"),
        ("gold", {"own_target_row": ints(0, 1, 4, -1, 9)}, "row 4: gold: own_target_row out of range"),
        ("gold", {"own_target_row": ints(0, 1, 0, -1, -1)}, "row 2: gold: own_target_row belongs"),
        ("gold", {"own_target_row": ints(0, 0, 4, -1, -1)}, "target row 0 has more than one label"),
        ("gold", {"yes": ints(4, 2, 2, 3, 1)}, "row 0: gold: yes votes"),
        ("gold", {"label": ints(1)}, "gold: model, provider"),
    ],
)
def test_bad_rows_are_named(where: str, changes: dict[str, Any], message: str) -> None:
    made = (target(**changes), gold()) if where == "target" else (target(), gold(**changes))
    with pytest.raises(ValueError, match=message):
        build_strata(*made)


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_real_bins_equal_the_published_counts(boards: dict[str, Board], expected: dict[str, Any], field: str) -> None:
    board = boards[field]
    strata = board.strata
    for i, model in enumerate(expected["splits"]["llm"][field]["models"]):
        assert (board.names[i], strata.items[i]) == (model["model"], model["n"])
        ours = [
            [
                c[i, b]
                for c in (strata.n, strata.pool_labels, strata.pool_positives, strata.own_labels, strata.own_positives)
            ]
            + [strata.borrowed_labels[i, b] - strata.pool_labels[i, b]]
            for b in np.flatnonzero(strata.n[i])
        ]
        theirs = [[b[k] for k in ("n", "m", "h", "own", "own_pos", "same_provider")] for b in model["bins"]]
        assert ours == theirs


def test_narrow_integers_count_the_same() -> None:
    wide, narrow_gold = target(), gold()
    narrow_target = dataclasses.replace(
        wide, **{f: getattr(wide, f).astype(np.int8) for f in ("model", "item", "yes", "total", "provider")}
    )
    fields = [f.name for f in dataclasses.fields(narrow_gold) if f.name != "author"]
    narrow_gold = dataclasses.replace(narrow_gold, **{f: getattr(narrow_gold, f).astype(np.int8) for f in fields})
    a, b = build_strata(wide, gold()), build_strata(narrow_target, narrow_gold)
    for field in dataclasses.fields(Strata):
        if field.name != "kin":
            assert getattr(a, field.name).tolist() == getattr(b, field.name).tolist()


def test_sparse_item_numbers_are_checked_for_duplicates_too() -> None:
    far = target(item=ints(0, 10**9, 2, 0, 5, 5))
    with pytest.raises(ValueError, match="row 5: target: item 5 occurs twice for model 1"):
        build_strata(far, gold())
