"""label, label plan, label import: people's labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from layton_batch.cli.run_commands import RUNS, Json, RunName, Runs, ThisSet
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.records import JsonValue
    from layton_batch.scoring.label_plan import LabelRequest

_APP = "app"
NAMES = (_APP, "plan", "import")


class _LabelGroup(TyperGroup):
    """`label RUN` is the app; `label plan` and `label import` are commands of their own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in NAMES else [_APP, *args])


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(cls=_LabelGroup, rich_markup_mode=None)
    group.command(_APP, hidden=True)(label)
    group.command("plan")(label_plan)
    group.command("import")(label_import)
    app.add_typer(group, name="label", help="Label answers in the browser; choose and import labels.")


# ---- the app -------------------------------------------------------------------------------------------------------


def label(
    run_name: RunName = None,
    annotator: Annotated[str, typer.Option("--annotator", metavar="NAME", help="Who labels; else the page asks.")] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
    design: Annotated[
        str, typer.Option("--design", help="planned (most useful next) | balanced (for a first gold set)")
    ] = "planned",
    overlap: Annotated[
        float, typer.Option("--overlap", min=0, max=1, help="Share of answers that a second person labels: 0.2.")
    ] = 0.0,
    runs: Runs = RUNS,
) -> None:
    """Label answers in the browser.

    One answer at a time, without the model's name and without the jury's verdict, on 127.0.0.1 until stopped. Every
    label is kept at once, in the run's folder, and counts in the next `leaderboard`. `?` on the page lists its keys.

    `label plan` chooses the answers to label next; `label import FILE` takes in labels made elsewhere.
    """
    import secrets
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import closing, suppress

    from layton_batch.annotate.guard import AppKeys
    from layton_batch.annotate.labelling_app import LONGEST_NAME, App
    from layton_batch.annotate.labelling_server import listening, serving
    from layton_batch.annotate.session import DESIGNS, LabellingSession
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.runs.folders import find_run, run_source
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    name = " ".join(annotator.split())
    if annotator and not (name and name.isprintable() and len(name) <= LONGEST_NAME):
        raise ManifestError(f"--annotator: a name has 1 to {LONGEST_NAME} characters that can be printed")
    if design not in DESIGNS:
        raise ManifestError(f"--design {design!r}: must be one of {', '.join(DESIGNS)}")
    folder = find_run(run_name, runs)
    with read_run(folder, Settings.from_process()) as run, ThreadPoolExecutor(1, "annotate-forecast") as executor:
        session = LabellingSession(run, secrets.token_bytes(32), executor, design, overlap)
        at = listening(port)
        entry = AppKeys(at.getsockname()[1])
        # Ctrl-C and SIGTERM are the way to end here, and no failure
        with suppress(KeyboardInterrupt), closing(session), serving(App(session, entry, name).asgi(), at):
            say(f"{run.id}: {entry.address}")
            say(f"Ctrl-C stops, or `kill {os.getpid()}` in the background; what was labelled is kept.")
            if sys.stderr.isatty():
                _open(entry.address)
            _wait()
    where = run_source(folder)
    label_count = sum(1 for _ in session.actions().labels())
    say(f"{label_count} labels of the app in {folder.labels}; `layton-batch leaderboard {where}` uses them")


def _open(address: str) -> None:
    """Open an address in a graphical browser; a browser in the terminal would take the terminal over."""
    import webbrowser
    from contextlib import suppress

    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(address)


def _wait() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    import threading

    from layton_batch.processes import enable_sigint

    enable_sigint()
    threading.Event().wait()


# ---- label import --------------------------------------------------------------------------------------------------


