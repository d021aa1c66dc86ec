"""Start or continue a manifest's run: the work that ``run``, ``judge`` and ``overnight`` share.

Before a run pays without a budget, or pays for something again, a person has to agree. The command line asks on the
terminal; a Python program gives ``yes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from layton_batch.batches import machine
from layton_batch.batches.steps import carry_out
from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE, Clock
from layton_batch.commands.notes import note, warn
from layton_batch.commands.plan import in_short
from layton_batch.errors import ManifestError, NotAgreedError
from layton_batch.interchange.into_run import enter_answers
from layton_batch.interchange.prediction_files import ImportedModel
from layton_batch.loop import STOPPING, drive
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import check_models
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.context import Run
from layton_batch.runs.folders import home_of, remember, replacement_note, was_begun
from layton_batch.runs.model_questions import refuse_dead_models
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState, Status, read_status, without_answers
from layton_batch.settings import Settings
from layton_batch.stages.plan_notes import IMPORT_ANSWERS
from layton_batch.stages.preview import Preview, plan_to_send, preview
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.tasks.protocol import cautions
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
    if enter is None and row.applied == opened.revision and row.agreed:
        return  # the manifest asks nothing that is not planned and agreed to
    is_free, has_asked = _is_here(opened.manifest, settings), False
    if not (yes or is_free or enter) and row.applied != opened.revision and opened.store.count_paid():
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
    if not opened.store.row().cancelled:  # a cancelled run plans nothing: after `retry` it is asked again
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
    return all(settings.is_on_this_machine(spec.provider) for spec in manifest.all_specs())


def report_result(run: Run, status: Status, conversation: Conversation) -> RunResult:
    """Return where an open run stands, and tell its outcome."""
    result = RunResult.read(run.folder, run.store, status, run.engine.trouble)
    conversation.end(run, result)
    return result


def drive_with_reports(
    run: Run, conversation: Conversation, *, once: bool = False, stop_at: float | None = None
) -> Status:
    """Drive the run and report on it; a person who stops it is told that calls in progress are waited for."""
    try:
        with conversation.reporting(run) as progress:
            return drive(run, once=once, stop_at=stop_at, progress=progress)
    except KeyboardInterrupt:
        warn((STOPPING,))
        raise


@contextmanager
def open_and_drive(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    clock: Clock,
    conversation: Conversation,
    *,
    once: bool = False,
    stop_at: float | None = None,
    begun: float | None = None,
    poll_seconds: float | None = None,
    yes: bool = False,
    offline: bool = False,
    answers: Sequence[ImportedModel] = (),
) -> Iterator[tuple[Run, Status]]:
    """Open the manifest's run, drive it, and yield it with its last status while it is still open.

    ``once``: only what needs no waiting. ``stop_at``: epoch seconds; ``begun``: the beginning of the call that
    ends then, by default now. ``yes``: send without a question. ``offline``: do not ask providers about their models.
    ``answers``: given elsewhere, for the run's jury. Raises LaytonBatchError.
    """
    folder = home_of(manifest, runs)
    begun = clock.now() if begun is None else begun
    begins, warnings, is_quiet = not folder.manifest.exists(), list[str](), conversation.is_quiet
    _check(manifest, poll_seconds, needs_models=begins and not answers)
    if not is_quiet and (replaced := replacement_note(folder, manifest)):
        warn((replaced,))
    is_known = was_begun(folder, settings)

    def ask_providers() -> None:
        if not offline:
            warnings.extend(refuse_dead_models(manifest, settings, clock))

    with open_run(
        manifest, runs, settings, clock=clock, poll_seconds=poll_seconds, before_it_begins=ask_providers
    ) as run:
        if begins and not is_quiet:
            note(f"{run.id} begins in {run.folder.root.absolute()}")
            warn((*check_models(manifest, settings, clock).warnings, *warnings, *cautions(run.task)))
        try:
            agree(
                run,
                settings,
                conversation,
                yes=yes,
                is_gone=is_known and not run.store.row().was_agreed,
                enter=partial(enter_answers, files_models=answers) if answers else None,
            )
        except NotAgreedError:
            _collect_paid(run)
            raise
        remember(run.folder, settings)
        status = drive_with_reports(run, conversation, once=once, stop_at=None if once else stop_at)
        if stop_at is not None and clock.now() >= stop_at and (reason := _leave_to_person(run, status, begun)):
            status = read_status(run.store)
            if status.state is RunState.RUNNING:  # other providers go on, and the exit code says 4 all the same
                status = status.waiting_for_a_person(reason)
        yield run, status


def _leave_to_person(run: Run, status: Status, begun: float) -> str | None:
    """Have the batches for which a call brought nothing wait for a person until the next call. Return the provider's
    words on one of them; None: there is none. ``begun``: the beginning of the call, epoch seconds."""
    words = None
    for batch, reason in without_answers(status, lambda provider: (run.store.answered_at(provider) or 0.0) >= begun):
        carry_out(run, batch, machine.for_person(batch, "not_answered", reason))
        words = reason
    return words


def _collect_paid(run: Run) -> None:
    """Collect what is at the providers although nobody agreed to more: they keep results for some weeks only. What is
    planned is not sent."""
    if not run.store.row().agreed and run.store.batches(AT_PROVIDER | {Lifecycle.ENDED}):
        drive(run, once=True, stop_at=None)


def _check(manifest: Manifest, poll_seconds: float | None, *, needs_models: bool) -> None:
    """Raise ManifestError for a pause out of bounds, and for a new run that nobody can be asked in."""
    if poll_seconds is not None and not SHORTEST_PAUSE <= poll_seconds <= LONGEST_PAUSE:
        raise ManifestError(
            f"--poll-seconds {poll_seconds}: give a number of seconds, {SHORTEST_PAUSE:g} to {LONGEST_PAUSE:g}"
        )
    if needs_models and not manifest.models:
        raise ManifestError(f"{manifest.name} has no [[models]] and no answers: add models; or {IMPORT_ANSWERS}")
