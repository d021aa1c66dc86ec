"""run: start or continue a manifest's run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE, Clock, SystemClock
from layton_batch.commands.asked_manifest import asked_manifest
from layton_batch.commands.driving import Conversation, Progress, open_and_drive, report_result
from layton_batch.commands.parameters import (
    MaxUsd,
    Offline,
    Runs,
    UseSandbox,
    Yes,
    calling_environment,
    dollars_text,
    manifest_path,
    runs_folder,
)
from layton_batch.commands.starting import manifest_for
from layton_batch.errors import ManifestError
from layton_batch.loop import deadline
from layton_batch.manifest.manifest import with_budget
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.folders import given_manifest, sandbox_runs


def run(
    manifest: Annotated[
        str | Path | None,
        Path | None,
        typer.Argument(
            metavar="MANIFEST | FILE | TASK",
            help="A TOML file, or its run; or, with --model, a file of questions or a task. Default: the only run.",
        ),
    ] = None,
    *,
    models: Annotated[
        Sequence[str] | None,
        list[str] | None,
        typer.Option("--model", metavar="PROVIDER:ID", help="For a file or a task; may be repeated."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="With --model: the first so many items.")] = None,
    runs: Runs = None,
    once: Annotated[bool, typer.Option("--once", help="Do what needs no waiting, then return.")] = False,
    until: Annotated[str | None, typer.Option("--until", help="Return at this local time, HH:MM.")] = None,
    max_usd: MaxUsd = None,
    poll_seconds: Annotated[
        float | None,
        typer.Option(
            "--poll-seconds", min=SHORTEST_PAUSE, max=LONGEST_PAUSE, help="Ask a provider every so many seconds."
        ),
    ] = None,
    yes: Yes = False,
    offline: Offline = False,
    sandbox: UseSandbox = False,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="threads | processes | dask://HOST:PORT")
    ] = None,
    progress: Progress | None = None,
    conversation: Conversation | None = None,
    clock: Clock | None = None,
) -> RunResult:
    """Start or continue a manifest's run.

    Submits what an edited manifest adds, polls, collects, judges, scores and publishes as data allows. It may be
    stopped at any moment and called again: nothing is paid twice. Where another process drives the run, this one says
    which, and ends with 75. Before a run begins, the providers are asked whether
    its models are on sale. Where there is no budget, or something is paid for again (the run's folder is gone, another
    benchmark has its name), it asks before it sends, but for providers on this machine.
    A file of questions, or a task, with --model needs no manifest: the one that it runs is written beside the file, or
    into the working folder.
    With --sandbox the providers are played on this machine: the answers are made up, and the run is in a folder of its
    own, `runs-sandbox`.
    --engine (or LAYTON_BATCH_ENGINE) says what grades answers and counts votes: this process, processes of this
    machine, or a Dask cluster that sees the same folders. The tables are the same.
    Exit codes: 0 done, 75 call again, 3 budget, 4 a person must decide, 5 done with gaps,
    74 the disk or the state's database is in the way: mend that and call again.
    \f
    From Python nobody is asked: NotAgreedError says what ``yes`` agrees to. Raises AnotherDriverError where another
    process drives the run.
    """
    if "\n" in str(manifest):
        raise ManifestError("manifest: is a text of several lines; write it into a file, and give the file's path")
    settings, clock = calling_environment().with_engine(engine), clock or SystemClock()
    place = runs_folder(runs, settings)
    given, run_place = manifest_path(manifest), None
    amount = dollars_text(max_usd)
    stop_at = deadline(until, clock)
    if not models:
        given, run_place = given_manifest(given, sandbox_runs(place) if sandbox else place)
    path = manifest_for(given, models or (), limit, amount, sandbox=sandbox)
    conversation = conversation or Conversation(progress)
    with (
        asked_manifest(path, run_place or place, settings, sandbox=sandbox) as (loaded, place, settings),
        open_and_drive(
            with_budget(loaded, amount), place, settings, clock, conversation, once=once,
            stop_at=stop_at, poll_seconds=poll_seconds, yes=yes, offline=offline or sandbox,
        ) as (opened, status),
    ):  # fmt: skip
        return report_result(opened, status, conversation)
