"""Counts of a plan: what the jobs of a run would send now, and what judges may be asked later.

What is planned stands in rows and batch files. Requests that cannot be planned yet are counted here: a judge's about
answers that are there go through the same request planner, those about answers that are not there yet are bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

from layton_batch.batches.answers import final_responses, locate_responses, response_from
from layton_batch.batches.batch_file import RequestCosts, files_needed
from layton_batch.costs.estimate import bound_cost, bundled_priors, output_bound
from layton_batch.errors import DamagedTableError
from layton_batch.files.items import digest
from layton_batch.providers.protocol import Limits
from layton_batch.records import Batch, Job, Prediction
from layton_batch.runs.context import Run
from layton_batch.runs.requests import DIGITS, RequestKind, RequestPlanner, custom_id, custom_id_prefix
from layton_batch.stages.ask import judge_prompts
from layton_batch.stages.costs import JobCosts, JudgeRequests, allowance, total
from layton_batch.stages.prompts import asked_items, candidates, open_turns
from layton_batch.states import AnswerState, ErrorClass, Lifecycle, PredictionKind, Role
from layton_batch.store.request_rows import KnownRequest
from layton_batch.tasks.protocol import juried

DIFFERING = Decimal("0.06")
"""Share of answers on which two judges are expected to differ, so that a third is asked: 2.5 % (text) and 5.6 %
(visual) of the published verdicts."""
EARLIER, PRIORS = "earlier runs", "priors"
"""Sources of the tokens of an expected cost."""
_SENT = frozenset({AnswerState.SENT, AnswerState.ANSWERED, AnswerState.UNCERTAIN})


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job as it would be: its requests, those of them that were asked already (``answered``, or about to be), in how
    many files the others are sent, what they will probably cost, by whose tokens (``EARLIER`` or ``PRIORS``), and the
    most they can cost (None: price unknown). Files and size of a judge's job are the most they can be as well.
    ``judged_again``: requests to send about items on which the judge gave a verdict before."""

    job: Job
    requests: int
    shards: int
    size_bytes: int
    max_usd: Decimal | None
    price_note: str
    too_large: int = 0
    answered: int = 0
    retired: int = 0
    judged_again: int = 0
    expected_usd: Decimal | None = None
    expected_from: str = PRIORS

    @property
    def to_send(self) -> int:
        """Return the number of requests without a known answer, except those that are too large to be sent."""
        return self.requests - self.answered - self.too_large


@dataclass(frozen=True)
class PastState:
    """A run before it is planned. ``retired``: its retired requests; ``batches``: its batches; ``jobs``: those of the
    revision before; ``answered``: how many answers each job has; ``same_items``: whether its items are those of now."""

    retired: Mapping[str, frozenset[str]]
    batches: frozenset[str]
    jobs: Sequence[Job]
    answered: Mapping[str, int]
    same_items: bool

    @classmethod
    def of(cls, run: Run) -> PastState:
        """Read the state of a run."""
        jobs, row = run.store.all_jobs(), run.store.row()
        answered: Counter[str] = Counter()
        for count in run.store.count_requests():
            answered[count.job_id] += count.number if count.state is AnswerState.ANSWERED else 0
        requests = {job.id: run.store.known_requests(job.id) for job in jobs}
        return cls(
            {
                job_id: frozenset(request.custom_id for request in known_requests if request.retired)
                for job_id, known_requests in requests.items()
            },
            frozenset(batch.id for batch in run.store.batches()),
            [job for job in jobs if not job.retired],
            answered,
            row.items == digest(run.load_items()),
        )


@dataclass
class _LaterRequests:
    """Requests of a judge's job that cannot be planned yet. ``answers``: those that some of them have, or wait for;
    ``too_large``: how many are larger than the provider takes. Of the others: their ``items``, the bytes of each line,
    and costs. ``wanted_ids``: the earlier requests of the job that are still wanted (None: all that are not retired).
    """

    answers: list[bytes] = field(default_factory=list)
    too_large: int = 0
    items: set[str] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)
    costs: list[RequestCosts] = field(default_factory=list)
    wanted_ids: Collection[str] | None = None

    def add(self, item_id: str, size: int, cost: RequestCosts) -> None:
        """Add a request that is to be sent."""
        self.items.add(item_id)
        self.sizes.append(size)
        self.costs.append(cost)

    def wanted(self, known_requests: Sequence[KnownRequest]) -> list[KnownRequest]:
        """Return those of the job's ``known_requests`` that are still wanted."""
        if self.wanted_ids is None:
            return [request for request in known_requests if not request.retired]
        return [request for request in known_requests if request.custom_id in self.wanted_ids]


