"""What a provider says that a batch cost beside what we say: where the two are the same, and where not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from layton_batch.batches.bill import WITHOUT_PRICE, WITHOUT_USAGE, known_sums
from layton_batch.costs.report import build_report, differing_note
from layton_batch.costs.stated import CostComparison, CostTotals, comparison_json
from layton_batch.providers.chat import dollars
from layton_batch.records import JsonValue, RequestCost
from layton_batch.reports.cost_document import report_json

OURS = CostTotals(Decimal("2.00"), 1_000, 500)


def statement(stated: CostTotals, ours: CostTotals = OURS, batch: str = "b1") -> CostComparison:
    return CostComparison(batch, "doubleword", "qwen", stated, ours)


@pytest.mark.parametrize(
    ("stated", "differs"),
    [
        (CostTotals(), False),
        (OURS, False),
        (CostTotals(Decimal("2.02")), False),
        (CostTotals(Decimal("1.98")), False),
        (CostTotals(Decimal("2.03")), True),
        (CostTotals(Decimal("1.97")), True),
        (CostTotals(Decimal(0)), True),
        (CostTotals(Decimal("2.00"), 1_000, 520), True),
        (CostTotals(None, 1_010, 500), False),
        (CostTotals(None, 1_020, None), True),
    ],
)
def test_a_difference_is_more_than_one_in_a_hundred(stated: CostTotals, differs: bool) -> None:
    assert statement(stated).differs is differs


def test_the_report_names_the_batches_that_differ_and_no_others() -> None:
    stated = [
        statement(CostTotals(Decimal(3)), batch="b2"),
        statement(OURS),
        statement(CostTotals(Decimal(9)), batch="b0"),
    ]
    report = build_report([], stated=stated)
    assert [one.batch_id for one in report.differing] == ["b0", "b2"]
    assert differing_note(report) == (
        "the provider's own statement differs by more than 1 % for 2 batches: "
        "b0: doubleword says $9; our bill says $2.00"
    )
    assert report_json(report)["differing"] == [comparison_json(one) for one in report.differing]
    assert differing_note(build_report([], stated=[statement(OURS)])) is None


@pytest.mark.parametrize(
    ("reasons", "ours"),
    [
        ([], CostTotals(Decimal("0.75"), 30, 12)),
        ([WITHOUT_PRICE], CostTotals(None, 30, 12)),
        ([WITHOUT_USAGE, WITHOUT_PRICE], CostTotals()),
        (["out of reach"], CostTotals()),
    ],
)
def test_requests_of_unknown_cost_make_our_own_figure_unknown(reasons: list[str], ours: CostTotals) -> None:
    charge = RequestCost("r", input_tokens=30, output_tokens=12, cost_usd=Decimal("0.75"))
    assert known_sums([charge], reasons) == ours


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0.25, Decimal("0.25")),
        ("0.001250", Decimal("0.001250")),
        (3, Decimal(3)),
        (0, Decimal(0)),
        *((odd, None) for odd in (None, True, "", "free", "nan", "1e400", -1, float("inf"), [], {})),
    ],
)
def test_an_amount_is_read_from_a_number_or_its_text(value: JsonValue, amount: Decimal | None) -> None:
    assert dollars(value) == amount
