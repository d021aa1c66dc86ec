"""Compute a run again from its raw replies, by the pipeline's own stages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from layton_batch.batches.answers import read_outcomes, write_answers
from layton_batch.batches.bill import TOKENS, Bill
from layton_batch.batches.run_costs import has_charges
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, RequestCost
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_copy
from layton_batch.runs.own_prices import price_book
from layton_batch.settings import Settings
from layton_batch.stages.grade import grade
from layton_batch.stages.publish import publish, publish_costs
from layton_batch.stages.rank import rank
from layton_batch.stages.score import score
from layton_batch.states import Lifecycle
from layton_batch.store.run_store import RunStore
from layton_batch.verification.inputs import RunSources


@dataclass(slots=True)
class Recomputation:
    """Result of a recomputation. ``differences``: a sentence for each batch whose raw replies contradict its rows.

    ``at_other_prices``: answers whose cost was computed at prices that are no longer known. ``is_revised``: the jobs
    are those of the manifest's latest revision. ``is_repriced``: answers are charged by the manifest's latest prices.
    """

    folder: RunFolder
    answers: int = 0
    dollars: Decimal = Decimal(0)
    at_other_prices: int = 0
    is_revised: bool = True
    is_repriced: bool = True
    differences: list[str] = field(default_factory=list)


def recompute(sources: RunSources, settings: Settings, *, with_pages: bool = True) -> Recomputation:
    """Write the tables, the board, the bill and the pages of the copy. Raises LaytonBatchError where that fails.

    Only answers are written while the jobs are those of an earlier revision of the manifest.
    """
    done = Recomputation(sources.folder)
    with open_copy(sources.folder, settings) as run:
        done.is_repriced = not run.store.price_changes()[0]
        for copied in sources.batches:
            store = run.store if copied.run_id == run.id else RunStore(run.store.engine, copied.run_id)
            batch = store.batch(copied.batch_id)
            if batch.state is Lifecycle.COLLECTED and has_charges(batch):
                _collect(run, store, batch, done, is_own=copied.run_id == run.id)
        spent = run.store.money().spent
        if spent != done.dollars:
            done.differences.append(f"state: its batches cost ${spent:f}, and their answers ${done.dollars:f}")
        row = run.store.row()
        done.is_revised = row is not None and row.is_revised
        if not done.is_revised:
            return done
        grade(run)
        score(run)
        rank(run)
        board = sources.folder.part("leaderboard", "leaderboard")
        if sources.board_written_at is not None and board.exists():  # pages tell the board's date
            os.utime(board, ns=(0, sources.board_written_at))
        if with_pages:
            publish(run)
        else:
            publish_costs(run)
        done.differences += [f"{about}: cannot be computed again: {why}" for about, why in run.engine.trouble.items()]
    return done


def _collect(run: Run, store: RunStore, batch: Batch, done: Recomputation, *, is_own: bool) -> None:
    """Write the answers of a batch, and compare its charges where it is the run's own (``is_own``)."""
    folder = run.folder.workspace.batch(store.run_id, batch.id)
    about = folder.root.relative_to(run.folder.workspace.root).as_posix()
    recorded, requests = store.ends_of(batch.id), store.asked_of(batch.id)
    outcomes = read_outcomes(folder, recorded, batch, run.providers.dialect(batch.provider).decode)
    ends = outcomes.ends
    for number, (custom_id, end) in enumerate(recorded.items(), 1):
        if (now := ends[custom_id]) != end:
            raw = ", ".join(f"{about}/{path.name}" for path in folder.raw_results) or "the raw results"
            both = f"{raw} say {' '.join(now)}, the row {' '.join(end)}"
            done.differences.append(f"{about} row {number} ({custom_id}): {both}")
    prices = price_book(run.manifest, batch.ended_at or batch.due_at)
    bill = Bill(prices.price(batch.provider, batch.model), requests)
    write_answers(folder, batch, outcomes, bill.enter)
    if not is_own:
        return
    charges = store.charges_of(batch.id)
    _compare_charges(about, bill.charges, charges, done)
    done.answers += sum(charge.is_answered for charge in charges)
    done.dollars += sum((charge.cost_usd for charge in charges if charge.cost_usd is not None), Decimal(0))


def _compare_charges(
    about: str, now: Sequence[RequestCost], recorded: Sequence[RequestCost], done: Recomputation
) -> None:
    """Compare usage and costs of answers with their rows. Costs count only where both are at one price."""
    by_id = {charge.custom_id: charge for charge in now}
    for number, charge in enumerate(recorded, 1):
        computed = by_id.get(charge.custom_id, RequestCost(charge.custom_id))
        is_same_price = computed.price_source == charge.price_source
        names = TOKENS
        if done.is_repriced:
            names += ("unknown_cost", *(_COSTS if is_same_price else ()))
            done.at_other_prices += charge.cost_usd is not None and not is_same_price
        for name in names:
            if getattr(computed, name) != getattr(charge, name):
                done.differences.append(
                    f"{about} row {number} ({charge.custom_id}): {name} is {getattr(computed, name)} by the raw "
                    f"results, {getattr(charge, name)} in the row"
                )
    for custom_id in by_id.keys() - {charge.custom_id for charge in recorded}:
        done.differences.append(f"{about} ({custom_id}): by the raw results it was charged, and no row says so")


_COSTS = ("cost_usd", "unbatched_usd")
