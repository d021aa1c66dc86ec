"""What a job asks that nobody has or asks for: its requests by fingerprint, in batch files.

``ask`` goes through all that the manifest has a job ask: new requests are entered, those that are not wanted any more
are retired, and what is to be asked for the first time is written on the way. ``ask_wanted`` writes what is to be asked
once more: the rest of a batch that ended without some answers, a person's retry, replies that could not be used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.attempts import Attempts
from layton_batch.batches.batch_file import BatchFiles
from layton_batch.batches.cancel import withdraw
from layton_batch.batches.cost_tables import bill_under_name
from layton_batch.batches.machine import pause_before_next
from layton_batch.batches.names import custom_id_prefix, tag
from layton_batch.costs.estimate import CostBounds, output_bound
from layton_batch.errors import ManifestError
from layton_batch.providers.protocol import Provider
from layton_batch.providers.request_line import request_line
from layton_batch.records import Batch, Content, Job, ModelSpec, Request, Shard
from layton_batch.runs.context import Run
from layton_batch.runs.fingerprints import fingerprint_bytes
from layton_batch.runs.paid_answers import AnswerStatus, PaidAnswers, report_out_of_reach
from layton_batch.runs.prompt_cache import SizedPrompt
from layton_batch.stages.candidates import candidates
from layton_batch.states import AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store.request_rows import KnownRequest, NewRequests
from layton_batch.tasks import has_one_limit, with_room
from layton_batch.tasks.protocol import juried

LOOKED_UP = 500
"""The number of answers that are looked up at a time."""


def ask(run: Run, job: Job, mark: str) -> bool:
    """Enter what the job asks by now, and batches for what it is to ask for the first time. Return True."""
    known, paid = run.store.known_requests(job.id), run.paid_answers
    provider, names = run.providers.dialect(job.spec.provider), _BatchNames(run, job)
    with BatchFiles(provider.limits, run.folder.workspace.root, names.file_of(1), names.next_shard) as files:
        asking = _RequestPlanner(run, job, mark, known, paid, provider, files)
        asking.go_through(_prompts(run, job))
    _reach(run, job, paid, known)
    batches = [names.batch(shard, asking.contents[shard.id], _AttemptOrigin()) for shard in files.shards]
    if asking.too_large:
        batches.append(names.never_sent(asking.too_large))
    if known:
        # before the job counts as planned: a stop between these would leave a batch to be sent that nobody wants
        run.store.retire(job.id, [request.custom_id for request in known if request.custom_id not in asking.kept])
        _withdraw_unwanted(run, job)
        bill_under_name(run, job)
    run.store.plan_job(job, batches, run.clock.now(), asking.new(), asking.kept)
    waited_for = {
        request.run_id for request in known if request.custom_id in asking.kept and request.state is AnswerState.SENT
    }
    _say_who_asks(run, job, asking.others | waited_for)
    return True


def ask_wanted(run: Run, job: Job) -> bool:
    """Enter batches for what the job is to ask, beside what it asks for the first time; True where there is any."""
    if not (wanted := run.store.requests_to_ask(job.id)):
        return False
    names = _BatchNames(run, job)
    prompts = {item_id: prompt for item_id, _, prompt in _prompts(run, job, {request.item_id for request in wanted})}
    groups: dict[tuple[str | None, int], list[KnownRequest]] = {}
    for request in wanted:
        parent = request.batch_id if request.run_id == run.id and request.batch_id in names.known else None
        if request.item_id in prompts:
            groups.setdefault((parent, request.reask), []).append(request)
    if unknown_requests := {request.custom_id for request in wanted if request.item_id not in prompts}:
        run.store.retire(job.id, unknown_requests)  # nobody can say any more what they asked
    if not all(_is_asked_still(run, job, request, prompts[request.item_id]) for request in chain(*groups.values())):
        run.store.ask_anew(job.id)  # nothing is bought under the name of another question
        return True
    batches: list[Batch] = []
    for (parent_id, reask), rows in groups.items():
        batches += _further_batches(run, job, names, parent_id, reask, rows, prompts)
    if batches:
        run.store.add_batches(job, batches, run.clock.now())
    return bool(batches or unknown_requests)


def _is_asked_still(run: Run, job: Job, request: KnownRequest, sized: SizedPrompt) -> bool:
    """Return whether a request would ask now what it asked before."""
    spec = spec_of(run, job, request.item_id)
    encoded = Request(request.custom_id, request.item_id, spec, sized.prompt)
    line = request_line(run.providers.dialect(spec.provider), encoded)
    digest = fingerprint_bytes(spec.provider, spec.model, line, request.custom_id, spec.sample)
    return request.fingerprint is None or request.fingerprint in set(run.paid_answers.all_prints(digest))


def _further_batches(
    run: Run,
    job: Job,
    names: _BatchNames,
    parent_id: str | None,
    reask: int,
    rows: Sequence[KnownRequest],
    prompts: Mapping[str, SizedPrompt],
) -> list[Batch]:
    """Write requests that come from one batch, or from other jobs' (``parent_id`` is None), to files of their own."""
    provider, costs = run.providers.dialect(job.spec.provider), CostBounds(run.prices)
    origin = _AttemptOrigin.of(run, names, parent_id, reask, len(rows))
    limits = replace(provider.limits, max_requests=min(provider.limits.max_requests, origin.most_requests))
    contents: dict[str, _BatchContent] = {}
    too_large = _BatchContent()
    with BatchFiles(limits, run.folder.workspace.root, names.file_of(origin.attempt), names.next_shard) as files:
        for row in rows:
            spec, sized = spec_of(run, job, row.item_id, row.doublings), prompts[row.item_id]
            line = request_line(provider, Request(row.custom_id, row.item_id, spec, sized.prompt))
            max_cost = costs.most(spec, sized.size)
            shard = files.add(line, max_cost)
            if shard is None:
                too_large.add(row.custom_id, row.answer, None)
            else:
                contents.setdefault(shard, _BatchContent()).add(row.custom_id, row.answer, max_cost)
    batches = [names.batch(shard, contents[shard.id], origin) for shard in files.shards]
    return [*batches, names.never_sent(too_large)] if too_large.custom_ids else batches


