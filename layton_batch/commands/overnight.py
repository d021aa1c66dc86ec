"""A night of refreshes: work on several manifests in turn until a time of day, publish changed boards, report.

Every manifest gets a tick in turn, so that none waits for the batches of another. A board that changed is published at
the same address as before.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, ClassVar

import orjson
import typer

from layton_batch.clock import Clock, SystemClock, iso
from layton_batch.columns import Column, Table
from layton_batch.commands.consent import Conversation
from layton_batch.commands.driving import open_and_drive
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import Runs, calling_environment, names_of, runs_folder
from layton_batch.commands.webhook import check_address, post
from layton_batch.errors import FileError, LaytonBatchError, refusal_of_system
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import user_path
from layton_batch.log import redact
from layton_batch.loop import deadline
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.reports.document import Document
from layton_batch.reports.run_result import CALL_AGAIN, exit_code, trouble_lines
from layton_batch.reports.status_tables import trouble_json, trouble_line
from layton_batch.reports.table import as_markdown, json_text, markdown_text
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import home_of
from layton_batch.runs.status import ProviderTrouble, RunState, Status, after_deadline, missing_budget, read_status
from layton_batch.runs.stores import open_store
from layton_batch.scoring.history import changes, snapshots
from layton_batch.settings import Settings
from layton_batch.site.build import check_target, made_from
from layton_batch.site.front_page import write_front
from layton_batch.states import Lifecycle
from layton_batch.text import decimal_text, money, one_line, plural

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


@dataclass(frozen=True, slots=True)
class NightResult:
    """Result of the night for one manifest. ``spent_usd``: USD since the last summary, also of nights that were killed;
    ``total_usd``: of the run so far.

    ``missing_usd``: USD that the budget lacks for all planned batches; ``above_bounds_usd``: what batches cost beyond
    what was set aside for them. ``waiting``: requests that are not answered yet. ``troubles``: the trouble of
    providers. ``page``: path of the published board; ``incomplete``: the models below it;
    ``changes``: sentences on its changes.
    """

    manifest: str
    run: str = ""
    code: int = CALL_AGAIN
    state: str = ""
    spent_usd: str = "0"
    total_usd: str = "0"
    missing_usd: str = ""
    above_bounds_usd: str = "0"
    waiting: int = 0
    unanswered: int = 0
    lost: tuple[str, ...] = ()
    troubles: tuple[ProviderTrouble, ...] = ()
    page: str = ""
    incomplete: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return the result as summary and webhook have it."""
        return asdict(self) | {"troubles": [trouble_json(trouble) for trouble in self.troubles]}

    def sentences(self) -> Iterator[str]:
        """Yield what a person should know beside the numbers, the most urgent first."""
        yield from map(trouble_line, self.troubles)
        if self.missing_usd:
            yield f"The budget lacks {money(Decimal(self.missing_usd))} for all planned batches."
        if above := Decimal(self.above_bounds_usd):
            yield f"Batches cost {money(above)} more than was set aside for them."
        yield from (f"Lost: {name}." for name in self.lost)
        yield from (f"Not complete yet: {model}." for model in self.incomplete)
        yield from self.changes


NIGHT: tuple[Column[NightResult], ...] = (
    Column("run", value=lambda result: result.run or result.manifest, is_text=True),
    Column("state", is_text=True),
    Column("spent_usd", "spent since the last summary", text=lambda result: money(Decimal(result.spent_usd))),
    Column("waiting"),
    Column("unanswered", "without an answer"),
    Column("lost", "lost batches", value=lambda result: len(result.lost)),
)


