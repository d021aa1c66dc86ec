"""judges, label-plan, compare, gate: what the statistics say beyond a leaderboard. No network."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.option_names import renamed
from layton_batch.cli.run_commands import RUNS, Json, MaxScore, Runs, ThisSet, complete_runs
from layton_batch.files.run_folder import MANIFEST
from layton_batch.text import one_line, plural

if TYPE_CHECKING:
    from layton_batch.grading.board_sources import BoardOptions, Sources
    from layton_batch.records import JsonValue
    from layton_batch.scoring.compare import Comparison
    from layton_batch.scoring.label_plan import LabelRequest

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE", help="Runs, or files in layton-eval-ppi's form; default: the only run.",
        autocompletion=complete_runs,
    ),
]  # fmt: skip
Metric = Annotated[str | None, typer.Option("--metric", help="both_correct | answer_correct | justification_correct")]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed of simulated quantities.")]
Level = Annotated[float | None, typer.Option("--level", help="Confidence level of intervals (default 0.95).")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("judges")(judges)
    app.command("label-plan", context_settings=renamed(output="out"))(label_plan)
    app.command("compare")(compare)
    app.command("gate")(gate)


def judges(
    sources: Files = None,
    metric: Metric = None,
    level: Level = None,
    seed: Seed = None,
    errors: Annotated[bool, typer.Option("--errors", help="List what the jury gets wrong, item by item.")] = False,
    families: Annotated[
        list[str] | None,
        typer.Option("--judge-family", metavar="JUDGE=FAMILY", help="Who made a judge's model."),
    ] = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Measure the judges against people.

    Accuracy, agreement beyond chance, leniency by whose answers they judged, and whether the vote is calibrated. Where
    several people labelled a run's answers, their agreement with each other as well.
    """
    from layton_batch.cli.terminal import print_json
    from layton_batch.grading.board_sources import BoardOptions
    from layton_batch.reports.annotators import print_annotators
    from layton_batch.reports.statistics import print_diagnosis, print_sections
    from layton_batch.scoring.annotator_agreement import annotator_agreement
    from layton_batch.scoring.judge_quality import check_families, diagnose
    from layton_batch.scoring.judges_told import verdicts_told

    evidence = _jury_sources(sources, runs, BoardOptions(None, metric, seed, level), verdicts=True)
    stated = _pairs(families or [])
    check_families(evidence.judged, stated)
    judge_families = evidence.judge_families | stated
    diagnosis = diagnose(evidence.judged, evidence.votes, evidence.labels, judge_families, evidence.rules)
    people = annotator_agreement(evidence.annotated, evidence.rules.metric, evidence.rules.level)
    if as_json:
        print_json(
            {**asdict(diagnosis), "annotators": people, "verdicts": [judge.document() for judge in evidence.verdicts]}
        )
    else:
        print_sections(verdicts_told(evidence.verdicts))
        print_diagnosis(diagnosis, errors=errors)
        print_annotators(people)


