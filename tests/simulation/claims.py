"""What must hold after every history, whatever happened in it."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal

import polars as pl

from layton_batch.batches.unknown_costs import CREATE_WITHOUT_ANSWER
from layton_batch.clock import Pacing
from layton_batch.files import tables
from layton_batch.runs.status import RunState
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import BilledRow, Fault
from layton_batch.store.run_store import RunStore
from tests.simulation.edit_claims import by_what_is_asked, never_billed, prints, without_names
from tests.simulation.edits import Asks
from tests.simulation.in_process import connected
from tests.simulation.interruptions import is_temporary
from tests.simulation.world import SEVEN, History, Plan, history
from tests.support.asked import asked_requests, ends_by_batch

VARYING = ("batch_id", "attempt")
COMPARED = ("items", "requests", "predictions", "verdicts", "scores", "leaderboard")
WINDOW_SECONDS = 86_400.0
"""Of every provider here: how long a batch may take."""
UNUSABLE = frozenset({"malformed_text", "truncated"})
"""Row faults whose reply is of no use: bought again where the manifest opts in."""
BOUGHT_AGAIN = frozenset({"malformed_line"})
"""Row faults after which a person may buy a row again: it was executed, and what came back cannot be read."""


def broken_claims(found: History) -> list[str]:
    """Every claim that does not hold, in words; empty for a history as it should be."""
    with connected(found.providers):  # whoever looks at a provider has it carry out what is due
        broken = _broken_claims(found)
    return [*broken, *(f"the sandbox failed: {mistake}" for mistake in found.providers.mistakes.told)]


def _broken_claims(found: History) -> list[str]:
    if found.failure is not None:
        return [f"the program ended with {found.failure}"]
    assert found.status is not None
    if found.cancelled:
        return list(_cancelled_well(found))
    broken = [*_went_on(found), *_was_done_in_time(found), *found.troubles.broken()]
    _let_all_end(found)
    for one in found.runs:
        broken += _ended_well(one)
    broken += _paid_once(found)
    broken += _money_agrees_together(found) if found.plan.neighbour else _money_agrees(found)
    with ExitStack() as stack:
        stores = [stack.enter_context(open_store(one.folder, one.settings)) for one in found.runs]
        for store in stores:
            broken += _rows_conserved(store)
        broken += _providers_hold_nothing_else(found, *stores)
    for one in found.runs:
        broken += _nothing_left_over(one)
    return broken if broken else [claim for one in found.runs for claim in _same_tables(one)]


def _money_agrees_together(found: History) -> Iterator[str]:
    """What two runs of a workspace say they spent together = what the providers billed."""
    spent = sum((one.status.spent_usd for one in found.runs if one.status), Decimal(0))
    billed = sum((row.usd or Decimal(0) for row in found.providers.ledger().rows), Decimal(0))
    if spent != billed:
        yield f"the runs say ${spent} together, the providers billed ${billed}"


def _cancelled_well(found: History) -> Iterator[str]:
    """Nothing goes on, what was answered is kept and accounted for, and nothing was paid twice."""
    status = found.status
    assert status is not None
    if status.state is not RunState.CANCELLED:
        yield f"the cancelled run is {status.state}"
    for provider in SEVEN:
        yield from (
            f"{provider} still runs {batch.id}"
            for batch in found.providers.batches(provider)
            if batch.outcome is None and batch.id not in found.providers.hidden
        )
    _let_all_end(found)
    if status.reserved_usd != 0:
        yield f"${status.reserved_usd} are still set aside"
    for job in status.jobs:
        if job.planned and job.waiting:
            yield f"job {job.id}: {job.waiting} requests have no outcome"
    yield from (
        f"{question} was billed {times} times"
        for question, times in _times_billed(found).items()
        if times > _most(found.plan, question)
    )
    yield from _bought_again_by_itself(found)
    with open_store(found.folder, found.settings) as store:
        yield from _rows_conserved(store)
        yield from _providers_hold_nothing_else(found, store)
    yield from _money_agrees(found, ("usage",))
    yield from _nothing_left_over(found)


def _went_on(found: History) -> Iterator[str]:
    """However our clock is set, a run that has something to do asks its providers within two hours."""
    plan = found.plan
    is_stopped = plan.stops or plan.outages or plan.freezes or plan.retry_at is not None
    if plan.moves and not is_stopped and found.silence > 7_200.0:
        yield f"no call was made for {found.silence:.0f} s"


def _was_done_in_time(found: History) -> Iterator[str]:
    """Liveness: when nothing is wrong any more, a run is done within the window of its providers, after the day that it
    waits for results of which no row has come."""
    waits = Pacing().late_results if any(fault.action == "missing" for fault in found.plan.faults) else 0.0
    if found.plan.swarm.kinds and (seconds := found.ended_at - found.disturbed_at) > WINDOW_SECONDS + waits:
        yield f"the run was done {seconds / 3600:.1f} hours after the last trouble"


def _let_all_end(found: History) -> None:
    """Whatever the providers still have, calls on their way too, is carried out and billed, known to the run or not."""
    for _ in range(2):  # a create that comes late makes a batch that takes its time
        found.clock.sleep(86_400.0)
        for provider in SEVEN:
            found.providers.batches(provider)
    assert not found.providers.waiting


def _ended_well(found: History) -> Iterator[str]:
    status = found.status
    assert status is not None
    if status.state is not RunState.DONE:
        lost = [f"{batch.id} {batch.state}: {batch.reason}" for batch in status.batches if batch.state != "collected"]
        yield f"the run is {status.state}, not done ({status.reason}); {lost}"
    if status.reserved_usd != 0:
        yield f"${status.reserved_usd} are still set aside"
    for job in status.jobs:
        ends = job.succeeded + job.errored + job.expired + job.cancelled + job.missing
        if ends + job.waiting != job.requests or job.waiting:
            yield f"job {job.id}: {job.requests} requests, {ends} ends, {job.waiting} waiting"
        if job.unanswered:
            yield f"job {job.id}: {job.unanswered} requests have no answer"


def _paid_once(found: History) -> Iterator[str]:
    times, right = _times_billed(found), what_is_right(found.plan)
    if found.plan.edits:
        wanted = frozenset(times)  # what an edit took back may have been asked before
        yield from () if _doubled(found.plan) else never_billed(found, right.prints)
    else:
        wanted = right.questions
    for question in sorted(wanted | set(times)):
        if not 1 <= times[question] <= _most(found.plan, question) or question not in wanted:
            yield f"{question} was billed {times[question]} times"
    yield from _bought_again_by_itself(found)


def _bought_again_by_itself(found: History) -> Iterator[str]:
    """What was billed more often than the program may do unasked; before the first `retry`, where there is one."""
    billed = found.by_itself
    times = _times_billed(found) if billed is None else Counter(map(_naming(found), billed))
    for name, count in times.items():
        if count > _most(found.plan, name, by_a_person=False):
            yield f"{name} was billed {count} times before a person asked for it"


def _times_billed(found: History) -> Counter[str]:
    return Counter(map(_naming(found), (row.custom_id for row in _rows(found, denied=False))))


def _naming(found: History) -> Callable[[str], str]:
    """What a request is called here: where a manifest was edited one name for all requests that ask the same."""
    return by_what_is_asked(found, question) if found.plan.edits else question


def _rows(found: History, *, denied: bool) -> list[BilledRow]:
    """What was billed for batches that their provider denied and that are not ours in the end, or for all others."""
    with open_store(found.folder, found.settings) as store:
        unknown = found.providers.hidden - {batch.provider_id for batch in store.batches()}
    return [row for row in found.providers.ledger().rows if (row.batch_id in unknown) is denied]


def _denied_is_counted(found: History) -> Iterator[str]:
    """A batch is sent by itself twice at most, and so is what a person's `retry` sends in its place; what both may have
    cost is told where one of them stays unknown."""
    by_hand = found.by_itself is not None
    for name, times in Counter(_names_billed(found)).items():
        if times > max(2, _most(found.plan, name) + 1) + by_hand:
            yield f"{name} was billed {times} times, with what its provider denies"
    denied = sum((row.usd or Decimal(0) for row in _rows(found, denied=True)), Decimal(0))
    if denied > _in_doubt(found):
        yield f"${denied} were billed for batches that were denied, ${_in_doubt(found)} are told to be in doubt"


def _names_billed(found: History) -> Iterator[str]:
    return map(_naming(found), (row.custom_id for row in found.providers.ledger().rows))


def _in_doubt(found: History) -> Decimal:
    """The most that creates without an answer can have cost, by the table that tells of what cannot be told."""
    rows = tables.read(found.folder.tables, "untold", ("why", "bound_usd")).iter_rows()
    return sum((Decimal(usd) for why, usd in rows if why == CREATE_WITHOUT_ANSWER), Decimal(0))


def question(custom_id: str) -> str:
    """Job and number of a request, without what tells the runs of one manifest apart."""
    return "-".join(custom_id.split("-")[1:3])


def _most(plan: Plan, custom_id: str, *, by_a_person: bool = True) -> int:
    """How often a question may be billed, with what a person's `retry` has sent again or without."""
    again = UNUSABLE if plan.reask else frozenset()
    useless = sum(fault.action in again and bool(re.search(fault.match, custom_id)) for fault in plan.faults)
    return 1 + useless + (by_a_person and _damaged(plan.faults, custom_id))


