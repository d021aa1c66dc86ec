"""Identity of a job. Display names, order, families, budgets and paths are no part of it; neither are items: a job
grows by requests, and what each of those asks is its fingerprint (``runs/requests.py``)."""

from __future__ import annotations

import json
from hashlib import sha256

from layton_batch.files.run_folder import slug
from layton_batch.manifest.asked import JUDGE_PROMPTS
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job, ModelSpec
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
