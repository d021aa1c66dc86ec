"""judge, from Python: put answers of a table before a jury."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import polars as pl

from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.driving import Conversation, Progress, driven_run
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import calling_environment, runs_folder
from layton_batch.errors import DataError, ManifestError, OverBudgetError, UnfinishedRunError
from layton_batch.files import tables
from layton_batch.files.addresses import is_address
from layton_batch.files.sources import read_rows, user_path
from layton_batch.frames import Frame, read_frame
from layton_batch.interchange.entering import check_answers
from layton_batch.interchange.prediction_files import (
    TEXT,
    AnswerFile,
    ImportedModel,
    check_replies,
    has_json_replies,
    models,
)
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.checks import manifest_of_tables
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import Manifest, with_budget
from layton_batch.records import JsonValue
from layton_batch.reports.status_tables import next_steps
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.status import RunState, Status
from layton_batch.states import Role
from layton_batch.text import plural


def judge(
    frame: Frame,
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

    ``frame``: ``item_id``, ``model``, and ``answer`` with ``justification`` (or the whole reply as ``response``); no
    judge of the model's family sits: of ``family`` (who made it), else of ``provider``. ``panel``: a panel file, or
    judges with the keys that a manifest gives them. ``items``: the items' file in the task's form, with the reference
    answers. ``task``, ``split``: None: those that the items' columns fit, as for ``layton-batch run FILE``: a file with
    ``question`` has questions of one's own. The run is kept under ``runs`` (as in :func:`run`); the same call with more
    models pays for these only. ``yes``: send also without ``max_usd``. Raises NotAgreedError without both,
    OverBudgetError where ``max_usd`` does not allow all of it, or a judge has no known price, and UnfinishedRunError
    where a person has to decide, or cancelled the run. Verdicts that a judge did not give are missing, with a warning.
    """
    settings, clock = calling_environment(), clock or SystemClock()
    table = read_frame(frame, "frame")
    path = str(items)
    if path != BUNDLED and not is_address(path):
        path = str(settings.cwd / user_path(path))
    if task is None or split is None:
        rows = read_rows(path, settings.cwd, settings)
        task = task or guess_task(rows)
        split = split or guess_split(rows, task)
    manifest = _jury_manifest(name, task, split, path, panel, seats, settings.cwd)
    manifest = with_budget(manifest, None if max_usd is None else str(max_usd))
    folder, judged = runs_folder(runs, settings), manifest_task(manifest)
    asked_items = load_items(manifest, judged, settings, clock)
    item_ids, is_json = frozenset(item.id for item in asked_items), has_json_replies(judged, asked_items)
    answered = _answered(table, item_ids, json_replies=is_json)
    if unread := check_replies(judged, asked_items, answered, "the frame"):
        warn((unread,))
    check_answers(manifest, folder, settings, answered)
    warn(address_notes(manifest, settings))
    with driven_run(
        manifest, folder, settings, clock, Conversation(progress), poll_seconds=poll_seconds, yes=yes, answers=answered
    ) as (opened, status):
        _check_all_judged(opened, status)
        wanted = table["model"].unique().implode()
        return tables.read(opened.folder.tables, "verdicts").filter(pl.col("model").is_in(wanted))


def _check_all_judged(opened: Run, status: Status) -> None:
    """Raise OverBudgetError or UnfinishedRunError unless the run is done; warn of requests without an answer."""
    if status.state is RunState.OVER_BUDGET:
        steps = next_steps(status, reserves_expected=opened.manifest.budget.bound is not None)
        raise OverBudgetError(f"judge: {status.reason}. {' '.join(steps)}")
    if status.state is not RunState.DONE:
        details = [*([status.reason] if status.reason else next_steps(status)), *opened.trouble.values()]
        raise UnfinishedRunError(f"judge: not all verdicts of run {status.run} are here: {' '.join(details)}")
    if unanswered := sum(job.unanswered for job in status.jobs if job.role != str(Role.PREDICT)):
        requests = plural(unanswered, "request")
        warn(
            (f"judge: {requests} of run {status.run} without a verdict; `layton-batch retry {status.run}` asks again",)
        )


def _answered(frame: pl.DataFrame, items: frozenset[str], *, json_replies: bool) -> list[ImportedModel]:
    """Return the models of a frame, as the command reads those of a file."""
    if "model" not in frame.columns:
        raise DataError(
            "the frame has no column 'model', which names whose answer a row holds; its columns are "
            f"{', '.join(frame.columns)}"
        )
    rows = [(f"row {number} of the frame", row) for number, row in enumerate(frame.iter_rows(named=True), 1)]
    for place, row in rows:
        column = next((name for name in (*TEXT, "answer") if name in row), None)
        if column is not None and row[column] is None and row.get("kind") is None:
            raise DataError(
                f"{place}: {column!r} is null, so judges have nothing to read: give the answer. "
                "Without the row the item counts as missing for this model, also in later calls"
            )
    return models(AnswerFile(Path("the frame"), rows), items, json_replies=json_replies)


_ARGUMENTS: Mapping[tuple[str | int, ...], str] = {
    ("jury", "judges"): "panel",
    ("jury", "panel"): "panel",
    ("jury", "seats"): "seats",
    ("jury",): "task",
    ("items", "source"): "items",
    ("items", "split"): "split",
}
"""The arguments of ``judge`` by the keys of a manifest; the others are called as their keys."""


def _jury_manifest(
    name: str,
    task: str,
    split: str,
    items: str,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    seats: int,
    folder: Path,
) -> Manifest:
    """Make the manifest of a run with judges only."""
    jury: dict[str, object] = {"seats": seats}
    if isinstance(panel, str | Path):
        path = user_path(panel)
        if not (folder / path).is_file():
            raise ManifestError(f"judge: panel: no panel file {folder / path}: {_PANEL_FORM}")
        jury["panel"] = str(path)
    else:
        jury["judges"] = _judge_tables(panel)
    tables_ = {"name": name, "task": task, "items": {"source": items, "split": split}, "jury": jury}
    return manifest_of_tables(tables_, folder, "judge", _ARGUMENTS)


def _judge_tables(panel: object) -> list[dict[str, JsonValue]]:
    """Return the judges as tables. Raises ManifestError for what is no list of dicts."""
    if not isinstance(panel, list | tuple):
        raise ManifestError(f"judge: panel: a {type(panel).__name__} is no panel: {_PANEL_FORM}")
    for number, judge in enumerate(panel):
        if not isinstance(judge, Mapping):
            raise ManifestError(f"judge: panel[{number}]: a {type(judge).__name__} is no judge: {_PANEL_FORM}")
    return [dict(judge) for judge in panel]


_PANEL_FORM = 'give a panel file, or a list of dicts with "name", "provider" and "model"'