def _damaged(faults: tuple[Fault, ...], custom_id: str, provider: str | None = None) -> bool:
    """Whether a fault damages lines of this request; of two jobs' requests of one number, only one provider's."""
    return any(
        fault.action in BOUGHT_AGAIN
        and re.search(fault.match, custom_id)
        and (provider is None or fault.provider in ("*", provider))
        for fault in faults
    )


def _rows_conserved(store: RunStore) -> Iterator[str]:
    """Requests of every batch = its outcomes."""
    ends = ends_by_batch(store)
    for batch in store.batches():
        known = sum(count for (outcome, _), count in ends[batch.id].items() if outcome is not None)
        if known != batch.requests:
            yield f"batch {batch.id}: {batch.requests} requests, {known} outcomes"


def _money_agrees(found: History, parts: Sequence[str] = ("usage", "cost")) -> Iterator[str]:
    """What the run says it spent = what the providers billed, less what came back unreadable, and says so."""
    assert found.status is not None
    yield from _denied_is_counted(found)
    rows = _rows(found, denied=False)
    billed = sum((row.usd or Decimal(0) for row in rows), Decimal(0))
    unreadable = _unreadable(found, rows)
    if found.status.spent_usd != billed - unreadable:
        yield f"the run says ${found.status.spent_usd}, the providers billed ${billed} (${unreadable} unreadable)"
    untold = found.status.unknown_cost_usd - _in_doubt(found)
    if untold < unreadable or (untold and not found.plan.faults and not found.plan.outages):
        yield f"the run says that up to ${untold} more cannot be told, ${unreadable} came back unreadable"
    for table in parts:
        costs = tables.read(found.folder.tables, table)["cost_usd"]
        total = sum((Decimal(cost) for cost in costs), Decimal(0))
        if total != found.status.spent_usd:
            yield f"tables/{table} adds up to ${total}, the run to ${found.status.spent_usd}"


