"""resolve: a person's word on a batch of which nobody knows what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from layton_batch.batches import person as decisions
from layton_batch.commands.notes import TextDocument, warn
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.errors import ManifestError, ProviderError
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.open import open_to_decide
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.states import Lifecycle

Decision = Callable[[Run, str], None]


def _split(names: list[str]) -> Mapping[str, object]:
    *run_names, batch = names
    if len(run_names) > 1:
        raise ManifestError("resolve: give one run and one lost batch of it")
    return {"run": run_names[0] if run_names else None, "batch": batch}


def resolve(
    run: Annotated[
        OneRun,
        list[str],
        _split,
        typer.Argument(metavar="[RUN] BATCH", help="The run (default: the only one), and its lost batch."),
    ],
    batch: str,
    *,
    adopt: Annotated[str | None, typer.Option("--adopt", help="The provider's id of the batch that is ours.")] = None,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="Submit it again. What it may have cost stays in the bill.")
    ] = False,
    not_made: Annotated[
        bool, typer.Option("--not-made", help="The batch does not exist at the provider: it cost nothing.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Nobody can tell: end its requests without an answer.")
    ] = False,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Send it, although a copy of this workspace sent batches as well.")
    ] = False,
    runs: Runs = None,
) -> TextDocument:
    """Say what became of a `lost` batch, or ignore those of a copy.

    It is this one at the provider (--adopt ID), it was never made (--not-made: it is sent again, and cost nothing), it
    is sent again whatever became of it (--resubmit), or nobody can tell (--give-up): then its requests end without an
    answer, and what they may have cost counts as unknown cost. --not-made also closes the bill of another batch whose
    earlier creates may have been billed. A create without a reply may arrive for eleven minutes:
    --resubmit and --not-made are refused until then. A planned batch waits if its
    provider has batches of this run that the workspace does not know, because a newer copy of it sent them: --ignore
    sends it, and may pay again for what the copy paid.
    """
    decide = _decision(adopt, resubmit=resubmit, not_made=not_made, give_up=give_up, ignore=ignore)
    settings = environment()
    (folder,) = run_folders(run, runs, settings)
    if not ignore:
        _require_unresolved(folder, settings, batch, is_about_cost=not_made)
    try:
        with open_to_decide(folder, settings) as opened:
            warn(address_notes(opened.manifest, settings))
            decide(opened, batch)
            cancelled = opened.store.row().cancelled
    except ProviderError as error:
        raise ManifestError(f"nothing was done about {batch}: {error}") from error
    return TextDocument((_resolved(batch, adopt, given_up=give_up, not_made=not_made, cancelled=cancelled),))


def _decision(adopt: str | None, *, resubmit: bool, not_made: bool, give_up: bool, ignore: bool) -> Decision:
    """Return what to do with the batch. Raises ManifestError unless exactly one decision is given."""
    given: list[tuple[bool, Decision]] = [
        (adopt is not None, lambda run, name: decisions.adopt_batch(run, name, str(adopt))),
        (resubmit, decisions.send_again),
        (not_made, decisions.not_made),
        (give_up, decisions.give_up),
        (ignore, decisions.ignore_copy),
    ]
    chosen = [decision for is_given, decision in given if is_given]
    if len(chosen) != 1:
        raise ManifestError("resolve: say one of --adopt ID, --resubmit, --not-made, --give-up and --ignore")
    return chosen[0]


def _require_unresolved(folder: RunFolder, settings: Settings, name: str, *, is_about_cost: bool) -> None:
    """Raise ManifestError where the run's batch is not lost; needs no key, as the providers are not called.
    ``is_about_cost``: one with creates of unknown cost will do."""
    with open_store(folder, settings) as store:
        batches = {batch.id: batch for batch in store.batches()}
        batch, lost = batches.get(name), [batch.id for batch in batches.values() if batch.state is Lifecycle.LOST]
        if name in lost or (is_about_cost and batch is not None and batch.creates_of_unknown_cost):
            return
        fault = "is not there" if batch is None else f"is {batch.state}, not lost: nothing to resolve"
        advice = f"the lost batches of the run: {', '.join(lost)}" if lost else "the run has no lost batch to resolve"
        raise ManifestError(f"batch {name!r} of run {store.run_id} {fault}; {advice}")


def _resolved(batch_id: str, adopted: str | None, *, given_up: bool, not_made: bool, cancelled: bool) -> str:
    """Describe the outcome of a lost batch: adopted under an id, given up, or planned again. ``not_made``: its creates
    are out of the bill."""
    if not_made:
        return f"{batch_id}: its creates without an answer cost nothing. `run` continues."
    if given_up:
        return (
            f"{batch_id}: given up. The next `run` ends its requests without an answer, and counts what they may have "
            "cost; `retry` asks for them again."
        )
    if not cancelled:
        return f"{batch_id}: {f'adopted as {adopted}' if adopted else 'will be sent again'}. `run` continues."
    if adopted:
        return f"{batch_id}: adopted as {adopted}. The run is cancelled: `run` stops the batch and collects answers."
    return f"{batch_id}: not sent, because the run is cancelled. `retry` and then `run` send it."
