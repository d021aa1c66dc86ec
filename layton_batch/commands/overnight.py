"""A night of refreshes: work on several manifests in turn until a time of day, publish changed boards, report.

Every manifest gets a tick in turn, so that none waits for the batches of another. A board that changed is published at
the same address as before. Another program is told by a JSON document, posted to an address that a person gave.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

import orjson
import typer

from layton_batch.clock import Clock, SystemClock, iso
from layton_batch.columns import Column, Table
from layton_batch.commands.driving import Conversation, open_and_drive
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import Runs, calling_environment, names_of, runs_folder
from layton_batch.errors import FileError, LaytonBatchError, ManifestError, refusal_of_system
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import user_path
from layton_batch.log import redact
from layton_batch.loop import deadline
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.reports.run_result import CALL_AGAIN, exit_code, next_steps, trouble_json, trouble_line, trouble_lines
from layton_batch.reports.table import Document, as_markdown, json_text, markdown_text
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import find_runs, manifest_name, run_source
from layton_batch.runs.status import ProviderTrouble, RunState, Status, missing_budget, read_status
from layton_batch.runs.stores import open_store
from layton_batch.scoring.history import BoardSnapshot, changes, snapshots
from layton_batch.settings import Settings
from layton_batch.site.build import check_target, made_from, write_front
from layton_batch.states import Lifecycle
from layton_batch.text import NONE, decimal_text, money, one_line, plural

TRIES, PAUSE, TIMEOUT = 3, 5.0, 20.0
"""Seconds of a pause grow with each try."""


def check_address(address: str | None) -> None:
    """Raise ManifestError for an address that is no URL, without the address."""
    try:
        is_url = address is None or (urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).hostname))
    except ValueError:
        is_url = False
    if not is_url:
        raise ManifestError("--webhook, or LAYTON_BATCH_WEBHOOK, is no URL; write https://HOST/PATH; nothing was sent")


def post(address: str, document: object, clock: Clock) -> str | None:
    """Post the document as JSON. Return the reason if it was not taken after a few tries, else None.

    The reason never has the address: it often is a secret itself.
    """
    import httpx  # only where there is a webhook

    body, headers, reason = orjson.dumps(document, default=str), {"Content-Type": "application/json"}, ""
    for number in range(TRIES):
        if number:
            clock.sleep(PAUSE * number)
        try:
            with httpx.stream(
                "POST", address, content=body, headers=headers, timeout=TIMEOUT, follow_redirects=True
            ) as reply:
                status = reply.status_code  # what else it says is not read: it may be endless, or damaged
        except httpx.TransportError as error:  # of the host at most; any other error may hold the whole address
            reason = str(error) or type(error).__name__
            continue
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            return type(error).__name__
        if 200 <= status < 300:
            return None
        reason = f"HTTP {status}"
        if status < 500 and status not in (408, 429):
            return reason
    return f"{reason}, {TRIES} times"


ROUND_SECONDS = 60.0
"""Between two rounds over the manifests."""
SUMMARY = "summary.json"
WORDS = {
    0: "done", 5: "done, some requests without an answer", 75: "goes on the next night",
    74: "the disk or the database is in the way", 3: "stopped by its budget", 4: "waits for a person", 2: "refused",
    1: "failed",
}  # fmt: skip
"""Words for exit codes, from all is well to worst."""
_AGAIN = "run the same command again"
EVENTS = {3: "budget", 4: "lost"}
"""Exit codes that are told when they come up, not only at the end."""
Reported: TypeAlias = Mapping[str, Mapping[str, Any]]
"""``total_usd`` and ``boards`` of each run, as the last summary that it was in had them."""


@dataclass(frozen=True, slots=True)
class NightResult:
    """Result of the night for one manifest. What nobody can tell, because it was refused before it had a run, is None.

    ``reason``: why it was refused, or cannot go on. ``spent_usd``: USD since the last summary, also of nights that were
    killed; ``total_usd``: of the run so far. ``missing_usd``: USD that the budget lacks for all planned batches;
    ``above_bounds_usd``: what batches cost beyond what was set aside for them. ``waiting``: requests that are not
    answered yet. ``troubles``: the trouble of providers. ``next_steps``: of a person. ``page``: path of the published
    board; ``incomplete``: the models below it; ``boards``: boards in the run's history; ``changes``: sentences on what
    changed since the last summary.
    """

    manifest: str
    run: str | None = None
    code: int = CALL_AGAIN
    reason: str | None = None
    spent_usd: str | None = None
    total_usd: str | None = None
    missing_usd: str | None = None
    above_bounds_usd: str | None = None
    waiting: int | None = None
    unanswered: int | None = None
    lost: Sequence[str] | None = None
    troubles: Sequence[ProviderTrouble] = ()
    next_steps: Sequence[str] = ()
    page: str | None = None
    incomplete: Sequence[str] = ()
    boards: int | None = None
    changes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the run's name, or the manifest that has no run."""
        return self.run or self.manifest

    @property
    def state(self) -> str:
        return WORDS.get(self.code, "stopped")

    @property
    def spent(self) -> str:
        return NONE if self.spent_usd is None else money(Decimal(self.spent_usd))

    def document(self) -> dict[str, object]:
        """Return the result as summary and webhook have it."""
        return asdict(self) | {"state": self.state, "troubles": list(map(trouble_json, self.troubles))}

    def sentences(self) -> Iterator[str]:
        """Yield what a person should know beside the numbers, the most urgent first."""
        if self.reason:
            yield self.reason
        yield from map(trouble_line, self.troubles)
        if self.missing_usd:
            yield f"The budget lacks {money(Decimal(self.missing_usd))} for all planned batches."
        if above := Decimal(self.above_bounds_usd or 0):
            yield f"Batches cost {money(above)} more than was set aside for them."
        yield from self.next_steps
        if self.page and self.incomplete:
            yield "The published board is partial."
        yield from (f"Not complete yet: {model}." for model in self.incomplete)
        yield from self.changes


