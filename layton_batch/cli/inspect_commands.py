"""status, events, leaderboard, cost, site, doctor: the commands that look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, MaxScore, RunName, Runs
from layton_batch.text import one_line

SOURCES = "Runs, files in layton-eval-ppi's form, or per-item scores of other programs ([NAME=]FILE)."


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("status")(status)
    app.command("events")(events)
    app.command("leaderboard")(leaderboard)
    app.command("cost")(cost)
    app.command("site")(site)
    app.command("doctor")(doctor)


def status(
    run_name: Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run; without it, all of them.")] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Where runs stand: jobs, batches, outcomes, money."""
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.reports.status import print_status, status_json
    from layton_batch.run.open import find_run, find_runs, open_store
    from layton_batch.run.status import read_status
    from layton_batch.settings import Settings

    settings = Settings.from_process()
    folders = [find_run(run_name, runs)] if run_name else find_runs(runs)
    found = []
    for folder in folders:
        with open_store(folder, settings) as store:
            found.append(read_status(store))
    if as_json:
        documents = [status_json(one) for one in found]
        print_json(documents[0] if run_name else documents)
        return
    for one in found:
        print_status(one)
    if not found:
        say(f"no runs under {runs}")


def events(run_name: RunName, runs: Runs = RUNS, as_json: Json = False) -> None:
    """What happened to a run, in order."""
    from layton_batch.cli.progress import event_line
    from layton_batch.cli.terminal import print_json
    from layton_batch.clock import iso
    from layton_batch.run.open import find_run, open_store
    from layton_batch.settings import Settings

    with open_store(find_run(run_name, runs), Settings.from_process()) as store:
        happened = store.events()
    if as_json:
        names = ("seq", "batch_id", "kind", "detail")
        print_json([{**{name: getattr(one, name) for name in names}, "at": iso(one.at)} for one in happened])
        return
    for one in happened:
        typer.echo(event_line(one))


def leaderboard(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help=SOURCES)],
    method: Annotated[str | None, typer.Option("--method", help="calibrated | paper")] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="both_correct | answer_correct | justification_correct, or one that files have."),
    ] = None,
    max_score: MaxScore = None,
    seed: Annotated[int | None, typer.Option("--seed", help="For what has to be drawn.")] = None,
    level: Annotated[float | None, typer.Option("--level", help="Of intervals and rank range; default 0.95.")] = None,
    shift: Annotated[
        float | None, typer.Option("--provider-shift", help="How far providers may differ: 0 not, 0.25, 0.5 cautious.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    wide: Annotated[bool, typer.Option("--wide", help="Every column in the table.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Rank models from runs or files of recorded predictions, or from the per-item scores of any evaluation program.

    Files of other programs: Every Eval Ever lines, inspect_ai logs (.eval, .json), lm-evaluation-harness samples; their
    models are ranked on the items that all have. NAME=FILE gives such a file's model another name.
    Sources are ranked together, as if they were one run. Labels count as they are now. No key; no network, unless a
    source or a run's labels are at an address: where labels there cannot be reached, the run's copy is used.
    """
    from layton_batch.cli.board_sources import Asked, read_sources, rows_of
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.reports.board import FORMATS, write_board
    from layton_batch.settings import Settings

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: one of {', '.join(FORMATS)}")
    asked = Asked(method, metric, seed, level, shift, max_score)
    found = read_sources(sources, runs, Settings.from_process(), asked)
    write_board(rows_of(found), form, wide=wide)
    for note in found.notes:
        say(one_line(note))


def cost(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...")],
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """What runs cost, and what the same tokens cost unbatched.

    Per provider, model and stage: requests, tokens, batched, unbatched, saved.
    """
    from layton_batch.errors import ManifestError
    from layton_batch.reports.cost import FORMATS, write_costs
    from layton_batch.run.open import find_run
    from layton_batch.stages.publish import cost_report

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: one of {', '.join(FORMATS)}")
    write_costs(cost_report([find_run(name, runs) for name in run_names]), "json" if as_json else form)


def site(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write pages into.")],
    runs: Runs = RUNS,
) -> None:
    """Write static pages of a run.

    The leaderboard, the bill, and every answer with its verdicts.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.run.open import find_run, open_store
    from layton_batch.run.status import read_status
    from layton_batch.settings import Settings
    from layton_batch.site.build import build_site

    settings = Settings.from_process()
    for name in run_names:
        folder = find_run(name, runs)
        target = out if len(run_names) == 1 else out / folder.root.name
        with open_store(folder, settings) as store:
            build_site(folder, read_status(store), target)
        say(f"{target / 'index.html'}")


def doctor(
    manifest: Annotated[Path | None, typer.Argument(help="Check what this manifest needs.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the providers.")] = False,
    as_json: Json = False,
) -> None:
    """Check keys, endpoints, prices, models, disk and clock.

    With a manifest, what it needs, and each provider is asked about its models; without, every provider. Never prints
    a key.
    """
    from layton_batch.cli.doctor import examine, findings_table
    from layton_batch.cli.terminal import print_json
    from layton_batch.reports.table import show
    from layton_batch.settings import Settings

    findings = examine(manifest, Settings.from_process(), offline=offline)
    if as_json:
        print_json([{"check": one.check, "state": str(one.state), "detail": one.detail} for one in findings])
    else:
        show(findings_table(findings), gap=1)
    raise typer.Exit(2 if any(one.is_bad for one in findings) else 0)
