"""The jobs of a manifest: their ids and identities, and which of a run's jobs they are.

Display names, order, families, budgets and paths are no part of a job's identity; neither are items: a job grows by
requests, and what each of those asks is its fingerprint (``runs/requests.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from layton_batch.files.run_folder import slug
from layton_batch.manifest.asked import JUDGE_PROMPTS
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job, Judge, ModelSpec, Revision
from layton_batch.states import Role


def job_identity(manifest: Manifest, job: Job, about: str = "") -> str:
    """Return the SHA-256, in hex, of what the job's requests have in common, but for their output limit.

    ``about``: whose labelled answers a job judges again. A judge's ordinary job is told from the same judge's others by
    the job that it depends on.
    """
    spec = job.spec
    judging = job.role is not Role.PREDICT
    content = {
        "role": str(job.role),
        "about": about,
        "provider": spec.provider,
        "model": spec.model,
        "reasoning": [spec.reasoning.effort, spec.reasoning.budget_tokens],
        "params": dict(spec.params),
        "task": manifest.task,
        "task_options": manifest.task_options,
        "split": manifest.items.split,
        "hints": manifest.hints_of(spec),
        "prompts": {
            name: text for name, text in manifest.prompt_texts.items() if name.startswith(JUDGE_PROMPTS) == judging
        },
    }
    if job.role is Role.JUDGE and manifest.in_turn:
        content["ask"] = "in turn"
    if judging and manifest.has_reasons:
        content["reasons"] = True
    if spec.sample != 1:
        content["sample"] = spec.sample
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(canonical.encode("ascii")).hexdigest()


def predict_id(spec: ModelSpec) -> str:
    """Return the id of a model's job. The store gives another id where a job of this name asks something else.

    No model's own name has the mark that separates hints and samples.
    """
    hint_level = f"@{spec.hints}h" if spec.hints else ""
    return f"predict-{slug(spec.name)}{hint_level}" + (f"@{spec.sample}" if spec.sample > 1 else "")


def asked_digest(manifest: Manifest, items: str) -> str:
    """Digest what a revision asks, with the digest of its items. A process with another digest must not plan."""
    return sha256(f"{manifest.identity()} {items}".encode()).hexdigest()


def run_mark(identity: str, born: float) -> str:
    """Return the eight characters in every custom_id of a run: of the manifest that began it (its identity) and of the
    moment (epoch seconds), so that no other run of the manifest has them. A copy of the run has."""
    return sha256(f"{identity} {born!r}".encode()).hexdigest()[:8]


def plan_jobs(specs: Sequence[ModelSpec], panel: Sequence[Judge], seats: int, uses_jury: bool) -> list[Job]:
    """Return every job of a run, judges' after participants'; ids are unique and fit for paths. A model's samples and
    levels of hints are jobs of their own, each with its jury."""
    jobs = [Job(predict_id(spec), Role.PREDICT, spec) for spec in specs]
    if not uses_jury:
        return jobs
    verdicts = [
        Job(
            f"judge-{slug(judge.model.name)}--{job.id.removeprefix('predict-')}",
            Role.JUDGE,
            replace(judge.model, hints=spec.hints),
            depends_on=job.id,
        )
        for job, spec in zip(jobs, specs, strict=True)
        for judge in seat_jury(panel, spec, seats)
    ]
    return jobs + verdicts


def identified(manifest: Manifest, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs, each with its identity."""
    return [replace(job, identity=job_identity(manifest, job)) for job in jobs]


def revision(
    stored: Sequence[Job], wanted: Sequence[Job], request_digest: str, items: str, *, new_items: bool
) -> Revision:
    """Plan the changes to the ``stored`` jobs, retired jobs included. ``wanted``: the jobs of the manifest.

    A job is planned again if its requests, its name, its family or its output limit may have changed.
    """
    matched = _Matching(stored)
    jobs = [matched.stored_as(job) for job in wanted]
    stored_jobs = {job.id: job for job in stored}
    kept_jobs = {job.id: stored_jobs[job.id] for job in jobs if job.id in stored_jobs}
    again = {
        job.id
        for job in jobs
        if (old := kept_jobs.get(job.id)) is not None and (old.retired or _written(old) != _written(job) or new_items)
    }
    return Revision(
        jobs=jobs,
        again=again,
        retired=[job.id for job in stored if job.id not in kept_jobs and not job.retired],
        request_digest=request_digest,
        items=items,
    )


def _written(job: Job) -> tuple[str, str, int | None]:
    """Return what may change of a job's model: its name and family, which tables have, and its output limit."""
    return job.spec.name, job.spec.family, job.spec.max_output_tokens


class _Matching:
    """Takes stored jobs one after another; each is taken once."""

    def __init__(self, stored: Sequence[Job]) -> None:
        self._left = list(stored)
        self._ids = {job.id for job in stored}
        self._stored_id: dict[str, str] = {}

    def stored_as(self, wanted: Job) -> Job:
        """Return the job with the id that the store has for it, or with a free id."""
        depends_on = self._stored_id[wanted.depends_on] if wanted.depends_on else None
        wanted_there = replace(wanted, depends_on=depends_on)
        same = sorted(self._same(wanted_there), key=lambda job: (job.spec.name != wanted.spec.name, job.retired))
        if same:
            self._left.remove(same[0])
        job_id = same[0].id if same else next(name for name in _names(wanted.id) if name not in self._ids)
        self._ids.add(job_id)
        self._stored_id[wanted.id] = job_id
        return replace(wanted_there, id=job_id)

    def _same(self, wanted: Job) -> list[Job]:
        return [
            job
            for job in self._left
            if (job.role, job.depends_on, job.identity) == (wanted.role, wanted.depends_on, wanted.identity)
        ]


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1
