"""judge: put answers that were given elsewhere before a jury, those of a file or of a table."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, TypeAlias

import orjson
import polars as pl
import typer

from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.asked_manifest import asked_manifest
from layton_batch.commands.driving import Conversation, Progress, open_and_drive, report_result
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
from layton_batch.commands.starting import ManifestContent, Table
from layton_batch.errors import DataError, ManifestError, OverBudgetError, UnfinishedRunError
from layton_batch.files import atomic, tables
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import RowLocation, Rows, read_rows, user_path
from layton_batch.frames import Frame, read_frame
from layton_batch.grading.forms import DEFAULT_SPLIT
from layton_batch.interchange.entering import check_answers
from layton_batch.interchange.prediction_files import (
    TEXT,
    AnswerFile,
    ImportedModel,
    blank_rows,
    check_replies,
    has_json_replies,
    item_rows,
    models,
    read_answers,
    with_ids,
)
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.checks import manifest_of_tables
from layton_batch.manifest.form import DEFAULT_SEATS
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import with_budget
from layton_batch.records import Item, JsonValue
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import sandbox_runs
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.states import Role
from layton_batch.tasks import OWN, load_task, setting_names
from layton_batch.tasks.protocol import Task, TaskOptions
from layton_batch.text import plural

JUDGED = "judge"
"""The setting by which a task that a rule grades is given to a jury."""
AnswerSource: TypeAlias = "Frame | str | Path"
"""A table of answers, or a file of them."""


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
    settings, conversation = calling_environment(), conversation or Conversation()
    place, amount = runs_folder(runs, settings), dollars_text(max_usd)
    if panel is not None and not os.path.isfile(user_path(panel)):
        raise ManifestError(f"judge: --panel {panel}: no such file")
    given = read_answers(file, settings)
    given = with_ids(given) if items is None else given
    own_items, carried = file.with_name(f"{file.stem}-items.jsonl"), item_rows(given) if items is None else []
    source = str(own_items) if items is None else items
    locations = [RowLocation(source, number) for number in range(1, 1 + len(carried))]
    rows = Rows(carried, locations) if items is None else None
    task, split, asked_items, options = _read_items(source, rows, protocol, settings)
    if items is not None and not is_address(items) and (settings.cwd / items).resolve() == file.resolve():
        raise ManifestError(f"judge: {file} is also what --items names, so that the key would be judged")
    answers = _read_models(given, task, asked_items, str(file), model, family)
    path = file.with_name(f"{file.stem}-judged.toml")
    content = ManifestContent(
        path,
        f"Written by `layton-batch judge {file}`: no [[models]], the answers are those of that file.",
        {
            "name": slug(path.stem),
            "task": task.name,
            "items": {"source": _from_folder(source, path), "split": split},
            "task_options": options,
            "budget": {} if amount is None else {"max_usd": amount},
            "jury": {} if panel is None else {"panel": _from_folder(str(panel), path), "seats": _seats(panel)},
        },
    )
    check_answers(content.checked(), sandbox_runs(place) if sandbox else place, settings, answers)
    if carried:
        atomic.write_bytes(own_items, b"".join(orjson.dumps(row) + b"\n" for row in carried))
    with (
        asked_manifest(content.write(), place, settings, sandbox=sandbox) as (manifest, place, settings),
        open_and_drive(
            with_budget(manifest, amount), place, settings, SystemClock(), conversation, yes=yes, offline=sandbox,
            answers=answers,
        ) as (opened, status),
    ):  # fmt: skip
        return report_result(opened, status, conversation)


def _read_items(
    source: str, carried: Rows | None, protocol: str | None, settings: Settings
) -> tuple[Task, str, Sequence[Item], Table]:
    """Return the task of the items that answers are about, their split, the items, and the ``[task_options]`` by which
    a jury sits. ``carried``: the items that the rows of answers carry themselves."""
    name, split = OWN, DEFAULT_SPLIT
    if carried is not None:
        rows = carried
    elif source == BUNDLED:
        rows = read_rows(str(load_task(name, TaskOptions(split)).bundled(split)), settings.cwd, settings)
    else:
        rows = read_rows(source, settings.cwd, settings)
        name = guess_task(rows)
        split = guess_split(rows, name)
    keys = setting_names(name)
    options: dict[str, JsonValue] = {JUDGED: True} if JUDGED in keys else {}
    if protocol is not None:
        if "protocol" not in keys:
            raise ManifestError(f"judge: --protocol {protocol}: task {name!r} has no protocols")
        options["protocol"] = protocol
    task = load_task(name, TaskOptions(split, folder=settings.cwd), options)
    if not task.uses_jury:
        raise ManifestError(f"judge: {name} is graded by a rule, no jury sits: `layton-batch grade {name}` grades it")
    return task, split, task.items(rows), options


def _seats(panel: Path) -> int:
    """Return the seats of a jury of a panel file's judges; the check of the manifest names what is wrong with it."""
    with suppress(OSError, ValueError):
        judges = tomllib.loads(user_path(panel).read_text(encoding="utf-8")).get("judges")
        if isinstance(judges, list):
            return min(DEFAULT_SEATS, sum(not judge.get("substitute") for judge in judges))
    return DEFAULT_SEATS


