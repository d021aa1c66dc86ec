"""judge: put answers that were given elsewhere before a jury, those of a file or of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.driving import Conversation, Progress, loaded_manifest, open_and_drive
from layton_batch.commands.judge_input import (
    AnswerSource,
    JudgeArguments,
    jury_manifest,
    read_answer_table,
    read_judged,
)
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import (
    Family,
    MaxUsd,
    Runs,
    UseSandbox,
    Yes,
    calling_environment,
    dollars_text,
    runs_folder,
)
from layton_batch.commands.run_result import RunResult
from layton_batch.errors import OverBudgetError, UnfinishedRunError
from layton_batch.files import tables
from layton_batch.files.addresses import is_address
from layton_batch.files.sources import read_rows, user_path
from layton_batch.interchange.entering import check_answers
from layton_batch.interchange.prediction_files import check_replies, has_json_replies, models
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import with_budget
from layton_batch.records import JsonValue
from layton_batch.reports.status_tables import next_steps
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import sandbox_runs
from layton_batch.runs.status import RunState, Status
from layton_batch.states import Role
from layton_batch.text import plural


def judge_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Answers: JSON, JSONL, Parquet or CSV, a row an item.")],
    *,
    items: Annotated[
        str | None,
        typer.Option("--items", metavar="SOURCE", help="Questions and references, where FILE's rows have none."),
    ] = None,
    panel: Annotated[
        Path | None, typer.Option("--panel", metavar="FILE", help="[[judges]]; default: the package's panel.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Only this model, or the name of the file's only one.")
    ] = None,
    family: Family = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Of a task with protocols: original asks judges as published.")
    ] = None,
    runs: Runs = None,
    max_usd: MaxUsd = None,
    yes: Yes = False,
    sandbox: UseSandbox = False,
    conversation: Conversation | None = None,
) -> RunResult:
    """Put answers that are there already before a jury.

    A row has the item's id (item_id, riddle_id, question_id, custom_id or id) and the reply: the whole text (response,
    raw_text, output), or answer and justification, or both as JSON in answer, as in layton-eval's result files.
    Columns question and reference say what was asked and what is right; or --items names them: a path, an address or
    `bundled`. Columns model, family and provider tell several models apart. Only the judges are paid, once for each
    answer. The run is called after the file; its manifest, which has no models, is written beside it. `run` continues
    it. Exit codes are those of `run`.
    """
    settings, clock, conversation = calling_environment(), SystemClock(), conversation or Conversation()
    place, amount = runs_folder(runs, settings), dollars_text(max_usd)
    judged = read_judged(JudgeArguments(file, items, panel, model, family, protocol, amount), settings)
    check_answers(judged.manifest, sandbox_runs(place) if sandbox else place, settings, judged.answers)
    with (
        loaded_manifest(judged.write(), place, settings, sandbox=sandbox) as (manifest, place, settings),
        open_and_drive(
            with_budget(manifest, amount), place, settings, clock, conversation, yes=yes, offline=sandbox,
            answers=judged.answers,
        ) as (opened, status),
    ):  # fmt: skip
        conversation.end(opened, status)
        return RunResult.read(opened.folder, opened.store, status, opened.engine.trouble)


def judge(
    frame: AnswerSource,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    *,
    items: str | Path,
    name: str = "judged",
    seats: int = 3,
    task: str | None = None,
    split: str | None = None,
    runs: str | Path | None = None,
    max_usd: str | float | Decimal | None = None,
    yes: bool = False,
    poll_seconds: float | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> pl.DataFrame:
    """Put answers before a jury and return its verdicts, a row an answer and judge. Pays the judges, once each.

    ``frame``: a table, or a file as for `judge FILE`, with ``item_id``, ``model``, and ``answer`` with
    ``justification`` (or the whole reply as ``response``); no judge of the model's family sits: of ``family`` (who
    made it), else of ``provider``. ``panel``: a panel file, or judges with the keys that a manifest gives them.
    ``items``: the items' file in the task's form, with the reference answers. ``task``, ``split``: None: those that the
    items' columns fit, as for ``layton-batch run FILE``: a file with ``question`` has questions of one's own. The run
    is kept under ``runs`` (as in :func:`run`); the same call with more models pays for these only. ``yes``: send also
    without ``max_usd``. Raises NotAgreedError without both, OverBudgetError where ``max_usd`` does not allow all of it,
    or a judge has no price, and UnfinishedRunError where a person has to decide, or cancelled the run. Verdicts that a
    judge did not give are missing, with a warning.
    """
    settings, clock = calling_environment(), clock or SystemClock()
    given = read_answer_table(frame, settings)
    path = str(items)
    if path != BUNDLED and not is_address(path):
        path = str(settings.cwd / user_path(path))
    if task is None or split is None:
        rows = read_rows(path, settings.cwd, settings)
        task = task or guess_task(rows)
        split = split or guess_split(rows, task)
    manifest = jury_manifest(name, task, split, path, panel, seats, settings.cwd)
    manifest = with_budget(manifest, dollars_text(max_usd))
    folder, judged = runs_folder(runs, settings), manifest_task(manifest)
    asked_items = load_items(manifest, judged, settings, clock)
    item_ids, is_json = frozenset(item.id for item in asked_items), has_json_replies(judged, asked_items)
    answered = models(given, item_ids, json_replies=is_json)
    if unread := check_replies(judged, asked_items, answered, str(given.path)):
        warn((unread,))
    check_answers(manifest, folder, settings, answered)
    warn(address_notes(manifest, settings))
    with open_and_drive(
        manifest, folder, settings, clock, Conversation(progress), poll_seconds=poll_seconds, yes=yes, answers=answered
    ) as (opened, status):
        _check_all_judged(opened, status)
        wanted = [model.spec.name for model in answered]
        return tables.read(opened.folder.tables, "verdicts").filter(pl.col("model").is_in(wanted))


def _check_all_judged(opened: Run, status: Status) -> None:
    """Raise OverBudgetError or UnfinishedRunError unless the run is done; warn of requests without an answer."""
    if status.state is RunState.OVER_BUDGET:
        steps = next_steps(status, reserves_expected=opened.manifest.budget.bound is not None)
        raise OverBudgetError(f"judge: {status.reason}. {' '.join(steps)}")
    if status.state is not RunState.DONE:
        details = [*([status.reason] if status.reason else next_steps(status)), *opened.engine.trouble.values()]
        raise UnfinishedRunError(f"judge: not all verdicts of run {status.run} are here: {' '.join(details)}")
    if unanswered := sum(job.unanswered for job in status.jobs if job.role != str(Role.PREDICT)):
        requests = plural(unanswered, "request")
        warn(
            (f"judge: {requests} of run {status.run} without a verdict; `layton-batch retry {status.run}` asks again",)
        )
