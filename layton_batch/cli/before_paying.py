"""What `run` says before it sends what a revision adds, and when it asks whether it may."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from layton_batch.cli.terminal import say
from layton_batch.errors import LaytonBatchError, NotAgreedError
from layton_batch.runs.context import Run
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.stages.preview import Preview


def agree(opened: Run, settings: Settings, *, yes: bool, quiet: bool) -> None:
    """Say how much is to be sent and paid, once a revision. Where there is no budget, a person has to agree.

    Nobody is asked where every provider's address is on this machine, for that costs nothing. Raises NotAgreedError.
    """
    row = opened.store.row()
    if row is None or row.applied == opened.asked:
        return
    from layton_batch.reports.plan import in_short

    planned = _planned(opened, settings)
    if planned is not None and not quiet:
        say(in_short(planned))
    nothing = planned is not None and not planned.to_send
    if yes or nothing or opened.manifest.budget.max_usd is not None or _is_here(opened, settings):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        amount = planned.max_usd if planned is not None else None
        enough = "AMOUNT" if amount is None else f"{amount:.2f}"
        raise NotAgreedError(
            f"{opened.manifest.name} has no budget, and nobody is here to say yes: add `[budget]` with "
            f"`max_usd = {enough}` to the manifest, or give --max-usd or --yes; nothing was sent"
        )
    if not typer.confirm("There is no [budget]. Send them?", err=True):
        raise NotAgreedError("nothing was sent")


def _planned(opened: Run, settings: Settings) -> Preview | None:
    from layton_batch.stages.preview import preview

    runs = opened.folder.root.parent
    try:
        return preview(opened.manifest, settings, opened.clock, runs=runs, items=opened.load_items())
    except LaytonBatchError as error:
        say(f"how much there is to send cannot be told: {error}")
        return None


def _is_here(opened: Run, settings: Settings) -> bool:
    manifest = opened.manifest
    specs = (*manifest.model_specs(), *(judge.model for judge in manifest.panel()))
    return all(settings.is_on_this_machine(spec.provider) for spec in specs)
