"""check: this machine, a manifest, or a file of items."""

from __future__ import annotations

import os
import shutil
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from layton_batch.clock import SystemClock
from layton_batch.columns import Column, Table
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import Offline, Runs, RunSource, environment, manifest_path, runs_folder
from layton_batch.errors import LaytonBatchError, ManifestError
from layton_batch.files.addresses import shown
from layton_batch.files.sources import ITEM_ENDINGS, read_rows
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.item_check import ItemCheck, ItemFinding, check_items, guess_task
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import asked_models, check_models
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.providers import BUILT_IN, OWN_ADDRESSES
from layton_batch.records import ModelSpec
from layton_batch.reports.table import Document, console, say_line, show
from layton_batch.runs.environment_notes import address_notes, file_notes, hub_notes, shown_address
from layton_batch.runs.folders import given_manifest
from layton_batch.runs.model_questions import ask_providers
from layton_batch.runs.own_prices import price_book
from layton_batch.settings import Settings, key_names
from layton_batch.text import one_line, plural

CheckSource: TypeAlias = "RunSource | None"
"""A manifest, its run, or items."""
WRONG = ManifestError.exit_code
"""Exit code for something that a run would refuse or misread."""
LISTED = 200
"""Faults of items on a terminal; ``--json`` has all."""
ENOUGH_BYTES = 1 << 30
MOST_DRIFT = 60.0
"""Seconds between a provider's clock and ours."""
CALL_SECONDS, PATIENCE = 5.0, 8.0
"""For a step of one call, and for all of them together."""


class State(StrEnum):
    """Result of a check."""

    OK = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """Result and detail of one check."""

    check: str
    state: State
    detail: str


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


# ---- the machine and a manifest --------------------------------------------------------------------------------------


def examine(
    path: Path | None, settings: Settings, runs: Path | None = None, *, offline: bool = False
) -> list[MachineFinding]:
    """Run all checks. Without a manifest a missing key is only noted; a manifest's keys must be set. Prompts at
    addresses are taken from a run under ``runs`` that has a copy, as that run would take them.

    Raises ManifestError for a manifest that cannot be loaded.
    """
    warn((*file_notes(settings), *hub_notes(settings)))
    manifest = load_manifest(path, PromptFiles(settings, runs, offline=offline)) if path else None
    if manifest is not None and not offline:
        warn(address_notes(manifest, settings))
    needed, is_read = ([], False) if manifest is None else (asked_models(manifest), True)
    settings = settings if manifest is None else manifest.addressed(settings)
    names = list(dict.fromkeys(spec.provider for spec in needed)) if is_read else list(BUILT_IN)
    findings = [MachineFinding(".env", State.NOTE, note) for note in file_notes(settings)]
    findings += _keys(names, settings, State.BAD if is_read else State.NOTE)
    findings += _addresses(names, settings, State.NOTE if offline and not is_read else State.BAD)
    if not offline:
        with_key = [name for name in names if settings.has_key(name)]
        findings += _endpoints(
            [name for name in with_key if not (settings.key_trouble(name) or settings.address_trouble(name))], settings
        )
    if manifest is not None:
        findings += _prices(manifest, needed)
        models = [check_models(manifest, settings, SystemClock())]
        models += [] if offline else [ask_providers(manifest, settings, SystemClock())]
        for checked in models:
            findings += [MachineFinding("models", State.BAD, line) for line in checked.refused]
            findings += [MachineFinding("models", State.NOTE, line) for line in checked.warnings]
    findings.append(_disk(settings.cwd))
    return findings


def _keys(names: Sequence[str], settings: Settings, wrong: State) -> Iterator[MachineFinding]:
    """Yield the keys that are set, and all that are not in one finding."""
    for name in filter(settings.has_key, names):
        trouble = settings.key_trouble(name)
        state, detail = (wrong, trouble) if trouble else (State.OK, f"set ({settings.key_variable(name)})")
        yield MachineFinding(f"key {name}", state, detail)
    if missing := [" or ".join(key_names(name)) for name in names if not settings.has_key(name)]:
        yield MachineFinding("keys", wrong, f"not set: {', '.join(missing)}")


