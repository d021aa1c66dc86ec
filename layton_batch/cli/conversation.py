"""Conversation of paying commands with a person at a terminal: questions, progress, and the outcome of `run`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

import typer

from layton_batch.cli.progress import reporter
from layton_batch.cli.terminal import say
from layton_batch.commands.driving import Conversation, Progress
from layton_batch.errors import NotAgreedError
from layton_batch.reports.run_result import RunResult, failure_lines, trouble_lines
from layton_batch.runs.context import Run
from layton_batch.runs.folders import shown_path
from layton_batch.runs.status import RunState
from layton_batch.scoring.verdict_counts import lacking_told
from layton_batch.states import FinishReason
from layton_batch.text import one_line, plural

MOST_CUT_MODELS = 5
"""Most models whose cut answers are told at the end of `run`."""


class TerminalConversation(Conversation):
    """A conversation on a terminal, or in a log if there is none. ``with_board``: print the board also before the end
    of a run."""

    def __init__(self, *, is_quiet: bool = False, with_board: bool = True) -> None:
        super().__init__()
        self.is_quiet = is_quiet
        self._with_board = with_board
        self.has_told_outcome = False

    def ask(self, question: str, refusal: str) -> None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            super().ask(question, refusal)
        if not typer.confirm(f"{question} Send them?", err=True):
            raise NotAgreedError("nothing was sent")

    def reporting(self, run: Run) -> AbstractContextManager[Progress | None]:
        return reporter(run, quiet=self.is_quiet)

    def end(self, run: Run, result: RunResult) -> None:
        """Print the board of the complete models, the total of the bill, what is wrong, and one next step."""
        if not self.is_quiet:
            is_done = result.status.state is RunState.DONE
            if is_done or (self._with_board and run.folder.part("leaderboard", "leaderboard").exists()):
                _print_board(run)
            if is_done:
                _print_gaps(run, result)
                say(f"site: {shown_path(run.folder.site / 'index.html')}")
            else:
                result.show_status(run.clock.now())
            say(one_line(f"next: {_next_step(run, result)}"))
            self.has_told_outcome = True
        for line in trouble_lines(result.trouble):
            say(line)


def _print_board(run: Run) -> None:
    """Print the board, what a reader has to know of it, and the total of the bill."""
    from layton_batch.batches.run_costs import cost_report
    from layton_batch.reports.cost_document import total_line
    from layton_batch.reports.leaderboard_tables import Leaderboard
    from layton_batch.stages.rank import reader_notes, shown_board

    Leaderboard(shown_board(run)).show()
    for line in reader_notes(run):
        say(line)
    say(total_line(cost_report({run.folder: run.store})))


def _print_gaps(run: Run, result: RunResult) -> None:
    """Print which answers and verdicts are missing, and which were cut."""
    if result.unanswered:
        say(f"{plural(result.unanswered, 'request')} without an answer")
    failures, verdicts = failure_lines(result.status.jobs, result.words), lacking_told(result.judges)
    for line in (*failures, *verdicts, *_cut_answers(run)):
        say(one_line(line))


def _next_step(run: Run, result: RunResult) -> str:
    """Return the next step of a person: what the status asks for, else labels that help most, else a look."""
    if result.status.state is RunState.DONE and not result.unanswered:
        from layton_batch.files import tables

        if (need := tables.read(run.folder.tables, "label_need")).height:
            return f"{_gain(*need.row(0))}: layton-batch label {result.source}"
    return result.next_steps[0]


def _gain(labels: int, now: float | None, then: float) -> str:
    """Say what a number of labels does for the intervals. ``now``, ``then``: mean half widths in points; ``now`` is
    None where no answer has a label."""
    from layton_batch.scoring.label_plan import AS_SHORT

    number = plural(labels, "label")
    if now is None:
        return f"No answer has a label that counts yet; {number} would give intervals for new items of ±{then:.1f}"
    if now <= AS_SHORT * then:
        limit = f"Only more items make the intervals for new items (±{now:.1f} on average) much shorter"
        return f"{limit}; {number} would help a little"
    gain = f"{number} would bring the intervals for new items from ±{now:.1f} to ±{then:.1f} on average"
    return f"{gain}, and only more items make them shorter"


def _cut_answers(run: Run) -> Iterator[str]:
    """Yield how many answers of each of the run's own models the output limit cut, the most first, and what to do."""
    import polars as pl

    from layton_batch.files import tables

    own = [spec.name for spec in run.manifest.model_specs()]
    predictions = tables.read(run.folder.tables, "predictions", ["model", "finish_reason"])
    is_cut = pl.col("finish_reason") == str(FinishReason.LENGTH)
    counts = predictions.filter(pl.col("model").is_in(own)).group_by("model").agg(is_cut.sum().alias("cut"), pl.len())
    shown = counts.filter(pl.col("cut") > 0).sort("cut", "model", descending=[True, False])
    for model, cut, answers in shown.head(MOST_CUT_MODELS).iter_rows():
        yield (
            f"{cut:,} of {plural(answers, 'answer')} of {model} cut at the output limit: raise max_output_tokens in "
            "the manifest and `run` again, which asks only for the cut answers again"
        )
    if shown.height > MOST_CUT_MODELS:
        yield f"so were answers of {plural(shown.height - MOST_CUT_MODELS, 'more model')}"
