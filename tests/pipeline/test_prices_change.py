"""Prices given, corrected or removed while a run is under way: what is not sent yet is bounded by those of now, what
is sent keeps what was set aside for it, and what was paid for never counts as free."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.records import Batch
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, RunState, demo_prices, lab, quiz_text

MODEL = r'(?s)\[\[prices\]\]\s*provider = "openai"\s*model = "larch-2-mini".*?(?=\[\[prices\]\]|\Z)'
OPENAI, TWO = ("openai",), ("openai", "anthropic")


def prices(times: int | None = 1) -> str:
    """The demonstration's, with those of the model asked so many times as high; None: it has none."""
    if times is None:
        return re.sub(MODEL, "", demo_prices())
    return re.sub(MODEL, lambda found: _dearer(found[0], times), demo_prices())


def _dearer(entry: str, times: int) -> str:
    return re.sub(r'put = "([\d.]+)"', lambda found: f'put = "{Decimal(found[1]) * times}"', entry)


def asked(times: int | None = 1, *, budget: str = "", providers: tuple[str, ...] = OPENAI) -> str:
    top = f"[budget]\nmax_usd = {budget}\n" * bool(budget)
    return quiz_text(providers, top=top, prices=prices(times))


def bounds(bench: Lab) -> list[Decimal | None]:
    """What the rows say that each request can cost."""
    return [None if usd is None else Decimal(usd) for usd in bench.requests(asked())["max_cost"]]


def bound_of(batch: Batch) -> Decimal:
    assert batch.max_cost is not None
    return batch.max_cost


# ---- what is not sent yet --------------------------------------------------------------------------------------------


def held_back(bench: Lab, text: str) -> Batch:
    """Planned, and not sent for want of money."""
    status = bench.finish(text)
    assert status.state is RunState.OVER_BUDGET
    (batch,) = status.batches
    assert batch.state is Lifecycle.PLANNED
    return batch


def test_what_is_not_sent_yet_is_bounded_by_the_prices_of_now_and_goes_once_they_are_known(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        before = bound_of(held_back(bench, asked(budget="0")))
        held_back(bench, asked(budget="0.001"))
        assert not bench.events(asked(), "prices_changed", "repriced")  # another budget alone bounds nothing again
        dearer = bound_of(held_back(bench, asked(1000, budget="0.2")))
        assert dearer == 1000 * before == sum(filter(None, bounds(bench)))
        assert held_back(bench, asked(None, budget="50")).max_cost is None
        assert set(bounds(bench)) == {None}
        assert bench.billed() == {}
        status = bench.finish_paid_once(asked(budget="50"))
        assert bound_of(status.batches[0]) == before


# ---- what is sent ----------------------------------------------------------------------------------------------------


def test_what_is_sent_keeps_what_was_set_aside_and_its_next_attempt_is_bounded_by_the_new_price(tmp_path: Path) -> None:
    failing = Fault(on="row", action="error", provider="openai", match=r"-000001\b", times=1)
    with lab(tmp_path, failing) as bench:
        sent = bench.begin(asked())
        assert sent.batches[0].state is Lifecycle.IN_FLIGHT
        old = bounds(bench)
        for times in (None, 2):
            status = bench.begin(asked(times))
            assert status.reserved_usd == sent.reserved_usd == bound_of(status.batches[0]) == sum(filter(None, old))
            assert times or bounds(bench) == old
        status = bench.finish(asked(2))
        assert (status.state, status.reserved_usd) == (RunState.DONE, 0)
        assert bound_of(status.batches[1]) == 2 * (old[0] or 0)


@pytest.mark.parametrize(
    ("before", "after", "budget", "state", "creates"),
    [(1, 1000, "20", RunState.OVER_BUDGET, 1), (None, 1, "50", RunState.DONE, 2)],
)
def test_a_batch_whose_create_was_unclear_goes_again_only_within_the_budget_by_the_prices_of_now(
    tmp_path: Path, before: int | None, after: int, budget: str, state: RunState, creates: int
) -> None:
    with lab(tmp_path, Fault(on="create", action="drop", provider="openai", times=1)) as bench:
        bench.begin(asked(before))
        assert bench.finish(asked(after, budget=budget)).state is state
        assert bench.creates("openai") == creates


# ---- what was charged ------------------------------------------------------------------------------------------------


def charged(bench: Lab, text: str) -> Decimal:
    """What the answers of the model whose price changes cost. The run says what its tables add up to."""
    status, table = bench.finish(text), bench.table(text, "usage")
    assert status.spent_usd == sum(map(Decimal, table["cost_usd"].drop_nulls()), Decimal(0))
    return sum(map(Decimal, table.filter(provider="openai")["cost_usd"].drop_nulls()), Decimal(0))


def test_answers_cost_what_the_manifest_says_now_and_up_to_their_bound_where_it_has_no_price(tmp_path: Path) -> None:
    def both(times: int | None) -> str:
        return asked(times, providers=TWO)

    with lab(tmp_path) as bench:
        assert charged(bench, both(None)) == 0
        assert not bench.read(both(None)).complete
        once = charged(bench, both(1))
        status = bench.finish_paid_once(both(1))
        assert (status.complete, status.unknown_cost_usd, bench.bill().total.unknown_cost_requests) == (True, 0, 0)
        last = bench.events(both(1))[-1]
        bench.begin(both(1))
        assert bench.events(both(1))[-1] == last  # nothing is charged a third time
        assert charged(bench, both(3)) == 3 * once > 0
        assert charged(bench, both(None)) == 0
        assert bench.read(both(None)).unknown_cost_usd >= once
        assert charged(bench, both(1)) == once
        assert bench.read(both(1)).unknown_cost_usd == 0
        for times in (1, 3):  # the manifest no longer has the model
            assert charged(bench, asked(times, providers=("anthropic",))) == times * once
        bench.cancel()
        assert charged(bench, both(2)) == 2 * once
        assert bench.read(both(2)).state is RunState.CANCELLED
