"""judge: put answers of a file before a jury."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.clock import SystemClock
from layton_batch.commands.driving import Conversation, driven_run, loaded_manifest
from layton_batch.commands.own_answers import JudgeArguments, read_judged
from layton_batch.commands.parameters import (
    Family,
    MaxUsd,
    Runs,
    UseSandbox,
    Yes,
    calling_environment,
    runs_folder,
)
from layton_batch.commands.run_result import RunResult
from layton_batch.interchange.entering import check_answers
from layton_batch.manifest.manifest import with_budget
from layton_batch.runs.folders import sandbox_runs


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
    place, amount = runs_folder(runs, settings), None if max_usd is None else str(max_usd)
    judged = read_judged(JudgeArguments(file, items, panel, model, family, protocol, amount), settings)
    check_answers(judged.manifest, sandbox_runs(place) if sandbox else place, settings, judged.answers)
    with (
        loaded_manifest(judged.write(), place, settings, sandbox=sandbox) as (manifest, place, settings),
        driven_run(
            with_budget(manifest, amount), place, settings, clock, conversation, yes=yes, offline=sandbox,
            answers=judged.answers,
        ) as (opened, status),
    ):  # fmt: skip
        conversation.end(opened, status)
        return RunResult.read(opened.folder, opened.store, status, opened.trouble)
