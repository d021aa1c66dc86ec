"""Named misfortunes, one at a time, at every provider; those of `misfortunes/` follow in the table (`table.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from layton_batch.providers import connect
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault
from tests.simulation.claims import broken_claims, reference
from tests.simulation.outages import Outage
from tests.simulation.world import ALONE, ITEMS, SEVEN, History, Plan, history
from tests.support.asked import asked_requests
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "misfortunes.md"
HOUR = 3600.0
WITHOUT_UPLOAD = frozenset({"anthropic"})
KEEPS_NOTHING = frozenset({"gemini"})
"""Where a batch that we cancel leaves no results, and costs nothing."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A misfortune of one provider's first batch of three questions; ``plan`` is given that provider's world.

    ``batches`` is how many batches the provider should end up with: 1, or 2 where rows must be sent again; ``again``
    names those of whom the latter is true alone. ``billed``: rows billed, ITEMS where each is once. ``uploads``: it can
    happen only where a batch file is uploaded.
    """

    name: str
    plan: Callable[[int], Plan]
    batches: int = 1
    again: frozenset[str] = frozenset()
    uploads: bool = False
    billed: int = ITEMS

    def applies(self, provider: str) -> bool:
        return not self.uploads or provider not in WITHOUT_UPLOAD

    def expected(self, provider: str) -> Outcome:
        return Outcome(2 if provider in self.again else self.batches, self.billed, 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario came to at one provider: batches created there, rows billed and rows lost, of ITEMS questions."""

    batches: int
    billed: int
    lost: int
    broken: tuple[str, ...] = ()


def provider_of(world: int) -> str:
    return SEVEN[world - ALONE]


def killed(phase: str) -> Callable[[int], Plan]:
    """The program killed when the provider's create was ``sent``, ``executed`` or ``answered``."""

    def plan(world: int) -> Plan:
        points = reference(world).points
        label = f"{'executed' if phase == 'answered' else phase}: {provider_of(world)} create"
        return Plan(world, stops=(points.index(label) + 1 + (phase == "answered"),))

    return plan


def killed_at(label: str) -> Callable[[int], Plan]:
    """The program killed at the first point whose name begins so; ``{}`` stands for the provider."""

    def plan(world: int) -> Plan:
        wanted = label.format(provider_of(world))
        points = reference(world).points
        return Plan(world, stops=(next(n for n, point in enumerate(points, 1) if point.startswith(wanted)),))

    return plan


def wrong(on: str, action: str, **details: object) -> Callable[[int], Plan]:
    """The provider does one thing wrong, once unless ``details`` say otherwise."""

    def plan(world: int) -> Plan:
        options = {"times": 1, **details}
        return Plan(world, faults=(Fault(on=on, action=action, provider=provider_of(world), **options),))  # type: ignore[arg-type]

    return plan


def also(plan: Callable[[int], Plan], **changes: object) -> Callable[[int], Plan]:
    return lambda world: replace(plan(world), **changes)  # type: ignore[arg-type]


def moved(jump: float) -> Callable[[int], Plan]:
    """Killed when the create was carried out; another machine, whose clock is set otherwise, goes on."""
    return also(killed("executed"), moving=True, jump=jump)


def two_programs(world: int) -> Plan:
    return Plan(world, programs=2, seed=world)


def late_create(seconds: float) -> Callable[[int], Plan]:
    """The create's connection breaks, and it is carried out all the same so much later."""
    return lambda world: Plan(world, late_create=seconds)


def killed_with_late_create(seconds: float) -> Callable[[int], Plan]:
    """The same, and the program is killed while the create is on its way and started again at once."""
    return lambda world: replace(killed("sent")(world), late_create=seconds, downtime=0.0)


def network_down(hours: float) -> Callable[[int], Plan]:
    """No call gets through for so long after the batch was made: its end, and the time to act on it, pass unseen."""

    def plan(world: int) -> Plan:
        at = reference(world).points.index(f"executed: {provider_of(world)} create") + 2
        return Plan(world, outages=(Outage(at, hours * HOUR),))

    return plan