def _unreadable(found: History, rows: Sequence[BilledRow]) -> Decimal:
    """What rows cost whose lines could not be read: all bills of such a row but the last, if that one was answered."""
    answered = set(tables.read(found.folder.tables, "usage", ("custom_id",))["custom_id"])
    bills: dict[str, list[Decimal]] = {}
    for row in rows:
        if _damaged(found.plan.faults, row.custom_id, row.provider):
            bills.setdefault(row.custom_id, []).append(row.usd or Decimal(0))
    return sum((sum(usd[: -1 if name in answered else None], Decimal(0)) for name, usd in bills.items()), Decimal(0))


def _providers_hold_nothing_else(found: History, *stores: RunStore) -> Iterator[str]:
    """Every batch there is one of ours, or was one that a person gave up; and no file was uploaded twice."""
    ours = frozenset[str]().union(*(store.provider_ids() for store in stores))
    # an edit may have hidden some
    entered = [batch for store in stores for job in store.all_jobs() for batch in store.job_batches(job.id)]
    for provider in SEVEN:
        theirs = {batch.id for batch in found.providers.batches(provider)}
        if strangers := theirs - ours - found.providers.hidden:
            yield f"{provider} has batches the run does not know: {sorted(strangers)}"
        mine = sum(batch.provider == provider for batch in entered)
        mine *= 1 + found.troubles.surroundings.switches  # each account needs the file
        again = len(found.plan.freezes)  # a driver may be frozen between its look for the file and its free upload
        if provider != "anthropic" and found.providers.uploads(provider) > mine + again:
            yield f"{provider} has {found.providers.uploads(provider)} files for {mine} batches"
    if foreign := ours & found.providers.foreign:
        yield f"the run has batches of a stranger: {sorted(foreign)}"
    batches = [batch for store in stores for batch in store.batches()]
    known = [name for name in (batch.provider_id for batch in batches) if name is not None]
    if len(known) != len(set(known)):
        yield f"one batch at a provider stands for two of ours: {sorted(known)}"


