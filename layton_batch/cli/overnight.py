"""A night of refreshes: work on several manifests in turn until a time of day, publish changed boards, report.

``jobs/overnight_refresh.py`` is this program. Every manifest gets a tick in turn, so that none waits for the batches of
another. A board that changed is published at the same address as before.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path

from layton_batch.cli.before_calling import say_addresses, say_sources
from layton_batch.cli.driving import driven_run, say_trouble
from layton_batch.cli.endings import exit_code
from layton_batch.cli.entry import complain_of, prepare_process
from layton_batch.cli.job_files import at_job
from layton_batch.cli.terminal import say
from layton_batch.cli.webhook import check_address, post
from layton_batch.clock import Clock, SystemClock, iso
from layton_batch.errors import FileError, LaytonBatchError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.loop import deadline
from layton_batch.manifest.manifest import Manifest
from layton_batch.processes import terminating
from layton_batch.reports.table import as_markdown, json_text, markdown_text
from layton_batch.runs.begun_runs import load_where_it_goes_on
from layton_batch.runs.folders import DEFAULT_RUNS, home_of, named_runs
from layton_batch.runs.status import RunState, Status, missing_budget
from layton_batch.runs.stores import open_store
from layton_batch.scoring.history import changes, snapshots
from layton_batch.settings import Settings
from layton_batch.site.build import check_target, made_from
from layton_batch.site.front import write_front
from layton_batch.states import Lifecycle
from layton_batch.text import Table, columns, decimal_text, money

SEVERITY = (0, 5, 75, 74, 3, 4, 2, 1)
"""Exit codes from all is well to worst."""
CALL_AGAIN, DONE = 75, (0, 5)
_WORDS = {
    0: "done", 5: "done, some requests without an answer", 75: "goes on the next night", 3: "stopped by its budget",
    4: "waits for a person", 2: "refused", 74: "the disk or the database is in the way", 1: "failed",
}  # fmt: skip
_TELLS = {3: "budget", 4: "lost"}
"""Exit codes that are told when they come up, not only at the end."""


@dataclass(frozen=True, slots=True)
class NightResult:
    """Result of the night for one manifest. ``spent_usd``: USD of this night.

    ``missing_usd``: USD that the budget lacks for all planned batches. ``page``: path of the published
    board. ``changes``: sentences on the board's changes.
    """

    manifest: str
    run: str = ""
    code: int = CALL_AGAIN
    state: str = ""
    spent_usd: str = "0"
    missing_usd: str = ""
    unanswered: int = 0
    lost: tuple[str, ...] = ()
    page: str = ""
    changes: tuple[str, ...] = ()


@dataclass(slots=True)
class _NightRun:
    """State of one manifest during the night. ``runs``: the folder of its run; None: not named, and not found by a tick
    yet. ``boards``, ``spent``: number of snapshots and USD of the run before the night.
    """

    path: Path
    runs: Path | None
    boards: int | None = None
    spent: Decimal = Decimal(0)
    folder: RunFolder | None = None
    status: Status | None = None
    budget: Decimal | None = None
    code: int = CALL_AGAIN


def main(arguments: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Refresh the manifests of the command line. Return the exit code, the worst of the manifests'."""
    options = _arguments(arguments)
    clock = clock or SystemClock()
    begun = clock.now()
    try:
        prepare_process()
        settings = Settings.from_process()
        say_sources(settings)
        options.webhook = options.webhook or settings.get("LAYTON_BATCH_WEBHOOK")
        check_address(options.webhook)
        stop_at = deadline(options.until, clock)
        named = named_runs(options.runs, settings)
        atomic.make_folder(options.site)
        works = [_NightRun(at_job(path), named) for path in options.manifests]
        try:
            with terminating():
                _work(works, options, clock, stop_at)
        except KeyboardInterrupt:
            say("stopped: batches go on at the providers; the next night continues")
        night = [_published(work, _refreshed(work), options.site) for work in works]
        _publish_front(works, options.site)
        _write_summary(night, begun, clock.now(), options.site)
    except LaytonBatchError as error:
        say(str(error))
        return error.exit_code
    _tell(options.webhook, "end", night, clock)
    return max((refreshed.code for refreshed in night), key=_severity, default=0)


def _severity(code: int) -> int:
    return SEVERITY.index(code) if code in SEVERITY else len(SEVERITY)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overnight_refresh", description="Refresh leaderboards overnight.")
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--until", default="07:00", help="work until this local time, HH:MM")
    parser.add_argument("--site", "--out", type=Path, default=Path("public"), help="where boards are published")
    parser.add_argument("--runs", help="where run folders are; default: the environment's LAYTON_BATCH_RUNS, or runs")
    parser.add_argument("--poll-seconds", type=float, default=60.0, help="between two rounds over the manifests")
    parser.add_argument(
        "--webhook",
        help="an address that gets the summary as JSON at the end, and at once when a batch is lost or a budget is "
        "reached; default: the environment's LAYTON_BATCH_WEBHOOK",
    )
    return parser.parse_args(arguments)


