"""Status of a run on every surface: its tables, the sentences on what a person has to know, and the next steps.

``RunResult`` is the document of ``status``, ``run``, ``judge`` and ``cancel``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from layton_batch.clock import SystemClock, iso, utc
from layton_batch.columns import DATA, Column, OutputForm, Table, Texts, text_table
from layton_batch.costs.prices import near_model
from layton_batch.errors import DataError, FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.reports.table import Document, as_html, console, say_line, show
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import run_source
from layton_batch.runs.imported import FROM_FILE, is_imported
from layton_batch.runs.status import (
    OUTCOMES,
    JobStatus,
    ProviderTrouble,
    RunState,
    Status,
    failing_batches,
    place,
    read_status,
    waits_for_a_person,
)
from layton_batch.scoring.verdict_counts import VerdictCounts, known_counts, lacking_told
from layton_batch.states import OPEN, ErrorClass, Lifecycle, Role
from layton_batch.store.rows import reserve
from layton_batch.store.run_store import RunStore
from layton_batch.text import NONE, decimal_text, did_you_mean, duration, first_of, money, one_line, plural

if TYPE_CHECKING:
    import polars as pl

    from layton_batch.reports.leaderboard_tables import Leaderboard

PROGRAMS, ON_BOTH = DATA, DATA | {OutputForm.TERMINAL}
LONGEST_WORDS, LONGEST_TROUBLE = 200, 500
SHOWN_BATCHES = 12
"""Open batches that have a line of their own, those that a person has to see to first."""


def job_json(job: JobStatus, words: Sequence[tuple[str, int]]) -> dict[str, object]:
    """Return a job in the form of ``status --json``. ``words``: what its provider said of failed requests."""
    names = ("id", "role", "provider", "model", "requests", *OUTCOMES, "planned", "graded")
    messages = [{"message": text, "responses": count} for text, count in words]
    return {name: getattr(job, name) for name in names} | {
        "errors": dict(job.errors), "where": dict(job.where), "words": messages,
    }  # fmt: skip


def batches_table(
    batches: Sequence[Batch], now: float = 0.0, expected_ends: Mapping[str, float] = MappingProxyType({})
) -> Table[Batch]:
    """A row a batch. People read at ``now`` (epoch seconds) how old it is, how long ago its provider told of it, in
    what time it is asked next and has to be over; programs read the moments."""

    def moment(
        name: str,
        at: Callable[[Batch], float | None],
        words: str = "",
        text: Callable[[Batch], str] | None = None,
    ) -> Column[Batch]:
        surfaces = ON_BOTH if words else PROGRAMS
        return Column(name, words, value=lambda batch: moment_text(at(batch)), text=text, surfaces=surfaces)

    return Table(
        (
            Column("id", "batch", is_text=True, surfaces=ON_BOTH),
            Column("job", value=lambda batch: batch.job_id, surfaces=PROGRAMS),
            Column("provider", surfaces=PROGRAMS),
            Column("state", value=lambda batch: str(Lifecycle.LOST if waits_for_a_person(batch) else batch.state),
                   text=lambda batch: str(batch.state), is_text=True, surfaces=ON_BOTH),
            Column("outcome", value=lambda batch: str(batch.outcome) if batch.outcome else None, surfaces=PROGRAMS),
            Column("provider_id", "at the provider", is_text=True, surfaces=ON_BOTH),
            *(Column(name, surfaces=PROGRAMS) for name in ("provider_status", "requests", "attempt")),
            Column("parent", value=lambda batch: batch.parent_id, surfaces=PROGRAMS),
            Column("reason", value=lambda batch: batch.reason or batch.cause, surfaces=PROGRAMS),
            moment("submitted_at", lambda batch: batch.submitted_at, "age",
                   lambda batch: _since(batch.submitted_at or batch.submitting_at, now)),
            moment("read_at", lambda batch: batch.read_at, "read", lambda batch: _since(batch.read_at, now)),
            moment("next_at", lambda batch: batch.due_at or None if batch.state in OPEN else None, "next",
                   lambda batch: _until(batch.due_at if batch.state is not Lifecycle.LOST else None, now)),
            moment("deadline_at", lambda batch: batch.deadline_at if batch.state in OPEN else None, "deadline",
                   lambda batch: _until(batch.deadline_at, now)),
            moment("expected_end", lambda batch: expected_ends.get(batch.id)),
            moment("ended_at", lambda batch: batch.ended_at),
            Column("set_aside_usd", "set aside",
                   value=lambda batch: decimal_text(reserve(batch.state, batch.max_cost)),
                   text=lambda batch: money(reserve(batch.state, batch.max_cost)), surfaces=ON_BOTH),
        ),
        batches,
    )  # fmt: skip


def moment_text(seconds: float | None) -> str | None:
    """Return epoch seconds as RFC 3339 in UTC."""
    return None if seconds is None else iso(seconds)


def trouble_line(trouble: ProviderTrouble) -> str:
    """Return a provider's trouble as one line: how many requests wait, since when, and its own sentence."""
    since = "" if trouble.since is None else f" since {utc(trouble.since):%Y-%m-%d %H:%M} UTC"
    then = "a person is needed" if trouble.needs_person else f"next try {utc(trouble.next_try):%H:%M:%S} UTC"
    waiting = plural(trouble.requests, "request waits", "requests wait")
    return one_line(f"{trouble.provider}: {waiting}{since}; {then}: {trouble.message}"[:LONGEST_TROUBLE])


