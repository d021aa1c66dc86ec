"""Asking again for replies that came but cannot be used, where the manifest opts in: ``[policy] reask_*``.

A reply that was paid for is an answer, also when it is truncated or malformed, and is not bought again by itself. A
truncated reply gets twice the room each time.
"""

from __future__ import annotations

from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job, Response
from layton_batch.runs.context import Run
from layton_batch.stages.ask import spec_of
from layton_batch.stages.final_responses import ResponseLocations, final_responses, response_from
from layton_batch.states import AnswerState, FinishReason, PredictionKind, RequestOutcome, Role
from layton_batch.tasks.protocol import juried


def have_more_room(run: Run, job: Job) -> bool:
    """Return whether answers of the job were cut that the manifest gives more room by now: they were on their way when
    it was raised. The job is to be planned again."""
    return any(
        request.lacks_room(spec_of(run, job, request.item_id).max_output_tokens)
        for request in run.store.known_requests(job.id)
        if request.is_cut and not request.retired and request.item_id in run.by_id
    )


def reask(run: Run, job: Job, judged: str, located: ResponseLocations) -> bool:
    """Have replies of the job that cannot be used be asked for again, as far as the policy allows; True where there are
    any. ``judged``: the model that a judge's job is about."""
    policy, row = run.manifest.policy, run.store.row()
    if not (policy.reask_unparsed or policy.reask_truncated) or (row is not None and row.cancelled):
        return False
    requests = {request.custom_id: request for request in run.store.known_requests(job.id)}
    doublings: dict[str, int] = {}
    for reply in final_responses(located):
        request, response = requests[str(reply["custom_id"])], response_from(reply)
        if response.outcome is not RequestOutcome.SUCCEEDED or request.fingerprint is None:
            continue
        if request.state is AnswerState.UNCERTAIN:
            continue  # it was asked again, and may have been answered: a person's `retry` asks once more
        truncated = response.finish_reason is FinishReason.LENGTH
        if request.reask >= (policy.reask_truncated if truncated else policy.reask_unparsed):
            continue
        if not _is_usable(run, job, request.item_id, judged, response):
            doublings[request.custom_id] = request.reask + 1 if truncated else 0
    if doublings:
        run.store.ask_once_more(job.id, [requests[name] for name in doublings], doublings, run.clock.now())
    return bool(doublings)


def _is_usable(run: Run, job: Job, item_id: str, judged: str, response: Response) -> bool:
    if job.role is Role.PREDICT:
        return run.task.parse(run.item(item_id), judged, response).kind is not PredictionKind.UNPARSED
    verdict = juried(run.task).parse_verdict(item_id, judged, job.spec.name, response)
    return all(getattr(verdict, METRIC_FIELDS[metric]) is not None for metric in run.task.metrics)
