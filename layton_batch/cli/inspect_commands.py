"""status, events, leaderboard, score, cost, site, doctor: the commands that look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import (
    RUNS,
    Json,
    MaxScore,
    RunName,
    RunNames,
    Runs,
    ThisSet,
    complete_runs,
)
from layton_batch.text import one_line

if TYPE_CHECKING:
    from layton_batch.settings import Settings

SOURCES = (
    "Runs, files in layton-eval-ppi's form, files or folders of votes, or scores of other programs ([NAME=]FILE); "
    "default: the only run."
)


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("status")(status)
    app.command("events")(events)
    app.command("leaderboard")(leaderboard)
    app.command("score", hidden=True)(score)
    app.command("cost")(cost)
    app.command("site")(site)
    app.command("doctor")(doctor)


def status(
    run_name: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A run's name, its folder or its manifest; default: all of them.",
            autocompletion=complete_runs,
        ),
    ] = None,
    runs: Runs = RUNS,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every few seconds until the run is over, or Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show where runs stand, and what to do next.

    By stage and provider: requests planned, uploaded, at the provider, answered, without an answer. By open batch: its
    age, its id at the provider, how long ago the provider last told of it, in what time it is asked next, its deadline,
    the money set aside for it. `--json` has every batch.

    Without RUN, folders that are copies of runs, or renamed, are named and left out; so is a run that cannot be read.

    With --watch one run is shown: a terminal is drawn again every few seconds, a file gets a line, or with --json a
    document, for each change. It ends with 0 when the run is done or cancelled, and with 130 at Ctrl-C.
    """
    from layton_batch.cli.looking import show_status, watch_status
    from layton_batch.clock import SystemClock

    if watch:
        raise typer.Exit(watch_status(run_name, runs, SystemClock(), as_json=as_json))
    raise typer.Exit(show_status(run_name, runs, as_json=as_json))