def trouble_json(trouble: ProviderTrouble) -> dict[str, object]:
    """Return a provider's trouble in the form of ``status --json``."""
    moments = {"since": moment_text(trouble.since), "next_try": moment_text(trouble.next_try)}
    return {name: getattr(trouble, name) for name in ("provider", "message", "requests", "needs_person")} | moments


def most_urgent(batches: Sequence[Batch], count: int) -> list[Batch]:
    """Return ``count`` open batches that a provider has or may have: lost batches first, then by age."""
    still_open = [batch for batch in batches if batch.state in OPEN]
    sent = [batch for batch in still_open if place(batch.state, is_uploaded=bool(batch.input_ref)) != "planned"]
    return sorted(sent, key=lambda batch: (batch.state is not Lifecycle.LOST, batch.submitting_at or batch.due_at))[
        :count
    ]


def failure_lines(jobs: Sequence[JobStatus], words: Mapping[str, Sequence[tuple[str, int]]]) -> Iterator[str]:
    """Yield how the requests of each job with failures ended, and what the provider said."""
    for job in jobs:
        if job.unanswered:
            yield f"no answer {job.id}: {_account(job)}"
        for text, count in words.get(job.id, ()):
            yield f"  {job.provider} said ({count:,}): {text[:LONGEST_WORDS]}"


def _account(job: JobStatus) -> str:
    """``186 requests = 180 succeeded + 4 errored (rate_limited 4) + 2 expired``: every request, by how it ended."""
    errors = ", ".join(f"{why} {count:,}" for why, count in job.errors.items())
    parts = [
        f"{count:,} {name}" + (f" ({errors})" if name == "errored" else "")
        for name in OUTCOMES
        if (count := getattr(job, name))
    ]
    return f"{plural(job.requests, 'request')} = {' + '.join(parts)}"


def batch_lines(status: Status) -> Iterator[str]:
    """Yield the reasons of open batches, and of those that wait for a person, each once. ``trouble_line`` tells what a
    provider does not take, ``failure_lines`` what it refused, and the run's own reason why the budget holds its first
    batch back; the others are counted."""
    failing_ids = {batch.id for failing in failing_batches(status.batches).values() for batch, _ in failing}
    held = {batch.id for batch in status.batches if _is_held_by_budget(batch, status)}
    alike: dict[str, list[Batch]] = defaultdict(list)
    for batch in status.batches:
        if batch.reason and batch.id not in failing_ids | held and (batch.state in OPEN or batch.needs_person):
            alike[f"{'waits for a person: ' if batch.needs_person else ''}{batch.reason}"].append(batch)
    for reason, batches in alike.items():
        more = f" and {len(batches) - 1:,} more" if len(batches) > 1 else ""
        yield f"{batches[0].state} {batches[0].id}{more}: {reason}"
    yield from filter(None, map(_creates, status.batches))
    if len(held) > 1:
        batches_held = plural(len(held) - 1, "more batch", "more batches")
        yield f"the budget holds {batches_held} back: `layton-batch status RUN --json` names each"


def _creates(batch: Batch) -> str | None:
    """Say of which creates of the batch nobody knows whether they were billed."""
    if not (number := batch.creates_of_unknown_cost):
        return None
    creates = plural(number, "create of it was", "creates of it were")
    reason = f"{creates} given up, and may have been billed: at most {money(batch.creates_usd)}"
    if extra := batch.extra_batches:
        reason += f"; {batch.provider} made {plural(extra, 'batch', 'batches')} of them"
    return f"{batch.state} {batch.id}: {reason}"


def _is_held_by_budget(batch: Batch, status: Status) -> bool:
    is_stopped = status.state is RunState.OVER_BUDGET and bool(status.reason)
    return is_stopped and batch.state is Lifecycle.PLANNED and not batch.needs_person


def money_line(status: Status) -> str:
    """Summarize known spending and reserve, and name what may be missing."""
    parts = [f"spent {money(status.spent_usd)}"]
    if status.reserved_usd:
        parts.append(f"set aside {money(status.reserved_usd)}")
    if status.unknown_cost_usd:
        parts.append(f"upper bound for requests whose cost is unknown: {money(status.unknown_cost_usd)}")
    if above := status.above_bounds_usd:
        parts.append(f"{money(above)} above the bounds that were set aside")
    if status.unpriced_models:
        parts.append(f"not counted: {plural(status.unpriced_models, 'model')} without a known price")
    return "; ".join(parts)


