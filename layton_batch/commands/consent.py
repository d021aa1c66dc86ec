"""Consent before a run pays: without a budget, and where something is paid for again.

The command line asks on the terminal; a Python program gives ``yes``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from layton_batch.commands.notes import note, warn
from layton_batch.commands.plan import in_short
from layton_batch.errors import NotAgreedError
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import all_models
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.context import Run
from layton_batch.runs.status import Status
from layton_batch.settings import Settings
from layton_batch.stages.preview import Preview, plan_to_send, preview
from layton_batch.text import plural

Progress = Callable[[Status], None]
"""Function called with the run's status after every step."""
_REFUSED = "Nobody agreed, and nothing was sent: give --yes, or another name to the manifest"


class Conversation:
    """Talk of a command that pays with whoever gave it. From Python nobody can be asked.

    ``is_quiet``: notes on the beginning of a run and on its cost are left out.
    """

    is_quiet: bool = False

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress

    def ask(self, question: str, refusal: str) -> None:
        """Raise NotAgreedError unless a person agrees. ``refusal``: its message where nobody can be asked."""
        raise NotAgreedError(refusal)

    def reporting(self, run: Run) -> AbstractContextManager[Progress | None]:
        """Return a context with the function that gets the run's status after every step."""
        return nullcontext(self._progress)

    def end(self, run: Run, result: RunResult) -> None:
        """Tell the outcome of a run that is still open."""

    def tell(self, planned: Preview) -> None:
        """Say how much is to be sent and paid."""
        if not self.is_quiet:
            warn(planned.before_sending)
            note(in_short(planned))


def agree(
    opened: Run,
    settings: Settings,
    conversation: Conversation,
    *,
    yes: bool,
    is_gone: bool = False,
    enter: Callable[[Run], object] | None = None,
) -> None:
    """Plan the run, and say how much is to be sent and paid, once a revision. A person has to agree if there is no
    budget, or if something is paid for again; not if there is nothing to send, or every provider's address is on this
    machine, for that costs nothing.

    ``is_gone``: this user began the run here before, and its folder is not there any more. ``enter``: enters answers
    that the run's judges are to judge. Raises NotAgreedError.
    """
    row = opened.store.row()
    if enter is None and (row is None or (row.applied == opened.revision and row.agreed)):
        return  # the manifest asks nothing that is not planned and agreed to
    is_free, has_asked = _is_here(opened.manifest, settings), False
    if not (yes or is_free or enter) and row and row.applied != opened.revision and opened.store.count_paid():
        # planned in a copy first, for "no" leaves the run as it is
        runs, items = opened.folder.root.parent, opened.load_items()
        edited = preview(opened.manifest, settings, opened.clock, runs=runs, items=items)
        if replaced := _replaced_answers(opened, edited):
            conversation.tell(edited)
            conversation.ask(replaced, f"{replaced} {_REFUSED}")
            has_asked = True
    planned = plan_to_send(opened, settings, enter)
    if not has_asked:
        conversation.tell(planned)
        again = _paid_again(opened, planned, is_gone=is_gone, adds_answers=enter is not None)
        if again and not (yes or is_free):
            conversation.ask(again, f"{again} {_REFUSED}")
        elif planned.to_send and opened.manifest.budget.max_usd is None and not (yes or is_free):
            _ask_without_budget(opened.manifest.name, planned, conversation)
        elif again and not conversation.is_quiet:
            warn((again,))
    row = opened.store.row()
    if row is not None and not row.cancelled:  # a cancelled run plans nothing: after `retry` it is asked again
        opened.store.set_agreed(is_agreed=True)


def _ask_without_budget(name: str, planned: Preview, conversation: Conversation) -> None:
    amount = "AMOUNT" if planned.max_usd is None else f"{planned.max_usd:.2f}"
    conversation.ask(
        "There is no [budget].",
        f"{name} has no budget, and nobody agreed to send without: add `[budget]` with `max_usd = {amount}` "
        "to the manifest, or give --max-usd or --yes; nothing was sent",
    )


def _paid_again(opened: Run, planned: Preview, *, is_gone: bool, adds_answers: bool) -> str | None:
    """Say in a sentence what is paid for again, and why; None: nothing is, as far as this machine knows."""
    if is_gone and planned.to_send:
        return (
            f"{opened.id} was begun here before and its folder was removed: all of it is paid for again, "
            f"{plural(planned.to_send, 'request')}."
        )
    return None if adds_answers else _replaced_answers(opened, planned)


def _replaced_answers(opened: Run, planned: Preview) -> str | None:
    """Say that an edit uses none of the answers that the run paid for; None if it uses some."""
    if not planned.to_send or planned.answered or not planned.paid:
        return None
    return (
        f"{opened.id} paid for {plural(planned.paid, 'request')} before, and this manifest uses none of the answers, "
        f"because its questions, models or their settings are others: it retires them and pays for "
        f"{plural(planned.to_send, 'request')}. To keep both, give the manifest another name."
    )


def _is_here(manifest: Manifest, settings: Settings) -> bool:
    return all(settings.is_on_this_machine(spec.provider) for spec in all_models(manifest))