def events(
    run_name: RunName = None,
    runs: Runs = RUNS,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run is over, or Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show what happened to a run, in order.

    With --follow, --json prints one JSON document a line. It ends with 0 when the run is over, and with 130 at Ctrl-C.
    """
    from layton_batch.cli.looking import follow_events, show_events

    if follow:
        raise typer.Exit(follow_events(run_name, runs, as_json=as_json))
    show_events(run_name, runs, follow=False, as_json=as_json)


def leaderboard(
    sources: Annotated[list[str] | None, typer.Argument(metavar="SOURCE", help=SOURCES)] = None,
    method: Annotated[
        str | None, typer.Option("--method", help="paper: reproduce layton-eval's published table.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="both_correct | answer_correct | justification_correct, or one that files have."),
    ] = None,
    this_set: ThisSet = False,
    max_score: MaxScore = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Random seed of simulated quantities.")] = None,
    level: Annotated[
        float | None, typer.Option("--level", help="Confidence level of intervals and rank ranges (default 0.95).")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--labels", metavar="FILE", help="Only people's labels are taken from this file."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    wide: Annotated[bool, typer.Option("--wide", help="Every column in the table.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Also write the runs' tables and pages again, with the labels of now.")
    ] = False,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Rank models from runs or files.

    Score, interval and rank range are for new items of this kind; with --this-set for exactly these items.
    Files of recorded predictions, or the per-item scores of any evaluation program: a table (CSV, JSONL, Parquet) with
    the columns model, item_id and score.

    Files of other programs: Every Eval Ever lines, inspect_ai logs (.eval, .json), lm-evaluation-harness samples; their
    models are ranked on the items that all have. NAME=FILE gives such a file's model another name.
    layton-eval's judge files are ranked without the answers that they judge: NAME=FILE or PROVIDER/NAME=FILE for each
    of a model's files; with --labels by people's labels on other models.
    Sources are ranked together, as if they were one run. Labels count as they are now. No key; no network, unless a
    source or a run's labels are at an address: where labels there cannot be reached, the run's copy is used.

    Votes are what `export --to votes` writes.

    --update computes votes, leaderboard, cost table and site of runs again from their stored answers. It ends with 75
    where another process drives a run.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.grading.board_sources import BoardOptions, board_of, read_sources
    from layton_batch.reports.leaderboard_tables import FORMATS, write_board
    from layton_batch.scoring.leaderboard import on_this_set
    from layton_batch.scoring.uncalibrated import UNCALIBRATED
    from layton_batch.settings import Settings

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: must be one of {', '.join(FORMATS)}")
    options = BoardOptions(method, metric, seed, level, max_score, tuple(labels or ()))
    settings = Settings.from_process()
    if update:
        _update(sources, runs, settings)
    sources_read = read_sources(sources or (), runs, settings, options)
    board = board_of(sources_read)
    write_board(on_this_set(board) if this_set else board, "json" if as_json else form, wide=wide)
    if this_set and UNCALIBRATED in board["method"]:
        say("Nothing is known of exactly these items without a label: the board is for new items of this kind.")
    for note in sources_read.notes:
        say(one_line(note))


def _update(sources: Sequence[str] | None, runs: Path, settings: Settings) -> None:
    """Compute the tables and pages of runs again from their stored answers. Raises ManifestError for other sources."""
    from layton_batch.grading.board_sources import check_runs
    from layton_batch.runs.folders import find_each_run
    from layton_batch.runs.open import open_folder
    from layton_batch.stages.publish import republish
    from layton_batch.stages.rank import write_board
    from layton_batch.stages.score import score_again

    check_runs(sources, runs, "leaderboard: --update", "writes the tables and pages of runs again")
    for folder in find_each_run(sources, runs):
        with open_folder(folder, settings, only_scores=True) as opened:
            score_again(opened)
            write_board(opened)
            republish(opened)


def score(run_name: RunName = None, runs: Runs = RUNS, as_json: Json = False) -> None:
    """Compute a run's results again from its stored answers: `leaderboard RUN --update`."""
    leaderboard([run_name] if run_name else None, update=True, as_json=as_json, runs=runs)


def cost(
    run_names: RunNames = None,
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    by: Annotated[
        str | None, typer.Option("--by", help="Sums by run | provider | model | stage | day | month.")
    ] = None,
    chart: Annotated[Path | None, typer.Option("--chart", help="Draw the sums into this .svg or .png file.")] = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Show what runs cost, and what the same tokens cost unbatched.

    Per provider, model and stage: requests, tokens, batched, unbatched, saved. With --by, a sum for each group; a
    request belongs to the day, in UTC, on which its batch ended.
    """
    from layton_batch.errors import ManifestError
    from layton_batch.reports.cost import FORMATS, write_costs, write_groups
    from layton_batch.runs.folders import find_each_run
    from layton_batch.settings import Settings
    from layton_batch.stages.publish import GROUPS, cost_groups, cost_report

    form = "json" if as_json else form
    for option, value, choices in (("--format", form, FORMATS), ("--by", by or GROUPS[0], GROUPS)):
        if value not in choices:
            raise ManifestError(f"{option} {value!r}: must be one of {', '.join(choices)}")
    folders = find_each_run(run_names, runs)
    groups = cost_groups(folders, by or GROUPS[0], Settings.from_process()) if by or chart else []
    if chart is not None:
        from layton_batch.reports.cost_chart import draw

        draw(chart, by or GROUPS[0], groups)
    if by:
        write_groups(by, groups, form)
    else:
        write_costs(cost_report(folders), form)


def site(
    out: Annotated[Path, typer.Option("--out", help="The folder to write pages into.")],
    run_names: RunNames = None,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Add what `verify` computes it again from: raw replies, items, labels.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Write static pages of a run, or one site of several.

    The leaderboard, charts, two models beside each other, the bill, and every answer with its verdicts. Several runs
    get a folder each, and a front page.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.runs.folders import find_each_run
    from layton_batch.settings import Settings
    from layton_batch.sites import write_sites

    if out.suffix.lower() in (".html", ".htm"):
        raise ManifestError(f"--out {out}: a site is a folder; name one, such as {out.with_suffix('')}")
    pages = {}
    for name, page in write_sites(find_each_run(run_names, runs), out, Settings.from_process(), with_data=with_data):
        say(str(page))
        if name:
            pages[name] = str(page)
    if as_json:
        print_json(pages)


def doctor(
    manifest: Annotated[
        Path | None,
        typer.Argument(metavar="MANIFEST", help="Check what this manifest needs, or that of a run."),
    ] = None,
    runs: Runs = RUNS,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the providers.")] = False,
    as_json: Json = False,
) -> None:
    """Check keys, endpoints, prices, models, disk and clock.

    With a manifest, what it needs, and each provider is asked about its models; without, every provider. Prompts at
    addresses are fetched, unless a run of the manifest's name (under --runs) has a copy. Never prints a key.
    """
    from layton_batch.cli.doctor import examine, findings_table
    from layton_batch.cli.same_name_runs import given_manifest
    from layton_batch.cli.terminal import print_json
    from layton_batch.reports.table import show
    from layton_batch.settings import Settings

    path, place = (None, None) if manifest is None else given_manifest(manifest, runs)
    findings = examine(path, Settings.from_process(), place or runs, offline=offline)
    if as_json:
        print_json(
            [{"check": finding.check, "state": str(finding.state), "detail": finding.detail} for finding in findings]
        )
    else:
        show(findings_table(findings), gap=1)
    raise typer.Exit(2 if any(finding.is_bad for finding in findings) else 0)
