"""A night of refreshes: work on several manifests in turn until a time of day, publish changed boards, report.

Every manifest gets a tick in turn, so that none waits for the batches of another. A board that changed is published at
the same address as before.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, ClassVar

import orjson
import typer

from layton_batch.clock import Clock, SystemClock, iso
from layton_batch.columns import Column, Table
from layton_batch.commands.driving import Conversation, open_and_drive
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import CommandLineForm, Runs, calling_environment, names_of, runs_folder
from layton_batch.commands.run_result import CALL_AGAIN, exit_code, trouble_lines
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
SEVERITY = (0, 5, 75, 74, 3, 4, 2, 1)
"""Exit codes from all is well to worst."""
SUMMARY = "summary.json"
_WORDS = {
    0: "done", 5: "done, some requests without an answer", 75: "goes on the next night", 3: "stopped by its budget",
    4: "waits for a person", 2: "refused", 74: "the disk or the database is in the way", 1: "failed",
}  # fmt: skip
_TELLS = {3: "budget", 4: "lost"}
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


@dataclass(slots=True)
class _NightRun:
    """State of one manifest during the night. ``runs``: the folder of runs. ``boards``, ``before``: number of snapshots
    and status of the run before the night; ``reported_usd``: USD of the run at the last summary."""

    path: Path
    runs: Path
    boards: int | None = None
    before: Status | None = None
    reported_usd: Decimal = Decimal(0)
    folder: RunFolder | None = None
    status: Status | None = None
    budget: Decimal | None = None
    code: int = CALL_AGAIN


@dataclass(frozen=True, slots=True)
class NightDocument(Document):
    """Results of a night by manifest, and its first and last moment (epoch seconds)."""

    FORMATS: ClassVar = ("table",)
    results: Sequence[NightResult]
    begun: float
    ended: float

    def end(self) -> int:
        return max((result.code for result in self.results), key=_severity, default=0)

    def show(self) -> None:
        sys.stdout.write(summary_markdown(self.results, self.begun, self.ended))

    def as_json(self) -> object:
        runs = [result.document() for result in self.results]
        return {"begun": iso(self.begun), "ended": iso(self.ended), "runs": runs}


def overnight(
    manifests: Annotated[
        str | Path | Sequence[str | Path],
        CommandLineForm(list[Path]),
        typer.Argument(metavar="MANIFEST...", help="The manifests, TOML files."),
    ],
    *,
    until: Annotated[str, typer.Option("--until", help="Work until this local time, HH:MM.")] = "07:00",
    site: Annotated[
        str | Path, CommandLineForm(Path), typer.Option("--site", help="Where boards are published.")
    ] = Path("public"),
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
    clock, talk = clock or SystemClock(), conversation or Conversation()
    talk.is_quiet = True
    begun, settings = clock.now(), calling_environment()
    place, public = runs_folder(runs, settings), user_path(site)
    check_address(webhook)
    stop_at = deadline(until, clock)
    atomic.make_folder(public)
    works = [_NightRun(user_path(path), place) for path in names_of(manifests, "manifests")]
    night = _Night(works, public, webhook, talk, clock)
    try:
        night.work(ROUND_SECONDS * settings.pacing.advised, stop_at)
    except KeyboardInterrupt:
        warn(("stopped: batches go on at the providers; the next night continues",))
    if stop_at is not None and clock.now() >= stop_at:
        for work in works:
            _end_at_deadline(work)
    results = [_published(work, _refreshed(work), public) for work in works]
    _publish_front(works, public)
    document = NightDocument(results, begun, clock.now())
    atomic.write_text(public / SUMMARY, json_text(document.as_json()))
    atomic.write_text(public / "summary.md", summary_markdown(results, begun, document.ended))
    night.tell("end", results)
    return document


def _severity(code: int) -> int:
    return SEVERITY.index(code) if code in SEVERITY else len(SEVERITY)


# ---- the night -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Night:
    """The work of one `overnight`. ``webhook``: an address that gets the summary."""

    works: Sequence[_NightRun]
    site: Path
    webhook: str | None
    conversation: Conversation
    clock: Clock

    def work(self, pause: float, stop_at: float | None) -> None:
        """Tick the run of each manifest in turn until all have ended, or time is up. ``pause``: seconds between
        rounds."""
        going = list(self.works)
        while going:
            for work in going:
                self._tick(work)
                if work.code in _TELLS:
                    self.tell(_TELLS[work.code], [_refreshed(work)])
            going = [work for work in going if work.code == CALL_AGAIN]
            now = self.clock.now()
            if stop_at is not None and now >= stop_at:
                return
            if going:
                self.clock.sleep(pause if stop_at is None else min(pause, stop_at - now))

    def _tick(self, work: _NightRun) -> None:
        """Do for a run what can be done without waiting, with the manifest and the settings as they are now."""
        try:
            settings = Settings.from_process()
            manifest = load_manifest(work.path, PromptFiles(settings, work.runs))
            if work.boards is None:
                warn(address_notes(manifest, settings))
                _look_before(work, manifest, settings, self.site)
            with open_and_drive(manifest, work.runs, settings, self.clock, self.conversation, once=True) as (
                run,
                status,
            ):
                work.folder, work.status, work.budget = run.folder, status, manifest.budget.max_usd
                warn(trouble_lines(run.engine.trouble))
                work.code = FileError.exit_code if run.engine.trouble else exit_code(status)
        except (LaytonBatchError, OSError) as error:
            refusal = error if isinstance(error, LaytonBatchError) else refusal_of_system(error, _AGAIN)
            if refusal is None:
                raise
            warn((redact(str(refusal)),))
            work.code = refusal.exit_code

    def tell(self, event: str, night: Sequence[NightResult]) -> None:
        """Send the results to the webhook."""
        document = {"event": event, "text": summary_text(night), "runs": [result.document() for result in night]}
        if self.webhook and (trouble := post(self.webhook, document, self.clock)):
            warn((f"the webhook was not told of {event!r}: {trouble}",))


_AGAIN = "run the same command again"


def _look_before(work: _NightRun, manifest: Manifest, settings: Settings, site: Path) -> None:
    """Note what there is of the manifest's run before its first tick of the night."""
    folder = home_of(manifest, work.runs)
    work.boards = len(snapshots(folder.history))
    if folder.manifest.exists():
        with suppress(LaytonBatchError), open_store(folder, settings) as store:  # its tick says what is wrong with it
            work.before = read_status(store)
    work.reported_usd = _reported_usd(
        site, folder.root.name, Decimal(0) if work.before is None else work.before.spent_usd
    )


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