def label_plan(
    sources: Files = None,
    half_width: Annotated[float | None, typer.Option("--half-width", help="In points of 100: 1.0 is ± 1 %.")] = None,
    labels: Annotated[
        int | None,
        typer.Option(
            "--labels", help="How many labels there is time for: a number (`import --labels FILE` reads labels)."
        ),
    ] = None,
    design: Annotated[str, typer.Option("--design", help="contested (fewest labels) | balanced")] = "contested",
    audit: Annotated[
        float,
        typer.Option("--audit", help="Points: random labels show scores that are off by as much. 0: no such labels."),
    ] = 5.0,
    this_set: Annotated[
        bool, typer.Option("--this-set", help="Half widths for these items, not for new items of this kind.")
    ] = False,
    models: Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be repeated.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the answers to label into this .csv or .jsonl file."),
    ] = None,
    metric: Metric = None,
    level: Level = None,
    seed: Seed = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Choose the answers that people should label next.

    Either until every interval is short enough, or to make the best of so many labels.

    --out: a row an answer, of runs with question, reference and answer, so that anyone can label in a spreadsheet:
    fill in answer_correct (true, false) and justification_correct; `import RUN --labels FILE` takes the file back.
    Only a FILE of `label-plan` in which nobody filled in a row is replaced.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.grading.board_sources import BoardOptions
    from layton_batch.reports.statistics import print_label_plan
    from layton_batch.scoring.compare import find_entrant
    from layton_batch.scoring.evidence import entrants_of
    from layton_batch.scoring.label_plan import LabelTarget, plan_next

    aim = LabelTarget(None if half_width is None else half_width / 100, labels, design, audit / 100, this_set)
    aim.check()
    _say_points("--half-width", half_width)
    if output is not None and output.suffix.lower() not in (".csv", ".jsonl"):
        raise ManifestError(f"label-plan: --out {output}: name a file that ends in .csv or .jsonl")
    if output is not None:
        _check_replaceable(output, sources, runs)
    evidence = _jury_sources(sources, runs, BoardOptions(None, metric, seed, level))
    entrants = entrants_of(evidence.votes)
    only = [find_entrant(entrants, name) for name in models or ()]
    plan = plan_next(evidence.votes, evidence.labels, aim, evidence.rules, only)
    unlabelled = sum(model.unlabelled for model in plan.models)
    if labels is not None and unlabelled < labels:
        few = plural(unlabelled, "answer of these models is", "answers of these models are")
        say(f"only {few} without a label; --labels asks for {labels}")
    if output is not None:
        pictures = _write_asks(output, plan.rows, sources, runs)
        say(f"{len(plan.rows)} predictions to label: {output}")
        if pictures:
            say(f"{pictures} of them are about a picture, which a table does not show: `annotate` does")
    if as_json:
        print_json(plan)
    else:
        print_label_plan(plan)


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="[SOURCE]... A B", help="Sources (default: the only run), then two models.")
    ],
    metric: Metric = None,
    this_set: ThisSet = False,
    max_score: MaxScore = None,
    level: Level = None,
    seed: Seed = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Tell which of two models is better, and how surely.

    On new items of this kind; with --this-set on exactly these. And what it would take to tell them apart: more items
    or, on exactly these, more labels. A model at one of several hint levels is MODEL@HINTS, one that several providers
    serve is PROVIDER/MODEL. Sources are those of `leaderboard`.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.grading.board_sources import BoardOptions
    from layton_batch.reports.statistics import print_comparison
    from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET

    *sources, first, second = _sources_and_models(names, runs)
    evidence = _sources(sources, runs, BoardOptions(None, metric, seed, level, max_score))
    comparison = _comparison(evidence, (first, second))
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison, THIS_SET if this_set else NEW_ITEMS)
    for note in evidence.notes:
        say(one_line(note))


def _comparison(evidence: Sources, names: tuple[str, str]) -> Comparison:
    from layton_batch.scoring.compare import compare_marks, compare_votes

    if evidence.sheets:
        return compare_marks(evidence.sheets, names, evidence.rules)
    return compare_votes(evidence.votes, evidence.labels, names, evidence.rules)


def _say_points(option: str, points: float | None) -> None:
    """Say how a number of points below 1 is read, for it may be meant as a share."""
    from layton_batch.cli.terminal import say

    if points is not None and 0 < points < 1:
        say(
            f"{option} {points:g} is read as {points:g} of 100 points; for {points:.0%} write {option} {100 * points:g}"
        )


WORSE, UNDECIDED = 6, 7
"""Exit codes of `gate`."""