def count_jobs(run: Run, before: PastState) -> list[PlannedJob]:
    """Count what the run's jobs would send now. Models whose answers came from a file send nothing."""
    jobs, participants = run.store.jobs(), {spec.name for spec in run.manifest.model_specs()}
    judges = JudgeRequests(juried(run.task), run.items) if run.task.uses_jury else None
    later = _LaterCounter(run, {job.id: job for job in jobs if job.role is Role.PREDICT}, judges)
    return [
        _planned_job(run, job, before, later.of(job))
        for job in jobs
        if job.role is not Role.PREDICT or job.spec.name in participants
    ]


def _longest_line(limits: Limits) -> int:
    return min(limits.max_line_bytes, limits.max_bytes) - 1


@dataclass
class _LaterCounter:
    """Counts the requests of judges that cannot be planned yet. ``participants``: by job; ``judges``: measures judges'
    requests; ``to_ask``: the answers that are counted, each once over all jobs."""

    run: Run
    participants: Mapping[str, Job]
    judges: JudgeRequests | None
    to_ask: set[bytes] = field(default_factory=set)

    def of(self, job: Job) -> _LaterRequests:
        """Count those of one job."""
        run, later = self.run, _LaterRequests()
        judged = self.participants.get(str(job.depends_on))
        rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
        waits_for = judged if rejudged is None else self.participants.get(str(rejudged.own))
        answered: set[str] | None = None
        if waits_for is not None and not waits_for.graded:
            answered = set()
            self._add_planned(job, self._answers_so_far(waits_for, answered), later)
        if judged is not None and self.judges is not None and (answered is not None or run.manifest.in_turn):
            self._add_unknown(job, judged, self.judges, answered, later)
        return later

    def _answers_so_far(self, judged: Job, answered: set[str]) -> Iterator[Prediction]:
        """Yield the answers that are there of a job of whose answers some are not, and add their items to ``answered``.
        Damaged ones are not counted."""
        with suppress(DamagedTableError):
            for row in final_responses(locate_responses(self.run, judged.id, only_answers=True)):
                item = self.run.by_id.get(str(row["item_id"]))
                if item is None:
                    continue
                parsed = self.run.task.parse(item, judged.spec.name, response_from(row))
                if parsed.kind is PredictionKind.ANSWERED:
                    answered.add(item.id)
                    yield Prediction(item.id, parsed.model, parsed.kind, parsed.answer, parsed.justification)

    def _add_planned(self, job: Job, answers: Iterable[Prediction], later: _LaterRequests) -> None:
        """Plan the job's requests about the answers that are there, without entering them."""
        run = self.run
        provider, costs = run.providers.dialect(job.spec.provider), JobCosts(run, job)
        earlier, prefix = run.store.known_requests(job.id), custom_id_prefix(run.mark, job.id)
        planner = RequestPlanner(provider, prefix, earlier, run.paid_answers, to_ask=self.to_ask)
        for request in planner.plan(judge_prompts(run, job, candidates(run, job, answers))):
            if request.status is None:
                continue  # the job has it
            if request.kind is not RequestKind.TO_ASK:
                later.answers.append(request.status.answer)
            elif len(request.line) > _longest_line(provider.limits):
                later.too_large += 1
            else:
                later.add(request.item_id, len(request.line), costs.of(request.spec, request.size))
        later.wanted_ids = planner.still_wanted

    def _add_unknown(
        self, job: Job, judged: Job, judges: JudgeRequests, answered: Collection[str] | None, later: _LaterRequests
    ) -> None:
        """Bound the requests about answers that nobody knows yet, each as long as it may get. ``answered``: the items
        with an answer, if some answers of the judged model are not there."""
        run = self.run
        provider, costs = run.providers.dialect(job.spec.provider), JobCosts(run, job)
        price, longest = run.prices.price(job.spec.provider, job.spec.model), _longest_line(provider.limits)
        tokens = run.past_usage.mean(Role.PREDICT, judged.spec)
        known_items, is_asked = self._known_items(job, judged, answered, later), asked_items(run, job)
        name = custom_id(custom_id_prefix(run.mark, job.id), 1, bytes(DIGITS))
        for item, request in zip(run.items, judges.about(job.spec, provider, name), strict=True):
            if item.id in known_items:
                continue
            if request.size > longest:
                later.too_large += 1
                continue
            written = allowance(request.item_bytes, output_bound(judged.spec), tokens.longest if tokens else None)
            read = request.expected_input + bundled_priors().text[Role.PREDICT] * request.growth
            expected = costs.expected(job.spec, read)
            if expected is not None and not is_asked(item.id):
                expected *= DIFFERING
            most = bound_cost(request.most_tokens(written), price) if price else None
            later.add(item.id, min(request.longest_line(written), longest), RequestCosts(most, expected))

    def _known_items(self, job: Job, judged: Job, answered: Collection[str] | None, later: _LaterRequests) -> set[str]:
        """Return the items of which is known whether the judge is asked about them."""
        store = self.run.store
        replied = {
            request.item_id
            for request in store.known_requests(judged.id)
            if not request.retired and request.state is AnswerState.ANSWERED
        }
        requested = {request.item_id for request in later.wanted(store.known_requests(job.id))} | later.items
        return replied - (open_turns(self.run, job, answered) - requested)