def jobs_table(jobs: Sequence[JobStatus]) -> Table[Texts]:
    """Jobs added up by stage and provider: a run has one line per provider and role, however many models.

    Columns of requests: where those without an outcome are, then how the others ended.
    """
    groups: dict[tuple[str, str], list[JobStatus]] = {}
    for job in jobs:
        groups.setdefault((job.role, job.provider), []).append(job)
    rows = [(*group, str(len(mine)), *map(_figure, _sums(mine))) for group, mine in groups.items()]
    unplanned = sum(not job.planned for job in jobs)
    awaited = sum(job.waiting for job in jobs if job.planned)
    why = f"{plural(awaited, 'answer')} still to come" if awaited else "the next step plans what is judged"
    notes = (f"{plural(unplanned, 'job')} not planned yet: {why}",) if unplanned else ()
    names = ("stage", "provider", "jobs", "requests", "planned", "uploaded", "at\nprovider", "answered", "no\nanswer")
    return replace(text_table("", names, rows, text=2), notes=notes)


def _sums(jobs: Sequence[JobStatus]) -> tuple[int, ...]:
    def at(*places: str) -> int:
        return sum(job.where.get(name, 0) for job in jobs for name in places)

    ends = (sum(job.succeeded for job in jobs), sum(job.unanswered for job in jobs))
    return sum(job.requests for job in jobs), at("planned"), at("uploaded"), at("at_provider", "ended", "lost"), *ends


def _figure(count: int) -> str:
    return f"{count:,}" if count else NONE


def _since(moment: float | None, now: float) -> str:
    return NONE if not moment else duration(now - moment)


def _until(moment: float | None, now: float) -> str:
    return NONE if not moment else "now" if moment <= now else duration(moment - now)


def expectation(status: Status, now: float) -> str | None:
    if not status.expected_ends:
        return None
    last = max(status.expected_ends.values())
    if last <= now:
        return "What is at the providers takes longer than half of the batches before it took."
    moment = f"{utc(last):%Y-%m-%d %H:%M}"
    return f"What is at the providers is expected to end by {moment} UTC, as half of the batches before it did."


def no_price(names: Sequence[str]) -> str:
    """Say that models, each as ``provider model``, get no requests for want of a price, and what to do."""
    near = next(filter(None, (near_model(*name.split(" ", 1)) for name in names)), "")
    return (
        f"There is a budget, and no price is known for {', '.join(names)}: nothing is sent to it{near or '.'} Check "
        "the model's id; if it is right, add [[prices]] for it to the manifest, or take [budget] out"
    )


def next_steps(status: Status, run_source: str = "") -> list[str]:
    """Return the next steps for a person, a sentence each with its command.

    ``run_source``: the run's name or path in the commands; empty: its name.
    """
    run = one_line(run_source or status.run)
    steps = [
        f"Look for {batch.id} at {batch.provider}, then: layton-batch resolve {run} {batch.id} "
        "--adopt ID (it is there), --not-made (it is not), or --give-up (nobody can tell)"
        for batch in status.batches
        if batch.state is Lifecycle.LOST
    ][:3]
    if any(batch.state is Lifecycle.COLLECTED and batch.needs_person for batch in status.batches):
        steps.append(
            f"`layton-batch retry {run}` and then `run` ask again for what was cancelled; "
            f"`layton-batch cancel {run}` ends the run without it."
        )
    providers = _providers_with_trouble(status)
    match status.state:
        case RunState.NEEDS_PERSON | RunState.RUNNING if (
            providers or status.state is RunState.NEEDS_PERSON
        ) and not steps:
            steps.append(f"See to {', '.join(providers) or 'what the reason names'}, then run the same command again.")
        case RunState.OVER_BUDGET if unpriced := _unpriced(status):
            steps.append(f"{no_price(unpriced)}; then run the same command again.")
        case RunState.OVER_BUDGET:
            steps.append(
                "The budget stopped it. Raise [budget] max_usd (or --max-usd), lower max_output_tokens of the models, "
                "or reserve less with bound and safety of [budget]; then run the same command again."
            )
        case RunState.CANCELLED:
            steps.append(
                "The run is cancelled. Every answer that was received is kept. "
                f"`layton-batch retry {run}` and then `run` continue it, and pay for the remaining requests."
            )
        case RunState.RUNNING:
            steps.append("The run is not finished. The same command continues it.")
        case RunState.DONE:
            steps += _steps_after_end(status, run)
    return steps


