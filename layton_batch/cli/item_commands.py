"""items check: what is wrong with a file of items."""

from __future__ import annotations

from typing import Annotated

import typer

from layton_batch.cli.run_commands import Json

ERRORS = 2
"""The exit code for data that a run would refuse or misread."""

items_app = typer.Typer(help="Files of items: `items check FILE`.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.add_typer(items_app, name="items")


@items_app.callback()
def _items() -> None:
    """Files of items."""


@items_app.command("check")
def check(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="JSONL, JSON, Parquet, CSV or .xlsx; also a pattern or hf://…")
    ],
    task: Annotated[str | None, typer.Option("--task", help="Whose items they are; default: whose they fit.")] = None,
    as_json: Json = False,
) -> None:
    """Find what is wrong with a file of items.

    Rows that no split of the task takes, columns that the task does not read, missing fields and references, pictures
    that were cut off, ids and questions that are there twice, questions that are nearly the same, answers that stand in
    the question or in a hint. Ends with 2 where there is an error (a row that is no item, an id that is there twice, a
    picture that was cut off), with 0 where there are warnings or nothing.
    """
    from dataclasses import asdict

    from layton_batch.cli.terminal import print_json
    from layton_batch.errors import ManifestError
    from layton_batch.files.sources import read_rows
    from layton_batch.manifest.item_check import check_items, guess_task, unread_note
    from layton_batch.reports.items import print_items
    from layton_batch.settings import Settings

    if source.endswith(".toml"):
        raise ManifestError(
            f"items check: {source} is a manifest: `layton-batch plan {source}` checks it and its items"
        )
    settings = Settings.from_process()
    rows = read_rows(source, settings.cwd, settings)
    result = check_items(rows, task or guess_task(rows))
    if as_json:
        findings = [{**asdict(finding), "level": finding.level} for finding in result.findings]
        print_json({"file": source, **asdict(result), "findings": findings})
    else:
        print_items(result, unread_note(rows, result.task, result.unread))
    if result.has_errors:
        raise typer.Exit(ERRORS)
