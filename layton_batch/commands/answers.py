"""answers, verdicts: what a run's models and judges said, as tables."""

from __future__ import annotations

import polars as pl

from layton_batch.commands.parameters import OneRun, Runs
from layton_batch.commands.status import status


def answers(run: OneRun = None, *, runs: Runs = None) -> pl.DataFrame:
    """Return the models' answers in a run, a row each. ``run``: None: the only one."""
    return status(run, runs=runs).predictions


def verdicts(run: OneRun = None, *, runs: Runs = None) -> pl.DataFrame:
    """Return the judges' verdicts in a run, a row each. ``run``: None: the only one."""
    return status(run, runs=runs).verdicts
