"""Requests of a job that nobody has an answer to or asks: by fingerprint, in batch files.

``ask`` goes through all that the manifest has a job ask: new requests are entered, those that are not wanted any more
are retired, and what is to be asked for the first time is written on the way. ``ask_wanted`` writes what is to be asked
once more: the rest of a batch that ended without some answers, a person's retry, replies that could not be used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path

from layton_batch.batches.attempts import AT_ONCE, Attempts, AttemptWait
from layton_batch.batches.batch_file import BatchFiles, new_batch, unsent_batch
from layton_batch.batches.person import withdraw
from layton_batch.costs.estimate import PromptSize, output_bound
from layton_batch.providers.wire_json import request_line
from layton_batch.records import Batch, Job, ModelSpec, NewAttempt, NewRequest, Request, Shard
from layton_batch.runs.context import Run
from layton_batch.runs.imported import imported_answer
from layton_batch.runs.requests import (
    AnswerStatus,
    PlannedRequest,
    RequestKind,
    RequestPlanner,
    SizedPrompt,
    WantedPrompt,
    custom_id_prefix,
    tag,
)
from layton_batch.stages.costs import JobCosts, with_safety
from layton_batch.stages.prompts import candidates
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store.request_rows import KnownRequest
from layton_batch.tasks import with_room
from layton_batch.tasks.protocol import Candidate, juried


def ask(run: Run, job: Job, mark: str) -> bool:
    """Enter what the job asks by now, and batches for what it is to ask for the first time. Return True."""
    earlier = run.store.known_requests(job.id)
    names = _BatchNames(run, job)
    if names.are_of_a_file:
        return _ask_nobody(run, job, names, earlier)
    provider = run.providers.dialect(job.spec.provider)
    prefix = custom_id_prefix(mark, job.id)
    planner, new = RequestPlanner(provider, prefix, earlier, run.paid_answers), list[NewRequest]()
    with BatchFiles(provider.limits, run.folder.workspace.root, names.file_of(1), names.next_shard) as files:
        writer = _BatchWriter(files, JobCosts(run, job))
        for request in planner.plan(_prompts(run, job)):
            if request.status is None:
                continue  # the job has it
            new.append(_entered(request, request.status))
            if request.kind is RequestKind.TO_ASK:
                writer.add(request.custom_id, request.status.answer, request.line, request.spec, request.size)
    if earlier:
        # before the job counts as planned: a stop between these would leave a batch to be sent that nobody wants
        run.store.retire(job.id, planner.retired())
        _withdraw_unwanted(run, job)
    batches = writer.batches(names, _AttemptOrigin())
    run.store.plan_job(job, batches, run.clock.now(), new, planner.still_wanted)
    return True


def _entered(request: PlannedRequest, status: AnswerStatus) -> NewRequest:
    """Return a request that the job does not have, as the store enters it."""
    room = request.spec.max_output_tokens
    wanted = status.fingerprint, status.answer, status.reask
    return NewRequest(request.custom_id, request.item_id, *wanted, request.without_limit, room)


def _ask_nobody(run: Run, job: Job, names: _BatchNames, earlier: Sequence[KnownRequest]) -> bool:
    """Have a model whose answers came from a file follow the run's items: those that came since are without an answer,
    for nobody may be asked in the place of a file."""
    last = {request.item_id: request.custom_id for request in earlier}  # a later file's in the place of an earlier one
    still_wanted = {last[item.id] for item in run.items if item.id in last}
    items = [item.id for item in run.items if item.id not in last]
    new, missing = list[NewRequest](), list[NewAttempt]()
    for number, item_id in enumerate(items, len(earlier) + 1):
        name = f"{custom_id_prefix(run.mark, job.id)}{number:06d}"
        answer = imported_answer(run.mark, name)
        new.append(NewRequest(name, item_id, None, answer))
        missing.append(NewAttempt(name, answer, Decimal(0)))
    batches = [names.not_in_the_file(missing)] if missing else []
    run.store.plan_job(job, batches, run.clock.now(), new, still_wanted)
    return True


def ask_wanted(run: Run, job: Job) -> bool:
    """Enter batches for what the job is to ask, beside what it asks for the first time; True where there is any."""
    if not (wanted := run.store.requests_to_ask(job.id)):
        return False
    names = _BatchNames(run, job)
    prompts = {prompt[0]: prompt for prompt in _prompts(run, job, {request.item_id for request in wanted})}
    groups: dict[tuple[str | None, int], list[KnownRequest]] = {}
    for request in wanted:
        parent = request.batch_id if request.run_id == run.id and request.batch_id in names.batches else None
        if request.item_id in prompts:
            groups.setdefault((parent, request.reask), []).append(request)
    if unknown_requests := {request.custom_id for request in wanted if request.item_id not in prompts}:
        run.store.retire(job.id, unknown_requests)  # nobody can say any more what they asked
    if not _are_asked_still(run, job, list(chain(*groups.values())), prompts.values()):
        run.store.ask_anew(job.id)  # nothing is bought under the name of another question
        return True
    batches: list[Batch] = []
    for (parent_id, reask), rows in groups.items():
        batches += _further_batches(run, job, names, parent_id, reask, rows, prompts)
    if batches:
        run.store.add_batches(job, batches, run.clock.now())
    return bool(batches or unknown_requests)


def _are_asked_still(run: Run, job: Job, requests: Sequence[KnownRequest], prompts: Collection[WantedPrompt]) -> bool:
    """Return whether all these requests would ask now what they asked before."""
    dialect = run.providers.dialect(job.spec.provider)
    planner = RequestPlanner(dialect, custom_id_prefix(run.mark, job.id), requests, run.paid_answers)
    for _ in planner.plan(prompts):
        pass
    return not planner.retired()


def _further_batches(
    run: Run,
    job: Job,
    names: _BatchNames,
    parent_id: str | None,
    reask: int,
    rows: Sequence[KnownRequest],
    prompts: Mapping[str, WantedPrompt],
) -> list[Batch]:
    """Write requests that come from one batch, or from other jobs' (``parent_id`` is None), to files of their own."""
    provider = run.providers.dialect(job.spec.provider)
    origin = _AttemptOrigin.of(run, names, parent_id, reask, len(rows))
    limits = replace(provider.limits, max_requests=min(provider.limits.max_requests, origin.most_requests))
    with BatchFiles(limits, run.folder.workspace.root, names.file_of(origin.attempt), names.next_shard) as files:
        writer = _BatchWriter(files, JobCosts(run, job))
        for row in rows:
            spec, (*_, sized) = spec_of(run, job, row.item_id, row.doublings), prompts[row.item_id]
            line = request_line(provider, Request(row.custom_id, row.item_id, spec, sized.prompt))
            writer.add(row.custom_id, row.answer, line, spec, sized.size)
    return writer.batches(names, origin)


