"""The names under which requests and batches are known at providers. They carry what they name: a restored or copied
workspace may give a number again, but never with the same digits for another text."""

from __future__ import annotations

from hashlib import sha256

DIGITS = 12
"""Hexadecimal digits of a request's fingerprint in its custom_id."""
FILE_DIGITS = 8
"""Hexadecimal digits of a batch file's SHA-256 in its tag."""
UNNAMED = "the-custom-id-of-a-request-comes-here-"
"""Stands in an encoded line for the custom_id, which is as long and is known once the line is hashed."""


def custom_id_prefix(mark: str, job_id: str) -> str:
    """Return the common start of the custom_ids of a job. A number of six digits or more follows."""
    return f"r{mark}-{_digest(job_id)}-"  # within every provider's rule: 1 to 64 of A-Za-z0-9_-


def custom_id(prefix: str, number: int, fingerprint: bytes) -> str:
    """Return a request's name, 38 characters of ``[a-z0-9-]``: of the job's ``prefix``, a number, and what is asked."""
    return f"{prefix}{number:06d}-{fingerprint.hex()[:DIGITS]}"


def tag(prefix: str, job_id: str, shard_id: str, attempt: int, file_sha256: str) -> str:
    """Return the name of a batch and its file: at most 57 characters of ``[a-z0-9-]``, another for every attempt."""
    return f"{prefix}-{_digest(job_id)}-{shard_id}-a{attempt}-{file_sha256[:FILE_DIGITS]}"


def _digest(job_id: str) -> str:
    return sha256(job_id.encode()).hexdigest()[:8]
