"""A create without a clear answer is looked for before it goes again; in an outage the night goes on when the provider
does, and the bill closes by itself."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from layton_batch.errors import MissingKeyError
from layton_batch.providers.openai import FileBatches
from layton_batch.sandbox import Fault
from tests.support.cli_harness import call
from tests.support.lab import MODELS, Lab, RunState, drive, lab, quiz_text, several
from tests.support.tiers import tiered

HOUR = 3600.0


def failing(times: int, action: str = "status", provider: str = "openai") -> Fault:
    return Fault(on="create", action=action, status=503, provider=provider, times=times)


@pytest.mark.parametrize(
    ("provider", "action"),
    tiered(
        (*MODELS, "openrouter"),
        ("drop", "drop_after", "status", "not_json"),
        ci=[("openai", "drop_after"), ("anthropic", "not_json"), ("openrouter", "drop_after")],
    ),
)
def test_a_create_whose_reply_is_lost_is_looked_for_and_never_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, action: str
) -> None:
    """Pages of a list may overlap, and show a batch twice."""
    text, find = quiz_text((provider,)), FileBatches.find
    monkeypatch.setattr(FileBatches, "find", lambda self, asked: 2 * [*find(self, asked)])
    with lab(tmp_path, failing(1, action, provider)) as bench:
        if provider == "openrouter" and action in ("drop", "status"):  # nobody can tell that it was not made
            assert bench.finish(text).state is RunState.NEEDS_PERSON
            assert bench.creates() == 1
        else:
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