NIGHT: tuple[Column[NightResult], ...] = (
    Column("name", "run", is_text=True),
    Column("state", is_text=True),
    Column("spent", "spent since the last summary"),
    Column("waiting"),
    Column("unanswered", "without an answer"),
    Column("lost", "lost batches", value=lambda result: None if result.lost is None else len(result.lost)),
)


@dataclass(frozen=True, slots=True)
class NightDocument(Document):
    """Results of a night by manifest, and its first and last moment (epoch seconds). ``reported``: by the
    summaries before."""

    FORMATS: ClassVar = ("table",)
    results: Sequence[NightResult]
    begun: float
    ended: float
    reported: Reported

    def end(self) -> int:
        codes = list(WORDS)
        return max((result.code for result in self.results), key=codes.index, default=0)

    def show(self) -> None:
        sys.stdout.write(self.text("md"))

    def as_json(self) -> dict[str, object]:
        runs = [result.document() for result in self.results]
        now = {row.run: {"total_usd": row.total_usd, "boards": row.boards} for row in self.results if row.run}
        return {"begun": iso(self.begun), "ended": iso(self.ended), "runs": runs, "reported": {**self.reported, **now}}

    def text(self, form: str) -> str:
        """Return a table of the runs, then what is to be said of each, as Markdown."""
        lines = [f"# Refreshed {iso(self.begun)} to {iso(self.ended)}", "", as_markdown(Table(NIGHT, self.results))]
        for result in self.results:
            if sentences := [f"- {markdown_text(sentence)}" for sentence in result.sentences()]:
                lines += [f"## {markdown_text(result.name)}", "", *sentences, ""]
        return "\n".join(lines).rstrip() + "\n"


