"""status, leaderboard, cost, site: the commands that look at runs, and write pages of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import (
    RUNS,
    Json,
    MaxScore,
    RunNames,
    Runs,
    ThisSet,
)
from layton_batch.text import one_line

SOURCES = (
    "Runs, files in layton-eval-ppi's form, files or folders of votes, or scores of other programs ([NAME=]FILE); "
    "default: the only run."
)


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("status")(status)
    app.command("leaderboard")(leaderboard)
    app.command("cost")(cost)
    app.command("site")(site)


def status(
    run_name: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A run's name, its folder or its manifest; default: all of them.",
        ),
    ] = None,
    runs: Runs = RUNS,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every few seconds until the run is over, or Ctrl-C.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Show what happened to the run, in order.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show where runs stand, and what to do next.

    By stage and provider: requests planned, uploaded, at the provider, answered, without an answer. By open batch: its
    age, its id at the provider, how long ago the provider last told of it, in what time it is asked next, its deadline,
    the money set aside for it. `--json` has every batch.

    Without RUN, folders that are copies of runs, or renamed, are named and left out; so is a run that cannot be read.

    With --log: what happened to a run, in order; with --watch as well, until the run is over, and with --json one
    document a line.

    With --watch one run is shown: a terminal is drawn again every few seconds, a file gets a line, or with --json a
    document, for each change. It ends with 0 when the run is done or cancelled, and with 130 at Ctrl-C.
    """
    from layton_batch.cli.looking import follow_events, show_events, show_status, watch_status
    from layton_batch.clock import SystemClock

    if log and watch:
        raise typer.Exit(follow_events(run_name, runs, as_json=as_json))
    if log:
        show_events(run_name, runs, follow=False, as_json=as_json)
        return
    if watch:
        raise typer.Exit(watch_status(run_name, runs, SystemClock(), as_json=as_json))
    raise typer.Exit(show_status(run_name, runs, as_json=as_json))


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
    labels: Annotated[
        list[str] | None,
        typer.Option("--labels", metavar="FILE", help="Only people's labels are taken from this file."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md | html")] = "table",
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
    """
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.grading.board_sources import BoardOptions, board_of, read_sources
    from layton_batch.reports.leaderboard_tables import FORMATS, write_board
    from layton_batch.scoring.leaderboard import on_this_set
    from layton_batch.settings import Settings

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: must be one of {', '.join(FORMATS)}")
    options = BoardOptions(method, metric, max_score=max_score, labels=tuple(labels or ()))
    settings = Settings.from_process()
    sources_read = read_sources(sources or (), runs, settings, options)
    board = board_of(sources_read)
    write_board(on_this_set(board) if this_set else board, form)
    for note in sources_read.notes:
        say(one_line(note))


def cost(
    run_names: RunNames = None,
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    by: Annotated[
        str | None, typer.Option("--by", help="Any of run, provider, model, stage, day, week, month: --by day,model.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="A date, today, yesterday, or 7d.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="The last day, in the same forms.")] = None,
    runs: Runs = RUNS,
) -> None:
    """Show what runs cost, and what the same tokens cost live.

    A line for each provider, model and stage, or for each group of --by, and the total: requests, tokens, cost, the
    price of the same tokens without batches, and the cost's share of it. A request belongs to the day, in UTC, on which
    its batch ended.
    """
    from layton_batch.clock import SystemClock, utc
    from layton_batch.costs.report import CostQuery
    from layton_batch.errors import ManifestError
    from layton_batch.reports.cost import FORMATS, write_costs
    from layton_batch.runs.folders import find_each_run
    from layton_batch.settings import Settings
    from layton_batch.stages.publish import queried_costs

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: must be one of {', '.join(FORMATS)}")
    query = CostQuery.parse(by, since, until, utc(SystemClock().now()).date())
    write_costs(queried_costs(find_each_run(run_names, runs), query, Settings.from_process()), form)


def site(
    out: Annotated[Path, typer.Option("--out", help="The folder to write pages into.")],
    run_names: RunNames = None,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Add what `verify` computes it again from: raw replies, items, labels.")
    ] = False,
    runs: Runs = RUNS,
) -> None:
    """Write static pages of a run, or one site of several.

    The leaderboard, charts, two models beside each other, the bill, and every answer with its verdicts. Several runs
    get a folder each, and a front page. Labels count as they are now.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.runs.folders import find_each_run
    from layton_batch.settings import Settings
    from layton_batch.sites import update_boards, write_sites

    folders, settings = find_each_run(run_names, runs), Settings.from_process()
    for note in update_boards(folders, settings):
        say(note)
    for _, page in write_sites(folders, out, settings, with_data=with_data):
        say(str(page))
