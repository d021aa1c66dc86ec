"""Start or continue a manifest's run: the work that ``run``, ``judge`` and ``overnight`` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from layton_batch.batches import machine
from layton_batch.batches.steps import carry_out
from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE, Clock
from layton_batch.commands.consent import Conversation, agree
from layton_batch.commands.notes import note, warn
from layton_batch.errors import ManifestError, NotAgreedError
from layton_batch.interchange.entering import enter_answers
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
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.tasks.protocol import cautions


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
        row = run.store.row()
        try:
            agree(
                run,
                settings,
                conversation,
                yes=yes,
                is_gone=is_known and row is not None and not row.was_agreed,
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
    row = run.store.row()
    if row is not None and not row.agreed and run.store.batches(AT_PROVIDER | {Lifecycle.ENDED}):
        drive(run, once=True, stop_at=None)


def _check(manifest: Manifest, poll_seconds: float | None, *, needs_models: bool) -> None:
    """Raise ManifestError for a pause out of bounds, and for a new run that nobody can be asked in."""
    if poll_seconds is not None and not SHORTEST_PAUSE <= poll_seconds <= LONGEST_PAUSE:
        raise ManifestError(
            f"--poll-seconds {poll_seconds}: give a number of seconds, {SHORTEST_PAUSE:g} to {LONGEST_PAUSE:g}"
        )
    if needs_models and not manifest.models:
        raise ManifestError(f"{manifest.name} has no [[models]] and no answers: add models; or {IMPORT_ANSWERS}")
