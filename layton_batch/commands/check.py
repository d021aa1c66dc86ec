"""check: this machine, a manifest, or a file of items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

import typer

from layton_batch.columns import Table
from layton_batch.commands.machine_check import FINDINGS, MachineFinding, examine, print_findings
from layton_batch.commands.parameters import (
    CommandLineForm,
    Offline,
    Runs,
    RunSource,
    environment,
    manifest_path,
    runs_folder,
)
from layton_batch.errors import ManifestError
from layton_batch.files.sources import ITEM_ENDINGS, read_rows
from layton_batch.manifest.item_check import ItemCheck, check_items, guess_task
from layton_batch.reports.document import Document
from layton_batch.reports.item_findings import findings_table, print_items
from layton_batch.runs.folders import given_manifest
from layton_batch.settings import Settings

CheckSource: TypeAlias = "RunSource | None"
"""A manifest, its run, or items."""
WRONG = ManifestError.exit_code
"""Exit code for something that a run would refuse or misread."""


@dataclass(frozen=True, slots=True)
class MachineDocument(Document):
    """Checks of this machine and of what a manifest needs."""

    subject: str
    findings: Sequence[MachineFinding]

    @property
    def is_wrong(self) -> bool:
        """Return whether a run would refuse it."""
        return any(finding.is_bad for finding in self.findings)

    def end(self) -> int:
        return WRONG if self.is_wrong else 0

    def show(self) -> None:
        print_findings(self.subject, self.findings)

    def as_json(self) -> object:
        return Table(FINDINGS, self.findings).records()


@dataclass(frozen=True, slots=True)
class ItemsDocument(Document):
    """Faults of a file of items."""

    source: str
    result: ItemCheck

    @property
    def is_wrong(self) -> bool:
        """Return whether a run would refuse or misread it."""
        return self.result.has_errors

    def end(self) -> int:
        return WRONG if self.is_wrong else 0

    def show(self) -> None:
        print_items(self.source, self.result)

    def as_json(self) -> object:
        return {"file": self.source, **asdict(self.result), "findings": findings_table(self.result.findings).records()}


def check(
    source: Annotated[
        CheckSource,
        CommandLineForm(str | None),
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
        return _checked_items(str(source), settings)
    path, run_place = given_manifest(given, place)
    return MachineDocument(str(path), examine(path, settings, run_place or place, offline=offline))


def _is_items(source: str) -> bool:
    """Return whether the text names items: a file that is no manifest, a pattern or an address."""
    is_file = os.path.isfile(source) and not source.endswith(".toml")
    return is_file or "://" in source or source.lower().endswith(ITEM_ENDINGS)


def _checked_items(source: str, settings: Settings) -> ItemsDocument:
    rows = read_rows(source, settings.cwd, settings)
    return ItemsDocument(source, check_items(rows, guess_task(rows)))
