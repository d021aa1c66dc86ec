"""Starting or continuing a manifest's run, as `run` and the overnight refresh do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.cli.before_paying import agree
from layton_batch.cli.progress import drive_and_report
from layton_batch.cli.terminal import say
from layton_batch.clock import Clock
from layton_batch.consent import open_to_pay
from layton_batch.errors import FileError
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import check_models
from layton_batch.runs.context import Run
from layton_batch.runs.folders import home_of, replacement_note
from layton_batch.runs.model_questions import refuse_dead_models
from layton_batch.runs.status import Status, after_deadline, read_status
from layton_batch.settings import Settings
from layton_batch.tasks.protocol import cautions

if TYPE_CHECKING:
    from layton_batch.interchange.prediction_files import ImportedModel


@contextmanager
def driven_run(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    clock: Clock,
    *,
    once: bool,
    stop_at: float | None = None,
    poll_seconds: float | None = None,
    yes: bool = False,
    offline: bool = False,
    quiet: bool = False,
    answers: Sequence[ImportedModel] = (),
) -> Iterator[tuple[Run, Status]]:
    """Open the manifest's run, drive it, and yield it with its last status while it is still open.

    ``once``: only what needs no waiting. ``stop_at``: epoch seconds. ``yes``: send without a question. ``offline``: do
    not ask providers about their models. ``quiet``: print nothing. ``answers``: given elsewhere, for the run's jury.
    Raises LaytonBatchError.
    """
    folder = home_of(manifest, runs)
    begins, warnings = not folder.manifest.exists(), list[str]()
    if not quiet and (note := replacement_note(folder, manifest)):
        say(note)

    def ask_providers() -> None:
        if not offline:
            warnings.extend(refuse_dead_models(manifest, settings, clock))

    with open_to_pay(
        manifest, runs, settings, clock, poll_seconds=poll_seconds, before_it_begins=ask_providers,
        has_answers=bool(answers),
    ) as (run, is_gone):  # fmt: skip
        if begins and not quiet:
            _say_beginning(run, (*check_models(manifest, settings, clock).warnings, *warnings))
        agree(
            run,
            settings,
            yes=yes,
            quiet=quiet,
            is_gone=is_gone,
            enter=partial(_enter, answers=answers) if answers else None,
        )
        before = None if stop_at is None else read_status(run.store)
        status = drive_and_report(run, once=once, stop_at=stop_at, quiet=quiet)
        yield run, status if stop_at is None or clock.now() < stop_at else after_deadline(before, status)


def _enter(run: Run, answers: Sequence[ImportedModel]) -> None:
    from layton_batch.interchange.entering import enter  # loads polars, which who only looks at a run need not

    enter(run, answers)


def _say_beginning(run: Run, warnings: Sequence[str]) -> None:
    say(f"{run.id} begins in {run.folder.root.absolute()}")
    for line in (*warnings, *cautions(run.task)):
        say(line)


def say_trouble(run: Run) -> int:
    """Print what a person has to do. Return the exit code for it, 0 if there is nothing."""
    for subject, reason in run.trouble.items():
        say(f"{subject} was left as it is: {reason}")
    return FileError.exit_code if run.trouble else 0
