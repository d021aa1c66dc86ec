"""plan: what a manifest would send and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from layton_batch.clock import SystemClock
from layton_batch.columns import DATA, Column, Table, text_table
from layton_batch.commands.asked_manifest import asked_manifest
from layton_batch.commands.parameters import (
    Offline,
    Runs,
    calling_environment,
    manifest_path,
    runs_folder,
)
from layton_batch.costs.estimate import bundled_priors
from layton_batch.errors import ManifestError, OverBudgetError
from layton_batch.files.sources import user_path
from layton_batch.reports.run_result import no_price
from layton_batch.reports.table import Document, as_html, console, say_line, show
from layton_batch.runs.folders import SANDBOX_STATE, given_manifest, home_of
from layton_batch.runs.model_questions import ask_providers
from layton_batch.runs.open import refuse_to_mix
from layton_batch.stages.plan_counts import EARLIER, PlannedJob
from layton_batch.stages.preview import Preview, preview
from layton_batch.states import Role
from layton_batch.text import decimal_text, money, plural


def _amount(usd: Decimal | None) -> str:
    return "unknown" if usd is None else money(usd)


def _amount_column(name: str, words: str, amount: Callable[[PlannedJob], Decimal | None]) -> Column[PlannedJob]:
    return Column(
        name, words, value=lambda job: decimal_text(amount(job)), text=lambda job: _amount(amount(job)),
    )  # fmt: skip


JOBS: tuple[Column[PlannedJob], ...] = (
    Column("id", value=lambda planned: planned.job.id, surfaces=DATA),
    Column("role", "stage", value=lambda planned: str(planned.job.role), is_text=True),
    Column("provider", value=lambda planned: planned.job.spec.provider, surfaces=DATA),
    Column("model", value=lambda planned: planned.job.spec.name, is_text=True),
    Column("depends_on", value=lambda planned: planned.job.depends_on, surfaces=DATA),
    Column("requests", format="{:,}"),
    Column("answered", format="{:,}"),
    Column("shards", surfaces=DATA),
    Column("bytes", value=lambda planned: planned.size_bytes, surfaces=DATA),
    Column("too_large", surfaces=DATA),
    _amount_column("expected_usd", "expected", lambda planned: planned.expected_usd),
    Column("expected_from", surfaces=DATA),
    _amount_column("max_usd", "at most", lambda planned: planned.max_usd),
    Column("price", value=lambda planned: planned.price_note, surfaces=DATA),
)


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
    def jobs(self) -> pl.DataFrame:
        """Return a row a job."""
        return pl.DataFrame(Table(JOBS, self.preview.jobs).records(), infer_schema_length=None)

    def end(self) -> int:
        """Raise the error with which ``run`` would refuse to begin, or to send anything to a model."""
        if self.refused:
            raise ManifestError("\n".join(("`run` refuses to begin:", *self.refused)))
        if self.preview.unpriced:
            raise OverBudgetError(no_price(self.preview.unpriced))
        return 0

    def show(self) -> None:
        """Print the summary, then stages and providers, then notes; provider notes are cut to a line.

        Amounts are over every first attempt, judges included.
        """
        preview = self.preview
        say_line(f"{preview.run_id}  {_asked(preview)}; nothing was sent", "bold")
        show(text_table("", ("", ""), _answer(preview), text=2), gap=1)
        console().print()
        groups: dict[tuple[str, str], list[PlannedJob]] = defaultdict(list)
        for planned in preview.jobs:
            role = "anchors" if planned.job.is_anchor else str(planned.job.role)
            groups[role, planned.job.spec.provider].append(planned)
        heads = ("stage", "provider", "jobs", "requests", "to send", "files", "size", "expected", "at most")
        rows = [(*group, *_figures(planned)) for group, planned in groups.items()]
        show(replace(text_table("", heads, rows, text=2), total=("total", "", *_figures(preview.jobs))))
        notes = [*(("note", note) for note in (_sources(preview), *preview.caveats)), *_folded_notes(preview)]
        console().print()
        show(text_table("", ("", ""), notes, text=2), gap=1)

    def as_json(self) -> object:
        """Return the plan; dollars are exact decimal text, null where a price is unknown."""
        preview = self.preview
        counts = ("items", "requests", "answered", "to_send")
        amounts = ("expected_usd", "max_usd", "set_aside_usd")
        return {
            "run": preview.run_id,
            **{name: getattr(preview, name) for name in counts},
            **{name: decimal_text(getattr(preview, name)) for name in amounts},
            "budget_usd": decimal_text(preview.budget.max_usd),
            "providers": {name: decimal_text(usd) for name, usd in preview.by_provider().items()},
            "jobs": Table(JOBS, preview.jobs).records(),
            "keys": [{"variables": list(key.variables), "is_set": key.is_set} for key in preview.keys],
            "caveats": list(preview.every_caveat),
            "refused": list(preview.refused),
        }

    def _repr_html_(self) -> str:
        title = f"{self.name}: what it would send and cost; nothing was sent"
        return as_html(Table(JOBS, self.preview.jobs, title, (*self.refused, *self.caveats)))


def plan(
    manifest: Annotated[
        str | Path | None,
        Path | None,
        typer.Argument(metavar="MANIFEST", help="The manifest, a TOML file; or its run, by name or folder."),
    ] = None,
    *,
    out: Annotated[
        str | Path | None,
        Path | None,
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
    Of runs that a sandbox played (--runs runs-sandbox) it is what the next `run --sandbox` sends.
    """
    settings, clock = calling_environment(), SystemClock()
    runs_place = runs_folder(runs, settings)
    path, given_place = given_manifest(manifest_path(manifest), runs_place)
    place = given_place or runs_place
    sandbox = (place / SANDBOX_STATE).is_dir()
    opened = asked_manifest(path, place, settings, sandbox=sandbox, offline=offline)
    with opened as (loaded, place, settings):
        refuse_to_mix(loaded, home_of(loaded, place), settings)
        planned = preview(loaded, settings, clock, None if out is None else user_path(out), place)
        is_asked = not (offline or sandbox)
        return Plan(planned.with_model_findings(ask_providers(loaded, settings, clock)) if is_asked else planned)


