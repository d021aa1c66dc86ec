"""plan: what a manifest would send and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import (
    CommandLineForm,
    Offline,
    Runs,
    calling_environment,
    manifest_path,
    runs_folder,
)
from layton_batch.errors import LaytonBatchError, ManifestError, OverBudgetError
from layton_batch.files.sources import user_path
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.reports.document import Document
from layton_batch.reports.next_steps import no_price
from layton_batch.reports.plan_tables import plan_json, plan_table, print_plan
from layton_batch.reports.table import as_html
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import given_manifest, home_of
from layton_batch.runs.model_questions import ask_providers
from layton_batch.runs.open import refuse_to_mix
from layton_batch.stages.preview import Preview, preview


@dataclass(frozen=True, slots=True)
class Plan(Document):
    """Requests and costs of a run before it starts; amounts are None if a price is unknown."""

    preview: Preview

    @property
    def name(self) -> str:
        return self.preview.run_id

    @property
    def items(self) -> int:
        return self.preview.items

    @property
    def requests(self) -> int:
        return self.preview.requests

    @property
    def expected_usd(self) -> Decimal | None:
        return self.preview.expected_usd

    @property
    def max_usd(self) -> Decimal | None:
        return self.preview.max_usd

    @property
    def caveats(self) -> Sequence[str]:
        """Return warnings about the run."""
        return self.preview.every_caveat

    @property
    def refused(self) -> Sequence[str]:
        """Return reasons for which ``run`` would not start."""
        return self.preview.refused

    @property
    def refusal(self) -> LaytonBatchError | None:
        """Return the error with which ``run`` would refuse to begin, or to send anything to a model."""
        if self.preview.refused:
            return ManifestError("\n".join(("`run` refuses to begin:", *self.preview.refused)))
        return OverBudgetError(no_price(self.preview.unpriced)) if self.preview.unpriced else None

    def end(self) -> int:
        if self.refusal is not None:
            raise self.refusal
        return 0

    @property
    def jobs(self) -> pl.DataFrame:
        """Return a row a job."""
        return pl.DataFrame(plan_table(self.preview).records(), infer_schema_length=None)

    def show(self) -> None:
        print_plan(self.preview)

    def as_json(self) -> object:
        return plan_json(self.preview)

    def _repr_html_(self) -> str:
        return as_html(plan_table(self.preview, (*self.refused, *self.caveats)))


def plan(
    manifest: Annotated[
        str | Path | None,
        CommandLineForm(Path | None),
        typer.Argument(metavar="MANIFEST", help="The manifest, a TOML file; or its run, by name or folder."),
    ] = None,
    *,
    out: Annotated[
        str | Path | None,
        CommandLineForm(Path | None),
        typer.Option("--out", help="Write the batch files into this folder."),
    ] = None,
    runs: Runs = None,
    offline: Offline = False,
) -> Plan:
    """Check a manifest and say what it would cost; pays nothing.

    Items, gold set and models are read and checked, requests written and split into batch files, prices looked up.
    The expected cost comes from the tokens of earlier runs of the same model and task (under --runs), else from bundled
    figures by reasoning effort; a note says which.
    Prompts at addresses are fetched, unless a run of the manifest's name (under --runs) has a copy.
    Providers whose key is set are asked whether their models are on sale. After the plan it ends with 2 where
    `run` would refuse a model or a key, and with 3 where a budget keeps `run` from a model of unknown price.
    """
    settings, clock = calling_environment(), SystemClock()
    runs_place = runs_folder(runs, settings)
    path, place = given_manifest(manifest_path(manifest), runs_place)
    place = place or runs_place
    loaded = load_manifest(path, PromptFiles(settings, place, offline=offline))
    if not offline:
        warn(address_notes(loaded, settings))
    refuse_to_mix(loaded, home_of(loaded, place), settings)
    planned = preview(loaded, settings, clock, None if out is None else user_path(out), place)
    return Plan(planned if offline else planned.with_model_findings(ask_providers(loaded, settings, clock)))