def label_import(
    names: Annotated[
        list[str], typer.Argument(metavar="[RUN] FILE...", help="The run (default: the only one), then the files.")
    ],
    runs: Runs = RUNS,
) -> None:
    """Take in labels that people gave elsewhere.

    A row has `item_id` (or `riddle_id`), `model`, `answer_correct` and `justification_correct` (or
    `is_answer_correct` and `is_justification_correct`, as in layton-eval's annotation files), and may have
    `provider`, `n_hints`, `annotator`, `time` and the `answer` and `justification` that were judged. JSONL, Parquet or
    CSV.

    Or FILE is that of `label plan --out`, filled in, as CSV, XLSX, JSONL or Parquet. A row is known by its label_id;
    one without a label is left out; a wrong one is named, and then nothing changes.

    A file is checked as a whole before anything changes. The same file twice changes nothing. A later label of one
    annotator on one prediction takes the place of the earlier. The next `leaderboard` or `run` uses them.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.interchange.label_sheets import import_labels
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    has_run = (len(names) > 1 and not os.path.isfile(names[0])) or names[0].endswith(".toml")
    run_name, files = (names[0], names[1:]) if has_run else (None, names)
    settings = Settings.from_process()
    with read_run(find_run(run_name, runs), settings) as run:
        taken, blank = import_labels(run, [Path(file) for file in files], settings)
    for line in taken.lines():
        say(line)
    if blank is not None:
        say(blank)


# ---- label plan ----------------------------------------------------------------------------------------------------


def label_plan(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Runs, or files in layton-eval-ppi's form; default: the only run."),
    ] = None,
    half_width: Annotated[float | None, typer.Option("--half-width", help="In points of 100: 1.0 is ± 1 %.")] = None,
    labels: Annotated[int | None, typer.Option("--labels", help="How many labels there is time for.")] = None,
    this_set: ThisSet = False,
    output: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the answers to label into this .csv or .jsonl file."),
    ] = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Choose the answers that people should label next.

    Either until every interval is short enough, or to make the best of so many labels.

    --out: a row an answer, of runs with question, reference and answer, so that anyone can label in a spreadsheet:
    fill in answer_correct (true, false) and justification_correct; `label import RUN FILE` takes the file back.
    Only a FILE of `label plan` in which nobody filled in a row is replaced.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.grading.board_sources import BoardOptions, read_jury_sources
    from layton_batch.reports.statistics import print_label_plan
    from layton_batch.scoring.label_plan import LabelTarget, plan_next
    from layton_batch.settings import Settings

    aim = LabelTarget(None if half_width is None else half_width / 100, labels, this_set=this_set)
    aim.check()
    if output is not None and output.suffix.lower() not in (".csv", ".jsonl"):
        raise ManifestError(f"label plan: --out {output}: name a file that ends in .csv or .jsonl")
    if output is not None:
        _check_replaceable(output)
    evidence = read_jury_sources(sources or (), runs, Settings.from_process(), BoardOptions())
    plan = plan_next(evidence.votes, evidence.labels, aim, evidence.rules)
    unlabelled = sum(model.unlabelled for model in plan.models)
    if labels is not None and unlabelled < labels:
        few = plural(unlabelled, "answer of these models is", "answers of these models are")
        say(f"only {few} without a label; --labels asks for {labels}")
    if output is not None:
        pictures = _write_asks(output, plan.rows, sources, runs)
        say(f"{len(plan.rows)} predictions to label: {output}")
        if pictures:
            say(f"{pictures} of them are about a picture, which a table does not show: `label` does")
    if as_json:
        print_json(plan)
    else:
        print_label_plan(plan)


def _check_replaceable(path: Path) -> None:
    """Raise ManifestError unless a file at the path is a label plan without labels and notes of people."""
    from layton_batch.errors import DataError, ManifestError
    from layton_batch.files.sources import portions
    from layton_batch.reports.label_sheet import count_filled_rows, is_row_to_label
    from layton_batch.settings import Settings

    if not path.is_file():
        return
    placed = chain.from_iterable(portions(str(path.absolute()), Path(), Settings.from_process()))
    try:
        rows = [row for _, row in placed]
    except DataError as error:
        raise ManifestError(f"label plan: --out {path}: name another file: {error}") from error
    if not all(map(is_row_to_label, rows)):
        raise ManifestError(f"label plan: --out {path}: the file there is not of `label plan`; name another file")
    if filled := count_filled_rows(rows):
        raise ManifestError(
            f"label plan: --out {path}: {plural(filled, 'row')} filled in, which would be replaced: import them "
            f"(`layton-batch label import RUN {path}`) and name another file"
        )


def _write_asks(path: Path, asks: Sequence[LabelRequest], sources: Sequence[str] | None, runs: Path) -> int:
    """Write the answers to label; return how many of them are about a picture. Texts are those of the runs."""
    import orjson

    from layton_batch.files import atomic
    from layton_batch.reports.label_sheet import sheet_csv

    rows, pictures = _sheet_rows(asks, sources, runs)
    is_csv = path.suffix.lower() == ".csv"
    atomic.write_bytes(path, sheet_csv(rows) if is_csv else b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return pictures


def _sheet_rows(
    asks: Sequence[LabelRequest], sources: Sequence[str] | None, runs: Path
) -> tuple[list[dict[str, JsonValue]], int]:
    from layton_batch.grading.board_sources import run_sources
    from layton_batch.reports.label_sheet import LabelTableRows
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    sheet = LabelTableRows()
    for source in run_sources(sources, runs):
        with read_run(find_run(source, runs), Settings.from_process()) as run:
            sheet.add(run)
    return [sheet.row(ask) for ask in asks], sum(sheet.has_picture(ask) for ask in asks)
