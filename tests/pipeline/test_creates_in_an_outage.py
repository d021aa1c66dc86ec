"""A create without a clear answer is looked for before it goes again; in an outage the night goes on when the provider
does, and the bill closes by itself."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest

from layton_batch.batches import send as sending
from layton_batch.errors import ManifestError, MissingKeyError, StoreError
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Batch
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.cli_harness import call
from tests.support.lab import MODELS, Lab, Run, RunState, drive, lab, quiz_text, several
from tests.support.tiers import tiered

HOUR = 3600.0


def failing(times: int, action: str = "status", provider: str = "openai") -> Fault:
    return Fault(on="create", action=action, status=503, provider=provider, times=times)


@pytest.mark.parametrize(
    ("provider", "action"),
    tiered(
        (*MODELS, "openrouter"),
        ("drop", "drop_after", "status", "not_json"),
        ci=[
            ("openai", "drop"), ("anthropic", "not_json"), ("gemini", "status"), ("mistral", "drop_after"),
            ("openrouter", "drop_after"),
        ],
    ),
)  # fmt: skip
def test_a_create_whose_reply_is_lost_is_looked_for_and_never_paid_twice(
    tmp_path: Path, provider: str, action: str
) -> None:
    text = quiz_text((provider,))
    with lab(tmp_path, failing(1, action, provider)) as bench:
        if provider == "openrouter" and action in ("drop", "status"):  # nobody can tell that it was not made
            assert bench.finish(text).state is RunState.NEEDS_PERSON
            assert bench.creates() == 1
        else:
            bench.finish_paid_once(text)


def test_one_batch_listed_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FileBatches.find
    monkeypatch.setattr(FileBatches, "find", lambda self, asked: [*whole(self, asked), *whole(self, asked)])
    with lab(tmp_path, failing(1, "drop_after")) as bench:
        bench.finish_paid_once(quiz_text())


def test_who_slept_between_its_intent_and_the_call_looks_instead_of_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, create = quiz_text(), sending._create

    def drowsy(run: Run, provider: Any, batch: Batch) -> bool:
        monkeypatch.undo()
        bench.clock.sleep(700.0)
        return create(run, provider, batch)

    with lab(tmp_path) as bench:
        monkeypatch.setattr(sending, "_create", drowsy)
        (batch,) = bench.begin(text).batches
        assert (bench.creates(), batch.state) == (0, Lifecycle.SUBMITTING)
        bench.finish_paid_once(text)


# ---- an outage -------------------------------------------------------------------------------------------------------


def test_a_night_goes_on_when_the_provider_does_and_each_probe_is_one_create(tmp_path: Path) -> None:
    """Twelve creates of four batches take some four hours."""
    text = several(4)
    with lab(tmp_path, failing(12)) as bench:
        bench.finish_paid_once(text)
        unclear = [event.at for event in bench.events(text, "create_unclear")]
        pauses = [later - earlier for earlier, later in pairwise(unclear)]
        assert len(unclear) == 12
        assert all(pause >= least for pause, least in zip(pauses, (60, 120, 240, 480, 960, *[1800] * 6), strict=True))
        assert bench.events(text, "lost") == []


def test_a_process_that_is_called_now_and_then_keeps_to_the_pauses(tmp_path: Path) -> None:
    text = several(4)
    with lab(tmp_path, failing(99)) as bench:
        bench.once(text)
        for number, pause in enumerate((60.0, 120.0, 240.0), 1):
            bench.clock.sleep(pause - 5.0)
            waiting = bench.once(text)
            assert (waiting.state, bench.creates()) == (RunState.RUNNING, number)
            bench.clock.sleep(10.0)
            bench.once(text)
            assert bench.creates() == number + 1
        assert any("503" in str(batch.reason) for batch in waiting.batches if batch.state is Lifecycle.PLANNED)


def test_creates_that_were_carried_out_though_they_were_answered_with_an_error_are_paid_once(tmp_path: Path) -> None:
    text = several(3)
    with lab(tmp_path, failing(2, "status_after"), failing(2), failing(2, "drop_after")) as bench:
        bench.finish_paid_once(text)
        assert len(bench.events(text, "found")) > 1


def test_where_no_list_proves_anything_each_probe_costs_one_lost_batch(tmp_path: Path) -> None:
    text = several(4, "xai")
    with lab(tmp_path, failing(99, provider="xai")) as bench:
        bench.begin(text, ticks=3, seconds=60.0)
        assert bench.creates() == 2
        status = bench.finish(text)
        assert status.state is RunState.NEEDS_PERSON
        assert {batch.state for batch in status.batches} == {Lifecycle.LOST}


# ---- the bill --------------------------------------------------------------------------------------------------------


def unknown(bench: Lab, text: str) -> Decimal:
    """What the run says may have been billed: its status and its bill agree."""
    status, total = bench.finish(text), bench.bill().total
    assert total.unknown_cost.usd == status.unknown_cost_usd
    assert total.batched.complete == status.complete
    return status.unknown_cost_usd


def keyless(provider: str) -> NoReturn:
    raise MissingKeyError(provider)


def test_a_bill_closes_by_itself_when_a_list_lacks_the_create_an_hour_later(tmp_path: Path) -> None:
    text = several(2)
    with lab(tmp_path, failing(1)) as bench:
        left = unknown(bench, text)
        written = (bench.run_folder(text).site / "site.json", bench.run_folder(text).part("cost", "cost"))
        before = [path.read_bytes() for path in written]
        bench.clock.sleep(HOUR / 2)
        assert unknown(bench, text) == left > 0
        bench.clock.sleep(HOUR)
        with bench.open(text) as run:  # without a key a finished run is opened all the same
            run.providers.connect = keyless
            assert drive(run, once=True, stop_at=None).unknown_cost_usd == left
        for _ in range(2):
            assert unknown(bench, text) == 0
            assert len(bench.events(text, "create_closed")) == 1
            bench.clock.sleep(HOUR)
        assert all(path.read_bytes() != old for path, old in zip(written, before, strict=True))
        assert call("verify", "lab", "--runs", bench.runs).code == 0


def test_a_batch_that_a_list_shows_after_all_opens_the_bill_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text()
    with lab(tmp_path, failing(1, "status_after")) as bench:
        with monkeypatch.context() as patch:
            patch.setattr(FileBatches, "find", lambda _provider, _asked: [])
            assert unknown(bench, text) > 0
            bench.clock.sleep(2 * HOUR)
            assert unknown(bench, text) == 0
        bench.clock.sleep(HOUR)
        assert unknown(bench, text) == 0  # a closed bill is looked at once a day
        bench.clock.sleep(24 * HOUR)
        opened, spent = unknown(bench, text), bench.read(text).spent_usd
        assert spent < bench.server.ledger().total_usd <= spent + opened
        bench.clock.sleep(24 * HOUR)
        assert unknown(bench, text) == opened  # it is known to have been made
        assert len(bench.events(text, "made_after_all")) == 1


def test_a_person_closes_the_bill_where_no_list_can(tmp_path: Path) -> None:
    text = several(1, "xai")
    with lab(tmp_path, failing(1, provider="xai")) as bench:
        lost = bench.finish(text).batches[0].id
        with pytest.raises(StoreError):
            bench.resolve(text, "no such batch", "not-made")
        bench.resolve(text, lost, "resubmit")
        left = unknown(bench, text)
        bench.clock.sleep(2 * HOUR)
        assert unknown(bench, text) == left > 0
        bench.resolve(text, lost, "not-made")
        assert unknown(bench, text) == 0
        with pytest.raises(ManifestError):
            bench.resolve(text, lost, "not-made")
        assert set(bench.billed().values()) == {1}
