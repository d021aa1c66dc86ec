"""plan, run, cancel, retry, resolve: the commands that move a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE
from layton_batch.runs.folders import DEFAULT_RUNS

if TYPE_CHECKING:
    from layton_batch.files.run_folder import RunFolder
    from layton_batch.manifest.manifest import Manifest
    from layton_batch.runs.context import Run
    from layton_batch.runs.status import Status
    from layton_batch.settings import Settings
    from layton_batch.store.run_store import RunStore


ManifestPath = Annotated[
    Path | None,
    typer.Argument(metavar="MANIFEST", help="The manifest, a TOML file; or its run, by name or folder."),
]
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="A run's name, its folder or its manifest; default: the only run.",
    ),
]  # fmt: skip
RunNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN", help="Runs by name, folder or manifest; default: the only run.",
    ),
]  # fmt: skip


def _runs_at(place: str | Path) -> Path:
    from layton_batch.runs.folders import runs_at

    return runs_at(place)


Runs = Annotated[
    Path,
    typer.Option(
        "--runs", parser=_runs_at, metavar="PLACE", envvar="LAYTON_BATCH_RUNS",
        help="The folder that holds the run folders.",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Poll = Annotated[
    float | None,
    typer.Option("--poll-seconds", min=SHORTEST_PAUSE, max=LONGEST_PAUSE, help="Ask a provider every so many seconds."),
]


def _dollars(text: str | None) -> str | None:
    from layton_batch.manifest.money_checks import check_dollars

    return check_dollars(text)


MaxUsd = Annotated[
    str | None, typer.Option("--max-usd", callback=_dollars, help="Budget in USD, instead of the manifest's.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", metavar="PROVIDER:ID", help="For a file or a task; may be repeated.")
]
EngineName = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="threads | processes | dask://HOST:PORT")
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
    app.command("plan")(plan)
    app.command("run")(run)
    app.command("cancel")(cancel)
    app.command("retry")(retry)
    app.command("overnight")(overnight)
    app.command("resolve")(resolve)
    app.command("judge")(judge)


def plan(
    manifest: ManifestPath = None,
    as_json: Json = False,
    write: Annotated[Path | None, typer.Option("--out", help="Write the batch files into this folder.")] = None,
    runs: Runs = RUNS,
    offline: Offline = False,
) -> None:
    """Check a manifest and say what it would cost; pays nothing.

    Items, gold set and models are read and checked, requests written and split into batch files, prices looked up.
    The expected cost comes from the tokens of earlier runs of the same model and task (under --runs), else from bundled
    figures by reasoning effort; a note says which.
    Prompts at addresses are fetched, unless a run of the manifest's name (under --runs) has a copy.
    Providers whose key is set are asked whether their models are on sale. After the plan it ends with 2 where
    `run` would refuse a model or a key, and with 3 where a budget keeps `run` from a model of unknown price.
    """
    from layton_batch.cli.before_calling import say_addresses, say_sources
    from layton_batch.cli.terminal import print_json
    from layton_batch.clock import SystemClock
    from layton_batch.errors import ManifestError, OverBudgetError
    from layton_batch.manifest.checks import load_manifest
    from layton_batch.manifest.prompt_files import PromptFiles
    from layton_batch.reports.plan_tables import plan_json, print_plan
    from layton_batch.reports.status_tables import no_price
    from layton_batch.runs.folders import given_manifest, home_of
    from layton_batch.runs.model_questions import ask_providers
    from layton_batch.runs.open import refuse_to_mix
    from layton_batch.settings import Settings
    from layton_batch.stages.preview import preview

    clock, settings = SystemClock(), Settings.from_process()
    path, place = given_manifest(manifest, runs)
    runs = place or runs
    say_sources(settings)
    run_manifest = load_manifest(path, PromptFiles(settings, runs, offline=offline))
    if not offline:
        say_addresses(run_manifest, settings)
    refuse_to_mix(run_manifest, home_of(run_manifest, runs), settings)
    result = preview(run_manifest, settings, clock, write, runs)
    if not offline:
        result = result.with_model_findings(ask_providers(run_manifest, settings, clock))
    if as_json:
        print_json(plan_json(result))
    else:
        print_plan(result)
    if result.refused:
        raise ManifestError("\n".join(("`run` refuses to begin:", *result.refused)))
    if result.unpriced:
        raise OverBudgetError(no_price(result.unpriced))


def run(
    manifest: Annotated[
        Path | None,
        typer.Argument(
            metavar="MANIFEST | FILE | TASK",
            help="A TOML file, or its run; or, with --model, a file of questions or a task. Default: the only run.",
        ),
    ] = None,
    models: Models = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="With --model: the first so many items.")] = None,
    runs: Runs = RUNS,
    once: Annotated[bool, typer.Option("--once", help="Do what needs no waiting, then return.")] = False,
    until: Annotated[str | None, typer.Option("--until", help="Return at this local time, HH:MM.")] = None,
    max_usd: MaxUsd = None,
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
    --engine (or LAYTON_BATCH_ENGINE) says what grades answers and counts votes: this process, processes of this
    machine, or a Dask cluster that sees the same folders. The tables are the same.
    Exit codes: 0 done, 75 call again, 3 budget, 4 a person must decide, 5 done with gaps,
    74 the disk or the state's database is in the way: mend that and call again.
    """
    from layton_batch.cli.driving import driven_run
    from layton_batch.cli.starting import manifest_for
    from layton_batch.clock import SystemClock
    from layton_batch.loop import deadline
    from layton_batch.manifest.manifest import with_budget
    from layton_batch.settings import Settings

    _in_bounds(poll_seconds)
    clock, settings = SystemClock(), Settings.from_process().with_engine(engine)
    path, place = (manifest, None) if models else _given(manifest, runs, sandbox=sandbox)
    path = manifest_for(path, models or (), limit, max_usd, sandbox=sandbox)
    stop_at = deadline(until, clock)
    with (
        _loaded_manifest(path, place or runs, settings, sandbox=sandbox) as (
            run_manifest, runs, settings,
        ),
        driven_run(
            with_budget(run_manifest, max_usd), runs, settings, clock, once=once, stop_at=stop_at,
            poll_seconds=poll_seconds, yes=yes, offline=offline or sandbox, quiet=as_json,
        ) as (opened, status),
    ):  # fmt: skip
        _finish(opened, status, as_json=as_json, with_board=not once)