@dataclass(frozen=True, slots=True)
class _AttemptOrigin:
    """Origin of batches that repeat earlier requests: its texts in events, and the most requests of a batch."""

    attempt: int = 1
    parent_id: str | None = None
    reask: int = 0
    cause: str | None = None
    due_at: float = 0.0
    most_requests: int = 0
    wait: AttemptWait = AT_ONCE

    @classmethod
    def of(cls, run: Run, names: _BatchNames, parent_id: str | None, reask: int, count: int) -> _AttemptOrigin:
        if parent_id is None:
            cause = f"{count} answers that others asked for and did not get"
            return cls(reask=reask, cause=cause, most_requests=count)
        parent = names.batches[parent_id]
        attempts = Attempts.of(parent, list(names.batches.values()))
        if reask > parent.reask:
            cause = f"{count} replies of {parent.id} could not be used; the manifest opts in to asking again"
            return cls(parent.attempt + 1, parent_id, reask, cause, most_requests=count)
        if attempts.is_split:
            return cls(parent.attempt, parent_id, reask, "half of a batch too large", most_requests=(count + 1) // 2)
        cause = f"{count} of {parent.requests} requests of attempt {parent.attempt} got no answer"
        by_itself = parent.error_class is ErrorClass.ACCOUNT or attempts.are_left(run.manifest.policy.attempts)
        wait = attempts.wait(run.pacing) if by_itself else AT_ONCE
        return cls(parent.attempt + 1, parent_id, reask, cause, run.clock.now() + wait.pause, count, wait)


def _withdraw_unwanted(run: Run, job: Job) -> None:
    """Batches that were not sent yet, and hold what nobody asks for any more, are not sent: the rest of their requests
    goes in another one."""
    for batch in run.store.batches({Lifecycle.PLANNED}):
        is_ours = batch.job_id == job.id and not batch.given_up_creates and batch.id not in run.threads.sending
        if is_ours and (number := run.store.retired_among(batch)):  # else it is being sent
            withdraw(run, batch, f"{number} of its requests are not asked for any more")


class _BatchNames:
    """The names of a job's batches and their files; ``known``: the batches that it has, by id."""

    def __init__(self, run: Run, job: Job) -> None:
        self._run, self._job = run, job
        self.batches = {batch.id: batch for batch in run.store.job_batches(job.id)}
        self._given = len({batch.shard_id for batch in self.batches.values() if batch.path})
        self._never_sent = sum(not batch.path for batch in self.batches.values())

    @property
    def next_shard(self) -> int:
        """Return the number of the next file."""
        return self._given + 1

    @property
    def are_of_a_file(self) -> bool:
        """Return whether the job's answers came from a file: its model is in no manifest."""
        is_named = any(spec.name == self._job.spec.name for spec in self._run.manifest.model_specs())
        return self._job.role is Role.PREDICT and not is_named

    def file_of(self, attempt: int) -> Callable[[str], Path]:
        """Return what gives the file of a shard."""
        return lambda shard: self._run.folder.batch(self._batch_id(shard, attempt)).request_file

    def _batch_id(self, shard: str, attempt: int) -> str:
        return f"{self._job.id}.{shard}.a{attempt}"

    def batch(self, shard: Shard, content: Sequence[NewAttempt], origin: _AttemptOrigin) -> Batch:
        """Return a planned batch of what a file holds."""
        job = self._job
        self._given += 1
        return new_batch(
            job,
            self._batch_id(shard.id, origin.attempt),
            shard,
            content,
            attempt=origin.attempt,
            tag=tag(self._run.tag_prefix, job.id, shard.id, origin.attempt, shard.sha256),
            max_cost=with_safety(self._run.manifest.budget, shard.max_cost, shard.expected_usd),
            expected_usd=shard.expected_usd,
            parent_id=origin.parent_id,
            cause=origin.cause,
            reask=origin.reask,
            due_at=origin.due_at,
            reason=origin.wait.reason,
            needs_person=origin.wait.needs_person,
        )

    def never_sent(self, content: Sequence[NewAttempt]) -> Batch:
        """Return requests too large for the provider as a batch that is over before it began: counted, shown, not
        sent."""
        reason = f"larger than {self._job.spec.provider} takes in one line; never sent: "
        return self._over(content, "too-large", BatchOutcome.FAILED, ErrorClass.TOO_LARGE, reason)

    def not_in_the_file(self, content: Sequence[NewAttempt]) -> Batch:
        """Return requests about items that an imported file says nothing of as a batch that is over."""
        reason = "items that came after the file was imported; they are without an answer: "
        return self._over(content, "missing", BatchOutcome.COMPLETED, ErrorClass.INVALID_REQUEST, reason)

    def _over(
        self, content: Sequence[NewAttempt], word: str, outcome: BatchOutcome, error_class: ErrorClass, reason: str
    ) -> Batch:
        self._never_sent += 1
        return unsent_batch(
            self._job,
            f"{word}-{self._never_sent}",
            [attempt._replace(end=(RequestOutcome.ERRORED, error_class)) for attempt in content],
            outcome,
            reason + ", ".join(attempt.custom_id for attempt in content[:5]),
            error_class=error_class if outcome is BatchOutcome.FAILED else ErrorClass.NONE,
        )


@dataclass(slots=True)
class _BatchWriter:
    """Writes the lines of a job to batch ``files``, and notes what each file holds, and what no file takes."""

    files: BatchFiles
    costs: JobCosts
    _contents: defaultdict[str | None, list[NewAttempt]] = field(default_factory=lambda: defaultdict(list))

    def add(self, custom_id: str, answer: bytes, line: bytes, spec: ModelSpec, size: PromptSize) -> None:
        """Write a line, without its newline."""
        cost = self.costs.of(spec, size)
        self._contents[self.files.add(line, cost)].append(NewAttempt(custom_id, answer, cost.most))

    def batches(self, names: _BatchNames, origin: _AttemptOrigin) -> list[Batch]:
        """Return the batches of the files, which are complete, and one that is over for what no file takes."""
        batches = [names.batch(shard, self._contents[shard.id], origin) for shard in self.files.shards]
        too_large = [attempt._replace(max_cost=None) for attempt in self._contents[None]]
        return [*batches, names.never_sent(too_large)] if too_large else batches


def _prompts(run: Run, job: Job, wanted: Collection[str] | None = None) -> Iterator[WantedPrompt]:
    """Yield what each request of the job asks, or each about the ``wanted`` items."""
    cache = run.prompt_cache
    if job.role is Role.PREDICT:
        task = run.task_of(job.spec)
        cache.about(task)
        items = run.items if wanted is None else (item for item in run.items if item.id in wanted)
        return cache.participants(items, job.spec, task, run.task)
    judged = (candidate for candidate in candidates(run, job) if wanted is None or candidate.item.id in wanted)
    return judge_prompts(run, job, judged)


def judge_prompts(run: Run, job: Job, judged: Iterable[Candidate]) -> Iterator[WantedPrompt]:
    """Yield what the job's judge is asked about each of the candidates."""
    jury = juried(run.task)
    run.prompt_cache.about(jury, job.depends_on or job.id)
    return run.prompt_cache.judges(judged, job.spec, jury)


def prompts_of(run: Run, job: Job, wanted: Collection[str]) -> Iterator[tuple[str, SizedPrompt]]:
    """Yield item and prompt of each request of the job about one of these items, as it was or would be sent."""
    return ((item_id, sized) for item_id, _, sized in _prompts(run, job, wanted))


def spec_of(run: Run, job: Job, item_id: str, doublings: int = 0) -> ModelSpec:
    """Return the model's settings for a request about the item, its output limit doubled so many times."""
    spec = with_room(run.task, run.item(item_id), job.spec) if job.role is Role.PREDICT else job.spec
    return replace(spec, max_output_tokens=output_bound(spec) * 2**doublings) if doublings else spec