@dataclass(frozen=True, slots=True)
class _AttemptOrigin:
    """What is said of batches that ask for what was asked before, and how many requests each may have at most."""

    attempt: int = 1
    parent_id: str | None = None
    reask: int = 0
    cause: str | None = None
    due_at: float = 0.0
    most_requests: int = 0

    @classmethod
    def of(cls, run: Run, names: _BatchNames, parent_id: str | None, reask: int, count: int) -> _AttemptOrigin:
        if parent_id is None:
            cause = f"{count} answers that others asked for and did not get"
            return cls(reask=reask, cause=cause, most_requests=count)
        parent = names.known[parent_id]
        attempts = Attempts.of(parent, list(names.known.values()))
        if reask > parent.reask:
            cause = f"{count} replies of {parent.id} could not be used; the manifest opts in to asking again"
            return cls(parent.attempt + 1, parent_id, reask, cause, most_requests=count)
        if attempts.is_split:
            return cls(parent.attempt, parent_id, reask, "half of a batch too large", most_requests=(count + 1) // 2)
        cause = f"{count} of {parent.requests} requests of attempt {parent.attempt} got no answer"
        by_itself = attempts.are_left(run.manifest.policy.attempts)
        pause = pause_before_next(parent, attempts.turned_away, run.pacing) if by_itself else 0.0
        return cls(parent.attempt + 1, parent_id, reask, cause, run.clock.now() + pause, count)


def _reach(run: Run, job: Job, paid: PaidAnswers, known: Sequence[KnownRequest]) -> None:
    """Have requests whose answers cannot be had here ask for answers of the run's own; once, an event says so."""
    away = {
        request.custom_id: paid.own(request.fingerprint)
        for request in known
        if request.fingerprint is not None and paid.is_away(request.state, request.run_id)
    }
    if away:
        run.store.rebind(job.id, away)
    report_out_of_reach(paid, run.clock.now())


def _say_who_asks(run: Run, job: Job, runs: Collection[str | None]) -> None:
    """Say in an event, once, which other runs ask now for answers that the job wants."""
    others = frozenset(run_id for run_id in runs if run_id is not None) - {run.id}
    if others and run.waited_for.get(job.id) != others:
        run.waited_for[job.id] = others
        names = ", ".join(sorted(others))
        detail = f"{job.id}: run {names} asks for some of its answers now; they are waited for, and cost nothing here"
        run.store.add_event(run.clock.now(), None, "waits_for_run", detail)


def _withdraw_unwanted(run: Run, job: Job) -> None:
    """Batches that were not sent yet, and hold what nobody asks for any more, are not sent: the rest of their requests
    goes in another one."""
    for batch in run.store.batches({Lifecycle.PLANNED}):
        is_ours = batch.job_id == job.id and not batch.facts.creates_in_doubt and batch.id not in run.threads.sending
        if is_ours and (number := run.store.retired_among(batch)):  # else it is being sent
            withdraw(run, batch, f"{number} of its requests are not asked for any more")


@dataclass(slots=True)
class _BatchContent:
    """What a batch asks for, as its lines are written."""

    custom_ids: list[str] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    max_costs: list[Decimal | None] = field(default_factory=list)

    def add(self, custom_id: str, answer: bytes, max_cost: Decimal | None) -> None:
        self.custom_ids.append(custom_id)
        self.answers.append(answer)
        self.max_costs.append(max_cost)


class _BatchNames:
    """The names of a job's batches and their files; ``known``: the batches that it has, by id."""

    def __init__(self, run: Run, job: Job) -> None:
        self._run, self._job = run, job
        self.known = {batch.id: batch for batch in run.store.job_batches(job.id)}
        self._given = len({batch.shard_id for batch in self.known.values() if batch.path})
        self._never_sent = sum(not batch.path for batch in self.known.values())

    @property
    def next_shard(self) -> int:
        """The number of the next file."""
        return self._given + 1

    def file_of(self, attempt: int) -> Callable[[str], Path]:
        """Return what gives the file of a shard."""
        return lambda shard: self._run.folder.batch(self._batch_id(shard, attempt)).request_file

    def _batch_id(self, shard: str, attempt: int) -> str:
        return f"{self._job.id}.{shard}.a{attempt}"

    def batch(self, shard: Shard, contents: _BatchContent, origin: _AttemptOrigin) -> Batch:
        """Return a planned batch of what a file holds."""
        job = self._job
        self._given += 1
        return Batch(
            id=self._batch_id(shard.id, origin.attempt),
            job_id=job.id,
            shard_id=shard.id,
            provider=job.spec.provider,
            model=job.spec.model,
            attempt=origin.attempt,
            state=Lifecycle.PLANNED,
            tag=tag(self._run.tag_prefix, job.id, shard.id, origin.attempt),
            requests=shard.requests,
            path=shard.path,
            sha256=shard.sha256,
            size_bytes=shard.size_bytes,
            max_cost=shard.max_cost,
            parent_id=origin.parent_id,
            cause=origin.cause,
            reask=origin.reask,
            due_at=origin.due_at,
            content=Content(contents.custom_ids, contents.answers, contents.max_costs),
        )

    def never_sent(self, contents: _BatchContent) -> Batch:
        """Return requests too large for the provider as a batch that is over before it began: counted, shown, not
        sent."""
        job = self._job
        self._never_sent += 1
        shard_id = f"too-large-{self._never_sent}"
        names = contents.custom_ids
        ends = dict.fromkeys(names, (RequestOutcome.ERRORED, ErrorClass.TOO_LARGE))
        return Batch(
            id=f"{job.id}.{shard_id}",
            job_id=job.id,
            shard_id=shard_id,
            provider=job.spec.provider,
            model=job.spec.model,
            attempt=1,
            state=Lifecycle.COLLECTED,
            outcome=BatchOutcome.FAILED,
            error_class=ErrorClass.TOO_LARGE,
            tag="",
            requests=len(names),
            path="",
            sha256="",
            size_bytes=0,
            reason=f"larger than {job.spec.provider} takes in one line; never sent: {', '.join(names[:5])}",
            content=Content(names, contents.answers, contents.max_costs, ends),
        )


@dataclass(frozen=True, slots=True)
class _Line:
    """A request as its provider takes it. ``name``: its custom_id; ``fingerprint``: the digest within its scope."""

    name: str
    item_id: str
    spec: ModelSpec
    sized: SizedPrompt
    content: bytes
    digest: bytes
    fingerprint: bytes


@dataclass(slots=True)
class _RequestPlanner:
    """Goes through a job's prompts once: writes what is to be sent, and notes the rest on the way.

    ``kept``: the custom_ids of earlier requests that are still wanted. ``others``: the runs that ask for some of the
    answers now.
    """

    run: Run
    job: Job
    mark: str
    known: Sequence[KnownRequest]
    paid: PaidAnswers
    provider: Provider
    files: BatchFiles
    kept: set[str] = field(default_factory=set)
    too_large: _BatchContent | None = None
    contents: dict[str, _BatchContent] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    _new: list[tuple[str, str, AnswerStatus]] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)

    def new(self) -> NewRequests:
        """Return the new requests as the store enters them."""
        statuses = [status for *_, status in self._new]
        return NewRequests(
            [name for name, *_ in self._new],
            [item_id for _, item_id, _ in self._new],
            [status.fingerprint for status in statuses],
            [status.answer for status in statuses],
            [status.reask for status in statuses],
        )

    def go_through(self, prompts: Iterable[tuple[str, ModelSpec, SizedPrompt]]) -> None:
        """Go through every prompt, with its item and what is asked of the model, some hundred look-ups at a time."""
        prefix, number = custom_id_prefix(self.mark, self.job.id), len(self.known) + 1
        if problem := custom_id_problem(f"{prefix}{number:06d}"):
            raise ManifestError(f"job {self.job.id}: {problem}")
        costs, asked, left = CostBounds(self.run.prices), self._asked(), iter(prompts)
        while portion := list(islice(left, LOOKED_UP)):
            first = number + len(self._new)
            written = [self._written(f"{prefix}{first + at:06d}", *prompt) for at, prompt in enumerate(portion)]
            statuses = self._look_up(asked, written)
            for line in written:
                if (before := self._before(asked, line)) is not None:
                    self.kept.add(before)
                    continue
                name = f"{prefix}{number + len(self._new):06d}"
                if line.name != name:  # one before it is no new one
                    line = self._written(name, line.item_id, line.spec, line.sized)
                status = statuses.get(line.fingerprint) or AnswerStatus(line.fingerprint, line.fingerprint)
                self._enter(line, status, costs)

    def _written(self, name: str, item_id: str, spec: ModelSpec, sized: SizedPrompt) -> _Line:
        content = request_line(self.provider, Request(name, item_id, spec, sized.prompt))
        digest = fingerprint_bytes(spec.provider, spec.model, content, name, spec.sample)
        return _Line(name, item_id, spec, sized, content, digest, self.paid.fingerprint(spec, digest))

    def _before(self, asked: Mapping[tuple[str, bytes | None], str], line: _Line) -> str | None:
        """The request by which the job asked the same before, also where its manifest or addresses were others then;
        one of an import stands for its item."""
        if not asked:
            return None
        if (request_id := asked.get((line.item_id, line.fingerprint))) is not None:
            return request_id
        fingerprints = (*self.paid.all_prints(line.digest), None)
        return next((asked[key] for fingerprint in fingerprints if (key := (line.item_id, fingerprint)) in asked), None)

    def _look_up(
        self, asked: Mapping[tuple[str, bytes | None], str], lines: Sequence[_Line]
    ) -> Mapping[bytes, AnswerStatus]:
        """Look up how the answers stand that the job did not ask for before."""
        return self.paid.look_up({line.fingerprint for line in lines if (line.item_id, line.fingerprint) not in asked})

    def _enter(self, line: _Line, status: AnswerStatus, costs: CostBounds) -> None:
        """Enter a new request; it is to be sent where nobody has its answer or asks for it."""
        self._new.append((line.name, line.item_id, status))
        if status.state in (AnswerState.SENT, AnswerState.PLANNED) and status.run_id and not status.is_to_ask:
            self.others.add(status.run_id)
        if not status.is_to_ask or status.answer in self._seen:
            return
        self._seen.add(status.answer)
        max_cost = costs.most(line.spec, line.sized.size)
        shard = self.files.add(line.content, max_cost)
        if shard is None:
            self.too_large = self.too_large or _BatchContent()
            self.too_large.add(line.name, status.answer, None)
        else:
            self.contents.setdefault(shard, _BatchContent()).add(line.name, status.answer, max_cost)

    def _asked(self) -> dict[tuple[str, bytes | None], str]:
        """The job's requests by item and fingerprint."""
        return {(request.item_id, request.fingerprint): request.custom_id for request in self.known}


