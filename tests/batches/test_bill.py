"""The bill of a batch: each answer at the price of its day; what nobody can tell is told apart, and is never zero."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from layton_batch.batches.usage_rows import Bill, billed
from layton_batch.costs.prices import PriceBook
from layton_batch.records import Job, ModelSpec, Response, Usage
from layton_batch.states import ErrorClass, RequestOutcome, Role
from tests.store.rows import batch

BOOK = PriceBook(at=datetime(2026, 11, 21, tzinfo=UTC))
USAGE = Usage(1_000, 100, 2_000, 1_500)
BOUNDS = {"a": Decimal("0.5"), "b": Decimal("0.25"), "c": None}


def bill(provider: str, model: str) -> Bill:
    job = Job("j", Role.JUDGE, ModelSpec("shown", provider, model, "family"))
    return Bill(BOOK, job, batch(0), BOUNDS)


def answer(custom_id: str, usage: Usage = USAGE) -> Response:
    return Response(custom_id, RequestOutcome.SUCCEEDED, usage=usage)


def test_a_row_carries_what_it_cost_the_source_and_the_date() -> None:
    ours = bill("openai", "gpt-5.1")
    table = ours.enter([answer("a"), answer("b")])
    for row in table.iter_rows(named=True):
        assert (row["cost_usd"], row["unbatched_usd"]) == ("0.0105687500", "0.021137500")
        assert (row["price_source"], row["price_date"]) == ("genai-prices 0.2.3", "2026-11-21")
        assert (row["role"], row["provider"], row["model"], row["batch_id"]) == (
            "judge",
            "openai",
            "shown",
            batch(0).id,
        )
        assert (row["input_tokens"], row["cached_input_tokens"], row["reasoning_tokens"]) == (1_000, 100, 1_500)
    assert ours.spent == Decimal("0.0211375")
    assert ours.unknown_cost_rows == []
    assert ours.ours() == billed(table, ())


def test_what_nobody_can_tell_has_no_cost_and_a_bound_in_the_order_of_the_requests() -> None:
    lost = Response("b", RequestOutcome.ERRORED, error_class=ErrorClass.UNREADABLE)
    failed = Response("d", RequestOutcome.ERRORED, error_class=ErrorClass.PROVIDER_FAULT)
    ours = bill("openai", "gpt-5.1")
    table = ours.enter([answer("a", Usage(known=False)), lost, failed, answer("c")])
    assert table["cost_usd"].is_null().to_list() == [True, False]
    assert [(row["custom_id"], row["answered"], row["bound_usd"]) for row in ours.unknown_cost_rows] == [
        ("a", True, "0.5"),
        ("b", False, "0.25"),
    ]
    assert ours.unknown_cost == Decimal("0.75")
    assert ours.ours() == billed(table, (row["why"] for row in ours.unknown_cost_rows))


def test_without_a_price_the_tokens_are_known_and_no_cost_is() -> None:
    ours = bill("together", "nobody/knows")
    table = ours.enter([answer("a"), answer("c")])
    assert table["cost_usd"].null_count() == table["price_date"].null_count() == 2
    assert (ours.spent, ours.unknown_cost) == (0, Decimal("0.5"))
    assert ours.ours() == billed(table, (row["why"] for row in ours.unknown_cost_rows))
    assert ours.ours().input_tokens == 2_000


def test_no_answers_are_a_table_without_rows() -> None:
    assert bill("openai", "gpt-5.1").enter([]).height == 0
