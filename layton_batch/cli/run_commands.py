"""plan, run, cancel, retry, resolve: the commands that move a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.option_names import renamed
from layton_batch.cli.usage_errors import check_dollars
from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE
from layton_batch.runs.folders import DEFAULT_RUNS

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest
    from layton_batch.runs.context import Run
    from layton_batch.runs.status import Status
    from layton_batch.settings import Settings


def complete_runs(incomplete: str) -> list[str]:
    """Return the names of runs that a shell may complete this beginning to."""
    from layton_batch.runs.folders import find_runs, named_runs
    from layton_batch.settings import Settings

    runs = named_runs(None, Settings.from_process()) or DEFAULT_RUNS
    return [folder.root.name for folder in find_runs(runs) if folder.root.name.startswith(incomplete)]


ManifestPath = Annotated[
    Path | None,
    typer.Argument(metavar="MANIFEST", help="The manifest, a TOML file; or its run, by name or folder."),
]
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="A run's name, its folder or its manifest; default: the only run.",
        autocompletion=complete_runs,
    ),
]  # fmt: skip
RunNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN", help="Runs by name, folder or manifest; default: the only run.",
        autocompletion=complete_runs,
    ),
]  # fmt: skip


def _runs_at(place: str | Path) -> Path:
    from layton_batch.runs.folders import runs_at
    from layton_batch.settings import Settings

    return runs_at(place, Settings.from_process())


Runs = Annotated[
    Path,
    typer.Option(
        "--runs", parser=_runs_at, metavar="PLACE", envvar="LAYTON_BATCH_RUNS",
        help="Where run folders are: a folder, or an address such as s3://BUCKET/FOLDER.",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Poll = Annotated[
    float | None,
    typer.Option("--poll-seconds", min=SHORTEST_PAUSE, max=LONGEST_PAUSE, help="Ask a provider every so many seconds."),
]
Models = Annotated[
    list[str] | None, typer.Option("--model", metavar="PROVIDER:ID", help="For a file or a task; may be repeated.")
]
EngineName = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="threads | processes | dask://HOST:PORT | tls://…")
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not ask the providers about their models.")]
UseSandbox = Annotated[
    bool,
    typer.Option("--sandbox", help="Play the providers on this machine: made-up answers, no key, no cost."),
]
ThisSet = Annotated[bool, typer.Option("--this-set", help="For exactly these items, not for new items of their kind.")]
MaxScore = Annotated[
    float | None,
    typer.Option("--max-score", help="The best mark in files of other programs, where it is not 1."),
]
RUNS = DEFAULT_RUNS


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("plan", context_settings=renamed(write="out"))(plan)
    app.command("run", context_settings={"allow_extra_args": True})(run)
    app.command("cancel")(cancel)
    app.command("retry")(retry)
    app.command("resolve")(resolve)
    app.command("judge")(judge)


def plan(
    context: typer.Context,
    manifest: ManifestPath = None,
    as_json: Json = False,
    write: Annotated[Path | None, typer.Option("--out", help="Write the batch files into this folder.")] = None,
    runs: Runs = RUNS,
    offline: Offline = False,
    sandbox: UseSandbox = False,
    notes: Annotated[bool, typer.Option("--notes", help="Show the notes on providers in full.")] = False,
) -> None:
    """Check a manifest and say what it would cost; pays nothing.

    Items, gold set and models are read and checked, requests written and split into batch files, prices looked up.
    The expected cost comes from the tokens of earlier runs of the same model and task (under --runs), else from bundled
    figures by reasoning effort; a note says which.
    Prompts at addresses are fetched, unless a run of the manifest's name (under --runs) has a copy.
    Providers whose key is set are asked whether their models are on sale. After the plan it ends with 2 where
    `run` would refuse a model or a key, and with 3 where a budget keeps `run` from a model of unknown price.
    """
    from layton_batch.cli.terminal import print_json
    from layton_batch.clock import SystemClock
    from layton_batch.errors import ManifestError, OverBudgetError
    from layton_batch.reports.plan_tables import plan_json, print_plan
    from layton_batch.reports.status_tables import no_price
    from layton_batch.runs.folders import home_of
    from layton_batch.runs.model_questions import ask_providers
    from layton_batch.runs.open import refuse_to_mix
    from layton_batch.settings import Settings
    from layton_batch.stages.preview import preview

    clock, is_named = SystemClock(), not _by_default(context, "runs")
    settings = Settings.from_process()
    path, place = _given(manifest, runs, sandbox=sandbox)
    runs, is_named = place or runs, is_named or place is not None
    with _loaded_manifest(path, runs, settings, is_named=is_named, sandbox=sandbox, offline=offline) as (
        run_manifest, runs, settings,
    ):  # fmt: skip
        refuse_to_mix(run_manifest, home_of(run_manifest, runs), settings)
        result = preview(run_manifest, settings, clock, write, runs)
        if not (offline or sandbox):
            result = result.with_model_findings(ask_providers(run_manifest, settings, clock))
    if as_json:
        print_json(plan_json(result))
    else:
        print_plan(result, notes=notes)
    if result.refused:
        raise ManifestError("\n".join(("`run` refuses to begin:", *result.refused)))
    if result.unpriced:
        raise OverBudgetError(no_price(result.unpriced))


def run(
    context: typer.Context,
    manifest: Annotated[
        Path | None,
        typer.Argument(
            metavar="MANIFEST | FILE | TASK",
            help="A TOML file, or its run; or, with --model, a file of questions or a task. Default: the only run.",
        ),
    ] = None,
    models: Models = None,
    items: Annotated[str | None, typer.Option("--items", help="For a task: its items; default: bundled.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="With --model: the first so many items.")] = None,
    runs: Runs = RUNS,
    once: Annotated[bool, typer.Option("--once", help="Do what needs no waiting, then return.")] = False,
    until: Annotated[str | None, typer.Option("--until", help="Return at this local time, HH:MM.")] = None,
    max_usd: Annotated[
        str | None, typer.Option("--max-usd", callback=check_dollars, help="Budget in USD, instead of the manifest's.")
    ] = None,
    poll_seconds: Poll = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without a question.")] = False,
    offline: Offline = False,
    sandbox: UseSandbox = False,
    engine: EngineName = None,
    as_json: Json = False,
) -> None:
    """Start or continue a manifest's run.

    Submits what an edited manifest adds, polls, collects, judges, scores and publishes as data allows. It may be
    stopped at any moment and called again: nothing is paid twice. Where another process drives the run, this one says
    which, and ends with 75. Before a run begins, the providers are asked whether
    its models are on sale. Where there is no budget, or something is paid for again (the run's folder is gone, another
    benchmark has its name), it asks before it sends, but for providers on this machine.
    A file of questions, or a task, with --model needs no manifest: the one that it runs is written beside the file, or
    into the working folder.
    With --sandbox the providers are played on this machine: the answers are made up, and the run is in a folder of its
    own, `runs-sandbox`.
    --engine (or LAYTON_BATCH_ENGINE) says what reads results, grades answers and counts votes: this process, processes
    of this machine, or a Dask cluster that sees the same folders. The tables are the same.
    Exit codes: 0 done, 75 call again, 3 budget, 4 a person must decide, 5 done with gaps,
    74 the disk or the state's database is in the way: mend that and call again.
    """
    from layton_batch.cli.driving import driven_run
    from layton_batch.cli.starting import check_arguments, manifest_for
    from layton_batch.clock import SystemClock
    from layton_batch.loop import deadline
    from layton_batch.manifest.manifest import with_budget
    from layton_batch.settings import Settings

    _in_bounds(poll_seconds)
    check_arguments(manifest, context.args, models or ())
    clock, settings = SystemClock(), Settings.from_process().with_engine(engine)
    path, place = (manifest, None) if models else _given(manifest, runs, sandbox=sandbox)
    path = manifest_for(path, models or (), items, limit, max_usd, sandbox=sandbox)
    stop_at = deadline(until, clock)
    runs, is_named = place or runs, not _by_default(context, "runs") or place is not None
    with (
        _loaded_manifest(path, runs, settings, is_named=is_named, sandbox=sandbox) as (
            run_manifest, runs, settings,
        ),
        driven_run(
            with_budget(run_manifest, max_usd), runs, settings, clock, once=once, stop_at=stop_at,
            poll_seconds=poll_seconds, yes=yes, offline=offline or sandbox, quiet=as_json,
        ) as (opened, status),
    ):  # fmt: skip
        _finish(opened, status, as_json=as_json)


def judge(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Answers: JSON, JSONL, Parquet or CSV, a row an item.")],
    items: Annotated[
        str | None,
        typer.Option("--items", metavar="SOURCE", help="Questions and references, where FILE's rows have none."),
    ] = None,
    panel: Annotated[
        Path | None, typer.Option("--panel", metavar="FILE", help="[[judges]]; default: the package's panel.")
    ] = None,
    seats: Annotated[int | None, typer.Option("--seats", min=1, help="Judges of an answer; default 3.")] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Which benchmark the items are of; default: by their columns.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Only this model, or the name of the file's only one.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="Maker of the model. Judges of the same family do not judge its answers."),
    ] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Who served it; shown on the board.")] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Of a task with protocols: original asks judges as published.")
    ] = None,
    runs: Runs = RUNS,
    max_usd: Annotated[str | None, typer.Option("--max-usd", callback=check_dollars, help="Budget in USD.")] = None,
    poll_seconds: Poll = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without a question.")] = False,
    offline: Offline = False,
    sandbox: UseSandbox = False,
    as_json: Json = False,
) -> None:
    """Put answers that are there already before a jury.

    A row has the item's id (item_id, riddle_id, question_id, custom_id or id) and the reply: the whole text (response,
    raw_text, output), or answer and justification, or both as JSON in answer, as in layton-eval's result files.
    Columns question and reference say what was asked and what is right; or --items names them: a path, an address or
    `bundled`. Columns model, family and provider tell several models apart. Only the judges are paid, once for each
    answer. The run is called after the file; its manifest, which has no models, is written beside it. `run` continues
    it. Exit codes are those of `run`.
    """
    from layton_batch.cli.driving import driven_run
    from layton_batch.cli.own_answers import JudgeArguments, read_judged
    from layton_batch.clock import SystemClock
    from layton_batch.imports.entering import check_answers
    from layton_batch.manifest.manifest import with_budget
    from layton_batch.runs.begun_runs import where_it_goes_on
    from layton_batch.runs.folders import sandbox_runs
    from layton_batch.settings import Settings

    _in_bounds(poll_seconds)
    clock, settings = SystemClock(), Settings.from_process()
    arguments = JudgeArguments(file, items, task, panel, seats, model, family, provider, protocol, max_usd)
    is_named = not _by_default(context, "runs")
    judged = read_judged(arguments, settings)
    place = (
        sandbox_runs(runs)
        if sandbox
        else where_it_goes_on(judged.manifest, runs, settings, is_named=is_named, note=lambda _line: None)
    )
    check_answers(judged.manifest, place, settings, judged.answers)
    with (
        _loaded_manifest(judged.write(), runs, settings, is_named=is_named, sandbox=sandbox) as (
            run_manifest, runs, settings,
        ),
        driven_run(
            with_budget(run_manifest, max_usd), runs, settings, clock, once=False, poll_seconds=poll_seconds, yes=yes,
            offline=offline or sandbox, quiet=as_json, answers=judged.answers,
        ) as (opened, status),
    ):  # fmt: skip
        _finish(opened, status, as_json=as_json)


def _given(manifest: Path | None, runs: Path, *, sandbox: bool) -> tuple[Path, Path | None]:
    from layton_batch.cli.same_name_runs import given_manifest
    from layton_batch.runs.folders import sandbox_runs

    return given_manifest(manifest, sandbox_runs(runs) if sandbox else runs)


@contextmanager
def _loaded_manifest(
    path: Path, runs: Path, settings: Settings, *, is_named: bool, sandbox: bool, offline: bool = False
) -> Iterator[tuple[Manifest, Path, Settings]]:
    """Yield the manifest at ``path``, the folder of its runs, and the settings to ask by.

    ``is_named``: somebody named ``runs``. ``sandbox``: play the providers meanwhile. ``offline``: fetch no prompts.
    """
    from layton_batch.cli.before_calling import say_addresses, say_sources
    from layton_batch.cli.terminal import say
    from layton_batch.runs.begun_runs import load_where_it_goes_on

    if sandbox:
        from layton_batch.cli.own_sandbox import own_sandbox  # loads the server and SQLAlchemy

        with own_sandbox(path, runs, settings) as loaded:
            yield loaded
        return
    say_sources(settings)
    manifest, place = load_where_it_goes_on(path, runs, settings, is_named=is_named, note=say, offline=offline)
    if not offline:
        say_addresses(manifest, settings)
    yield manifest, place, settings


def _by_default(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "DEFAULT"


def _in_bounds(poll_seconds: float | None) -> None:
    from layton_batch.errors import ManifestError

    if poll_seconds is not None and not math.isfinite(poll_seconds):
        raise ManifestError(f"--poll-seconds {poll_seconds}: give a number of seconds")


def _finish(opened: Run, status: Status, *, as_json: bool) -> None:
    from layton_batch.cli.driving import say_trouble
    from layton_batch.cli.endings import exit_code, print_outcome
    from layton_batch.cli.terminal import print_json
    from layton_batch.reports.status_tables import status_json
    from layton_batch.scoring.verdict_counts import known_counts

    if as_json:
        print_json(status_json(status, judges=known_counts(opened.folder.tables)))
    else:
        print_outcome(opened, status)
    raise typer.Exit(say_trouble(opened) or exit_code(status))


def cancel(
    run_name: RunName = None,
    runs: Runs = RUNS,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask providers to stop, and return.")] = False,
    poll_seconds: Poll = None,
    as_json: Json = False,
) -> None:
    """Stop paying: cancel a run's batches at the providers.

    Waits until each has ended, and collects what was answered before. A cancel that fails is tried again until then.
    Where another process drives the run, that one stops the batches at its next step.
    Exit codes: 0 all ended, 75 (after --no-wait or Ctrl-C) call again, 4 a person must decide about a lost batch.
    """
    from layton_batch.cli.endings import cancel_exit_code
    from layton_batch.cli.order_commands import cancelled
    from layton_batch.cli.terminal import print_json
    from layton_batch.clock import SystemClock
    from layton_batch.reports.status_tables import print_status, status_json
    from layton_batch.runs.folders import find_run
    from layton_batch.settings import Settings

    _in_bounds(poll_seconds)
    folder, clock = find_run(run_name, runs), SystemClock()
    status, trouble = cancelled(
        folder, Settings.from_process(), clock, poll_seconds=poll_seconds, no_wait=no_wait, quiet=as_json
    )
    if as_json:
        print_json(status_json(status))
    else:
        print_status(status, clock.now())
    raise typer.Exit(trouble or cancel_exit_code(status))


def retry(run_name: RunName = None, runs: Runs = RUNS, as_json: Json = False) -> None:
    """Give requests without an answer one more attempt.

    Where another process drives the run, that one does so at its next step, or else the next `run`, and writes an
    event.
    """
    from layton_batch.batches.retry import retry_run
    from layton_batch.cli.endings import retried
    from layton_batch.cli.order_commands import ordered
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import AnotherDriverError
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import open_folder
    from layton_batch.runs.status import read_status
    from layton_batch.settings import Settings
    from layton_batch.store.orders import OrderKind

    folder, settings, count = find_run(run_name, runs), Settings.from_process(), None
    try:
        with open_folder(folder, settings, calls_providers=False) as opened:
            name, was_cancelled = opened.id, _is_cancelled(opened)
            count = retry_run(opened)
            sentences = list(retried(count, read_status(opened.store), was_cancelled=was_cancelled))
    except AnotherDriverError as error:
        name, sentence = ordered(folder, settings, error.driver, OrderKind.RETRY)
        sentences = [sentence]
    for line in sentences:
        say(line)
    if as_json:
        print_json({"run": name, "requests": count, "said": sentences})


def _is_cancelled(opened: Run) -> bool:
    row = opened.store.row()
    return row is not None and row.cancelled


def resolve(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[RUN] BATCH", help="The run (default: the only one), and its lost batch."),
    ],
    adopt: Annotated[str | None, typer.Option("--adopt", help="The provider's id of the batch that is ours.")] = None,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="The batch does not exist at the provider. Submit it again.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Nobody can tell: end its requests without an answer.")
    ] = False,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Send it, although a copy of this workspace sent batches as well.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Say what became of a `lost` batch, or ignore those of a copy.

    It is this one at the provider (--adopt ID), it was never made (--resubmit), or nobody can tell (--give-up): then
    its requests end without an answer, and what they may have cost counts as unknown cost. Where another process drives
    the run, that one acts on it at its next step, or else the next `run` does, and writes an event. A create
    without a reply may arrive for eleven minutes: --resubmit is refused until then. A planned batch waits if its
    provider has batches of this run that the workspace does not know, because a newer copy of it sent them: --ignore
    sends it, and may pay again for what the copy paid.
    """
    from layton_batch.batches.resolve import adopt_batch, ignore_copy, send_again
    from layton_batch.batches.resolve import give_up as give_batch_up
    from layton_batch.cli.before_calling import say_addresses
    from layton_batch.cli.endings import resolved
    from layton_batch.cli.order_commands import ordered, require_lost
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import AnotherDriverError, ManifestError, ProviderError
    from layton_batch.runs.folders import find_run, is_run
    from layton_batch.runs.open import open_folder
    from layton_batch.settings import Settings
    from layton_batch.store.orders import OrderKind

    if (adopt is not None) + resubmit + give_up + ignore != 1:
        raise ManifestError("resolve: say one of --adopt ID, --resubmit, --give-up and --ignore")
    *run_names, batch = names
    if len(run_names) > 1:
        raise ManifestError("resolve: give a run and the batch that is lost, such as `resolve RUN BATCH --resubmit`")
    if not run_names and is_run(batch, runs):
        raise ManifestError(
            f"resolve: name the lost batch of {batch} too: `layton-batch resolve {batch} BATCH …`; "
            f"`layton-batch status {batch}` lists its open batches"
        )
    folder, settings = find_run(run_names[0] if run_names else None, runs), Settings.from_process()
    if not ignore:
        require_lost(folder, settings, batch)
    try:
        with open_folder(folder, settings) as opened:
            say_addresses(opened.manifest, settings)
            if adopt is not None:
                adopt_batch(opened, batch, adopt)
            else:
                (give_batch_up if give_up else ignore_copy if ignore else send_again)(opened, batch)
            sentence = resolved(batch, adopt, given_up=give_up, cancelled=_is_cancelled(opened))
    except ProviderError as error:
        raise ManifestError(f"nothing was done about {batch}: {error}") from error
    except AnotherDriverError as error:
        kinds = (OrderKind.ADOPT, OrderKind.RESUBMIT, OrderKind.GIVE_UP, OrderKind.IGNORE)
        kind = kinds[(adopt is not None, resubmit, give_up, ignore).index(True)]
        _, sentence = ordered(folder, settings, error.driver, kind, batch, adopt)
    say(sentence)
    if as_json:
        print_json({"batch": batch, "adopted": adopt, "said": sentence})
