"""The names under which requests and batches are known at providers."""

from __future__ import annotations

from hashlib import sha256


def custom_id(mark: str, job_id: str, number: int) -> str:
    """A request's name, 25 characters of ``[a-z0-9-]``: a run always gives the same, another run (``mark``) another."""
    return f"{custom_id_prefix(mark, job_id)}{number:06d}"


def custom_id_prefix(mark: str, job_id: str) -> str:
    """Return the common start of the custom_ids of a job. A number of six digits or more follows."""
    return f"r{mark}-{_digest(job_id)}-"  # within every provider's rule: 1 to 64 of A-Za-z0-9_-


def tag(prefix: str, job_id: str, shard_id: str, attempt: int) -> str:
    """Return the tag that marks a batch as ours: at most 48 characters of ``[a-z0-9-]``, another for every attempt."""
    return f"{prefix}-{_digest(job_id)}-{shard_id}-a{attempt}"


def _digest(job_id: str) -> str:
    return sha256(job_id.encode()).hexdigest()[:8]
