"""The next steps of a person, by a run's status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layton_batch.costs.prices import near_model
from layton_batch.runs.imported import FROM_FILE, is_imported
from layton_batch.runs.status import JobStatus, RunState, Status
from layton_batch.states import OPEN, ErrorClass, Lifecycle, Role
from layton_batch.text import first_of, one_line, plural


def no_price(names: Sequence[str]) -> str:
    """Say that models, each as ``provider model``, get no requests for want of a price, and what to do."""
    near = next(filter(None, (near_model(*name.split(" ", 1)) for name in names)), "")
    return (
        f"There is a budget, and no price is known for {', '.join(names)}: nothing is sent to it{near or '.'} Check "
        "the model's id; if it is right, add [[prices]] for it to the manifest, or take [budget] out"
    )


def next_steps(status: Status, run_source: str | None = None, *, reserves_expected: bool = False) -> list[str]:
    """Return the next steps for a person, a sentence each with its command.

    ``run_source``: the run's name or path in the commands. ``reserves_expected``: ``[budget] bound`` is ``expected``.
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
    is_stuck = status.state is RunState.NEEDS_PERSON or any(
        batch.needs_person and batch.state in OPEN for batch in status.batches
    )
    match status.state:
        case RunState.NEEDS_PERSON | RunState.RUNNING if is_stuck and not steps:
            steps.append("Fix what the line above names, then run the same command again.")
        case RunState.OVER_BUDGET if unpriced := _unpriced(status):
            steps.append(f"{no_price(unpriced)}; then run the same command again.")
        case RunState.OVER_BUDGET if reserves_expected:
            steps.append(
                "The budget stopped it. Raise [budget] max_usd (or --max-usd), or lower [budget] safety; then run the "
                "same command again."
            )
        case RunState.OVER_BUDGET:
            steps.append(
                "The budget stopped it. Raise [budget] max_usd (or --max-usd), lower max_output_tokens of the models, "
                'or set bound = "expected" in [budget]; then run the same command again.'
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
