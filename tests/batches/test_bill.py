"""The bill of a batch: each answer at the price of its day; what nobody can tell is told apart, and is never zero."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from layton_batch.batches.bill import Bill, known_sums
from layton_batch.costs.prices import PriceBook
from layton_batch.costs.stated import CostTotals
from layton_batch.records import Response, Usage
from layton_batch.states import ErrorClass, RequestOutcome

BOOK = PriceBook(at=datetime(2026, 11, 21, tzinfo=UTC))
USAGE = Usage(1_000, 100, 2_000, 1_500)
BOUNDS = {"a": Decimal("0.5"), "b": Decimal("0.25"), "c": None}


def bill(provider: str, model: str) -> Bill:
    return Bill(BOOK.price(provider, model), BOUNDS)


def answer(custom_id: str, usage: Usage = USAGE) -> Response:
    return Response(custom_id, RequestOutcome.SUCCEEDED, usage=usage)


def test_a_charge_says_what_the_answer_cost_the_source_and_the_date() -> None:
    ours = bill("openai", "gpt-5.1")
    ours.enter([answer("a"), answer("b")])
    for charge in ours.charges:
        assert (charge.cost_usd, charge.unbatched_usd) == (Decimal("0.0105687500"), Decimal("0.021137500"))
        assert (charge.price_source, charge.price_date) == ("genai-prices 0.2.3", "2026-11-21")
        assert (charge.input_tokens, charge.cached_input_tokens, charge.reasoning_tokens) == (1_000, 100, 1_500)
    assert ours.spent == Decimal("0.0211375")
    assert (ours.unknown_cost, list(ours.anomalies())) == (0, [])
    assert known_sums(ours.charges) == CostTotals(Decimal("0.0211375"), 2_000, 4_000)


def test_what_nobody_can_tell_has_no_cost_and_a_bound_in_the_order_of_the_requests() -> None:
    lost = Response("b", RequestOutcome.ERRORED, error_class=ErrorClass.UNREADABLE)
    failed = Response("d", RequestOutcome.ERRORED, error_class=ErrorClass.PROVIDER_FAULT)
    ours = bill("openai", "gpt-5.1")
    ours.enter([answer("a", Usage(is_known=False)), lost, failed, answer("c")])
    told = [
        (charge.custom_id, charge.is_answered, charge.cost_usd is None, charge.unknown_cost) for charge in ours.charges
    ]
    assert told == [
        ("a", True, True, "answered without usage"),
        ("b", False, True, "unreadable"),
        ("c", True, False, None),
    ]
    assert ours.unknown_cost == Decimal("0.75")
    assert known_sums(ours.charges) == CostTotals()


def test_without_a_price_the_tokens_are_known_and_no_cost_is() -> None:
    ours = bill("together", "nobody/knows")
    ours.enter([answer("a"), answer("c")])
    assert {(charge.cost_usd, charge.price_date, charge.unknown_cost) for charge in ours.charges} == {
        (None, None, "answered without a price")
    }
    assert (ours.spent, ours.unknown_cost) == (0, Decimal("0.5"))
    assert known_sums(ours.charges) == CostTotals(None, 2_000, 4_000)


def test_charged_again_an_answer_gets_the_new_price_and_other_charges_stay() -> None:
    lost = Response("b", RequestOutcome.ERRORED, error_class=ErrorClass.UNREADABLE)
    before, after = bill("together", "nobody/knows"), bill("openai", "gpt-5.1")
    before.enter([answer("a"), lost, answer("c", Usage(is_known=False))])
    after.charge_again(before.charges)
    assert [charge.unknown_cost for charge in after.charges] == [None, "unreadable", "answered without usage"]
    assert after.spent == Decimal("0.0105687500")
    assert after.unknown_cost == Decimal("0.25")


def test_no_answers_are_a_bill_without_charges() -> None:
    ours = bill("openai", "gpt-5.1")
    ours.enter([])
    assert (ours.charges, ours.spent, known_sums(ours.charges)) == ([], 0, CostTotals(Decimal(0), 0, 0))
