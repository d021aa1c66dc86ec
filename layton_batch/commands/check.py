"""check: this machine, a manifest, or a file of items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

import typer

from layton_batch.columns import Column, Table
from layton_batch.commands.machine_check import MachineFinding, State, examine
from layton_batch.commands.parameters import (
    Offline,
    Runs,
    RunSource,
    environment,
    manifest_path,
    runs_folder,
)
from layton_batch.errors import ManifestError
from layton_batch.files.sources import ITEM_ENDINGS, read_rows
from layton_batch.manifest.item_check import ItemCheck, ItemFinding, check_items, guess_task
from layton_batch.reports.document import Document
from layton_batch.reports.table import console, say_line, show
from layton_batch.runs.folders import given_manifest
from layton_batch.text import one_line, plural

CheckSource: TypeAlias = "RunSource | None"
"""A manifest, its run, or items."""
WRONG = ManifestError.exit_code
"""Exit code for something that a run would refuse or misread."""
LISTED = 200
"""Faults of items on a terminal; ``--json`` has all."""
CHECKS: tuple[Column[MachineFinding], ...] = (
    Column("state", value=lambda finding: str(finding.state), is_text=True,
           styles={State.NOTE: "yellow", State.BAD: "red"}),
    Column("check", is_text=True),
    Column("detail", is_text=True),
)  # fmt: skip
FAULTS: tuple[Column[ItemFinding], ...] = (
    Column("line"),
    Column("item", is_text=True),
    Column("level", is_text=True),
    Column("kind", is_text=True),
    Column("text", "what", is_text=True),
)


@dataclass(frozen=True, slots=True)
class MachineDocument(Document):
    """Checks of this machine and of what a manifest needs."""

    subject: str
    findings: Sequence[MachineFinding]

    def end(self) -> int:
        return WRONG if any(finding.state is State.BAD for finding in self.findings) else 0

    def show(self) -> None:
        if unwell := [finding for finding in self.findings if finding.state is not State.OK]:
            show(Table(CHECKS, unwell), gap=1)
        else:
            say_line(f"{self.subject}: all is well ({plural(len(self.findings), 'check')})")

    def as_json(self) -> object:
        return Table(CHECKS, self.findings).records()


@dataclass(frozen=True, slots=True)
class ItemsDocument(Document):
    """Faults of a file of items."""

    source: str
    result: ItemCheck

    def end(self) -> int:
        return WRONG if self.result.has_errors else 0

    def show(self) -> None:
        """Print how many rows of the file fit, in one line; below it the faults, if any, a line each."""
        checked, faults = self.result, self.result.findings
        wrong = sum(finding.kind == "row" for finding in faults)
        fits = {} if {*checked.fits.values()} == {checked.rows} else checked.fits  # else every split takes them all
        splits = "".join(f", {split} {count}" for split, count in fits.items()) or (
            "" if checked.fits else ", no split"
        )
        unread = f"; not read: {', '.join(checked.unread)}" if checked.unread else ""
        outcome = f"{wrong:,} wrong" if wrong else "see below" if faults else "all is well"
        counts = f"{plural(checked.rows, 'row')} for {checked.task}{splits}"
        say_line(one_line(f"{self.source}: {counts}{unread}: {outcome}"))
        if faults:
            console().print()
            show(Table(FAULTS, faults[:LISTED]))
        if len(faults) > LISTED:
            say_line(f"… and {len(faults) - LISTED} more; --json has them all")

    def as_json(self) -> object:
        faults = Table(FAULTS, self.result.findings).records()
        return {"file": self.source, **asdict(self.result), "findings": faults}


def check(
    source: Annotated[
        CheckSource,
        str | None,
        typer.Argument(
            metavar="[MANIFEST | FILE]",
            help="A manifest or its run; or items: JSONL, JSON, Parquet, CSV or .xlsx, a pattern or hf://…",
        ),
    ] = None,
    *,
    runs: Runs = None,
    offline: Offline = False,
) -> MachineDocument | ItemsDocument:
    """Check this machine, a manifest, or a file of items.

    Without an argument: the keys that are set, addresses, disk and clock. With a manifest: the keys that it needs,
    addresses, prices, and by the providers' own word its models; prompts at addresses are fetched, unless a run of the
    manifest's name (under --runs) has a copy. Never prints a key.

    A file of items: rows that no split of its task takes, ids and questions that are there twice, missing references,
    pictures that were cut off.

    Where all is well it says so in one line. Ends with 2 where something is wrong that a run would refuse or misread,
    else with 0.
    """
    settings = environment()
    place = runs_folder(runs, settings)
    given = manifest_path(source)
    if given is None:
        return MachineDocument("this machine", examine(None, settings, place, offline=offline))
    if _is_items(str(source)):
        rows = read_rows(str(source), settings.cwd, settings)
        return ItemsDocument(str(source), check_items(rows, guess_task(rows)))
    path, run_place = given_manifest(given, place)
    return MachineDocument(str(path), examine(path, settings, run_place or place, offline=offline))


def _is_items(source: str) -> bool:
    """Return whether the text names items: a file that is no manifest, a pattern or an address."""
    is_file = os.path.isfile(source) and not source.endswith(".toml")
    return is_file or "://" in source or source.lower().endswith(ITEM_ENDINGS)
