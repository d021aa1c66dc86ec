"""Asking again for replies that came but cannot be used, where the manifest opts in: ``[policy] reask_*``.

A reply that was paid for is an answer, also when it is truncated or malformed, and is not bought again by itself. A
re-ask is a batch of its own, with its parent and reason; a truncated reply gets twice the room each time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from layton_batch.batches.attempts import write_lines
from layton_batch.batches.batch_file import line_of
from layton_batch.batches.names import part_of
from layton_batch.batches.shared_questions import Questions, Sorted, closed, numbered
from layton_batch.costs.estimate import output_bound
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Batch, Job, ModelSpec, Prompt, Request, Response, RowCount
from layton_batch.runs.context import Run
from layton_batch.runs.imported import is_imported
from layton_batch.stages.candidates import candidates
from layton_batch.stages.final_responses import final_responses, last_responses, parts_of, response_from
from layton_batch.states import PERHAPS_BILLED, ErrorClass, FinishReason, PredictionKind, RequestOutcome, Role
from layton_batch.store.reopening import RowKey, reopen
from layton_batch.tasks import with_room
from layton_batch.tasks.protocol import juried


def reask(run: Run, job: Job) -> bool:
    """Enter a batch per batch whose replies are to be asked for again; False where there is nothing to ask.

    Nothing is entered, and the job is to wait, while another one asks for some of them (``run.waiting``).
    """
    policy, row = run.manifest.policy, run.store.row()
    if not (policy.reask_unparsed or policy.reask_truncated) or (row is not None and row.cancelled):
        return False
    batches = {batch.id: batch for batch in run.store.job_batches(job.id)}
    wanted = _wanted(run, job, batches)
    asked = dict(prompts(run, job, {one.item_id for one in wanted}))
    by_parent: dict[str, list[_Unusable]] = defaultdict(list)
    for one in wanted:
        if one.item_id in asked:  # of others a revision has taken the item out
            by_parent[one.last[0]].append(one)
    questions = Questions(run)
    rounds = [
        _Round(batches[parent], 1 + batches[parent].reask, {one.custom_id: one for one in rows})
        for parent, rows in by_parent.items()
    ]
    sorted_ = [(one, questions.sort(job, one.rows, one.number)) for one in rounds]
    run.waiting[job.id] = frozenset[int]().union(*(found.waits_for for _, found in sorted_))
    to_enter = any(found.free or found.taken for _, found in sorted_)
    if to_enter and not run.waiting[job.id]:
        _enter(run, job, sorted_, asked)
    return to_enter or bool(run.waiting[job.id])


@dataclass(frozen=True, slots=True)
class _Round:
    """The replies of one batch that are to be asked for again, by custom_id; ``number``: how many times then."""

    parent: Batch
    number: int
    rows: Mapping[str, _Unusable]


def _enter(run: Run, job: Job, rounds: Sequence[tuple[_Round, Sorted]], asked: Mapping[str, Prompt]) -> None:
    """What nobody else asks is sent; what was asked for again under another name is taken over."""
    again: list[Batch] = []
    counts: list[RowCount] = []
    repeated: Counter[RowKey] = Counter()
    for one, found in rounds:
        if found.free:
            again.append(_batch(run, job, one, found.free, asked, "r"))
        if found.taken:
            names = [taken.custom_id for taken in found.taken]
            over, ends = closed(run, job, _batch(run, job, one, names, asked, "t"), found.taken)
            again.append(over)
            counts += ends
        repeated.update(one.rows[name].last for name in (*found.free, *(taken.custom_id for taken in found.taken)))
    detail = f"{job.id}: {sum(len(found.free) for _, found in rounds)} unusable replies are asked for again"
    if known := sum(len(found.taken) for _, found in rounds):
        detail += f", {known} were already"
    reopen(run.store, again, repeated, run.clock.now(), detail=detail, counts=counts)


@dataclass(frozen=True, slots=True)
class _Unusable:
    """A reply to be asked for again. ``last``: the last attempt at its request, which is a later one than the reply's
    where the reply was asked for again before and nothing came: attempts at one request follow each other in a line."""

    custom_id: str
    item_id: str
    truncated: bool
    last: RowKey


def _wanted(run: Run, job: Job, batches: Mapping[str, Batch]) -> Sequence[_Unusable]:
    """Unusable replies as far as the policy still allows, in the order of the requests."""
    policy, times = run.manifest.policy, {name: batch.reask for name, batch in batches.items()}
    found: list[_Unusable] = []
    last = {row["custom_id"]: row for row in last_responses(run, job.id).iter_rows(named=True)}
    for row in final_responses(run.folder, job.id, parts_of(run, job.id)):
        response, item_id = response_from(row), str(row["item_id"])
        if response.outcome is not RequestOutcome.SUCCEEDED:
            continue
        truncated, key = response.finish_reason is FinishReason.LENGTH, _key(last[response.custom_id])
        if key[2] in PERHAPS_BILLED or is_imported(batches[key[0]]):
            continue  # it was asked again, and may have been answered: a person's `retry` asks once more
        if times[key[0]] >= (policy.reask_truncated if truncated else policy.reask_unparsed):
            continue
        if not _usable(run, job, item_id, str(row["model"]), response):
            found.append(_Unusable(response.custom_id, item_id, truncated, key))
    return found


def _key(row: Mapping[str, str]) -> RowKey:
    return row["batch_id"], RequestOutcome(row["outcome"]), ErrorClass(row["error_class"])


def _usable(run: Run, job: Job, item_id: str, model: str, response: Response) -> bool:
    if job.role is Role.PREDICT:
        return run.task.parse(run.item(item_id), model, response).kind is not PredictionKind.UNPARSED
    verdict = juried(run.task).parse_verdict(item_id, model, job.spec.name, response)
    return all(getattr(verdict, METRIC_FIELDS[metric]) is not None for metric in run.task.metrics)


def prompts(run: Run, job: Job, wanted: Collection[str]) -> Iterator[tuple[str, Prompt]]:
    """Item and prompt of each request of the job about one of these items, as it was or would be sent."""
    if job.role is Role.PREDICT:
        asking = run.task_of(job.spec)
        yield from ((item.id, asking.prompt(item)) for item in run.items if item.id in wanted)
        return
    task = juried(run.task)
    for candidate in candidates(run, job):
        if candidate.item.id in wanted:
            yield candidate.item.id, task.judge_prompt(candidate)


def _batch(run: Run, job: Job, one: _Round, custom_ids: Sequence[str], asked: Mapping[str, Prompt], mark: str) -> Batch:
    provider, parent = run.providers.dialect(job.spec.provider), one.parent
    lines = []
    for row in (one.rows[name] for name in custom_ids):
        spec = spec_of(run, job, row.item_id, one.number if row.truncated else 0)
        request = Request(row.custom_id, row.item_id, spec, asked[row.item_id])
        lines.append(line_of(request, provider, run.prices))
    reason = f"{len(lines)} replies of {parent.id} could not be used; the manifest opts in to asking again"
    mark = numbered(f"{mark}{one.number}", parent, run.store.job_batches(job.id))
    shard_id = part_of(parent.shard_id, f"{parent.attempt}{mark}")  # one of its own for each attempt asked again
    return write_lines(run, parent, lines, shard_id, parent.attempt + 1, reason, one.number)


def spec_of(run: Run, job: Job, item_id: str, rounds: int = 0) -> ModelSpec:
    """What a request about the item asks of the job's model, after its reply was truncated so many times."""
    spec = with_room(run.task, run.item(item_id), job.spec) if job.role is Role.PREDICT else job.spec
    return replace(spec, max_output_tokens=output_bound(spec) * 2**rounds) if rounds else spec