def _addresses(names: Sequence[str], settings: Settings, wrong: State) -> Iterator[MachineFinding]:
    for name in names:
        if (trouble := settings.address_trouble(name)) is not None:
            yield MachineFinding(f"address {name}", wrong, trouble)
        elif (variable := settings.address_variable(name)) is not None:
            yield MachineFinding(f"address {name}", State.OK, f"{shown_address(variable.value)} ({variable})")


# ---- endpoints -----------------------------------------------------------------------------------------------------


def _endpoints(names: Sequence[str], settings: Settings) -> list[MachineFinding]:
    """Check all endpoints at once, in daemon threads. A call to a silent name server has no time limit, and must not
    delay the other checks or the end of the program.
    """
    import httpx

    answers: dict[str, list[MachineFinding]] = {}
    trust = httpx.create_ssl_context()  # a third of a second each

    def ask(name: str) -> None:
        answers[name] = list(_endpoint(name, settings, trust))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    give_up_at = SystemClock().now() + PATIENCE
    for thread in threads:
        thread.join(max(give_up_at - SystemClock().now(), 0.0))
    silent = f"no answer within {PATIENCE:.0f} seconds"
    return [
        finding
        for name in names
        for finding in answers.get(name, [MachineFinding(f"endpoint {name}", State.BAD, silent)])
    ]


def _endpoint(name: str, settings: Settings, trust: ssl.SSLContext) -> Iterator[MachineFinding]:
    """Check that the address answers, and compare its clock with ours. Send no key."""
    import httpx

    url, check = settings.access(name).base_url or OWN_ADDRESSES.get(name), f"endpoint {name}"
    if url is None:
        yield MachineFinding(check, State.NOTE, "not checked: the address depends on the project and region")
        return
    try:
        reply = httpx.get(url, timeout=CALL_SECONDS, verify=trust)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        is_away = isinstance(error, httpx.TransportError)  # the text of any other may hold the whole address
        reason = (
            f"cannot be reached: {str(error) or type(error).__name__}"
            if is_away
            else f"is not a usable address ({type(error).__name__})"
        )
        yield MachineFinding(check, State.BAD, f"{shown(url)} {reason}")
        return
    if reply.is_server_error:
        yield MachineFinding(check, State.BAD, f"{shown(url)} answers with HTTP {reply.status_code}")
        return
    yield MachineFinding(check, State.OK, f"{shown(url)} answers")
    if (drift := _drift(reply.headers.get("date"))) is not None and abs(drift) > MOST_DRIFT:
        detail = f"this machine is {drift:+.0f} s from {name}; set the clock: prices and deadlines depend on it"
        yield MachineFinding("clock", State.BAD, detail)


def _drift(header: str | None) -> float | None:
    try:
        server_time = parsedate_to_datetime(header or "")
    except ValueError:
        return None
    return (datetime.fromtimestamp(SystemClock().now(), tz=UTC) - server_time.astimezone(UTC)).total_seconds()


def _prices(manifest: Manifest, needed: Sequence[ModelSpec]) -> Iterator[MachineFinding]:
    prices = price_book(manifest, SystemClock().now())
    for provider, model in dict.fromkeys((spec.provider, spec.model) for spec in needed):
        price = prices.price(provider, model)
        if price is None:
            state = State.BAD if manifest.budget.max_usd is not None else State.NOTE
            yield MachineFinding(f"price {model}", state, str(prices.why_unknown(provider, model)))
        else:
            batch = price.batch
            detail = f"${batch.input} in, ${batch.output} out per M batched ({price.source}, {price.as_of})"
            yield MachineFinding(f"price {model}", State.OK, detail)


def _disk(folder: Path) -> MachineFinding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise LaytonBatchError(f"{folder}: cannot be examined ({error.strerror})") from error
    state = State.OK if free >= ENOUGH_BYTES else State.BAD
    return MachineFinding("disk", state, f"{free / 1e9:.1f} GB free at {folder}")
