"""Prices given, corrected or removed while a run is under way: what is not sent yet is bounded by those of now, what
is sent keeps what was set aside for it, and what was paid for never counts as free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.batches.cancel import cancel_run
from layton_batch.batches.resolve import send_again
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Batch, Response, Usage
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, read_status
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from layton_batch.store.run_store import RunStore
from tests.support.lab import Lab, demo_prices, lab, manifest_text, quiz_text

MODEL = r'(?s)\[\[prices\]\]\s*provider = "openai"\s*model = "larch-2-mini".*?(?=\[\[prices\]\]|\Z)'


def prices(times: int | None = 1) -> str:
    """The demonstration's, with those of the model asked so many times as high; None: it has none."""
    if times is None:
        return re.sub(MODEL, "", demo_prices())
    return re.sub(MODEL, lambda found: _dearer(found[0], times), demo_prices())


def _dearer(entry: str, times: int) -> str:
    return re.sub(r'put = "([\d.]+)"', lambda found: f'put = "{Decimal(found[1]) * times}"', entry)


def asked(times: int | None = 1, *, budget: str = "", policy: str = "") -> str:
    top = f"[budget]\nmax_usd = {budget}\n" * bool(budget) + f"[policy]\n{policy}\n" * bool(policy)
    return quiz_text(top=top, prices=prices(times))


def first(run: Run) -> Batch:
    return run.store.batches()[0]


def bounds(run: Run, batch: Batch) -> Sequence[Decimal | None]:
    """What the rows say that each request of a batch can cost."""
    return list(run.store.asked_of(batch.id).values())


def held_back(bench: Lab, text: str) -> None:
    """Planned, and not sent for want of money."""
    status = bench.finish(text)
    assert status.state is RunState.OVER_BUDGET
    assert [batch.state for batch in status.batches] == [Lifecycle.PLANNED]


