"""Consent before a run pays: without a budget, and where something is paid for again.

Commands ask on the terminal (``cli/before_paying.py``); a Python program gives ``yes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.clock import Clock
from layton_batch.errors import ManifestError
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.context import Run
from layton_batch.runs.folders import home_of, remember, was_begun
from layton_batch.runs.open import open_run
from layton_batch.settings import Settings
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.stages.preview import Preview


_REFUSED = "Nobody agreed, and nothing was sent: give --yes, or another name to the manifest"


@dataclass(frozen=True, slots=True)
class AgreementQuestion:
    """A question that a person has to answer before a run pays. ``refusal``: the message where nobody can answer."""

    text: str
    refusal: str


@contextmanager
def open_to_pay(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    clock: Clock,
    *,
    poll_seconds: float | None,
    before_it_begins: Callable[[], None],
    has_answers: bool = False,
) -> Iterator[tuple[Run, bool]]:
    """Open the manifest's run as :func:`open_run` does, and enter it into the user's list of runs.

    ``has_answers``: answers are given to the run, so that it needs no model. Yield it with whether the user began it
    here before and its folder is gone. Raises ManifestError for a new run that has neither models nor answers.
    """
    folder = home_of(manifest, runs)
    begins = not folder.manifest.exists()
    if begins and not (manifest.models or has_answers):
        from layton_batch.stages.plan_notes import IMPORT_ANSWERS

        raise ManifestError(f"{manifest.name} has no [[models]] and no answers: add models; or {IMPORT_ANSWERS}")
    is_gone = begins and was_begun(folder, settings)
    with open_run(
        manifest, runs, settings, clock=clock, poll_seconds=poll_seconds, before_it_begins=before_it_begins
    ) as run:
        remember(run.folder, settings)
        yield run, is_gone


def is_new_revision(opened: Run) -> bool:
    """Return whether the manifest asks something that the run's jobs do not ask yet, or that nobody agreed to. Consent
    is for a revision."""
    row = opened.store.row()
    return row is not None and (row.applied != opened.asked or not row.agreed)


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


def question_before_judging(opened: Run, settings: Settings, to_ask: int, *, is_gone: bool) -> AgreementQuestion | None:
    """Return what a person has to agree to before judges of imported answers are paid; None: nothing.

    ``to_ask``: how many verdicts are still to be given. ``is_gone``: see :func:`question_before_paying`.
    """
    if not to_ask or _is_here(opened.manifest, settings):
        return None
    if is_gone:
        again = _folder_is_gone(opened.id, f" {plural(to_ask, 'request')}")
        return AgreementQuestion(again, f"{again} {_REFUSED}")
    return _without_budget(opened.manifest, "AMOUNT")


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
    specs = (*manifest.model_specs(), *(judge.model for judge in manifest.panel()))
    return all(settings.is_on_this_machine(spec.provider) for spec in specs)
