"""Plan: from a manifest to jobs, requests and batch files on disk. Sends nothing.

The same manifest and items always plan the same jobs, the same shards and files that are byte-identical but for the
run's mark in each custom_id. Predict jobs are planned when the run begins; a judge's job when the predictions it
depends on are in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

import polars as pl

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.batch_file import Line, Packed, line_of, pack
from layton_batch.batches.doubt import catch_up
from layton_batch.batches.names import custom_id, mark_of, tag
from layton_batch.errors import DamagedTableError, ManifestError, StaleStateError
from layton_batch.files import item_table, tables
from layton_batch.files.run_folder import slug
from layton_batch.manifest.jury import seat_jury
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Job, Judge, ModelSpec, Prompt, Request, RowCount, Shard
from layton_batch.run.context import Run
from layton_batch.stages.candidates import candidates
from layton_batch.stages.reask import spec_of
from layton_batch.stages.reprice import reprice
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.tasks.protocol import juried
from layton_batch.text import decimal_text

TOO_LARGE = "too-large"
"""Begins the shard of requests that no file of their provider can hold: a number follows, one more each time that a
job is planned and has such."""


def plan(run: Run) -> bool:
    """Enter the run's jobs if they are not, then write the files of every job whose dependencies are in.

    Of a cancelled run no job is planned: `retry`, which has it go on, finds it as it was left.
    """
    jobs, row = run.store.jobs(), run.store.row()
    if not jobs:
        item_table.write(run.folder, run.load_items())
        jobs = plan_jobs(run.manifest.model_specs(), run.manifest.panel(), run.manifest.seats, run.task.uses_jury)
        jobs += [one.job for one in run.rejudging.values()]
        run.store.add_jobs(jobs, run.clock.now())
    elif later := _asked_later(run, jobs):
        run.store.add_jobs([*jobs, *later], run.clock.now())
        jobs = run.store.jobs()
    moved = catch_up(run)
    if row is not None and row.cancelled:
        return moved
    moved |= run.apart("prices", partial(reprice, run))
    done = {None, *(job.id for job in jobs if job.graded)}
    ready = [job for job in jobs if not job.planned and _waits_for(run, job) in done]
    specs = {job.id: job.spec for job in jobs}
    mark = _mark(run, jobs) if ready else run.mark
    with suppress(StaleStateError):  # the writer lease was lost to another process, which plans
        for job in ready:
            rejudged = run.rejudging.get(job.id)
            judged = specs[job.depends_on] if job.depends_on else rejudged.judged if rejudged else None
            moved |= run.apart(job.id, partial(_plan_job, run, job, judged, mark))
    return moved


def _asked_later(run: Run, jobs: Sequence[Job]) -> list[Job]:
    """Jobs that rejudge, of a run that began without them: only where the manifest says so, for they are paid for."""
    if run.manifest.gold is None or run.manifest.gold.rejudge is None:
        return []
    known = {job.id for job in jobs}
    return [one.job for one in run.rejudging.values() if one.job.id not in known]


def _waits_for(run: Run, job: Job) -> str | None:
    """The job whose answers have to be known first: the one that is judged, or that may have brought the same answers
    as the gold set has."""
    rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
    return rejudged.own if rejudged else job.depends_on


def plan_jobs(specs: Sequence[ModelSpec], panel: Sequence[Judge], seats: int, uses_jury: bool) -> list[Job]:
    """Every job of a run, judges' after participants'; ids are unique and fit for paths."""
    jobs = [Job(f"predict-{slug(spec.name)}", Role.PREDICT, spec) for spec in specs]
    if not uses_jury:
        return jobs
    verdicts = [
        Job(f"judge-{slug(judge.model.name)}--{slug(spec.name)}", Role.JUDGE, judge.model, depends_on=job.id)
        for job, spec in zip(jobs, specs, strict=True)
        for judge in seat_jury(panel, spec, seats)
    ]
    return jobs + verdicts


def _plan_job(run: Run, job: Job, judged: ModelSpec | None, mark: str) -> bool:
    """Write what the job has not asked yet; a judge's job planned again asks about new predictions only."""
    provider = run.providers.dialect(job.spec.provider)
    entered = _entered(run, job)
    known = _known_requests(run, job, entered)
    asked = set(known["item_id"])
    prompts = ((item_id, prompt) for item_id, prompt in _prompts(run, job) if item_id not in asked)
    names = (custom_id(mark, job.id, number) for number in count(known.height + 1))
    items_of: dict[str, str] = {}
    packed = pack(
        _lines(run, job, provider, zip(prompts, names, strict=False), items_of),
        provider.limits,
        run.folder.root,
        run.folder.request_file(job.id, "s").parent,
        1 + sum(not shard_id.startswith(TOO_LARGE) for shard_id in entered),
    )
    left_out = f"{TOO_LARGE}-{1 + sum(shard_id.startswith(TOO_LARGE) for shard_id in entered)}"
    packed.shard_of |= dict.fromkeys(packed.too_large, left_out)
    _write_requests(run, job, judged, items_of, packed, known)
    batches = [first_attempt(run, job, shard) for shard in packed.shards]
    unsent = [_never_sent(job, left_out, packed.too_large)] if packed.too_large else []
    run.store.plan_job(job, [*batches, *unsent], run.clock.now(), [_too_large(batch) for batch in unsent])
    return True


