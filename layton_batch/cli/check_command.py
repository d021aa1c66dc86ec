"""check: this machine, a manifest, or a file of items."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, Offline, Runs

WRONG = 2
"""The exit code for what a run would refuse or misread."""


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("check")(check)


def check(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[MANIFEST | FILE]",
            help="A manifest or its run; or items: JSONL, JSON, Parquet, CSV or .xlsx, a pattern or hf://…",
        ),
    ] = None,
    runs: Runs = RUNS,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Check this machine, a manifest, or a file of items.

    Without an argument: the keys that are set, addresses, disk and clock. With a manifest: the keys that it needs,
    addresses, prices, and by the providers' own word its models; prompts at addresses are fetched, unless a run of the
    manifest's name (under --runs) has a copy. Never prints a key.

    A file of items: rows that no split of its task takes, ids and questions that are there twice, missing references,
    pictures that were cut off.

    Where all is well it says so in one line. Ends with 2 where something is wrong that a run would refuse or misread,
    else with 0.
    """
    from layton_batch.cli.machine_check import examine, print_findings
    from layton_batch.cli.terminal import print_json
    from layton_batch.runs.folders import given_manifest
    from layton_batch.settings import Settings

    if source is not None and _is_items(source):
        raise typer.Exit(_check_items(source, as_json=as_json))
    path, place = (None, None) if source is None else given_manifest(Path(source), runs)
    findings = examine(path, Settings.from_process(), place or runs, offline=offline)
    if as_json:
        print_json(
            [{"check": finding.check, "state": str(finding.state), "detail": finding.detail} for finding in findings]
        )
    else:
        print_findings(str(path or "this machine"), findings)
    raise typer.Exit(WRONG if any(finding.is_bad for finding in findings) else 0)


def _is_items(source: str) -> bool:
    """Return whether the text names items: a file that is no manifest, a pattern or an address."""
    from layton_batch.files.sources import ITEM_ENDINGS

    is_file = os.path.isfile(source) and not source.endswith(".toml")
    return is_file or "://" in source or source.lower().endswith(ITEM_ENDINGS)


def _check_items(source: str, *, as_json: bool) -> int:
    from dataclasses import asdict

    from layton_batch.cli.terminal import print_json
    from layton_batch.files.sources import read_rows
    from layton_batch.manifest.item_check import check_items, guess_task
    from layton_batch.reports.items import print_items
    from layton_batch.settings import Settings

    settings = Settings.from_process()
    rows = read_rows(source, settings.cwd, settings)
    result = check_items(rows, guess_task(rows))
    if as_json:
        findings = [{**asdict(finding), "level": finding.level} for finding in result.findings]
        print_json({"file": source, **asdict(result), "findings": findings})
    else:
        print_items(source, result)
    return WRONG if result.has_errors else 0