def overnight(
    manifests: Annotated[list[Path], typer.Argument(metavar="MANIFEST...", help="The manifests, TOML files.")],
    until: Annotated[str, typer.Option("--until", help="Work until this local time, HH:MM.")] = "07:00",
    site: Annotated[Path, typer.Option("--site", help="Where boards are published.")] = Path("public"),
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", envvar="LAYTON_BATCH_WEBHOOK", help="An address that gets the summary as JSON."),
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Work on several manifests through the night, and publish what is complete.

    Every manifest gets a tick in turn, so that none waits for the batches of another. A board stays at its address
    (SITE/RUN/); SITE/summary.md and summary.json say what changed. The webhook gets the summary at the end, and at once
    when a batch is lost or a budget is reached. The exit code is the worst of the runs'.
    """
    from layton_batch.cli.overnight import NightOptions, refresh

    raise typer.Exit(refresh(NightOptions(tuple(manifests), until, site, webhook, runs)))


def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Answers: JSON, JSONL, Parquet or CSV, a row an item.")],
    items: Annotated[
        str | None,
        typer.Option("--items", metavar="SOURCE", help="Questions and references, where FILE's rows have none."),
    ] = None,
    panel: Annotated[
        Path | None, typer.Option("--panel", metavar="FILE", help="[[judges]]; default: the package's panel.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Only this model, or the name of the file's only one.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="Maker of the model. Judges of the same family do not judge its answers."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Of a task with protocols: original asks judges as published.")
    ] = None,
    runs: Runs = RUNS,
    max_usd: MaxUsd = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without a question.")] = False,
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
    from layton_batch.interchange.entering import check_answers
    from layton_batch.manifest.manifest import with_budget
    from layton_batch.runs.folders import sandbox_runs
    from layton_batch.settings import Settings

    clock, settings = SystemClock(), Settings.from_process()
    arguments = JudgeArguments(file, items, panel, model, family, protocol, max_usd)
    judged = read_judged(arguments, settings)
    check_answers(judged.manifest, sandbox_runs(runs) if sandbox else runs, settings, judged.answers)
    with (
        _loaded_manifest(judged.write(), runs, settings, sandbox=sandbox) as (
            run_manifest, runs, settings,
        ),
        driven_run(
            with_budget(run_manifest, max_usd), runs, settings, clock, once=False, yes=yes, offline=sandbox,
            quiet=as_json, answers=judged.answers,
        ) as (opened, status),
    ):  # fmt: skip
        _finish(opened, status, as_json=as_json)


def _given(manifest: Path | None, runs: Path, *, sandbox: bool) -> tuple[Path, Path | None]:
    from layton_batch.runs.folders import given_manifest, sandbox_runs

    return given_manifest(manifest, sandbox_runs(runs) if sandbox else runs)


@contextmanager
def _loaded_manifest(
    path: Path, runs: Path, settings: Settings, *, sandbox: bool
) -> Iterator[tuple[Manifest, Path, Settings]]:
    """Yield the manifest at ``path``, the folder of its runs, and the settings to ask by.

    ``sandbox``: play the providers meanwhile.
    """
    from layton_batch.cli.before_calling import say_addresses, say_sources
    from layton_batch.manifest.checks import load_manifest
    from layton_batch.manifest.prompt_files import PromptFiles

    if sandbox:
        from layton_batch.cli.own_sandbox import own_sandbox  # loads the server and SQLAlchemy

        with own_sandbox(path, runs, settings) as loaded:
            yield loaded
        return
    say_sources(settings)
    manifest = load_manifest(path, PromptFiles(settings, runs))
    say_addresses(manifest, settings)
    yield manifest, runs, settings


def _in_bounds(poll_seconds: float | None) -> None:
    from layton_batch.errors import ManifestError

    if poll_seconds is not None and not math.isfinite(poll_seconds):
        raise ManifestError(f"--poll-seconds {poll_seconds}: give a number of seconds")


def _finish(opened: Run, status: Status, *, as_json: bool, with_board: bool = True) -> None:
    from layton_batch.cli.driving import say_trouble
    from layton_batch.cli.endings import exit_code, print_outcome
    from layton_batch.cli.terminal import print_json
    from layton_batch.reports.status_tables import status_json
    from layton_batch.scoring.verdict_counts import known_counts

    if as_json:
        print_json(status_json(status, judges=known_counts(opened.folder.tables)))
    else:
        print_outcome(opened, status, with_board=with_board)
    raise typer.Exit(say_trouble(opened) or exit_code(status))


def cancel(
    run_name: RunName = None,
    runs: Runs = RUNS,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask providers to stop, and return.")] = False,
    as_json: Json = False,
) -> None:
    """Stop paying: cancel a run's batches at the providers.

    Waits until each has ended, and collects what was answered before. A cancel that fails is tried again until then.
    Where another process drives the run, that one stops the batches at its next step.
    Exit codes: 0 all ended, 75 (after --no-wait or Ctrl-C) call again, 4 a person must decide about a lost batch.
    """
    from layton_batch.cli.cancelling import cancelled
    from layton_batch.cli.endings import cancel_exit_code
    from layton_batch.cli.looking import show_status
    from layton_batch.clock import SystemClock
    from layton_batch.reports.status_tables import print_status
    from layton_batch.runs.folders import find_run
    from layton_batch.settings import Settings

    folder, clock = find_run(run_name, runs), SystemClock()
    status, trouble = cancelled(folder, Settings.from_process(), clock, no_wait=no_wait, quiet=as_json)
    if as_json:
        show_status(folder.root.name, runs, as_json=True)
    else:
        print_status(status, clock.now())
    raise typer.Exit(trouble or cancel_exit_code(status))


def retry(run_name: RunName = None, runs: Runs = RUNS) -> None:
    """Give requests without an answer one more attempt.

    The next `run` sends them, or the process that drives the run now.
    """
    from layton_batch.cli.endings import retried
    from layton_batch.cli.terminal import say
    from layton_batch.clock import SystemClock
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.status import read_status
    from layton_batch.runs.stores import open_store
    from layton_batch.settings import Settings
    from layton_batch.store.reopening import retry as retry_requests

    with open_store(find_run(run_name, runs), Settings.from_process()) as store:
        was_cancelled = _is_cancelled(store)
        count = retry_requests(store, SystemClock().now())
        sentences = list(retried(count, read_status(store), was_cancelled=was_cancelled))
    for line in sentences:
        say(line)


def _is_cancelled(store: RunStore) -> bool:
    row = store.row()
    return row is not None and row.cancelled


def resolve(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[RUN] BATCH", help="The run (default: the only one), and its lost batch."),
    ],
    adopt: Annotated[str | None, typer.Option("--adopt", help="The provider's id of the batch that is ours.")] = None,
    resubmit: Annotated[
        bool, typer.Option("--resubmit", help="Submit it again. What it may have cost stays in the bill.")
    ] = False,
    not_made: Annotated[
        bool, typer.Option("--not-made", help="The batch does not exist at the provider: it cost nothing.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Nobody can tell: end its requests without an answer.")
    ] = False,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Send it, although a copy of this workspace sent batches as well.")
    ] = False,
    runs: Runs = RUNS,
) -> None:
    """Say what became of a `lost` batch, or ignore those of a copy.

    It is this one at the provider (--adopt ID), it was never made (--not-made: it is sent again, and cost nothing), it
    is sent again whatever became of it (--resubmit), or nobody can tell (--give-up): then its requests end without an
    answer, and what they may have cost counts as unknown cost. --not-made also closes the bill of another batch whose
    earlier creates may have been billed. A create without a reply may arrive for eleven minutes:
    --resubmit and --not-made are refused until then. A planned batch waits if its
    provider has batches of this run that the workspace does not know, because a newer copy of it sent them: --ignore
    sends it, and may pay again for what the copy paid.
    """
    from layton_batch.batches import resolve as persons_word
    from layton_batch.cli.before_calling import say_addresses
    from layton_batch.cli.endings import resolved
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError, ProviderError
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import open_to_decide
    from layton_batch.settings import Settings

    words: list[tuple[bool, Callable[[Run, str], None]]] = [
        (adopt is not None, lambda run, name: persons_word.adopt_batch(run, name, str(adopt))),
        (resubmit, persons_word.send_again),
        (not_made, persons_word.not_made),
        (give_up, persons_word.give_up),
        (ignore, persons_word.ignore_copy),
    ]
    chosen = [act for is_said, act in words if is_said]
    if len(chosen) != 1:
        raise ManifestError("resolve: say one of --adopt ID, --resubmit, --not-made, --give-up and --ignore")
    (act,) = chosen
    *run_names, batch = names
    if len(run_names) > 1:
        raise ManifestError("resolve: give one run and one lost batch of it")
    folder, settings = find_run(run_names[0] if run_names else None, runs), Settings.from_process()
    if not ignore:
        _require_unresolved(folder, settings, batch, is_about_cost=not_made)
    try:
        with open_to_decide(folder, settings) as opened:
            say_addresses(opened.manifest, settings)
            act(opened, batch)
            sentence = resolved(
                batch, adopt, given_up=give_up, not_made=not_made, cancelled=_is_cancelled(opened.store)
            )
    except ProviderError as error:
        raise ManifestError(f"nothing was done about {batch}: {error}") from error
    say(sentence)


def _require_unresolved(folder: RunFolder, settings: Settings, batch_id: str, *, is_about_cost: bool) -> None:
    """Raise ManifestError where the run's batch is not lost; needs no key, as the providers are not called.
    ``is_about_cost``: one with creates of unknown cost will do."""
    from layton_batch.errors import ManifestError
    from layton_batch.runs.stores import open_store
    from layton_batch.states import Lifecycle

    with open_store(folder, settings) as store:
        batches = store.batches()
        states = {batch.id: batch.state for batch in batches}
        if states.get(batch_id) is Lifecycle.LOST:
            return
        if is_about_cost and any(batch.id == batch_id and batch.facts.creates_of_unknown_cost for batch in batches):
            return
        lost = [name for name, state in states.items() if state is Lifecycle.LOST]
        advice = f"the lost batches of the run: {', '.join(lost)}" if lost else "the run has no lost batch to resolve"
        if batch_id not in states:
            raise ManifestError(f"run {store.run_id} has no batch {batch_id!r}; {advice}")
        raise ManifestError(
            f"batch {batch_id} of run {store.run_id} is {states[batch_id]}, not lost: nothing to resolve; {advice}"
        )