def _mark(run: Run, jobs: Iterable[Job]) -> str:
    """What the custom_ids carry: the run's own mark, or the manifest's where an earlier version gave them that. A run
    keeps to one, so that its copies know one another's batches by whichever version each of them went on."""
    for job in jobs:
        path = run.folder.part("requests", job.id)
        if job.planned and path.exists():
            with suppress(DamagedTableError):
                for name in tables.read_part(path, ["custom_id"])["custom_id"].head(1):
                    return mark_of(name)
    return run.mark


def _entered(run: Run, job: Job) -> set[str]:
    """The shards that the job was split into so far, those of requests too large to be sent among them."""
    return {batch.shard_id for batch in run.store.batches() if batch.job_id == job.id and batch.parent_id is None}


def _known_requests(run: Run, job: Job, entered: Collection[str]) -> pl.DataFrame:
    """The requests of batches that are entered; rows beside them are of a plan that was cut short, and not asked.

    Rows of one plan are entered together and follow those before them, so numbers go on where these end.
    """
    path = run.folder.part("requests", job.id)
    if not entered or not path.exists():
        return tables.frame("requests", [])
    return tables.read_part(path).filter(pl.col("shard_id").is_in(list(entered)))


def _prompts(run: Run, job: Job) -> Iterator[tuple[str, Prompt]]:
    if job.role is Role.PREDICT:
        return ((item.id, run.task.prompt(item)) for item in run.items)
    task = juried(run.task)
    return ((candidate.item.id, task.judge_prompt(candidate)) for candidate in candidates(run, job))


def _lines(
    run: Run,
    job: Job,
    provider: Provider,
    named: Iterable[tuple[tuple[str, Prompt], str]],
    items_of: dict[str, str],
) -> Iterator[Line]:
    for (item_id, prompt), name in named:
        items_of[name] = item_id
        if problem := custom_id_problem(name):
            raise ManifestError(f"job {job.id}: {problem}")
        yield line_of(Request(name, item_id, spec_of(run, job, item_id), prompt), provider, run.prices)


def _write_requests(
    run: Run, job: Job, judged: ModelSpec | None, items_of: dict[str, str], packed: Packed, known: pl.DataFrame
) -> None:
    rows = [
        {
            "custom_id": name,
            "job_id": job.id,
            "role": str(job.role),
            "item_id": item_id,
            "model": judged.name if judged else job.spec.name,
            "judge": job.spec.name if judged else None,
            "shard_id": packed.shard_of[name],
            "max_cost": decimal_text(packed.max_cost.get(name)),
        }
        for name, item_id in items_of.items()
    ]
    tables.write(run.folder.part("requests", job.id), pl.concat([known, tables.frame("requests", rows)]))


def first_attempt(run: Run, job: Job, shard: Shard) -> Batch:
    """The first batch of a shard."""
    return Batch(
        id=f"{job.id}.{shard.id}.a1",
        job_id=job.id,
        shard_id=shard.id,
        provider=job.spec.provider,
        model=job.spec.model,
        attempt=1,
        state=Lifecycle.PLANNED,
        tag=tag(run.tag_prefix, job.id, shard.id, 1),
        requests=shard.requests,
        path=shard.path,
        sha256=shard.sha256,
        size_bytes=shard.size_bytes,
        max_cost=shard.max_cost,
    )


def _never_sent(job: Job, shard_id: str, custom_ids: Sequence[str]) -> Batch:
    """Requests too large for the provider, as a batch that is over before it began: counted, shown, not sent."""
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
        requests=len(custom_ids),
        path="",
        sha256="",
        size_bytes=0,
        reason=f"larger than {job.spec.provider} takes in one line; never sent: {', '.join(custom_ids[:5])}",
    )


def _too_large(batch: Batch) -> RowCount:
    return RowCount(batch.id, RequestOutcome.ERRORED, ErrorClass.TOO_LARGE, batch.requests)