def _prompts(run: Run, job: Job, wanted: Collection[str] | None = None) -> Iterator[tuple[str, ModelSpec, SizedPrompt]]:
    """Item, settings and prompt of each request of the job, or of those about the ``wanted`` items."""
    cache = run.prompt_cache
    if job.role is Role.PREDICT:
        task, spec = run.task_of(job.spec), job.spec
        cache.about(task)
        has_own_limit = has_one_limit(run.task, spec)
        for item in run.items:
            if wanted is None or item.id in wanted:
                limited = spec if has_own_limit else with_room(run.task, item, spec)
                yield item.id, limited, cache.of(item, None, partial(task.prompt, item))
        return
    jury = juried(run.task)
    cache.about(jury, job.depends_on or job.id)
    for candidate in candidates(run, job):
        if wanted is None or candidate.item.id in wanted:
            yield (
                candidate.item.id,
                job.spec,
                cache.of(candidate.item, candidate.prediction, partial(jury.judge_prompt, candidate)),
            )


def prompts_of(run: Run, job: Job, wanted: Collection[str]) -> Iterator[tuple[str, SizedPrompt]]:
    """Item and prompt of each request of the job about one of these items, as it was or would be sent."""
    return ((item_id, sized) for item_id, _, sized in _prompts(run, job, wanted))


def spec_of(run: Run, job: Job, item_id: str, doublings: int = 0) -> ModelSpec:
    """What a request about the item asks of the job's model, with its room for an answer doubled so many times."""
    spec = with_room(run.task, run.item(item_id), job.spec) if job.role is Role.PREDICT else job.spec
    return replace(spec, max_output_tokens=output_bound(spec) * 2**doublings) if doublings else spec