@dataclass(frozen=True, slots=True)
class NightDocument(Document):
    """Results of a night by manifest, and its first and last moment (epoch seconds)."""

    FORMATS: ClassVar = ("table",)
    results: Sequence[NightResult]
    begun: float
    ended: float

    def end(self) -> int:
        codes = list(WORDS)
        return max((result.code for result in self.results), key=codes.index, default=0)

    def show(self) -> None:
        sys.stdout.write(self.text("md"))

    def as_json(self) -> object:
        runs = [result.document() for result in self.results]
        return {"begun": iso(self.begun), "ended": iso(self.ended), "runs": runs}

    def text(self, form: str) -> str:
        """Return a table of the runs, then what is to be said of each, as Markdown."""
        lines = [f"# Refreshed {iso(self.begun)} to {iso(self.ended)}", "", as_markdown(Table(NIGHT, self.results))]
        for result in self.results:
            if sentences := [f"- {markdown_text(sentence)}" for sentence in result.sentences()]:
                lines += [f"## {markdown_text(result.run)}", "", *sentences, ""]
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
    when a batch is lost or a budget is reached. The exit code is the worst of the runs'.
    """
    clock, conversation = clock or SystemClock(), conversation or Conversation()
    conversation.is_quiet = True
    begun, settings = clock.now(), calling_environment()
    place, public = runs_folder(runs, settings), user_path(site)
    check_address(webhook)
    stop_at = deadline(until, clock)
    atomic.make_folder(public)
    works = [_NightRun(user_path(path), place, public, conversation) for path in names_of(manifests, "manifests")]

    def tell(event: str, results: Sequence[NightResult]) -> None:
        document = {"event": event, "text": _plain(results), "runs": [result.document() for result in results]}
        if webhook and (trouble := post(webhook, document, clock)):
            warn((f"the webhook was not told of {event!r}: {trouble}",))

    try:
        for work in _in_turn(works, ROUND_SECONDS * settings.pacing.advised, stop_at, clock):
            work.tick(clock)
            if work.code in EVENTS:
                tell(EVENTS[work.code], [work.result()])
    except KeyboardInterrupt:
        warn(("stopped: batches go on at the providers; the next night continues",))
    if stop_at is not None and clock.now() >= stop_at:
        for work in works:
            work.end_at_deadline()
    document = NightDocument([_published(work) for work in works], begun, clock.now())
    _publish_front(works, public)
    atomic.write_text(public / SUMMARY, json_text(document.as_json()))
    atomic.write_text(public / "summary.md", document.text("md"))
    tell("end", document.results)
    return document


def _in_turn(works: Sequence[_NightRun], pause: float, stop_at: float | None, clock: Clock) -> Iterator[_NightRun]:
    """Yield the runs in turn until all have ended, or time is up. ``pause``: seconds between rounds."""
    going = works
    while going:
        yield from going
        going, now = [work for work in going if work.code == CALL_AGAIN], clock.now()
        if stop_at is not None and now >= stop_at:
            return
        if going:
            clock.sleep(pause if stop_at is None else min(pause, stop_at - now))


def _plain(results: Sequence[NightResult]) -> str:
    """Return the night in plain lines, as chat tools show them."""
    lines: list[str] = []
    for result in results:
        waiting = f"{plural(result.waiting, 'request')} waiting, {result.unanswered} without an answer"
        spent = f"{money(Decimal(result.spent_usd))} spent"
        lines.append(f"{result.run or result.manifest}: {result.state}, {spent}, {waiting}")
        lines += [f"- {sentence}" for sentence in result.sentences()]
    return "\n".join(map(one_line, lines))


# ---- one run -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _NightRun:
    """The run of one manifest during the night. ``runs``: the folder of runs; ``site``: where boards are published.

    ``boards``, ``before``: number of snapshots and status of the run before the night; ``reported_usd``: USD of the run
    at the last summary.
    """

    path: Path
    runs: Path
    site: Path
    conversation: Conversation
    boards: int | None = None
    before: Status | None = None
    reported_usd: Decimal = Decimal(0)
    folder: RunFolder | None = None
    status: Status | None = None
    budget: Decimal | None = None
    code: int = CALL_AGAIN

    def tick(self, clock: Clock) -> None:
        """Do what can be done without waiting, with the manifest and the settings as they are now."""
        try:
            settings = Settings.from_process()
            manifest = load_manifest(self.path, PromptFiles(settings, self.runs))
            if self.boards is None:
                warn(address_notes(manifest, settings))
                self._look_before(manifest, settings)
            with open_and_drive(manifest, self.runs, settings, clock, self.conversation, once=True) as (run, status):
                self.folder, self.status, self.budget = run.folder, status, manifest.budget.max_usd
                warn(trouble_lines(run.engine.trouble))
                self.code = FileError.exit_code if run.engine.trouble else exit_code(status)
        except (LaytonBatchError, OSError) as error:
            refusal = error if isinstance(error, LaytonBatchError) else refusal_of_system(error, _AGAIN)
            if refusal is None:
                raise
            warn((redact(str(refusal)),))
            self.code = refusal.exit_code

    def _look_before(self, manifest: Manifest, settings: Settings) -> None:
        """Note what there is of the run before its first tick of the night."""
        folder = home_of(manifest, self.runs)
        self.boards = len(snapshots(folder.history))
        if folder.manifest.exists():
            with suppress(LaytonBatchError), open_store(folder, settings) as store:  # its tick says what is wrong
                self.before = read_status(store)
        spent = Decimal(0) if self.before is None else self.before.spent_usd
        self.reported_usd = _reported_usd(self.site, folder.root.name, spent)

    def end_at_deadline(self) -> None:
        """Have the run wait for a person if a provider refused every request of the whole night."""
        if self.code == CALL_AGAIN and self.status is not None:
            self.status = after_deadline(self.before, self.status)
            self.code = exit_code(self.status)

    def result(self, page: str = "") -> NightResult:
        """Return what the night did so far. ``page``: path of the published board."""
        state, status = WORDS.get(self.code, "stopped"), self.status
        if status is None or self.folder is None:
            return NightResult(str(self.path), code=self.code, state=state)
        return NightResult(
            manifest=str(self.path),
            run=status.run,
            code=self.code,
            state=state,
            spent_usd=decimal_text(status.spent_usd - self.reported_usd),
            total_usd=decimal_text(status.spent_usd),
            missing_usd=self._missing_usd(status),
            above_bounds_usd=decimal_text(status.above_bounds_usd),
            waiting=sum(job.waiting for job in status.jobs),
            unanswered=status.unanswered,
            lost=tuple(batch.id for batch in status.batches if batch.state is Lifecycle.LOST),
            troubles=status.troubles,
            page=page,
            incomplete=_incomplete(self.folder),
            changes=self._changes(self.folder),
        )

    def _missing_usd(self, status: Status) -> str:
        is_stopped = status.state is RunState.OVER_BUDGET and self.budget is not None
        missing = missing_budget(status, self.budget or Decimal(0)) if is_stopped else None
        return "" if missing is None else decimal_text(missing)

    def _changes(self, folder: RunFolder) -> tuple[str, ...]:
        boards, before = snapshots(folder.history), self.boards or 0
        if len(boards) <= before:
            return ()
        return tuple(changes(boards[before - 1], boards[-1])) if before else ("The first board of this run.",)


def _reported_usd(site: Path, run: str, spent: Decimal) -> Decimal:
    """Return what the run had cost at the last summary, in USD. A run that is not in it is entered with what is
    ``spent`` now, so that the next summary has the cost of a night that is killed."""
    try:
        rows = list(orjson.loads((site / SUMMARY).read_bytes())["runs"])
        totals = {row["run"]: Decimal(row["total_usd"]) for row in rows if row["run"]}
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError):  # there is none, or another program's
        rows, totals = [], {}
    if run in totals:
        return totals[run]
    atomic.write_text(site / SUMMARY, json_text({"runs": [*rows, {"run": run, "total_usd": decimal_text(spent)}]}))
    return spent


def _incomplete(folder: RunFolder) -> tuple[str, ...]:
    """Return the models below the run's board, each with its progress."""
    rows = tables.read(folder.tables, "leaderboard", ["model", "progress"]).drop_nulls("progress")
    return tuple(f"{model}, {progress}" for model, progress in rows.iter_rows())


# ---- pages ---------------------------------------------------------------------------------------------------------


def _published(work: _NightRun) -> NightResult:
    """Publish the board of the run's complete models, unless it is there already. Return the result with its page.

    Raises FileError where the run's folder of the site holds anything but an earlier site.
    """
    origin = made_from(work.folder.site) if work.folder else None
    if work.folder is None or work.status is None or origin is None:
        return work.result()
    out = work.site / work.status.run
    if made_from(out) != origin:
        check_target(out)
        with atomic.writing_folder(out) as building:
            shutil.copytree(work.folder.site, building, dirs_exist_ok=True)
    return work.result(str(out / "index.html"))


def _publish_front(works: Sequence[_NightRun], site: Path) -> None:
    """Write the page that leads to every published board. An ``index.html`` of somebody else is left alone."""
    folders = [work.folder for work in works if work.folder is not None]
    try:
        write_front(site, [folder for folder in folders if made_from(site / folder.root.name) is not None])
    except FileError as error:
        warn((f"no front page was written: {error}",))