def test_a_price_that_is_given_lets_a_run_with_a_budget_go_on(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        held_back(bench, asked(None, budget="50"))
        status = bench.finish(asked(budget="50"))
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert status.spent_usd == bench.server.ledger().total_usd
        assert all(batch.max_cost is not None for batch in status.batches)


def test_a_price_that_is_corrected_bounds_what_is_not_sent_yet(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        held_back(bench, asked(budget="0"))
        with bench.open(asked(budget="0")) as run:
            before = first(run).max_cost
        assert before is not None
        held_back(bench, asked(1000, budget="0.2"))
        with bench.open(asked(1000, budget="0.2")) as run:
            assert first(run).max_cost == 1000 * before == sum(filter(None, bounds(run, first(run))))
        assert bench.billed() == {}


def test_a_price_that_is_removed_holds_back_what_is_not_sent_yet_where_there_is_a_budget(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        held_back(bench, asked(budget="0"))
        held_back(bench, asked(None, budget="50"))
        with bench.open(asked(None, budget="50")) as run:
            assert first(run).max_cost is None
            assert set(bounds(run, first(run))) == {None}
            assert "no known price" in str(first(run).reason)


def test_what_is_sent_keeps_what_was_set_aside_and_its_next_attempt_is_bounded_by_the_new_price(tmp_path: Path) -> None:
    failing = Fault(on="row", action="error", status=500, provider="openai", match=r"-000001\b", times=1)
    with lab(tmp_path, failing) as bench:
        with bench.open(asked()) as run:
            advance(run)
            old, reserved = bounds(run, first(run)), run.store.money().reserved
            assert first(run).state is Lifecycle.IN_FLIGHT
        with bench.open(asked(2)) as run:
            advance(run)
            assert run.store.money().reserved == reserved == first(run).max_cost
        status = bench.finish(asked(2))
        assert status.state is RunState.DONE
        assert status.reserved_usd == 0
        again = next(batch for batch in status.batches if batch.parent_id is not None)
        assert old[0] is not None
        assert again.max_cost == 2 * old[0]


def test_what_is_sent_has_an_upper_bound_for_good_though_its_price_is_removed(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(asked()) as run:
            advance(run)
            old = bounds(run, first(run))
        with bench.open(asked(None)) as run:
            advance(run)
            assert bounds(run, first(run)) == old
            assert first(run).max_cost == sum(filter(None, old))
        bench.finish(asked(None))
        with bench.open(asked(None)) as run:
            assert run.store.money().committed == sum(filter(None, old))


def test_a_retry_of_what_had_a_price_and_has_none_is_not_sent_under_a_budget(tmp_path: Path) -> None:
    refused = Fault(on="row", action="error", status=400, provider="openai", match=r"-000001\b", times=1)
    with lab(tmp_path, refused) as bench:
        assert bench.finish(asked(budget="50")).unanswered == 1
        assert bench.retry() == 1
        assert bench.finish(asked(None, budget="50")).state is RunState.OVER_BUDGET
        status = bench.finish(asked(3, budget="50"))
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert all(batch.max_cost is not None for batch in status.batches)


def test_replies_asked_for_again_are_bounded_with_the_room_they_get_at_the_new_price(tmp_path: Path) -> None:
    policy = "reask_truncated = 1"
    cut = Fault(on="row", action="truncated", provider="openai", match=r"-000001\b", times=1)
    late = Fault(on="upload", action="status", status=503, provider="openai", after=1, times=3)
    with lab(tmp_path, cut, late) as bench:
        with bench.open(asked(policy=policy)) as run:
            while not (again := [one for one in run.store.batches({Lifecycle.PLANNED}) if one.parent_id is not None]):
                advance(run)
                bench.clock.sleep(5)
        before = again[0].max_cost
        assert before is not None
        with bench.open(asked(2, policy=policy)) as run:
            advance(run)
            assert run.store.batch(again[0].id).max_cost == 2 * before
        assert bench.finish(asked(2, policy=policy)).state is RunState.DONE


def test_a_batch_that_was_being_sent_when_prices_changed_and_was_not_made_goes_with_the_new_bound(
    tmp_path: Path,
) -> None:
    with lab(tmp_path, Fault(on="create", action="drop", provider="openai", times=1)) as bench:
        with bench.open(asked()) as run:
            advance(run)
            before = first(run).max_cost
            assert first(run).state is Lifecycle.SUBMITTING
        with bench.open(asked(2)) as run:
            advance(run)
            assert first(run).max_cost == before
        status = bench.finish(asked(2))
        assert status.state is RunState.DONE
        assert status.reserved_usd == 0
        assert before is not None
        assert status.batches[0].max_cost == 2 * before


@pytest.mark.nightly
def test_a_lost_batch_that_a_person_sends_again_after_prices_changed_goes_with_the_new_bound(tmp_path: Path) -> None:
    unlisted = Fault(on="list", action="status", status=403, provider="openai", after=1, times=40)
    with lab(tmp_path, Fault(on="create", action="drop", provider="openai", times=1), unlisted) as bench:
        assert bench.finish(asked()).state is RunState.NEEDS_PERSON
        assert bench.finish(asked(2)).state is RunState.NEEDS_PERSON
        with bench.open(asked(2)) as run:
            before = first(run).max_cost
            while first(run).state is Lifecycle.LOST:
                with suppress(ManifestError):  # until the list can be read again
                    send_again(run, first(run).id)
        status = bench.finish(asked(2))
        assert status.state is RunState.DONE
        assert status.reserved_usd == 0
        assert before is not None
        assert status.batches[0].max_cost == 2 * before


def test_killed_before_the_new_bounds_are_entered_the_next_start_enters_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_arguments: object, **_options: object) -> None:
        raise Killed

    with lab(tmp_path) as bench:
        held_back(bench, asked(budget="0"))
        with bench.open(asked(2, budget="0")) as run, monkeypatch.context() as patch:
            before = first(run).max_cost
            patch.setattr(RunStore, "reprice", kill)
            with pytest.raises(Killed):
                advance(run)
        held_back(bench, asked(2, budget="0"))
        with bench.open(asked(2, budget="0")) as run:
            assert before is not None
            assert first(run).max_cost == 2 * before


def test_another_budget_alone_has_nothing_bounded_again(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        held_back(bench, asked(budget="0"))
        with bench.open(asked(budget="0.001")) as run:
            advance(run)
            assert read_status(run.store).state is RunState.OVER_BUDGET
            kinds = [event.kind for event in run.store.events()]
        assert "manifest_changed" in kinds
        assert not {"prices_changed", "repriced"} & set(kinds)


# ---- what was charged ----------------------------------------------------------------------------------------------


def charged(bench: Lab, text: str) -> Decimal:
    """What the answers of the model whose price changes cost. The run says what its tables add up to."""
    status, table = bench.finish(text), bench.table(text, "usage")
    assert status.spent_usd == sum(map(Decimal, table["cost_usd"].drop_nulls()), Decimal(0))
    return sum(map(Decimal, table.filter(provider="openai")["cost_usd"].drop_nulls()), Decimal(0))


def test_a_price_that_is_given_after_the_answers_came_is_what_they_cost(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        assert charged(bench, asked(None)) == 0
        assert not bench.finish(asked(None)).complete
        assert charged(bench, asked()) > 0
        status = bench.finish(asked())
        assert status.spent_usd == bench.server.ledger().total_usd
        assert (status.unknown_cost_usd, bench.bill().total.unknown_cost_requests) == (0, 0)
        with bench.open(asked()) as run:
            before = run.store.events()[-1]
            advance(run)
            assert run.store.events()[-1] == before  # nothing is charged a third time


def test_a_price_that_is_corrected_corrects_the_bill_and_one_that_is_removed_leaves_the_bound(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        once = charged(bench, asked())
        assert charged(bench, asked(3)) == 3 * once > 0
        assert charged(bench, asked()) == once
        assert charged(bench, asked(None)) == 0
        assert bench.finish(asked(None)).unknown_cost_usd >= once
        assert charged(bench, asked()) == once
        assert bench.finish(asked()).unknown_cost_usd == 0


def test_a_price_with_a_source_of_its_own_is_known_as_the_manifests_once_it_is_removed(tmp_path: Path) -> None:
    own = '\n[[prices]]\nprovider = "openai"\nmodel = "gpt-4.1-mini"\ninput = "40"\noutput = "90"\n'
    own += f'source = "{"our contract " * 9}"'
    text = asked(None).replace("larch-2-mini", "gpt-4.1-mini")  # a model whose price is published

    def cost(text: str) -> Decimal:
        bench.finish(text)
        return sum(map(Decimal, bench.table(text, "usage").filter(provider="openai")["cost_usd"]), Decimal(0))

    with lab(tmp_path) as bench:
        dear = cost(text + own)
        sources = bench.table(text + own, "usage").filter(provider="openai")["price_source"]
        assert sources.str.starts_with("manifest: our contract").all()
        assert 0 < cost(text) < dear


def test_answers_of_a_model_that_the_manifest_no_longer_has_are_charged_again(tmp_path: Path) -> None:
    gone = quiz_text(("anthropic",), prices=prices())
    dearer = quiz_text(("anthropic",), prices=prices(3))
    with lab(tmp_path) as bench:
        once = charged(bench, quiz_text(("openai", "anthropic"), prices=prices()))
        assert charged(bench, gone) == once
        assert charged(bench, dearer) == 3 * once > 0


def test_answers_of_a_run_that_was_cancelled_are_charged_again(tmp_path: Path) -> None:
    text, dearer = (manifest_text(limit=2, prices=prices(times)) for times in (1, 3))
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            while not any(batch.state is Lifecycle.COLLECTED for batch in run.store.batches()):
                advance(run)
                bench.clock.sleep(30.0)
            cancel_run(run)
        once = charged(bench, text)
        assert charged(bench, dearer) == 3 * once > 0
        assert bench.finish(dearer).state is RunState.CANCELLED


def test_an_answer_without_usage_stays_of_unknown_cost_whatever_the_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = FileBatches.decode

    def silent(dialect: FileBatches, line: bytes) -> Response:
        found = decode(dialect, line)
        return replace(found, usage=Usage(is_known=False)) if "-000001-" in found.custom_id else found

    with lab(tmp_path) as bench:
        with monkeypatch.context() as patched:
            patched.setattr(FileBatches, "decode", silent)
            before = bench.finish(asked()).unknown_cost_usd
        assert bench.finish(asked(2)).unknown_cost_usd > before > 0
        assert bench.bill().total.unknown_cost_requests == 1


@pytest.mark.nightly
def test_a_damaged_usage_table_does_not_keep_its_answers_from_being_charged_again(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        once = charged(bench, asked())
        bench.run_folder(asked()).part("usage", "usage").write_bytes(b"not a table")
        assert charged(bench, asked(3)) == 3 * once


@pytest.mark.nightly
def test_a_judge_whose_candidates_are_damaged_is_charged_again_once_they_are_made_again(tmp_path: Path) -> None:
    judge = manifest_text(limit=2, prices=prices())
    entry = r'(?s)\[\[prices\]\]\s*provider = "gemini"\s*model = "tern-3-referee".*?(?=\[\[prices\]\]|\Z)'
    dearer = re.sub(entry, lambda found: _dearer(found[0], 3), judge)
    assert dearer != judge

    def cost(text: str) -> Decimal:
        status, table = bench.finish(text), bench.table(text, "usage")
        assert status.spent_usd == sum(map(Decimal, table["cost_usd"].drop_nulls()), Decimal(0))
        return sum(map(Decimal, table.filter(provider="gemini")["cost_usd"].drop_nulls()), Decimal(0))

    with lab(tmp_path) as bench:
        once = cost(judge)
        for part in bench.run_folder(judge).tables.glob("predictions/*.parquet"):
            part.write_bytes(b"not a table")
        assert cost(dearer) == 3 * once > 0
