"""judges, compare: what the statistics say beyond a leaderboard. No network."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, Runs, ThisSet
from layton_batch.text import one_line

WORSE, UNDECIDED = 6, 7
"""Exit codes of `compare --margin`."""


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("judges")(judges)
    app.command("compare")(compare)


def judges(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Runs, or files in layton-eval-ppi's form; default: the only run."),
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="List what the jury gets wrong, item by item.")] = False,
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """Measure the judges against people.

    Accuracy, agreement beyond chance, leniency by whose answers they judged, and how often people agree with each
    vote. If several people labelled a run's answers, their agreement with each other as well.
    """
    from layton_batch.cli.terminal import print_json
    from layton_batch.grading.board_sources import BoardOptions, read_jury_sources
    from layton_batch.reports.annotators import print_annotators
    from layton_batch.reports.statistics import print_diagnosis, print_sections
    from layton_batch.scoring.annotator_agreement import annotator_agreement
    from layton_batch.scoring.judge_quality import diagnose
    from layton_batch.scoring.judges_told import verdicts_told
    from layton_batch.settings import Settings

    evidence = read_jury_sources(sources or (), runs, Settings.from_process(), BoardOptions(), verdicts=True)
    diagnosis = diagnose(evidence.judged, evidence.votes, evidence.labels, evidence.rules, evidence.drift)
    people = annotator_agreement(evidence.annotated, evidence.rules.metric, evidence.rules.level)
    if as_json:
        print_json(
            {**asdict(diagnosis), "annotators": people, "verdicts": [judge.document() for judge in evidence.verdicts]}
        )
    else:
        print_sections(verdicts_told(evidence.verdicts))
        print_diagnosis(diagnosis, errors=errors)
        print_annotators(people)


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="[SOURCE]... A B", help="Sources (default: the only run), then two models.")
    ],
    margin: Annotated[
        float | None,
        typer.Option("--margin", help="Points of 100 by which A may be worse: 2.0 is 2 %."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="both_correct | answer_correct | justification_correct")
    ] = None,
    this_set: ThisSet = False,
    form: Annotated[str, typer.Option("--format", help="table | json | md")] = "table",
    runs: Runs = RUNS,
) -> None:
    """Tell which of two models is better, and how surely.

    On new items of this kind; with --this-set on exactly these. A model that is there at several hint levels, or of
    several providers, is PROVIDER/MODEL@HINTS. Sources are those of `leaderboard`.

    With --margin, for CI, the exit code says whether A, a new model, is worse than B by more than the margin: 0 not
    worse (the whole interval of the difference is at or above minus the margin), 6 worse (all of it is below), 7
    undecided. A jury without labels decides nothing.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.grading.board_sources import BoardOptions, read_sources
    from layton_batch.reports.statistics import (
        COMPARISON_FORMATS,
        comparison_markdown,
        gate_markdown,
        print_comparison,
        print_gate,
    )
    from layton_batch.scoring.compare import GateResult, compare_marks, compare_votes, gate
    from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET
    from layton_batch.settings import Settings

    if form not in COMPARISON_FORMATS:
        raise ManifestError(f"--format {form!r}: must be one of {', '.join(COMPARISON_FORMATS)}")
    if len(names) < 2:
        raise ManifestError("compare: give two models, and before them the sources that they are in")
    *sources, first, second = names
    options, target = BoardOptions(metric=metric), THIS_SET if this_set else NEW_ITEMS
    evidence = read_sources(sources or [str(_only_run(runs))], runs, Settings.from_process(), options)
    comparison = (
        compare_marks(evidence.sheets, (first, second), evidence.rules)
        if evidence.sheets
        else compare_votes(evidence.votes, evidence.labels, (first, second), evidence.rules)
    )
    decision = None if margin is None else gate(comparison, target, margin)
    if form == "json":
        print_json(decision or comparison)
    elif form == "md":
        sys.stdout.write(
            comparison_markdown(comparison, target) + ("" if decision is None else gate_markdown(decision))
        )
    elif decision is not None:
        print_gate(decision)
    else:
        print_comparison(comparison, target)
    for note in evidence.notes:
        say(one_line(note))
    if decision is not None and decision.result is not GateResult.NOT_WORSE:
        raise typer.Exit(WORSE if decision.result is GateResult.WORSE else UNDECIDED)


def _only_run(runs: Path) -> Path:
    from layton_batch.runs.folders import find_run

    return find_run(None, runs).root
