"""What `run` says before it sends what a revision adds, and when it asks whether it may."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from layton_batch.cli.terminal import say
from layton_batch.errors import LaytonBatchError, NotAgreedError
from layton_batch.runs.context import Run
from layton_batch.settings import Settings
from layton_batch.states import AT_PROVIDER, AnswerState
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.stages.preview import ImportedAnswers, Preview


def agree(
    opened: Run,
    settings: Settings,
    *,
    yes: bool,
    quiet: bool,
    is_gone: bool = False,
    given: Sequence[ImportedAnswers] = (),
) -> None:
    """Say how much is to be sent and paid, once a revision. A person has to agree where there is no budget, and where
    what was paid for is paid for again.

    ``is_gone``: this user began the run here before, and its folder is not there any more. ``given``: answers that the
    run's judges are to judge. Nobody is asked where every provider's address is on this machine, for that costs
    nothing. Raises NotAgreedError.
    """
    row = opened.store.row()
    if row is None or (row.applied == opened.asked and not given):
        return
    from layton_batch.reports.plan import in_short

    planned = _planned(opened, settings, given)
    if planned is not None and not quiet:
        say(in_short(planned))
    nothing = planned is not None and not planned.to_send
    if yes or nothing or _is_here(opened, settings):
        return
    is_seen = sys.stdin.isatty() and sys.stderr.isatty()
    adds_answers = bool(given) and not is_gone  # to a run whose other answers stay
    if not adds_answers and (again := _paid_again(opened, planned, is_gone=is_gone)):
        if not is_seen:
            raise NotAgreedError(
                f"{again} Nobody is here to say yes, and nothing was sent: give --yes, or another name to the manifest"
            )
        if not typer.confirm(f"{again} Send them?", err=True):
            raise NotAgreedError("nothing was sent")
        return
    if opened.manifest.budget.max_usd is not None:
        return
    if not is_seen:
        amount = planned.max_usd if planned is not None else None
        enough = "AMOUNT" if amount is None else f"{amount:.2f}"
        raise NotAgreedError(
            f"{opened.manifest.name} has no budget, and nobody is here to say yes: add `[budget]` with "
            f"`max_usd = {enough}` to the manifest, or give --max-usd or --yes; nothing was sent"
        )
    if not typer.confirm("There is no [budget]. Send them?", err=True):
        raise NotAgreedError("nothing was sent")


def _paid_again(opened: Run, planned: Preview | None, *, is_gone: bool) -> str | None:
    """Say in a sentence what is paid for again, and why; None: nothing is, as far as this machine knows."""
    amount = "" if planned is None else f" {plural(planned.to_send, 'request')}"
    if is_gone:
        return f"{opened.id} was begun here before and its folder was removed: all of it is paid for again,{amount}."
    counts = opened.store.count_requests()
    paid_requests = sum(count.number for count in counts if count.state in _PAID or count.batch in AT_PROVIDER)
    if planned is None or planned.answered or not paid_requests:
        return None
    return (
        f"{opened.id} paid for {plural(paid_requests, 'request')} before, and this manifest uses none of the answers: "
        f"another benchmark under its name retires them and pays for{amount}."
    )


_PAID = frozenset({AnswerState.ANSWERED, AnswerState.UNCERTAIN})


def _planned(opened: Run, settings: Settings, given: Sequence[ImportedAnswers]) -> Preview | None:
    from layton_batch.stages.preview import preview

    runs = opened.folder.root.parent
    try:
        return preview(opened.manifest, settings, opened.clock, runs=runs, items=opened.load_items(), given=given)
    except LaytonBatchError as error:
        say(f"how much there is to send cannot be told: {error}")
        return None


def _is_here(opened: Run, settings: Settings) -> bool:
    manifest = opened.manifest
    specs = (*manifest.model_specs(), *(judge.model for judge in manifest.panel()))
    return all(settings.is_on_this_machine(spec.provider) for spec in specs)