def _from_folder(source: str, manifest: Path) -> str:
    """Return a source as the manifest names it, from its own folder."""
    if source == BUNDLED or is_address(source):
        return source
    return os.path.relpath(user_path(source).absolute(), manifest.absolute().parent)


def _read_models(
    given: AnswerFile,
    task: Task,
    items: Sequence[Item],
    source: str,
    model: str | None = None,
    family: str | None = None,
) -> list[ImportedModel]:
    """Return the models with their answers. Say which replies judges cannot read."""
    ids = frozenset(item.id for item in items)
    answered = models(given, ids, model, family, json_replies=has_json_replies(task, items))
    warn(filter(None, (check_replies(task, items, answered, source), blank_rows(given, answered, ids))))
    return answered


# ---- a table -------------------------------------------------------------------------------------------------------


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
    given = _read_table(frame, settings)
    path = str(items)
    if path != BUNDLED and not is_address(path):
        path = str(settings.cwd / user_path(path))
    if task is None or split is None:
        rows = read_rows(path, settings.cwd, settings)
        task = task or guess_task(rows)
        split = split or guess_split(rows, task)
    jury = {"seats": seats, **_named_jury(panel, settings.cwd)}
    content = {"name": name, "task": task, "items": {"source": path, "split": split}, "jury": jury}
    manifest = manifest_of_tables(content, settings.cwd, "judge", _ARGUMENTS)
    manifest = with_budget(manifest, dollars_text(max_usd))
    folder, judged = runs_folder(runs, settings), manifest_task(manifest)
    answers = _read_models(given, judged, load_items(manifest, judged, settings, clock), str(given.path))
    check_answers(manifest, folder, settings, answers)
    warn(address_notes(manifest, settings))
    with open_and_drive(
        manifest, folder, settings, clock, Conversation(progress), poll_seconds=poll_seconds, yes=yes, answers=answers
    ) as (opened, status):
        _check_all_judged(RunResult.read(opened.folder, opened.store, status, opened.engine.trouble))
        wanted = [model.spec.name for model in answers]
        return tables.read(opened.folder.tables, "verdicts").filter(pl.col("model").is_in(wanted))


def _read_table(given: AnswerSource, settings: Settings) -> AnswerFile:
    """Read the answers of a table, as those of a file are read. Raises DataError for rows without an answer."""
    if isinstance(given, str | Path):
        return read_answers(user_path(given), settings)
    frame = read_frame(given, "frame")
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
    return AnswerFile(Path("the frame"), rows)


_ARGUMENTS: Mapping[tuple[str | int, ...], str] = {
    ("jury", "judges"): "panel",
    ("jury", "panel"): "panel",
    ("jury", "seats"): "seats",
    ("jury",): "task",
    ("items", "source"): "items",
    ("items", "split"): "split",
}
"""The arguments of ``judge`` by the keys of a manifest; the others are called as their keys."""


_PANEL_FORM = 'give a panel file, or a list of dicts with "name", "provider" and "model"'


def _named_jury(panel: object, folder: Path) -> Mapping[str, object]:
    """Return the keys of ``[jury]`` that name a panel. Raises ManifestError for what is neither a file nor dicts."""
    if isinstance(panel, str | Path):
        if not (path := folder / user_path(panel)).is_file():
            raise ManifestError(f"judge: panel: no panel file {path}: {_PANEL_FORM}")
        return {"panel": str(user_path(panel))}
    if not isinstance(panel, list | tuple):
        raise ManifestError(f"judge: panel: a {type(panel).__name__} is no panel: {_PANEL_FORM}")
    for number, member in enumerate(panel):
        if not isinstance(member, Mapping):
            raise ManifestError(f"judge: panel[{number}]: a {type(member).__name__} is no judge: {_PANEL_FORM}")
    return {"judges": [dict(member) for member in panel]}


def _check_all_judged(result: RunResult) -> None:
    """Raise OverBudgetError or UnfinishedRunError unless the run is done; warn of requests without an answer."""
    status = result.status
    if status.state is RunState.OVER_BUDGET:
        raise OverBudgetError(f"judge: {status.reason}. {' '.join(result.next_steps)}")
    if status.state is not RunState.DONE:
        details = [*([status.reason] if status.reason else result.next_steps), *result.trouble.values()]
        raise UnfinishedRunError(f"judge: not all verdicts of run {status.run} are here: {' '.join(details)}")
    if unanswered := sum(job.unanswered for job in status.jobs if job.role != str(Role.PREDICT)):
        requests = plural(unanswered, "request")
        warn(
            (f"judge: {requests} of run {status.run} without a verdict; `layton-batch retry {status.run}` asks again",)
        )