def away_for_too_long(world: int) -> Plan:
    """The program is away between the batch's end and its download, for a day longer than results are kept as far as
    the documents say, and the first download fails."""
    name = provider_of(world)
    at = reference(world).points.index(f"sent: {name} results")
    away = connect(name, None).limits.retention_seconds + 24 * HOUR
    fault = Fault(on="results", action="status", provider=name, status=503, times=1)
    return Plan(world, stops=(at,), downtime=away, faults=(fault,))


def ends_too_soon(*also_wrong: Fault) -> Callable[[int], Plan]:
    """The results end at the end of a line, once, and nothing in the file shows it."""

    def plan(world: int) -> Plan:
        faults = (Fault(on="results", action="short", share=0.4, times=1), *also_wrong)
        return Plan(world, faults=tuple(replace(fault, provider=provider_of(world)) for fault in faults))

    return plan


def ends_too_soon_uncounted(world: int) -> Plan:
    """The same of a batch that expired, whose provider cannot be asked how many answers there are when they come."""
    name = provider_of(world)
    points = reference(world).points
    polls = points[: points.index(f"sent: {name} results")].count(f"sent: {name} poll")
    uncounted = Fault(on="poll", action="status", status=500, after=polls - 1, times=1)
    return ends_too_soon(Fault(on="batch", action="expire", share=0.7, times=1), uncounted)(world)


def refused_at_the_deadline(world: int) -> Plan:
    """Our deadline passes, the provider takes the cancel only when it is asked again."""
    name = provider_of(world)
    odd = Fault(on="batch", action="unknown_status", provider=name, times=1, name="pondering", seconds=1e9)
    refused = Fault(on="cancel", action="status", provider=name, times=1, status=409)
    return Plan(world, faults=(odd, refused), deadline_hours=2.0)


SCENARIOS: Sequence[Scenario] = (
    Scenario("nothing goes wrong", Plan),
    Scenario("killed while the create is on its way", killed("sent")),
    Scenario("killed when the create was carried out, before its reply", killed("executed")),
    Scenario("killed when the reply has come, before the id is kept", killed("answered")),
    Scenario("killed when the upload was carried out", killed_at("executed: {} upload"), uploads=True),
    Scenario("killed between download and tables", killed_at("remove batches/history/predict")),
    Scenario("killed between tables and commit", killed_at("renamed tables/usage/predict")),
    Scenario("create: reply lost", wrong("create", "drop_after")),
    Scenario("create: reply lost, new batches listed 45 s late", also(wrong("create", "drop_after"), list_lag=45.0)),
    Scenario("create: connection dropped before it was carried out", wrong("create", "drop")),
    Scenario("create: connection dropped, carried out 45 s later", late_create(45.0)),
    Scenario("create: connection dropped, carried out 300 s later", late_create(300.0)),
    Scenario("killed while the create is on its way, carried out 300 s later", killed_with_late_create(300.0)),
    Scenario(
        "killed while the create is on its way, carried out 300 s later, our clock put 12 minutes ahead meanwhile",
        also(killed_with_late_create(300.0), moving=True, jump=720.0),
    ),
    Scenario("create: HTTP 500", wrong("create", "status", status=500)),
    Scenario("create: carried out, the reply is a page of HTML", wrong("create", "not_json")),
    Scenario("create: 429, `retry-after` one hour", wrong("create", "status", status=429, retry_after=3600.0)),
    Scenario("create: 404, the file is not visible yet", wrong("create", "status", status=404)),
    Scenario("create: reply lost, clocks 45 s apart", also(wrong("create", "drop_after"), skew=45.0)),
    Scenario("create: reply lost, our clock 10 minutes ahead", also(wrong("create", "drop_after"), skew=-600.0)),
    Scenario("create: reply lost, our clock 10 minutes behind", also(wrong("create", "drop_after"), skew=600.0)),
    Scenario("create: reply lost, our clock 2 hours ahead", also(wrong("create", "drop_after"), skew=-7200.0)),
    Scenario("killed with the create carried out, goes on with a clock 10 minutes ahead", moved(600.0)),
    Scenario("upload: reply lost", wrong("upload", "drop_after"), uploads=True),
    Scenario("poll: 404 right after the create", wrong("poll", "status", status=404, times=2)),
    Scenario("an unknown status for ten minutes", wrong("batch", "unknown_status", name="pondering", seconds=600.0)),
    Scenario(
        "an unknown status until the deadline",
        also(wrong("batch", "unknown_status", name="pondering", seconds=1e9), deadline_hours=2.0),
        again=KEEPS_NOTHING,
    ),
    Scenario("our deadline passes, and the first cancel is refused", refused_at_the_deadline, again=KEEPS_NOTHING),
    Scenario("no network for 52 hours, longer than the deadline", network_down(52.0)),
    Scenario("away for a day longer than results are kept, and the first download fails", away_for_too_long),
    Scenario("results: cut at the end of a line", ends_too_soon()),
    Scenario(
        "results: cut at the end of a line, of a batch expired with two of three answers",
        ends_too_soon(Fault(on="batch", action="expire", share=0.7, times=1)),
        batches=2,
    ),
    Scenario(
        "results: cut at the end of a line, of a batch expired with two of three answers, and their number is not told",
        ends_too_soon_uncounted,
        batches=2,
    ),
    Scenario("results: cut off at 60 %", wrong("results", "cut", share=0.6)),
    Scenario("results: ten downloads refused in a row", wrong("results", "status", status=503, times=10)),
    Scenario("one row failed in passing", wrong("row", "error", status=500, match=r"-000002\b"), batches=2),
    Scenario("one row missing from the results", wrong("row", "missing", match=r"-000002\b"), batches=2),
    Scenario("one row answered twice", wrong("row", "duplicate", match=r"-000002\b")),
    Scenario("expired with two of three answers", wrong("batch", "expire", share=0.7), batches=2),
    Scenario("cancelled by the provider with one answer of three", wrong("batch", "cancel", share=0.4), batches=2),
    Scenario("failed as a whole", wrong("batch", "fail", kind="server_error", name="internal error"), batches=2),
    Scenario("two programs at once", two_programs),
)