def _providers_with_trouble(status: Status) -> Collection[str]:
    """Return the providers with batches or trouble that a person has to see to."""
    waiting = [batch.provider for batch in status.batches if batch.needs_person and batch.state in OPEN]
    return dict.fromkeys([trouble.provider for trouble in status.troubles if trouble.needs_person] + waiting)


def _steps_after_end(status: Status, run: str) -> Iterator[str]:
    """Yield the next steps of a run that is done. ``run``: its name or folder."""
    if status.unanswered:
        yield from _corrections(status)
        if missing := missing_in_files(status):
            yield f"{missing}."
        if unanswered := sum(job.unanswered - _refused(job) for job in provider_jobs(status)):
            requests = plural(unanswered, "request")
            yield f"{requests} without an answer: `layton-batch retry {run}` gives them one more attempt."
    elif any(job.role == Role.PREDICT for job in status.jobs):
        yield f"Done. See `layton-batch leaderboard {run}`, or open site/index.html in the run's folder."
    else:
        yield "Done. The run has no model: add [[models]] to its manifest, then run the same command again."


def missing_in_files(status: Status) -> str | None:
    """Say which answers no imported file has, and what to do; None where files have all."""
    files = {
        batch.job_id: (batch.reason or "").removeprefix(FROM_FILE) for batch in status.batches if is_imported(batch)
    }
    jobs = [job for job in status.jobs if job.id in files and job.unanswered]
    if not jobs:
        return None
    count = sum(job.unanswered for job in jobs)
    models = first_of(dict.fromkeys(job.model for job in jobs))
    names = first_of(dict.fromkeys(files[job.id] for job in jobs))
    return (
        f"{plural(count, 'answer is', 'answers are')} missing in {names} ({models}) and counted as wrong; nobody is "
        "asked for answers of a file. Fill them in there and give the same `judge` or `import` command again"
    )


def provider_jobs(status: Status) -> list[JobStatus]:
    """Return the jobs whose answers came from a provider, not from a file."""
    imported = {batch.job_id for batch in status.batches if is_imported(batch)}
    return [job for job in status.jobs if job.id not in imported]


def _refused(job: JobStatus) -> int:
    """Return the number of requests that the provider refuses however often they are sent."""
    return job.errors.get(ErrorClass.INVALID_REQUEST, 0)


def _corrections(status: Status) -> Iterator[str]:
    """Yield what to correct in the manifest for models whose requests their provider refused."""
    refused: dict[tuple[str, str, str], int] = {}
    for job in provider_jobs(status):
        if count := _refused(job):
            key = "[[models]]" if job.role == Role.PREDICT else "[[jury.judges]] or the panel file"
            about = (job.provider, job.model, key)
            refused[about] = refused.get(about, 0) + count
    for (provider, model, key), count in refused.items():
        yield one_line(
            f"{provider} refused {plural(count, 'request')} of {model}, and would refuse the same again. Correct "
            f"{model!r} in {key} of the manifest by what {provider} said, then `layton-batch run` it again."
        )


def _unpriced(status: Status) -> list[str]:
    """The models of batches that the budget holds back since nobody knows a price."""
    held = [batch for batch in status.batches if batch.state is Lifecycle.PLANNED and batch.max_cost is None]
    return list(dict.fromkeys(one_line(f"{batch.provider} {batch.model}") for batch in held))


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
    answers came, and whose raw results are gone. ``source``: the run's name or path in commands. ``judges``: how the
    verdicts ended that are in the tables. ``trouble``: step that a person has to take, by table. ``code``: the exit
    code, if it is not that of `run`.
    """

    status: Status
    folder: Path = Path()
    words: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    without_results: Sequence[str] = ()
    source: str = ""
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
        return next_steps(self.status, self.source)

    def show(self) -> None:
        self.show_status(SystemClock().now())
        for step in self.next_steps:
            say_line(step)

    def show_status(self, now: float) -> None:
        """Print jobs, open batches and what went wrong. ``now``: epoch seconds."""
        from rich.text import Text

        status = self.status
        words = self.state.replace("_", " ")
        if status.state is RunState.RUNNING and _providers_with_trouble(status):
            words += ", and a person is needed"
        state = (words, _STYLES.get(status.state, "yellow"))
        console().print(Text.assemble((one_line(status.run), "bold"), "  ", state, "  ", money_line(status)))
        if status.reason:
            say_line(status.reason, "yellow")
        show(jobs_table(status.jobs))
        if sent := most_urgent(status.batches, SHOWN_BATCHES):
            console().print()
            show(batches_table(sent, now), gap=1)
            if (more := sum(batch.state in OPEN for batch in status.batches) - len(sent)) > 0:
                open_batches = plural(more, "more open batch", "more open batches")
                say_line(f"{open_batches}: `layton-batch status {one_line(self.source or status.run)} --json`", "dim")
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