def _end_at_deadline(work: _NightRun) -> None:
    """Have the run wait for a person if a provider refused every request of the whole night."""
    if work.code == CALL_AGAIN and work.status is not None:
        work.status = after_deadline(work.before, work.status)
        work.code = exit_code(work.status)


# ---- what came of it -----------------------------------------------------------------------------------------------


def _refreshed(work: _NightRun) -> NightResult:
    boards, before = snapshots(work.folder.history) if work.folder else [], work.boards or 0
    sentences: list[str] = []
    if len(boards) > before:
        sentences = changes(boards[before - 1], boards[-1]) if before else ["The first board of this run."]
    refreshed = NightResult(manifest=str(work.path), code=work.code, state=_WORDS.get(work.code, "stopped"))
    if work.status is None:
        return refreshed
    return replace(
        refreshed,
        run=work.status.run,
        spent_usd=decimal_text(work.status.spent_usd - work.reported_usd),
        total_usd=decimal_text(work.status.spent_usd),
        missing_usd=_missing(work.status, work.budget),
        above_bounds_usd=decimal_text(work.status.above_bounds_usd),
        waiting=sum(job.waiting for job in work.status.jobs),
        unanswered=work.status.unanswered,
        troubles=work.status.troubles,
        incomplete=_incomplete(work.folder),
        lost=tuple(batch.id for batch in work.status.batches if batch.state is Lifecycle.LOST),
        changes=tuple(sentences),
    )


def _incomplete(folder: RunFolder | None) -> tuple[str, ...]:
    """Return the models below the run's board, each with its progress."""
    if folder is None:
        return ()
    rows = tables.read(folder.tables, "leaderboard", ["model", "progress"]).drop_nulls("progress")
    return tuple(f"{model}, {progress}" for model, progress in rows.iter_rows())


def _missing(status: Status, budget: Decimal | None) -> str:
    if status.state is not RunState.OVER_BUDGET or budget is None:
        return ""
    missing = missing_budget(status, budget)
    return "" if missing is None else decimal_text(missing)


def publish(folder: RunFolder, out: Path) -> bool:
    """Copy the run's pages to ``out`` unless they are there already; returns whether they were copied.

    Raises FileError where ``out`` holds anything but an earlier site.
    """
    mark = made_from(folder.site)
    if mark is None or made_from(out) == mark:
        return False
    check_target(out)
    with atomic.writing_folder(out) as building:
        shutil.copytree(folder.site, building, dirs_exist_ok=True)
    return True


def _published(work: _NightRun, refreshed: NightResult, site: Path) -> NightResult:
    """Publish the board of the run's complete models. Return the result with its page."""
    if work.folder is None or made_from(work.folder.site) is None:
        return refreshed
    out = site / refreshed.run
    publish(work.folder, out)
    return replace(refreshed, page=str(out / "index.html"))


def _publish_front(works: Sequence[_NightRun], site: Path) -> None:
    """Write the page that leads to every published board. An ``index.html`` of somebody else is left alone."""
    folders = [work.folder for work in works if work.folder is not None]
    published = [folder for folder in folders if made_from(site / folder.root.name) is not None]
    try:
        write_front(site, published)
    except FileError as error:
        warn((f"no front page was written: {error}",))


def summary_markdown(night: Sequence[NightResult], begun: float, ended: float) -> str:
    """Return a table of the runs, then what is to be said of each, as Markdown."""
    lines = [f"# Refreshed {iso(begun)} to {iso(ended)}", "", as_markdown(Table(NIGHT, night))]
    for refreshed in night:
        if sentences := list(refreshed.sentences()):
            lines += [f"## {markdown_text(refreshed.run)}", "", *(f"- {markdown_text(text)}" for text in sentences), ""]
    return "\n".join(lines).rstrip() + "\n"


NIGHT: tuple[Column[NightResult], ...] = (
    Column("run", value=lambda result: result.run or result.manifest, is_text=True),
    Column("state", is_text=True),
    Column("spent_usd", "spent since the last summary", text=lambda result: money(Decimal(result.spent_usd))),
    Column("waiting"),
    Column("unanswered", "without an answer"),
    Column("lost", "lost batches", value=lambda result: len(result.lost)),
)


def summary_text(night: Sequence[NightResult]) -> str:
    """Return the night in plain lines, as chat tools show them."""
    lines: list[str] = []
    for refreshed in night:
        waiting = f"{plural(refreshed.waiting, 'request')} waiting, {refreshed.unanswered} without an answer"
        spent = f"{money(Decimal(refreshed.spent_usd))} spent"
        lines.append(f"{refreshed.run or refreshed.manifest}: {refreshed.state}, {spent}, {waiting}")
        lines += [f"- {sentence}" for sentence in refreshed.sentences()]
    return "\n".join(map(one_line, lines))
