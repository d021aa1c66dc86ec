"""One step of a batch: a stage fetches, the machine decides, ``carry_out`` applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from layton_batch.batches import machine
from layton_batch.batches.tick import NoAnswer, Tick
from layton_batch.errors import ProviderError, RunCancelledError
from layton_batch.providers.protocol import seconds_of
from layton_batch.records import Batch, Move, Wait
from layton_batch.runs.context import Run


def at(run: Run, batch: Batch) -> machine.DecisionLimits:
    """Now, with what the batch's provider and the manifest allow."""
    dialect, hours = run.providers.dialect(batch.provider), run.manifest.policy.deadline_hours
    limits, pacing = dialect.limits, run.pacing
    window = limits.window_seconds if (window_asked := run.window(batch)) is None else seconds_of(window_asked)
    return machine.DecisionLimits(
        now=run.clock.now(),
        pacing=pacing,
        poll=limits.poll_seconds * pacing.advised if pacing.poll is None else pacing.poll,
        deadline=window + 86_400 if hours is None else hours * 3600,
        window=window,
        retention=limits.retention_seconds,
        shows_absence=dialect.capabilities.certain_find,
        run_began=run.born,
        account=run.account(batch.provider),
    )


def step_each(run: Run, tick: Tick, stage: str, batches: Iterable[Batch], step: Callable[[Batch], bool]) -> bool:
    """Take one step with each batch, one after another, and return whether any batch moved. End early if the program
    is to stop, the run was cancelled, or the provider does not answer: each other batch would wait as long for nothing.
    """
    moved = False
    for batch in batches:
        if run.stopping.is_set():
            break
        try:
            has_moved = tick.responsiveness.call(stage, partial(step, batch))
        except (NoAnswer, RunCancelledError):
            break
        if has_moved is None:
            break
        moved |= has_moved
    return moved


def carry_out(run: Run, batch: Batch, decision: Move | Wait, error: ProviderError | None = None) -> bool:
    """Apply a decision, and return whether it moved the batch. ``error``: the failed call that the decision rests on;
    raises NoAnswer, after that, if the provider did not answer at all."""
    run.store.apply(batch, decision, run.clock.now())
    if error is not None:
        NoAnswer.check(error)
    return isinstance(decision, Move)
