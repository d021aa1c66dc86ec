"""The harness itself: a history can be played again, and a program that breaks the promise is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from layton_batch.batches import machine, reconcile
from layton_batch.batches.decisions import StageDecision, at, carry_out
from layton_batch.clock import Pacing
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.sandbox import Fault
from layton_batch.sandbox.wire import gateway
from layton_batch.stages import collect as collecting
from layton_batch.stages import submit as submitting
from layton_batch.states import Lifecycle
from layton_batch.store.driver import DriverLease
from tests.simulation.claims import reference
from tests.simulation.histories import plan_of, play
from tests.simulation.turns import Freeze
from tests.simulation.world import ALONE, Plan, cast, history
from tests.support.store_rows import moved
from tests.support.tiers import tiered


@pytest.mark.parametrize("programs", tiered((1, 2), ci=(2,)))
def test_a_seed_gives_the_same_history_every_time(programs: int) -> None:
    plan = replace(plan_of(33), programs=programs, freezes=(Freeze(60, 400.0),))
    seen = []
    for _ in range(2):
        with history(plan) as found:
            seen.append((tuple(found.course.points), found.clock.now(), found.providers.calls()))
    assert seen[0] == seen[1]


@pytest.fixture(autouse=True)
def undisturbed() -> None:
    """What is right is known before a program is made to do wrong."""
    for world in (0, ALONE):
        reference(world)


def stop_after(world: int, label: str) -> Plan:
    """The program as it is now, killed at the first point of this name."""
    with history(Plan(world)) as found:
        return Plan(world, stops=(found.course.points.index(label) + 1,))


def test_a_program_that_sends_again_without_looking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def blindly(_run: Run, _provider: object, batch: Batch) -> StageDecision:
        return StageDecision(moved(batch, Lifecycle.PLANNED))

    monkeypatch.setattr(submitting, "reconcile", blindly)
    monkeypatch.setattr(submitting, "sent_already", lambda *_: [])
    broken = play(stop_after(0, "executed: openai create")).broken
    assert any("billed 2 times" in claim for claim in broken), broken


def test_a_program_that_pays_before_it_has_written_down_that_it_will_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    create: Callable[..., StageDecision] = submitting._create

    def send(run: Run, _tick: object, provider: Any, batch: Batch) -> bool:
        ready = replace(batch, input_ref=provider.upload(reconcile.submission(run, batch)))
        provider_id = provider.create(reconcile.submission(run, ready))
        monkeypatch.setattr(provider, "create", lambda _submission: provider_id, raising=False)
        late = machine.before_create(batch, ready.input_ref, at(run, batch))
        ready = run.store.apply(batch, late, run.clock.now())
        return carry_out(run, ready, create(run, provider, ready))

    monkeypatch.setattr(submitting, "_send", send)
    broken = play(stop_after(7, "executed: openai create")).broken
    assert any("billed 2 times" in claim for claim in broken), broken


def test_a_program_that_gives_up_a_download_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_run: Run, _tick: object, _batch: Batch) -> collecting._Download:
        return collecting._Download()

    monkeypatch.setattr(collecting, "_download", nothing)
    assert any("billed" in claim for claim in play(Plan(7)).broken)


def test_a_program_that_does_not_see_that_another_drives_the_run_by_now_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submitting, "sent_already", lambda *_: [])
    monkeypatch.setattr(machine, "before_call", lambda *_: None)
    monkeypatch.setattr(DriverLease, "check", lambda *_arguments, **_options: False)
    plan = Plan(0, programs=2)
    freezes = [(seed, (Freeze(at, 400.0),)) for seed in range(3) for at in (30, 60)]
    assert any(play(replace(plan, freezes=at, seed=seed + 1)).broken for seed, at in freezes)


def test_a_program_that_forgets_what_it_spent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "settle", lambda *_: ())
    assert any("the run says $" in claim for claim in play(Plan(7)).broken)


def test_a_create_that_is_carried_out_after_the_run_has_ended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = machine._absent
    hasty = Pacing(looks=(20.0, 20.0))
    monkeypatch.setattr(machine, "_absent", lambda batch, at, **more: absent(batch, replace(at, pacing=hasty), **more))
    broken = play(Plan(ALONE, late_create=4_000.0, batch_seconds=2.0)).broken
    assert any("billed 2 times" in claim for claim in broken), broken
    assert any("batches the run does not know" in claim for claim in broken), broken


def test_a_sandbox_that_fails_by_itself_fails_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a mistake in the sandbox")

    monkeypatch.setattr(gateway, "_damaged", fail)
    faults = (Fault(on="poll", action="drop_after", provider=cast(ALONE)[0][0], times=1),)
    (told,) = play(Plan(ALONE, faults=faults)).broken
    assert told.startswith("the sandbox failed: ")
    assert "ZeroDivisionError" in told


@pytest.mark.nightly
def test_a_provider_that_loses_rows_for_good_is_noticed() -> None:
    lost = Fault(on="row", action="missing", provider="openai", match=r"-000002\b")
    broken = play(Plan(7, faults=(lost,))).broken
    assert any("1 requests have no answer" in claim for claim in broken)


@pytest.mark.parametrize("world", tiered(range(ALONE), ci=(0,)))
def test_the_undisturbed_run_holds_every_claim(world: int) -> None:
    assert not play(Plan(world)).broken