def _planned_job(run: Run, job: Job, before: PastState, later: _LaterRequests) -> PlannedJob:
    """Count what a job's planned batches hold, and the ``later`` requests beside it."""
    batches, limits = run.store.job_batches(job.id), run.providers.dialect(job.spec.provider).limits
    unsent = [batch for batch in batches if batch.state is Lifecycle.PLANNED]
    too_large = later.too_large + sum(
        batch.requests
        for batch in batches
        if batch.id not in before.batches and batch.error_class is ErrorClass.TOO_LARGE
    )
    known_requests = run.store.known_requests(job.id)
    wanted = later.wanted(known_requests)
    names = {request.custom_id for request in wanted}
    bounds = {name: usd for batch in unsent for name, usd in run.store.asked_of(batch.id).items() if name in names}
    to_ask = later.items | {request.item_id for request in wanted if request.custom_id in bounds}
    requests = len(wanted) + len(later.answers) + later.too_large + len(later.sizes)
    gone = {request.custom_id for request in known_requests} - names - before.retired.get(job.id, frozenset())
    price = run.prices.price(job.spec.provider, job.spec.model)
    return PlannedJob(
        job=job,
        requests=requests,
        shards=len(unsent) + files_needed(later.sizes, limits),
        size_bytes=sum(batch.size_bytes for batch in unsent) + sum(later.sizes) + len(later.sizes),
        max_usd=total([*bounds.values(), *(cost.most for cost in later.costs)]),
        price_note=f"{price.source}, {price.as_of}" if price else "unknown",
        too_large=too_large,
        answered=max(requests - len(bounds) - len(later.sizes) - too_large, 0),
        retired=len(gone),
        judged_again=0 if job.role is Role.PREDICT else _judged_again(known_requests, wanted, later.answers, to_ask),
        expected_usd=_expected(unsent, later) if price else None,
        expected_from=EARLIER if JobCosts(run, job).is_earlier else PRIORS,
    )


def _expected(unsent: Sequence[Batch], later: _LaterRequests) -> Decimal | None:
    return total([*(batch.expected_usd for batch in unsent), *(cost.expected for cost in later.costs)])


def _judged_again(
    known_requests: Sequence[KnownRequest],
    wanted: Sequence[KnownRequest],
    later: Collection[bytes],
    to_ask: Collection[str],
) -> int:
    """Count the items to ask a judge about on which it gave a verdict before. A verdict that is used for another item,
    because its question moved to another id, is not given again."""
    used = {request.answer for request in wanted if request.state is not AnswerState.PLANNED}.union(later)
    judged = {request.item_id for request in known_requests if request.state in _SENT and request.answer not in used}
    return len(judged.intersection(to_ask))
