"""Checks of this machine and of what a manifest needs: keys, endpoints, prices, disk, clock. No key is printed."""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import warn
from layton_batch.errors import LaytonBatchError
from layton_batch.files.addresses import shown
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import ModelFindings, all_models, check_models
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.providers import BUILT_IN, OWN_ADDRESSES
from layton_batch.records import ModelSpec
from layton_batch.runs.environment_notes import address_notes, file_notes, hub_notes, shown_address
from layton_batch.runs.model_questions import ask_providers
from layton_batch.runs.own_prices import price_book
from layton_batch.settings import Settings

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
    settings = settings if manifest is None else manifest.addressed(settings)
    needed = [] if manifest is None else all_models(manifest)
    names = list(BUILT_IN) if manifest is None else list(dict.fromkeys(spec.provider for spec in needed))
    with_key = [name for name in names if settings.has_key(name)]
    findings = [MachineFinding(".env", State.NOTE, note) for note in file_notes(settings)]
    findings += [*_keys(names, settings, must=manifest is not None)]
    findings += [*_addresses(names, settings, must=manifest is not None or not offline)]
    if not offline:
        troubles = {name: settings.key_trouble(name) or settings.address_trouble(name) for name in with_key}
        called = [name for name, trouble in troubles.items() if trouble is None]
        findings += _endpoints(called, settings)
    if manifest is not None:
        findings += _prices(manifest, needed)
        findings += _models(check_models(manifest, settings, SystemClock()))
        findings += [] if offline else _models(ask_providers(manifest, settings, SystemClock()))
    findings.append(_disk(settings.cwd))
    return findings


def _keys(names: Sequence[str], settings: Settings, *, must: bool) -> Iterator[MachineFinding]:
    """Yield the keys that are set, and all that are not in one finding."""
    missing = []
    for name in names:
        if not settings.has_key(name):
            missing.append(" or ".join(settings.key_names(name)))
        elif (trouble := settings.key_trouble(name)) is not None:
            yield MachineFinding(f"key {name}", State.BAD if must else State.NOTE, trouble)
        else:
            yield MachineFinding(f"key {name}", State.OK, f"set ({settings.key_variable(name)})")
    if missing:
        yield MachineFinding("keys", State.BAD if must else State.NOTE, f"not set: {', '.join(missing)}")


def _addresses(names: Sequence[str], settings: Settings, *, must: bool) -> Iterator[MachineFinding]:
    for name in names:
        if (trouble := settings.address_trouble(name)) is not None:
            yield MachineFinding(f"address {name}", State.BAD if must else State.NOTE, trouble)
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

    url = settings.access(name).base_url or OWN_ADDRESSES.get(name)
    if url is None:
        yield MachineFinding(
            f"endpoint {name}", State.NOTE, "not checked: the address depends on the project and region"
        )
        return
    try:
        reply = httpx.get(url, timeout=CALL_SECONDS, verify=trust)
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        yield MachineFinding(f"endpoint {name}", State.BAD, f"{shown(url)} cannot be reached: {reason}")
        return
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # its text may hold the whole address
        yield MachineFinding(
            f"endpoint {name}", State.BAD, f"{shown(url)} is not a usable address ({type(error).__name__})"
        )
        return
    if reply.is_server_error:
        yield MachineFinding(f"endpoint {name}", State.BAD, f"{shown(url)} answers with HTTP {reply.status_code}")
        return
    yield MachineFinding(f"endpoint {name}", State.OK, f"{shown(url)} answers")
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


def _models(findings: ModelFindings) -> Iterator[MachineFinding]:
    """Yield the findings on the manifest's models, from our own table or their providers."""
    for state, lines in ((State.BAD, findings.refused), (State.NOTE, findings.warnings)):
        yield from (MachineFinding("models", state, line) for line in lines)


def _disk(folder: Path) -> MachineFinding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise LaytonBatchError(f"{folder}: cannot be examined ({error.strerror})") from error
    state = State.OK if free >= ENOUGH_BYTES else State.BAD
    return MachineFinding("disk", state, f"{free / 1e9:.1f} GB free at {folder}")