Measured = Mapping[str, Mapping[str, Outcome]]
"""By scenario and provider; a scenario that cannot happen at a provider is left out there."""


def measure(scenarios: Sequence[Scenario]) -> Measured:
    """Every scenario at every provider."""
    return {one.name: {name: outcome(one, name) for name in SEVEN if one.applies(name)} for one in scenarios}


def outcome(scenario: Scenario, provider: str) -> Outcome:
    """Play it, hold every claim against it, and count what concerns the participant's three questions."""
    with history(scenario.plan(ALONE + SEVEN.index(provider))) as found:
        broken = tuple(broken_claims(found))
        asked = _asked(found)
        with open_store(found.folder, found.settings) as store:
            judging = {batch.provider_id for batch in store.batches() if batch.job_id.startswith("judge")}
        created = {batch.id for batch in found.providers.batches(provider)} - judging
        billed = sum(row.custom_id in asked for row in found.providers.ledger().rows)
        jobs = [job for job in found.status.jobs if job.role == "predict"] if found.status else []
        answered = sum(job.succeeded for job in jobs)
        return Outcome(len(created), billed, ITEMS - answered, broken)


def _asked(found: History) -> set[str]:
    """custom_ids of the participant's questions."""
    with open_store(found.folder, found.settings) as store:
        asked = asked_requests(store)
    return set(asked.filter(pl.col("role") == "predict")["custom_id"])


def markdown(measured: Measured) -> str:
    """The table: batches created / rows billed / rows lost, of three questions."""
    lines = [f"| scenario | {' | '.join(SEVEN)} |", f"|---{'|---' * len(SEVEN)}|"]
    for name, row in measured.items():
        lines.append(f"| {name} | {' | '.join(_cell(row.get(provider)) for provider in SEVEN)} |")
    return "\n".join(lines)


def is_on_the_page(measured: Measured) -> bool:
    """Whether the page has each of these rows, to the letter."""
    page = PAGE.read_text(encoding="utf-8").splitlines()
    return all(row in page for row in markdown(measured).splitlines())


def _cell(one: Outcome | None) -> str:
    return "–" if one is None else f"{one.batches} / {one.billed} / {one.lost}"
