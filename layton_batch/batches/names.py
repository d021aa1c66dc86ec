"""The names under which requests and batches are known at providers."""

from __future__ import annotations

from hashlib import sha256

SHARD_CHARS = 14
"""The longest name of a part of a shard: with it a tag has at most 48 characters up to attempt 99."""


def custom_id(mark: str, job_id: str, number: int) -> str:
    """A request's name, 25 characters of ``[a-z0-9-]``: a run always gives the same, another run (``mark``) another."""
    return f"{custom_id_prefix(mark, job_id)}{number:06d}"


def custom_id_prefix(mark: str, job_id: str) -> str:
    """What the names of all requests of a job begin with; their numbers follow, in six digits or more."""
    return f"r{mark}-{_digest(job_id)}-"  # within every provider's rule: 1 to 64 of A-Za-z0-9_-


def tag(prefix: str, job_id: str, shard_id: str, attempt: int) -> str:
    """What marks a batch as ours at the provider: at most 48 characters of ``[a-z0-9-]``, another for every attempt."""
    return f"{prefix}-{_digest(job_id)}-{shard_id}-a{attempt}"


def part_of(shard_id: str, mark: str) -> str:
    """The name of a part of a shard's requests that goes its own way: readable while short, else with a hash."""
    name = f"{shard_id}-{mark}"
    if len(name) <= SHARD_CHARS:
        return name
    return f"{name.partition('-')[0]}-{sha256(name.encode()).hexdigest()[:8]}"


def _digest(job_id: str) -> str:
    return sha256(job_id.encode()).hexdigest()[:8]
