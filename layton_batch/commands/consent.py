"""Consent before a run pays: without a budget, and where something is paid for again.

The command line asks on the terminal; a Python program gives ``yes``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from layton_batch.commands.notes import note, warn
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import all_models
from layton_batch.reports.plan_tables import in_short
from layton_batch.runs.context import Run
from layton_batch.settings import Settings
from layton_batch.stages.preview import Preview, plan_to_send, preview
from layton_batch.text import plural

_REFUSED = "Nobody agreed, and nothing was sent: give --yes, or another name to the manifest"


@dataclass(frozen=True, slots=True)
class AgreementQuestion:
    """A question that a person has to answer before a run pays. ``refusal``: the message where nobody can answer."""

    text: str
    refusal: str


def is_new_revision(opened: Run) -> bool:
    """Return whether the manifest asks something that the run's jobs do not ask yet, or that nobody agreed to. Consent
    is for a revision."""
    row = opened.store.row()
    return row is not None and (row.applied != opened.revision or not row.agreed)


def agree(
    opened: Run,
    settings: Settings,
    ask: Callable[[AgreementQuestion], None],
    *,
    yes: bool,
    quiet: bool = False,
    is_gone: bool = False,
    enter: Callable[[Run], object] | None = None,
) -> None:
    """Plan the run, and say how much is to be sent and paid, once a revision. A person has to agree if there is no
    budget, or if something is paid for again.

    ``ask``: put a question to that person; raises NotAgreedError without a yes. ``is_gone``: this user began the run
    here before, and its folder is not there any more. ``enter``: enters answers that the run's judges are to judge.
    """
    if not (enter or is_new_revision(opened)):
        return
    adds_answers = enter is not None
    is_asked = not (yes or adds_answers) and _replaces_answers(opened, settings, ask, is_quiet=quiet)
    planned = plan_to_send(opened, settings, enter)
    if not (quiet or is_asked):
        warn(planned.before_sending)
        note(in_short(planned))
    question = None if yes or is_asked else question_before_paying(
        opened, settings, planned, is_gone=is_gone, adds_answers=adds_answers
    )  # fmt: skip
    if question is not None:
        ask(question)
    elif not (quiet or is_asked) and (again := paid_again(opened, planned, is_gone=is_gone, adds_answers=adds_answers)):
        warn((again,))
    row = opened.store.row()
    if row is not None and not row.cancelled:  # a cancelled run plans nothing: after `retry` it is asked again
        opened.store.set_agreed(is_agreed=True)


def _replaces_answers(
    opened: Run, settings: Settings, ask: Callable[[AgreementQuestion], None], *, is_quiet: bool
) -> bool:
    """Ask before an edit that uses none of the answers that the run paid for. Return whether that was asked.

    It is planned in a copy, for "no" leaves the run as it is.
    """
    row = opened.store.row()
    if row is None or row.applied == opened.revision or not opened.store.count_paid():
        return False
    runs = opened.folder.root.parent
    planned = preview(opened.manifest, settings, opened.clock, runs=runs, items=opened.load_items())
    question = question_before_paying(opened, settings, planned, is_gone=False)
    if question is None or not paid_again(opened, planned, is_gone=False):
        return False
    if not is_quiet:
        warn(planned.before_sending)
        note(in_short(planned))
    ask(question)
    return True


def question_before_paying(
    opened: Run, settings: Settings, planned: Preview, *, is_gone: bool, adds_answers: bool = False
) -> AgreementQuestion | None:
    """Return what a person has to agree to before the run pays; None: nothing.

    Nothing is asked where there is nothing to send, and where every provider's address is on this machine, for that
    costs nothing. ``is_gone``: this user began the run here before, and its folder is not there any more.
    ``adds_answers``: answers are given to a run whose other answers stay.
    """
    if not planned.to_send or _is_here(opened.manifest, settings):
        return None
    again = paid_again(opened, planned, is_gone=is_gone, adds_answers=adds_answers)
    if again:
        return AgreementQuestion(again, f"{again} {_REFUSED}")
    amount = planned.max_usd
    return _without_budget(opened.manifest, "AMOUNT" if amount is None else f"{amount:.2f}")


def _without_budget(manifest: Manifest, amount: str) -> AgreementQuestion | None:
    if manifest.budget.max_usd is not None:
        return None
    return AgreementQuestion(
        "There is no [budget].",
        f"{manifest.name} has no budget, and nobody agreed to send without: add `[budget]` with `max_usd = {amount}` "
        "to the manifest, or give --max-usd or --yes; nothing was sent",
    )


def paid_again(opened: Run, planned: Preview, *, is_gone: bool, adds_answers: bool = False) -> str | None:
    """Say in a sentence what is paid for again, and why; None: nothing is, as far as this machine knows. The arguments
    are those of :func:`question_before_paying`."""
    if (adds_answers and not is_gone) or not planned.to_send:
        return None
    amount = f" {plural(planned.to_send, 'request')}"
    if is_gone:
        return _folder_is_gone(opened.id, amount)
    if planned.answered or not planned.paid:
        return None
    return (
        f"{opened.id} paid for {plural(planned.paid, 'request')} before, and this manifest uses none of the answers, "
        f"because its questions, models or their settings are others: it retires them and pays for{amount}. To keep "
        "both, give the manifest another name."
    )


def _folder_is_gone(run_id: str, amount: str) -> str:
    return f"{run_id} was begun here before and its folder was removed: all of it is paid for again,{amount}."


def _is_here(manifest: Manifest, settings: Settings) -> bool:
    return all(settings.is_on_this_machine(spec.provider) for spec in all_models(manifest))
