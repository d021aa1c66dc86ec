"""State of a run, with its tables: the document of ``status``, ``run`` and ``judge``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from layton_batch.clock import SystemClock
from layton_batch.columns import text_table
from layton_batch.errors import DataError, FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.reports.document import Document
from layton_batch.reports.status_tables import Words, next_steps, print_status, status_json
from layton_batch.reports.table import as_html, say_line
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import reserves_expected, run_source
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.scoring.verdict_counts import VerdictCounts, known_counts
from layton_batch.store.run_store import RunStore
from layton_batch.text import did_you_mean

CALL_AGAIN, NEEDS_PERSON, UNANSWERED = 75, 4, 5
CODES = {RunState.RUNNING: CALL_AGAIN, RunState.NEEDS_PERSON: NEEDS_PERSON, RunState.OVER_BUDGET: 3,
         RunState.CANCELLED: 0}  # fmt: skip
"""Exit codes of a run that is not done."""

if TYPE_CHECKING:
    import polars as pl

    from layton_batch.reports.leaderboard_tables import Leaderboard


def exit_code(status: Status) -> int:
    """Return the exit code of `run`: 0 done, 75 not finished, 3 budget, 4 a person must decide, 5 done with gaps."""
    if status.state is RunState.DONE:
        return UNANSWERED if status.unanswered else 0
    return CODES[status.state]


def trouble_lines(trouble: Mapping[str, str]) -> list[str]:
    """Return what a person has to do about the run's tables."""
    return [f"{subject} was left as it is: {reason}" for subject, reason in trouble.items()]


@dataclass(frozen=True, slots=True)
class RunResult(Document):
    """Status of a run, and its tables in ``folder``.

    ``words``: what providers said of failed requests. ``without_results``: batches whose answers came, and whose raw
    results are gone. ``source``: the run's name or path in commands. ``judges``: how the verdicts ended that are in the
    tables.
    """

    status: Status
    folder: Path
    words: Words
    without_results: Sequence[str]
    source: str
    reserves_expected: bool
    judges: Sequence[VerdictCounts]
    trouble: Mapping[str, str] = field(default_factory=dict)
    """Step that a person has to take, by table."""

    @classmethod
    def read(
        cls,
        folder: RunFolder,
        store: RunStore,
        status: Status | None = None,
        trouble: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Read where a run stands now, or at ``status``."""
        status = status or read_status(store)
        return cls(
            status,
            folder.root,
            failure_words(folder, status),
            [batch for batch in store.answered_batches() if not folder.batch(batch).raw_results],
            run_source(folder),
            reserves_expected(folder),
            known_counts(folder.tables),
            trouble,
        )

    def end(self) -> int:
        return FileError.exit_code if self.trouble else self.state_code()

    def state_code(self) -> int:
        """Return the exit code for the run's state."""
        return exit_code(self.status)

    @property
    def name(self) -> str:
        return self.status.run

    @property
    def state(self) -> str:
        """Return running, done, needs_person, over_budget or cancelled."""
        return str(self.status.state)

    @property
    def reason(self) -> str | None:
        """Return why the run cannot continue."""
        return self.status.reason

    @property
    def spent_usd(self) -> Decimal:
        return self.status.spent_usd

    @property
    def unanswered(self) -> int:
        return self.status.unanswered

    @property
    def leaderboard(self) -> Leaderboard:
        from layton_batch.reports.leaderboard_tables import Leaderboard  # loads polars, which a status need not

        return Leaderboard(self.table("leaderboard"))

    @property
    def predictions(self) -> pl.DataFrame:
        return self.table("predictions")

    @property
    def verdicts(self) -> pl.DataFrame:
        return self.table("verdicts")

    @property
    def cost(self) -> pl.DataFrame:
        return self.table("cost")

    def table(self, name: str) -> pl.DataFrame:
        """Read any table of the run; no rows if the table does not exist yet. Raises DataError for another name."""
        from layton_batch.files import tables  # loads polars
        from layton_batch.files.table_columns import SCHEMAS

        if name not in SCHEMAS:
            raise DataError(
                f"there is no table {name!r}{did_you_mean(str(name), SCHEMAS)} (tables: {', '.join(SCHEMAS)})"
            )
        return tables.read(self.folder / "tables", name)

    def show(self) -> None:
        print_status(self.status, SystemClock().now(), self.words, self.without_results, self.judges)
        for step in next_steps(self.status, self.source, reserves_expected=self.reserves_expected):
            say_line(step)

    def as_json(self) -> dict[str, object]:
        return status_json(
            self.status,
            self.words,
            self.without_results,
            self.source,
            self.judges,
            reserves_expected=self.reserves_expected,
        )

    def _repr_html_(self) -> str:
        spent = f"{self.name}: {self.state}, ${self.spent_usd:f} spent"
        reason = "" if self.reason is None else f": {self.reason}"
        return as_html(text_table(spent + reason, (), ())) + self.leaderboard._repr_html_()