# ---- texts ---------------------------------------------------------------------------------------------------------


def in_short(preview: Preview) -> str:
    """Summarize the amount to ask and to pay in one line."""
    count = f"{plural(preview.requests, 'request')}, of which {preview.answered:,} answered already, "
    if not preview.to_send:
        return f"{count}0 to send: nothing to pay"
    amounts = f"expected {_amount(preview.expected_usd)}, at most {_amount(preview.max_usd)}"
    return f"{count}{preview.to_send:,} to send{_again(preview)}: {amounts}"


def _again(preview: Preview) -> str:
    if not preview.judged_again:
        return ""
    return f" ({plural(preview.judged_again, 'verdict')} again, because the item or the answer changed)"


def _asked(preview: Preview) -> str:
    """``11 models × 42 items × 2 rounds, 3 judges``."""
    participants = [planned.job.spec for planned in preview.jobs if planned.job.role is Role.PREDICT]
    models = len({spec.name for spec in participants})
    rounds = f" × {len(participants) // models} rounds" if len(participants) > models > 0 else ""
    judges = len({planned.job.spec.name for planned in preview.jobs if planned.job.role is not Role.PREDICT})
    panel = f", {plural(judges, 'judge')}" if judges else ""
    return f"{plural(models, 'model')} × {plural(preview.items, 'item')}{rounds}{panel}"


def _answer(preview: Preview) -> Iterator[tuple[str, str]]:
    """Yield the summary of a plan: amount to send, cost, refusals of `run`, needed keys."""
    to_send = f"{preview.to_send:,} of {plural(preview.requests, 'request')}"
    yield "to send", f"{to_send}; {preview.answered:,} answered already{_again(preview)}"
    expected, at_most = _amount(preview.expected_usd), _amount(preview.max_usd)
    budget = preview.budget
    limit = "no [budget]" if budget.max_usd is None else f"budget {money(budget.max_usd)}"
    if budget.max_usd is not None and budget.bound is not None:
        aside = preview.set_aside_usd
        is_enough = aside is None or aside <= budget.max_usd
        limit += f", of which {_amount(aside)} is" if is_enough else f", less than the {_amount(aside)} to be"
        limit += " set aside"
    yield "cost", f"expected {expected}, at most {at_most}; {limit}"
    refused = [*preview.refused, *(f"{name}: no known price, and there is a budget" for name in preview.unpriced)]
    yield from (("refused", line) for line in refused or ["nothing"])
    yield "keys", ", ".join(map(str, preview.keys))
    missing = [key for key in preview.keys if not key.is_set]
    if missing:
        is_all = len(missing) == len(preview.keys)
        yield "missing", "all of these keys" if is_all else ", ".join(map(str, missing))


def _folded_notes(preview: Preview) -> list[tuple[str, str]]:
    """A provider's notes on one line, which a terminal cuts where they are longer."""
    lines = []
    for provider in dict.fromkeys(name for name, _ in preview.provider_notes):
        text = f"{provider}: {'; '.join(note for name, note in preview.provider_notes if name == provider)}"
        room = console().width - len("note ") if console().is_terminal else len(text)
        lines.append(("note", text if len(text) <= room else f"{text[: room - 1].rstrip()}…"))
    return lines


def _sources(preview: Preview) -> str:
    """Tell which expected costs come from earlier runs and which from the priors."""
    priors = f"the bundled priors by reasoning effort of {bundled_priors().as_of}"
    earlier = [planned for planned in preview.jobs if planned.expected_from == EARLIER]
    if not earlier:
        return f"expected: from {priors}; no earlier run of these models and this task"
    if len(earlier) == len(preview.jobs):
        return "expected: from the tokens of earlier runs of these models and this task"
    names = ", ".join(dict.fromkeys(f"{planned.job.role} {planned.job.spec.name}" for planned in earlier))
    return f"expected: from the tokens of earlier runs for {names}; from {priors} for the others"


def _figures(group: Sequence[PlannedJob]) -> tuple[str, ...]:
    return (
        str(len(group)),
        f"{sum(planned.requests for planned in group):,}",
        f"{sum(planned.to_send for planned in group):,}",
        str(sum(planned.shards for planned in group)),
        f"{sum(planned.size_bytes for planned in group) / 1e6:,.1f} MB",
        _total([planned.expected_usd for planned in group]),
        _total([planned.max_usd for planned in group]),
    )


def _total(amounts: Sequence[Decimal | None]) -> str:
    return "unknown" if None in amounts else money(sum((usd for usd in amounts if usd is not None), Decimal(0)))