def gate(
    model: Annotated[str, typer.Option("--model", metavar="NEW", help="The model that is to take the place.")],
    baseline: Annotated[str, typer.Option("--baseline", metavar="OLD", help="The model whose place it is.")],
    margin: Annotated[float, typer.Option("--margin", help="Points of 100 by which NEW may be worse: 2.0 is 2 %.")],
    sources: Files = None,
    metric: Metric = None,
    this_set: ThisSet = False,
    max_score: MaxScore = None,
    level: Level = None,
    seed: Seed = None,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Tell whether a model is worse than a baseline, for CI.

    Worse means: by more than a margin.

    Exit codes: 0 not worse (the whole interval of the difference is at or above minus the margin), 6 worse (all of it
    is below), 7 undecided. A jury without labels decides nothing. Names of models and sources are those of `compare`.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.grading.board_sources import BoardOptions
    from layton_batch.reports.statistics import print_gate
    from layton_batch.scoring.compare import GateResult
    from layton_batch.scoring.compare import gate as decide
    from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET

    _say_points("--margin", margin)
    evidence = _sources(sources or [str(_only_run(runs))], runs, BoardOptions(None, metric, seed, level, max_score))
    decision = decide(_comparison(evidence, (model, baseline)), THIS_SET if this_set else NEW_ITEMS, margin)
    if as_json:
        print_json(decision)
    else:
        print_gate(decision)
    for note in evidence.notes:
        say(one_line(note))
    if decision.result is not GateResult.NOT_WORSE:
        raise typer.Exit(WORSE if decision.result is GateResult.WORSE else UNDECIDED)


def _only_run(runs: Path) -> Path:
    from layton_batch.runs.folders import find_run

    return find_run(None, runs).root


def _sources_and_models(names: Sequence[str], runs: Path) -> Sequence[str]:
    """Return sources and two models; the source of two names is the only run.

    Raises ManifestError for fewer, and where the sources come last.
    """
    from layton_batch.errors import ManifestError, StoreError

    if len(names) > 2:
        if not _is_source(names[0], runs) and _is_source(names[-1], runs):
            first, second, *sources = names
            command = shlex.join(("layton-batch", "compare", *sources, first, second))
            raise ManifestError(f"compare: sources come first, then the two models: `{command}`")
        return names
    example = "compare: give a source and two models, such as `compare RUN gpt-5.1 claude-opus-4.5`"
    if len(names) < 2:
        raise ManifestError(example)
    if source := next((name for name in names if os.path.isfile(name) or (runs / name / MANIFEST).is_file()), None):
        others = [name for name in names if name != source]
        command = shlex.join(("layton-batch", "compare", source, *others))
        raise ManifestError(
            f"compare: {source!r} is a source, not a model; give it first, then two models: `{command} …`"
        )
    try:
        return [str(_only_run(runs)), *names]
    except StoreError as error:
        raise ManifestError(f"{example}; {error}") from error


def _is_source(name: str, runs: Path) -> bool:
    """Tell whether there is a run, a file or a folder of this name, or an address."""
    paths = (name, name.partition("=")[2], runs / name / MANIFEST)
    return "://" in name or any(os.path.exists(path) for path in paths)


def _sources(names: Sequence[str], runs: Path, options: BoardOptions) -> Sources:
    from layton_batch.grading.board_sources import read_sources
    from layton_batch.settings import Settings

    return read_sources(names, runs, Settings.from_process(), options)


def _jury_sources(names: Sequence[str] | None, runs: Path, options: BoardOptions, *, verdicts: bool = False) -> Sources:
    from layton_batch.grading.board_sources import read_jury_sources
    from layton_batch.settings import Settings

    return read_jury_sources(names or (), runs, Settings.from_process(), options, verdicts=verdicts)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    from layton_batch.errors import ManifestError

    pairs = dict(text.partition("=")[::2] for text in texts)
    for name, family in pairs.items():
        if not name or not family:
            raise ManifestError(f"--judge-family {name!r}: JUDGE=FAMILY, such as gpt-5.1=openai")
    return pairs


def _check_replaceable(path: Path, sources: Sequence[str] | None, runs: Path) -> None:
    """Raise ManifestError unless a file at the path is a label plan without labels and notes of people."""
    from layton_batch.errors import DataError, ManifestError
    from layton_batch.files.sources import portions
    from layton_batch.grading.board_sources import run_sources
    from layton_batch.reports.label_sheet import count_filled_rows
    from layton_batch.scoring.propensity import COLUMN
    from layton_batch.settings import Settings

    if not path.is_file():
        return
    placed = chain.from_iterable(portions(str(path.absolute()), Path(), Settings.from_process()))
    try:
        rows = [row for _, row in placed]
    except DataError as error:
        raise ManifestError(f"label-plan: --out {path}: name another file: {error}") from error
    if any(COLUMN not in row for row in rows):
        raise ManifestError(f"label-plan: --out {path}: the file there is not of `label-plan`; name another file")
    if filled := count_filled_rows(rows):
        named = run_sources(sources, runs)
        folder = () if runs == RUNS else ("--runs", str(runs))
        command = ("layton-batch", "import", named[0] if len(named) == 1 else "RUN", "--labels", str(path), *folder)
        raise ManifestError(
            f"label-plan: --out {path}: {plural(filled, 'row')} filled in, which would be replaced: import them "
            f"(`{shlex.join(command)}`) and name another file"
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
