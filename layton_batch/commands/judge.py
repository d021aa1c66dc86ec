"""judge: answers that are there already go before a jury, which alone is paid, once each."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeAlias

import orjson
import typer

from layton_batch.clock import SystemClock
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
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import RowLocation, Rows, read_rows, user_path
from layton_batch.frames import Frame, read_frame
from layton_batch.grading.submissions import DEFAULT_SPLIT
from layton_batch.interchange.into_run import check_answers
from layton_batch.interchange.prediction_files import (
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
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.form import DEFAULT_SEATS
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import with_budget
from layton_batch.records import Item, JsonValue
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.folders import sandbox_runs
from layton_batch.settings import Settings
from layton_batch.tasks import OWN, load_task, setting_names
from layton_batch.tasks.protocol import Task, TaskOptions

JUDGED = "judge"
"""The setting by which a task that a rule grades is given to a jury."""
TABLE = "answers"
"""The name of a table of answers, where a file has its own."""
AnswerSource: TypeAlias = "Frame | str | Path"
"""A table of answers, or a file of them."""
Panel: TypeAlias = "str | Path | Sequence[Mapping[str, JsonValue]] | None"
"""A panel file, or judges with the keys that a manifest gives them."""


def judge(
    answers: Annotated[
        AnswerSource,
        Path,
        typer.Argument(metavar="FILE", help="Answers: JSON, JSONL, Parquet or CSV, a row an item."),
    ],
    panel: Annotated[
        Panel,
        Path | None,
        typer.Option("--panel", metavar="FILE", help="[[judges]]; default: the package's panel."),
    ] = None,
    *,
    items: Annotated[
        str | Path | None,
        str | None,
        typer.Option("--items", metavar="SOURCE", help="Questions and references, where FILE's rows have none."),
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
    name: str = TABLE,
    progress: Progress | None = None,
    conversation: Conversation | None = None,
) -> RunResult:
    """Put answers that are there already before a jury.

    A row has the item's id (item_id, riddle_id, question_id, custom_id or id) and the reply: the whole text (response,
    raw_text, output), or answer and justification, or both as JSON in answer, as in layton-eval's result files.
    Columns question and reference say what was asked and what is right; or --items names them: a path, an address or
    `bundled`. Columns model, family and provider tell several models apart. Only the judges are paid, once for each
    answer. The run is called after the file; its manifest, which has no models, is written beside it. `run` continues
    it. Exit codes are those of `run`.
    \f
    ``answers`` may be a table, and ``panel`` a list of dicts with the keys of ``[[judges]]``. The run of a table is
    called after ``name``, and its manifest is written into the working folder. Raises NotAgreedError where nobody
    agreed to pay.
    """
    settings, conversation = calling_environment(), conversation or Conversation(progress)
    place, amount = runs_folder(runs, settings), dollars_text(max_usd)
    given = _read_answers(answers, name, settings)
    given = with_ids(given) if items is None else given
    file = given.path
    stem = file.stem if isinstance(answers, str | Path) else file.name
    own_items, carried = file.with_name(f"{stem}-items.jsonl"), item_rows(given) if items is None else []
    source = str(own_items) if items is None else str(items)
    locations = [RowLocation(source, number) for number in range(1, 1 + len(carried))]
    rows = Rows(carried, locations) if items is None else None
    task, split, asked_items, options = _read_items(source, rows, protocol, settings)
    if items is not None and not is_address(source) and (settings.cwd / source).resolve() == file.resolve():
        raise ManifestError(f"judge: {file} is also what --items names, so that the key would be judged")
    answered = _read_models(given, task, asked_items, model, family)
    path = file.with_name(f"{stem}-judged.toml")
    content = ManifestContent(
        path,
        f"Written by `layton-batch judge {file}`: no [[models]], the answers are those of that file.",
        {
            "name": slug(path.stem),
            "task": task.name,
            "items": {"source": _from_folder(source, path), "split": split},
            "task_options": options,
            "budget": {} if amount is None else {"max_usd": amount},
            "jury": _jury(panel, path),
        },
    )
    check_answers(content.checked(), sandbox_runs(place) if sandbox else place, settings, answered)
    if carried:
        atomic.write_bytes(own_items, b"".join(orjson.dumps(row) + b"\n" for row in carried))
    with (
        asked_manifest(content.write(), place, settings, sandbox=sandbox) as (manifest, place, settings),
        open_and_drive(
            with_budget(manifest, amount), place, settings, SystemClock(), conversation, yes=yes, offline=sandbox,
            answers=answered,
        ) as (opened, status),
    ):  # fmt: skip
        return report_result(opened, status, conversation)


def _read_answers(answers: AnswerSource, name: str, settings: Settings) -> AnswerFile:
    """Read a file, or a table, whose rows errors call by ``name``. Raises DataError."""
    if isinstance(answers, str | Path):
        return read_answers(user_path(answers), settings)
    rows = read_frame(answers, name).iter_rows(named=True)
    return AnswerFile(Path(slug(name)), [(f"row {number} of {name}", row) for number, row in enumerate(rows, 1)])


def _jury(panel: Panel, manifest: Path) -> Table:
    """Return the ``[jury]`` of a panel; the check of the manifest names what is wrong with it."""
    if panel is None:
        return {}
    if isinstance(panel, str | Path):
        file = user_path(panel)
        if not file.is_file():
            raise ManifestError(f"judge: --panel {panel}: no such file")
        judges: object = None
        with suppress(OSError, ValueError):
            judges = tomllib.loads(file.read_text(encoding="utf-8")).get("judges")
        return {"panel": _from_folder(str(panel), manifest), "seats": _seats(judges)}
    if not isinstance(panel, list | tuple) or not all(isinstance(judge, Mapping) for judge in panel):
        raise ManifestError("judge: panel: give a panel file, or a list of dicts with the keys of [[judges]]")
    listed: list[JsonValue] = [dict(judge) for judge in panel]
    return {"judges": listed, "seats": _seats(listed)}


def _seats(judges: object) -> int:
    """Return the seats of a jury of these judges."""
    if not isinstance(judges, list):
        return DEFAULT_SEATS
    return min(DEFAULT_SEATS, sum(not judge.get("substitute") for judge in judges))


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


def _from_folder(source: str, manifest: Path) -> str:
    """Return a source as the manifest names it, from its own folder."""
    if source == BUNDLED or is_address(source):
        return source
    return os.path.relpath(user_path(source).absolute(), manifest.absolute().parent)


def _read_models(
    given: AnswerFile, task: Task, items: Sequence[Item], model: str | None, family: str | None
) -> list[ImportedModel]:
    """Return the models with their answers. Say which replies judges cannot read."""
    ids = frozenset(item.id for item in items)
    answered = models(given, ids, model, family, json_replies=has_json_replies(task, items))
    warn(filter(None, (check_replies(task, items, answered, str(given.path)), blank_rows(given, answered, ids))))
    return answered
