"""Fingerprints: what a request asks its provider, whatever it is called. By its fingerprint it is paid for once."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

import polars as pl

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder

FIRST_SAMPLE = 1


def fingerprint(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> str:
    """SHA-256, in hex, over provider, model, sample number and the encoded line without its ``custom_id``, wherever the
    dialect puts that."""
    return fingerprint_bytes(provider, model, line, custom_id, sample).hex()


def fingerprint_bytes(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> bytes:
    """The 32 bytes of the same fingerprint."""
    found = sha256(f"{provider}\x1f{model}\x1f{sample}\x1f".encode("utf-8", "surrogatepass"))
    found.update(line.replace(custom_id.encode(), b""))
    return found.digest()


def scoped(fingerprint: bytes, scope: str) -> bytes:
    """Return the fingerprint within a scope, where it is another answer than in every other one; "" is all of them."""
    return sha256(f"{scope}\x1f".encode() + fingerprint).digest() if scope else fingerprint


def requests_of(folder: RunFolder, job_id: str) -> pl.DataFrame:
    """The job's rows of the table ``requests``. Raises DamagedTableError."""
    path = folder.part("requests", job_id)
    return tables.read_part(path) if path.exists() else tables.frame("requests", [])


def retired_ids(requests: pl.DataFrame) -> frozenset[str]:
    """The custom_ids that the run's latest revision does not ask for any more."""
    return frozenset(requests.filter(pl.col("retired"))["custom_id"])


def without_retired(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests that count."""
    return requests.filter(~pl.col("retired"))


def of_shards(requests: pl.DataFrame, shards: Collection[str]) -> pl.DataFrame:
    """The requests of batches that are entered; rows beside them are of a plan that was cut short, and not asked."""
    return requests.filter(pl.col("shard_id").is_in(list(shards))) if len(requests) else requests
