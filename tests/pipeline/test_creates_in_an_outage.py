"""A provider that answers no create clearly: the night goes on when it does, and the bill closes by itself."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from layton_batch.batches.resolve import not_made, send_again
from layton_batch.errors import ManifestError, MissingKeyError, StoreError
from layton_batch.files import tables
from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.providers.openai import FileBatches
from layton_batch.providers.protocol import Provider
from layton_batch.records import Event
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.site.build import made_from
from layton_batch.states import Lifecycle
from layton_batch.verification.verify import verify_run
from tests.support.lab import Lab, lab, quiz_text

HOUR = 3600.0


def several(count: int, provider: str = "openai", top: str = "") -> str:
    """So many models at one provider, a batch each."""
    head, _, rest = quiz_text(("openai",), top=top).replace('"openai"', f'"{provider}"').partition("[[models]]")
    model, found, prices = f"[[models]]{rest}".partition("[[prices]]")
    models = (
        model.replace('name = "', f'name = "{number} ', 1).replace("= 4000", f"= {4000 + number}")
        for number in range(count)
    )
    return head + "".join(models) + found + prices


def unavailable(times: int, action: str = "status", status: int = 503, provider: str = "openai") -> Fault:
    return Fault(on="create", action=action, status=status, provider=provider, times=times)


def told(bench: Lab, text: str, *kinds: str) -> list[Event]:
    with bench.open(text) as run:
        return [event for event in run.store.events() if event.kind in kinds]


@pytest.mark.parametrize("status", [500, 503, 529])
def test_a_night_goes_on_when_the_provider_does_and_each_probe_is_one_create(tmp_path: Path, status: int) -> None:
    """Twelve creates of four batches take some four hours."""
    text = several(4)
    with lab(tmp_path, unavailable(12, status=status)) as bench:
        bench.finish_paid_once(text)
        unclear = [event.at for event in told(bench, text, "create_unclear")]
        pauses = [later - earlier for earlier, later in pairwise(unclear)]
        assert len(unclear) == 12
        assert all(pause >= least for pause, least in zip(pauses, (60, 120, 240, 480, 960, *[1800] * 6), strict=True))
        assert told(bench, text, "lost") == []


def test_a_process_that_is_called_every_minute_keeps_to_the_pauses(tmp_path: Path) -> None:
    text = several(4)
    with lab(tmp_path, unavailable(99)) as bench:
        for _ in range(65):
            with bench.open(text) as run:
                assert drive(run, once=True, stop_at=None).state is RunState.RUNNING
                reasons = [batch.reason or "" for batch in run.store.batches({Lifecycle.PLANNED})]
            bench.clock.sleep(60.0)
        assert any("creates answered with HTTP 503 since" in reason for reason in reasons)
        assert len(told(bench, text, "submitting")) == 7  # at once, and after 1, 2, 4, 8, 16 and 30 minutes


def test_creates_that_were_carried_out_though_they_were_answered_with_an_error_are_paid_once(tmp_path: Path) -> None:
    text = several(3)
    with lab(tmp_path, unavailable(2, action="status_after"), unavailable(2), unavailable(2, "drop_after")) as bench:
        bench.finish_paid_once(text)
        assert len(told(bench, text, "found")) > 1


def test_where_no_list_proves_anything_each_probe_costs_one_lost_batch(tmp_path: Path) -> None:
    text = several(6, "xai")
    with lab(tmp_path, unavailable(99, provider="xai")) as bench:
        with bench.open(text) as run:
            for _ in range(8):
                advance(run)
                bench.clock.sleep(60.0)
            assert [event.kind for event in run.store.events()].count("submitting") == 4
        status = bench.finish(text)
        assert status.state is RunState.NEEDS_PERSON
        assert {batch.state for batch in status.batches} == {Lifecycle.LOST}


def written(bench: Lab, text: str) -> tuple[object, ...]:
    """What the pages and the cost table were made from."""
    folder = bench.run_folder(text)
    return made_from(folder.site), tables.made_from(folder.part("cost", "cost"))


def keyless(provider: str) -> Provider:
    raise MissingKeyError(provider)


# ---- the bill ------------------------------------------------------------------------------------------------------


def unknown(bench: Lab, text: str) -> Decimal:
    """What the run says may have been billed: its status and its bill agree."""
    status, total = bench.finish(text), bench.bill().total
    assert total.unknown_cost.usd == status.unknown_cost_usd
    assert total.batched.complete == status.complete
    return status.unknown_cost_usd


def test_a_bill_closes_by_itself_when_a_list_lacks_the_create_an_hour_later(tmp_path: Path) -> None:
    text = several(2)
    with lab(tmp_path, unavailable(1)) as bench:
        assert unknown(bench, text) > 0
        before = written(bench, text)
        bench.clock.sleep(HOUR / 2)
        assert unknown(bench, text) > 0
        bench.clock.sleep(HOUR)
        assert unknown(bench, text) == 0
        assert len(told(bench, text, "create_closed")) == 1
        assert all(new != old for new, old in zip(written(bench, text), before, strict=True))
        assert verify_run(bench.run_folder(text), bench.settings).differences == []
        bench.clock.sleep(HOUR)
        assert unknown(bench, text) == 0
        assert len(told(bench, text, "create_closed")) == 1


def test_without_a_key_a_finished_run_is_opened_all_the_same(tmp_path: Path) -> None:
    with lab(tmp_path, unavailable(1)) as bench:
        left = unknown(bench, quiz_text())
        bench.clock.sleep(2 * HOUR)
        with bench.open(quiz_text()) as run:
            run.providers.connect = keyless
            assert drive(run, once=True, stop_at=None).unknown_cost_usd == left


def test_a_batch_that_a_list_shows_after_all_opens_the_bill_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text()
    with lab(tmp_path, unavailable(1, action="status_after")) as bench:
        with monkeypatch.context() as patch:
            patch.setattr(FileBatches, "find", lambda _provider, _asked: [])
            assert unknown(bench, text) > 0
            bench.clock.sleep(2 * HOUR)
            assert unknown(bench, text) == 0
        bench.clock.sleep(HOUR)
        assert unknown(bench, text) == 0  # a closed bill is looked at once a day
        bench.clock.sleep(24 * HOUR)
        opened = unknown(bench, text)
        billed = bench.server.ledger().total_usd
        status = bench.finish(text)
        assert status.spent_usd < billed <= status.spent_usd + opened
        (event,) = told(bench, text, "made_after_all")
        assert str(status.batches[0].provider_id) not in event.detail
        for _ in range(2):
            bench.clock.sleep(24 * HOUR)
            assert unknown(bench, text) == opened  # it is known to have been made
        assert len(told(bench, text, "made_after_all")) == 1


def test_a_person_closes_the_bill_where_no_list_can(tmp_path: Path) -> None:
    text = several(1, "xai")
    with lab(tmp_path, unavailable(1, provider="xai")) as bench:
        assert bench.finish(text).state is RunState.NEEDS_PERSON
        with bench.open(text) as run:
            (lost,) = run.store.batches()
            with pytest.raises(StoreError):
                not_made(run, "no such batch")
            send_again(run, lost.id)
        assert unknown(bench, text) > 0
        bench.clock.sleep(2 * HOUR)
        assert unknown(bench, text) > 0
        with bench.open(text) as run:
            not_made(run, lost.id)
        assert unknown(bench, text) == 0
        with bench.open(text) as run, pytest.raises(ManifestError):
            not_made(run, lost.id)
        assert set(bench.billed().values()) == {1}


def test_a_lost_batch_that_was_never_made_costs_nothing_and_is_sent_again(tmp_path: Path) -> None:
    text = several(1, "xai")
    with lab(tmp_path, unavailable(1, provider="xai")) as bench:
        status = bench.finish(text)
        assert (status.state, status.reserved_usd > 0) == (RunState.NEEDS_PERSON, True)
        with bench.open(text) as run:
            not_made(run, status.batches[0].id)
        assert unknown(bench, text) == 0
        assert set(bench.billed().values()) == {1}