def overnight(
    manifests: Annotated[
        str | Path | Sequence[str | Path],
        list[Path],
        typer.Argument(metavar="MANIFEST...", help="The manifests, TOML files."),
    ],
    *,
    until: Annotated[str, typer.Option("--until", help="Work until this local time, HH:MM.")] = "07:00",
    site: Annotated[str | Path, Path, typer.Option("--site", help="Where boards are published.")] = Path("public"),
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", envvar="LAYTON_BATCH_WEBHOOK", help="An address that gets the summary as JSON."),
    ] = None,
    runs: Runs = None,
    conversation: Conversation | None = None,
    clock: Clock | None = None,
) -> NightDocument:
    """Work on several manifests through the night, and publish what is complete.

    Every manifest gets a tick in turn, so that none waits for the batches of another. A board stays at its address
    (SITE/RUN/); SITE/summary.md and summary.json say what changed. The webhook gets the summary at the end, and at once
    when a person must act or a budget is reached. The exit code is the worst of the runs'.
    """
    clock, conversation = clock or SystemClock(), conversation or Conversation()
    conversation.is_quiet = True
    begun, settings = clock.now(), calling_environment()
    place, public = runs_folder(runs, settings), user_path(site)
    check_address(webhook)
    stop_at = deadline(until, clock) or math.inf
    atomic.make_folder(public)
    names = names_of(manifests, "manifests")
    works = [_NightRun(user_path(path), place, public, conversation, begun, stop_at) for path in names]

    def tell(event: str, results: Sequence[NightResult]) -> None:
        document = {"event": event, "text": _plain(results), "runs": [result.document() for result in results]}
        if webhook and (trouble := post(webhook, document, clock)):
            warn((f"the webhook at {urlsplit(webhook).hostname} was not told of {event!r}: {trouble}",))

    try:
        for work in _in_turn(works, ROUND_SECONDS * settings.pacing.advised, stop_at, clock):
            work.tick(clock)
            if work.code in EVENTS and clock.now() < stop_at:  # else the end tells it
                tell(EVENTS[work.code], [work.result(_read_reported(public))])
    except KeyboardInterrupt:
        warn(("stopped: batches go on at the providers; the next night continues",))
    for work in works:
        work.publish()
    _publish_front(works, place, public)
    with _reporting(public) as reported:
        document = NightDocument([work.result(reported) for work in works], begun, clock.now(), reported)
        atomic.write_text(public / SUMMARY, json_text(document.as_json()))
        atomic.write_text(public / "summary.md", document.text("md"))
    tell("end", document.results)
    return document


def _in_turn(works: Sequence[_NightRun], pause: float, stop_at: float, clock: Clock) -> Iterator[_NightRun]:
    """Yield the runs in turn until all have ended, or time is up; then each that goes on once more. ``pause``: seconds
    between rounds."""
    going, is_late = works, False
    while going and not is_late:
        is_late = clock.now() >= stop_at
        yield from going
        going = [work for work in going if work.code == CALL_AGAIN]
        if going and not is_late:
            clock.sleep(max(0.0, min(pause, stop_at - clock.now())))


def _plain(results: Sequence[NightResult]) -> str:
    """Return the night in plain lines, as chat tools show them."""
    lines: list[str] = []
    for result in results:
        line = f"{result.name}: {result.state}"
        if result.waiting is not None:
            waiting = f"{plural(result.waiting, 'request')} waiting, {result.unanswered} without an answer"
            line += f", {result.spent} spent, {waiting}"
        lines += [line, *(f"- {sentence}" for sentence in result.sentences())]
    return "\n".join(map(one_line, lines))


# ---- what summaries reported ---------------------------------------------------------------------------------------


