"""State of a run, with its tables: the document of ``status``, ``run``, ``judge`` and ``cancel``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from layton_batch.clock import SystemClock
from layton_batch.columns import text_table
from layton_batch.errors import DataError, FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.reports.document import Document
from layton_batch.reports.next_steps import next_steps
from layton_batch.reports.status_tables import (
    SHOWN_BATCHES,
    batch_lines,
    batches_table,
    expectation,
    failure_lines,
    job_json,
    jobs_table,
    moment_text,
    money_line,
    most_urgent,
    trouble_json,
    trouble_line,
)
from layton_batch.reports.table import as_html, console, say_line, show
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import reserves_expected, run_source
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.scoring.verdict_counts import VerdictCounts, known_counts, lacking_told
from layton_batch.states import OPEN
from layton_batch.store.run_store import RunStore
from layton_batch.text import decimal_text, did_you_mean, one_line, plural

if TYPE_CHECKING:
    import polars as pl

    from layton_batch.reports.leaderboard_tables import Leaderboard

CALL_AGAIN, NEEDS_PERSON, UNANSWERED = 75, 4, 5
CODES = {RunState.RUNNING: CALL_AGAIN, RunState.NEEDS_PERSON: NEEDS_PERSON, RunState.OVER_BUDGET: 3,
         RunState.CANCELLED: 0}  # fmt: skip
"""Exit codes of a run that is not done."""
_STYLES = {RunState.DONE: "green", RunState.RUNNING: "cyan"}


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

    ``words``: by job, what its provider said of failed requests, and how often. ``without_results``: batches whose
    answers came, and whose raw results are gone. ``source``: the run's name or path in commands.
    ``reserves_expected``: ``[budget] bound`` is ``expected``. ``judges``: how the verdicts ended that are in the
    tables. ``trouble``: step that a person has to take, by table. ``code``: the exit code, if it is not that of `run`.
    """

    status: Status
    folder: Path = Path()
    words: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    without_results: Sequence[str] = ()
    source: str = ""
    reserves_expected: bool = False
    judges: Sequence[VerdictCounts] = ()
    trouble: Mapping[str, str] = field(default_factory=dict)
    code: int | None = None

    @classmethod
    def read(
        cls,
        folder: RunFolder,
        store: RunStore,
        status: Status | None = None,
        trouble: Mapping[str, str] = MappingProxyType({}),
    ) -> RunResult:
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
        if self.trouble:
            return FileError.exit_code
        return exit_code(self.status) if self.code is None else self.code

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

    # ---- tables ------------------------------------------------------------------------------------------------------

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

    # ---- surfaces ----------------------------------------------------------------------------------------------------

    @property
    def next_steps(self) -> list[str]:
        """Return the next steps of a person, a sentence each with its command."""
        return next_steps(self.status, self.source, reserves_expected=self.reserves_expected)

    def show(self) -> None:
        self.show_status(SystemClock().now())
        for step in self.next_steps:
            say_line(step)

    def show_status(self, now: float) -> None:
        """Print jobs, open batches and what went wrong. ``now``: epoch seconds."""
        from rich.text import Text

        status = self.status
        state = (self.state.replace("_", " "), _STYLES.get(status.state, "yellow"))
        console().print(Text.assemble((one_line(status.run), "bold"), "  ", state, "  ", money_line(status)))
        if status.reason:
            say_line(status.reason, "yellow")
        show(jobs_table(status.jobs))
        if sent := most_urgent(status.batches, SHOWN_BATCHES):
            console().print()
            show(batches_table(sent, now), gap=1)
            if (more := sum(batch.state in OPEN for batch in status.batches) - len(sent)) > 0:
                open_batches = plural(more, "more open batch", "more open batches")
                say_line(f"{open_batches}: `layton-batch status RUN --json`", "dim")
        for line in (*failure_lines(status.jobs, self.words), *lacking_told(self.judges), *batch_lines(status)):
            say_line(line, "yellow")
        if self.without_results:
            batches = plural(len(self.without_results), "batch", "batches")
            say_line(
                f"The raw results of {batches} are gone, such as {self.without_results[0]}: tables that are damaged "
                "cannot be made again from them. Put *.jsonl.zst back into the batch's folder from a copy.",
                "yellow",
            )
        for trouble in status.troubles:
            say_line(trouble_line(trouble), "yellow")
        if expected := expectation(status, now):
            say_line(expected)

    def as_json(self) -> dict[str, object]:
        """Return the form of ``status --json``; dollars are exact decimal text, moments are RFC 3339 in UTC."""
        status = self.status
        amounts = ("spent_usd", "reserved_usd", "unknown_cost_usd", "above_bounds_usd")
        return {
            "run": status.run,
            "state": self.state,
            "reason": status.reason,
            **{name: decimal_text(getattr(status, name)) for name in amounts},
            "complete": status.complete,
            "expected_end": moment_text(max(status.expected_ends.values(), default=None)),
            "next_steps": self.next_steps,
            "jobs": [job_json(job, self.words.get(job.id, ())) for job in status.jobs],
            "judges": [judge.document() for judge in self.judges],
            "troubles": [trouble_json(trouble) for trouble in status.troubles],
            "batches_without_raw_results": list(self.without_results),
            "batches": batches_table(status.batches, expected_ends=status.expected_ends).records(),
        }

    def _repr_html_(self) -> str:
        spent = f"{self.name}: {self.state}, ${self.spent_usd:f} spent"
        reason = "" if self.reason is None else f": {self.reason}"
        return as_html(text_table(spent + reason, (), ())) + self.leaderboard._repr_html_()