def _nothing_left_over(found: History) -> Iterator[str]:
    if found.plan.moving:
        return  # another machine cannot know that nobody writes them any more
    folders = (found.folder.root, found.folder.batches)
    left = [path for root in folders for path in root.rglob("*") if is_temporary(path.relative_to(root))]
    if left:
        yield f"temporary files are left: {sorted(found.course.name(path) for path in left)}"


def _same_tables(found: History) -> Iterator[str]:
    """Row for row what the undisturbed run has, but for which batch and attempt a row came from.

    Where a provider answers a row twice in other words, the first answer counts and its words may be the others.
    What a `retry` brings goes before the jury after the rest, under other numbers; so does what a neighbour brings.
    """
    late, edited = found.by_itself is not None or found.plan.neighbour, bool(found.plan.edits)
    ignored = [*(("custom_id", "shard_id") if late else ())]
    if _doubled(found.plan):
        ignored += ["raw_text", "note", *(("fingerprint",) if edited else ())]
    if edited or found.plan.neighbour:
        ignored.append("max_cost")  # of two that ask the same either is the one that pays
    wanted = what_is_right(found.plan).tables
    for name in COMPARED:
        tables_of = [table.drop(ignored, strict=False) for table in (content(found, name), wanted[name])]
        if edited:
            models = {shown for _, shown in found.plan.edits[-1].asks.models}
            tables_of[0] = _asked_still(found, tables_of[0])
            tables_of = [without_names(table, name, models) for table in tables_of]
        one, other = [table.sort(table.columns) if late else table for table in tables_of]
        if not one.equals(other):
            yield f"tables/{name} differs from the undisturbed run's"


def _asked_still(found: History, table: pl.DataFrame) -> pl.DataFrame:
    """Without the rows of jobs that a revision retired: they keep the names of their time."""
    if "job_id" not in table.columns:
        return table
    with open_store(found.folder, found.settings) as store:
        retired = [job.id for job in store.all_jobs() if job.retired]
    return table.filter(~pl.col("job_id").is_in(retired))


def _doubled(plan: Plan) -> bool:
    return any(fault.action == "duplicate" for fault in plan.faults)


def content(found: History, name: str) -> pl.DataFrame:
    """A table but for what depends on when the run began and how often it was stopped."""
    if name == "requests":
        with open_store(found.folder, found.settings) as store:
            read = asked_requests(store)
    else:
        read = tables.read(found.folder.tables, name)
    read = read.drop(VARYING, strict=False)
    if "custom_id" not in read.columns:
        return read
    return read.with_columns(pl.col("custom_id").map_elements(question, return_dtype=pl.String))


class Reference:
    """What the undisturbed run of a world leaves behind."""

    def __init__(self, found: History) -> None:
        assert found.failure is None, found.failure
        self.questions = frozenset(_times_billed(found))
        self.prints = frozenset(prints(found).values())
        self.tables = {name: content(found, name) for name in COMPARED}
        self.points = tuple(found.course.points)
        self.spent = found.status.spent_usd if found.status else Decimal(0)


@functools.cache
def reference(world: int) -> Reference:
    with history(Plan(world)) as found:
        return Reference(found)


def what_is_right(plan: Plan) -> Reference:
    """What the undisturbed run of a plan's last manifest leaves behind."""
    return _reference_of(plan.world, plan.edits[-1].asks) if plan.edits else reference(plan.world)


@functools.lru_cache(64)
def _reference_of(world: int, asks: Asks) -> Reference:
    with history(Plan(world, asks=asks)) as found:
        return Reference(found)