# ---- the night -----------------------------------------------------------------------------------------------------


def _work(works: Sequence[_NightRun], options: argparse.Namespace, clock: Clock, stop_at: float | None) -> None:
    """Tick the run of each manifest in turn until all have ended, or time is up."""
    going = list(works)
    while going:
        for work in going:
            _tick(work, clock)
            if work.code in _TELLS:
                _tell(options.webhook, _TELLS[work.code], [_refreshed(work)], clock)
        going = [work for work in going if work.code == CALL_AGAIN]
        now = clock.now()
        if stop_at is not None and now >= stop_at:
            return
        if going:
            clock.sleep(min(options.poll_seconds, stop_at - now) if stop_at is not None else options.poll_seconds)


def _tick(work: _NightRun, clock: Clock) -> None:
    """Do for a run what can be done without waiting, with the manifest and the settings as they are now."""
    try:
        settings = Settings.from_process()
        manifest, work.runs = load_where_it_goes_on(
            work.path, work.runs or DEFAULT_RUNS, settings, is_named=work.runs is not None, note=say
        )
        if work.boards is None:
            say_addresses(manifest, settings)
            _look_before(work, manifest, work.runs, settings)
        with driven_run(manifest, work.runs, settings, clock, once=True, quiet=True) as (run, status):
            work.folder, work.status, work.budget = run.folder, status, manifest.budget.max_usd
            work.code = say_trouble(run) or exit_code(status)
    except Exception as error:
        work.code = complain_of(error)


def _look_before(work: _NightRun, manifest: Manifest, runs: Path, settings: Settings) -> None:
    """Note what there is of the manifest's run before its first tick of the night."""
    folder = home_of(manifest, runs)
    work.boards = len(snapshots(folder.history))
    if folder.manifest.exists():
        with suppress(LaytonBatchError), open_store(folder, settings) as store:  # its tick says what is wrong with it
            work.spent = store.money().spent


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
        spent_usd=decimal_text(work.status.spent_usd - work.spent),
        missing_usd=_missing(work.status, work.budget),
        unanswered=work.status.unanswered,
        lost=tuple(batch.id for batch in work.status.batches if batch.state is Lifecycle.LOST),
        changes=tuple(sentences),
    )


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
    """Publish the board of a run that is done. Return the result with its page."""
    if work.folder is None or work.code not in DONE:
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
        say(f"no front page was written: {error}")


def _write_summary(night: Sequence[NightResult], begun: float, ended: float, site: Path) -> None:
    """Write ``summary.md`` and ``summary.json`` beside the pages, and the Markdown to stdout."""
    document = {"begun": iso(begun), "ended": iso(ended), "runs": [asdict(refreshed) for refreshed in night]}
    text = summary_markdown(night, begun, ended)
    atomic.write_text(site / "summary.json", json_text(document))
    atomic.write_text(site / "summary.md", text)
    sys.stdout.write(text)


def summary_markdown(night: Sequence[NightResult], begun: float, ended: float) -> str:
    """Return a table of the runs, then the changes of each board, as Markdown."""
    rows = tuple(
        (
            refreshed.run or refreshed.manifest,
            refreshed.state,
            money(Decimal(refreshed.spent_usd)),
            str(refreshed.unanswered),
            str(len(refreshed.lost)),
        )
        for refreshed in night
    )
    table = Table(columns("run", "state", "spent this night", "without an answer", "lost batches", text=2), rows)
    lines = [f"# Refreshed {iso(begun)} to {iso(ended)}", "", as_markdown(table)]
    for refreshed in night:
        sentences = [*(f"Lost: {name}." for name in refreshed.lost), *refreshed.changes]
        if refreshed.missing_usd:
            sentences.insert(0, f"The budget lacks {money(Decimal(refreshed.missing_usd))} for all planned batches.")
        if sentences:
            lines += [f"## {markdown_text(refreshed.run)}", "", *(f"- {markdown_text(text)}" for text in sentences), ""]
    return "\n".join(lines).rstrip() + "\n"


def _tell(webhook: str | None, event: str, night: Sequence[NightResult], clock: Clock) -> None:
    if webhook and (
        trouble := post(webhook, {"event": event, "runs": [asdict(refreshed) for refreshed in night]}, clock)
    ):
        say(f"the webhook was not told of {event!r}: {trouble}")
