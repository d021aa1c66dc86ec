"""Conversation of paying commands with a person at a terminal: progress, questions, and what is said at the end."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

import typer

from layton_batch.cli.endings import print_outcome, say_trouble
from layton_batch.cli.progress import reporter
from layton_batch.commands.consent import AgreementQuestion
from layton_batch.commands.driving import Conversation, Progress
from layton_batch.errors import NotAgreedError
from layton_batch.runs.context import Run
from layton_batch.runs.status import Status


class TerminalConversation(Conversation):
    """A conversation on a terminal, or in a log if there is none. ``with_board``: print the board also before the end
    of a run."""

    def __init__(self, *, is_quiet: bool, with_board: bool = True) -> None:
        super().__init__()
        self.is_quiet = is_quiet
        self._with_board = with_board
        self.has_told_outcome = False

    def ask(self, question: AgreementQuestion) -> None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            super().ask(question)
        if not typer.confirm(f"{question.text} Send them?", err=True):
            raise NotAgreedError("nothing was sent")

    def reporting(self, run: Run) -> AbstractContextManager[Progress | None]:
        return reporter(run, quiet=self.is_quiet)

    def end(self, run: Run, status: Status) -> None:
        if not self.is_quiet:
            print_outcome(run, status, with_board=self._with_board)
            self.has_told_outcome = True
        say_trouble(run)
