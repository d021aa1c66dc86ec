"""What `run` says before it sends what a revision adds, and when it asks whether it may."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from layton_batch.cli.terminal import say
from layton_batch.consent import is_new_revision, paid_again, question_before_paying
from layton_batch.errors import NotAgreedError
from layton_batch.runs.context import Run
from layton_batch.settings import Settings


def agree(
    opened: Run,
    settings: Settings,
    *,
    yes: bool,
    quiet: bool,
    is_gone: bool = False,
    enter: Callable[[Run], object] | None = None,
) -> None:
    """Plan the run, and say how much is to be sent and paid, once a revision. A person has to agree where there is no
    budget, and where what was paid for is paid for again.

    ``is_gone``: this user began the run here before, and its folder is not there any more. ``enter``: enters
    answers that the run's judges are to judge. Raises NotAgreedError.
    """
    if not (enter or is_new_revision(opened)):
        return
    from layton_batch.reports.plan_tables import in_short
    from layton_batch.stages.preview import plan_to_send

    planned = plan_to_send(opened, settings, enter)
    if not quiet:
        for line in (*planned.before_sending, in_short(planned)):
            say(line)
    question = None if yes else question_before_paying(
        opened, settings, planned, is_gone=is_gone, adds_answers=enter is not None
    )  # fmt: skip
    if question is None:
        again = paid_again(opened, planned, is_gone=is_gone, adds_answers=enter is not None)
        if again is not None and not quiet:
            say(again)
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotAgreedError(question.refusal)
    elif not typer.confirm(f"{question.text} Send them?", err=True):
        raise NotAgreedError("nothing was sent")
    opened.store.set_agreed(is_agreed=True)