@contextmanager
def _reporting(site: Path) -> Iterator[Reported]:
    """Yield what the summaries so far reported. No other night writes one meanwhile, so that nothing is in two."""
    folder = os.open(site, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield _read_reported(site)
    finally:
        os.close(folder)


def _read_reported(site: Path) -> Reported:
    """Return what the summaries of the site so far reported."""
    try:
        return dict(orjson.loads((site / SUMMARY).read_bytes())["reported"])
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or another program's
        return {}


# ---- one run -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _NightRun:
    """The run of one manifest during the night. ``runs``: the folder of runs; ``site``: where boards are published;
    ``begun``, ``stop_at``: of the night, epoch seconds. ``refusal``: why the last tick could do nothing."""

    path: Path
    runs: Path
    site: Path
    conversation: Conversation
    begun: float
    stop_at: float
    folder: RunFolder | None = None
    budget: Decimal | None = None
    code: int = CALL_AGAIN
    refusal: str | None = None

    def tick(self, clock: Clock) -> None:
        """Do what can be done without waiting, with the manifest and the settings as they are now."""
        is_first = self.folder is None
        with self._noting_refusal():
            with suppress(ManifestError):  # loading it tells what is wrong
                self.folder = RunFolder(self.runs / manifest_name(self.path))
            settings = Settings.from_process()
            manifest = load_manifest(self.path, PromptFiles(settings, self.runs))
            if is_first:
                warn(address_notes(manifest, settings))
            with open_and_drive(
                manifest, self.runs, settings, clock, self.conversation, once=True, stop_at=self.stop_at,
                begun=self.begun,
            ) as (run, status):  # fmt: skip
                self.budget, self.code, trouble = manifest.budget.max_usd, exit_code(status), run.engine.trouble
            if trouble:
                raise FileError("; ".join(trouble_lines(trouble)))
            self.refusal = None

    @contextmanager
    def _noting_refusal(self) -> Iterator[None]:
        """Note an error of the block as why the run was refused; say it once."""
        try:
            yield
        except (LaytonBatchError, OSError) as error:
            refusal = error if isinstance(error, LaytonBatchError) else refusal_of_system(error, _AGAIN)
            if refusal is None:
                raise
            reason = redact(str(refusal))
            if reason != self.refusal:
                warn((reason,))
            self.code, self.refusal = refusal.exit_code, reason

    def publish(self) -> None:
        """Publish the board of the run's complete models, unless it is there already, or another process drives the run
        and may write it now."""
        if self.folder is None or (self.refusal and self.code == CALL_AGAIN):
            return
        origin, out = made_from(self.folder.site), self.site / self.folder.root.name
        if origin is not None and made_from(out) != origin:
            with self._noting_refusal():
                check_target(out)
                with atomic.writing_folder(out) as building:
                    shutil.copytree(self.folder.site, building, dirs_exist_ok=True)

    def result(self, reported: Reported) -> NightResult:
        """Return where the run is now, whoever brought it there. ``reported``: what the summaries so far reported."""
        if self.folder is not None and self.folder.manifest.exists():
            with self._noting_refusal(), open_store(self.folder, Settings.from_process()) as store:
                return self._result(self.folder, read_status(store), reported)
        return NightResult(str(self.path), code=self.code, reason=self.refusal)

    def _result(self, folder: RunFolder, status: Status, reported: Reported) -> NightResult:
        earlier = reported.get(status.run, {"total_usd": 0, "boards": 0})
        out, boards = self.site / status.run, snapshots(folder.history)
        is_stopped = status.state is RunState.OVER_BUDGET and self.budget is not None
        missing = missing_budget(status, self.budget or Decimal(0)) if is_stopped else None
        steps: Sequence[str] = ()
        if self.refusal is None and self.code not in (0, CALL_AGAIN):
            steps = next_steps(status, run_source(folder))
        return NightResult(
            manifest=str(self.path),
            run=status.run,
            code=self.code,
            reason=self.refusal or status.reason,
            spent_usd=decimal_text(status.spent_usd - Decimal(earlier["total_usd"])),
            total_usd=decimal_text(status.spent_usd),
            missing_usd=decimal_text(missing),
            above_bounds_usd=decimal_text(status.above_bounds_usd),
            waiting=sum(job.waiting for job in status.jobs),
            unanswered=status.unanswered,
            lost=[batch.id for batch in status.batches if batch.state is Lifecycle.LOST],
            troubles=status.troubles,
            next_steps=steps,
            page=None if made_from(out) is None else str(out / "index.html"),
            incomplete=_incomplete(folder),
            boards=len(boards),
            changes=_changes(boards, earlier["boards"]),
        )


def _changes(boards: Sequence[BoardSnapshot], reported: int) -> Sequence[str]:
    """Describe what changed since the board that a summary reported last."""
    if len(boards) <= reported:
        return ()
    return changes(boards[reported - 1], boards[-1]) if reported else ("The first complete board of this run.",)


def _incomplete(folder: RunFolder) -> Sequence[str]:
    """Return the models below the run's board, each with its progress."""
    rows = tables.read(folder.tables, "leaderboard", ["model", "progress"]).drop_nulls("progress")
    return [f"{model}, {progress}" for model, progress in rows.iter_rows()]


# ---- pages ---------------------------------------------------------------------------------------------------------


def _publish_front(works: Sequence[_NightRun], runs: Path, site: Path) -> None:
    """Write the page that leads to every published board: of tonight's manifests first, then of other runs. An
    ``index.html`` of somebody else is left alone."""
    folders = {folder.root.name: folder for folder in find_runs(runs)}
    names = dict.fromkeys([*(work.folder.root.name for work in works if work.folder), *sorted(folders)])
    try:
        write_front(site, [folders[name] for name in names if name in folders and made_from(site / name) is not None])
    except LaytonBatchError as error:
        warn((f"no front page was written: {error}",))
