"""Closing sentences of `run`."""

from __future__ import annotations

from collections.abc import Iterator

from layton_batch.cli.terminal import say
from layton_batch.commands.run_result import trouble_lines
from layton_batch.reports.status_tables import (
    failure_lines,
    next_steps,
    print_status,
)
from layton_batch.runs.context import Run
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import run_source, shown_path
from layton_batch.runs.status import RunState, Status
from layton_batch.scoring.verdict_counts import known_counts, lacking_told
from layton_batch.states import FinishReason
from layton_batch.text import one_line, plural

MOST_CUT_MODELS = 5
"""Models whose cut answers have a line of their own at the end of `run`."""
MANY_CUT = 0.05
"""Share of a model's answers from which it is worth while to ask all of them again."""


def print_outcome(run: Run, status: Status, *, with_board: bool = True) -> None:
    """Print the outcome of `run`: the board of the complete models (``with_board``: also before the end), the total of
    the bill, what is wrong, and one next step."""
    judges, words = known_counts(run.folder.tables), failure_words(run.folder, status)
    is_done = status.state is RunState.DONE
    if is_done or (with_board and run.folder.part("leaderboard", "leaderboard").exists()):
        _print_board(run)
    if is_done:
        missing = [f"{plural(status.unanswered, 'request')} without an answer"] * bool(status.unanswered)
        for line in (*missing, *failure_lines(status.jobs, words), *lacking_told(judges), *_cut_answers(run)):
            say(one_line(line))
        say(f"site: {shown_path(run.folder.site / 'index.html')}")
    else:
        print_status(status, run.clock.now(), words, judges=judges)
    say(one_line(f"next: {_next_step(run, status)}"))


def say_trouble(run: Run) -> None:
    """Print what a person has to do about the run's tables."""
    for line in trouble_lines(run.engine.trouble):
        say(line)


def _print_board(run: Run) -> None:
    """Print the board of the complete models, what a reader has to know of it, and the total of the bill."""
    from layton_batch.reports.cost_document import total_line
    from layton_batch.reports.leaderboard_tables import print_board
    from layton_batch.stages.publish import cost_report
    from layton_batch.stages.rank import reader_notes, shown_board

    print_board(shown_board(run))
    for line in reader_notes(run):
        say(line)
    say(total_line(cost_report({run.folder: run.store})))


def _next_step(run: Run, status: Status) -> str:
    """Return the next step of a person: what the status asks for, else labels that help most, else a look."""
    source = run_source(run.folder)
    if status.state is RunState.DONE and not status.unanswered:
        from layton_batch.site.board import label_need

        if need := label_need(run.folder, source):
            return need
    return next_steps(status, source, reserves_expected=run.manifest.budget.bound is not None)[0]


def _cut_answers(run: Run) -> Iterator[str]:
    """Yield how many answers of each of the run's own models the output limit cut, the most first, and what to do."""
    import polars as pl

    from layton_batch.files import tables

    limits = {spec.name: spec.max_output_tokens for spec in run.manifest.model_specs()}
    predictions = tables.read(run.folder.tables, "predictions", ["model", "finish_reason"])
    is_cut = pl.col("finish_reason") == str(FinishReason.LENGTH)
    counts = predictions.group_by("model").agg(is_cut.sum().alias("cut"), pl.len())
    own = counts.filter(pl.col("cut") > 0, pl.col("model").is_in(list(limits))).sort(
        "cut", "model", descending=[True, False]
    )
    for model, cut, answers in own.head(MOST_CUT_MODELS).iter_rows():
        at = "its output limit" if limits[model] is None else f"max_output_tokens = {limits[model]}"
        higher = "set max_output_tokens higher" if limits[model] is None else "raise it"
        advice = f": {higher} in the manifest and `run` again, which asks only for the cut answers again"
        yield (
            f"{cut:,} of {plural(answers, 'answer')} of {model} {'was' if cut == 1 else 'were'} cut at {at}"
            f"{advice if cut >= MANY_CUT * answers else ''}"
        )
    if own.height > MOST_CUT_MODELS:
        yield f"so were answers of {plural(own.height - MOST_CUT_MODELS, 'more model')}"
