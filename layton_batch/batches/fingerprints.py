"""Fingerprints: what a request asks its provider, whatever it is called. By its fingerprint it is paid for once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
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


def requests_of(folder: RunFolder, job_id: str, provider: str, model: str) -> pl.DataFrame:
    """The job's rows of the table ``requests``, with the columns that an earlier version did not write.

    A request of that version whose batch file cannot be read has no fingerprint. Raises DamagedTableError.
    """
    path = folder.part("requests", job_id)
    if not path.exists():
        return tables.frame("requests", [])
    found = tables.read_part(path)
    if "fingerprint" in found.columns:
        return found
    known = dict(_told_by_files(folder, job_id, provider, model, found))
    return found.with_columns(
        fingerprint=pl.Series([known.get(name) for name in found["custom_id"]], dtype=pl.String),
        sample=pl.lit(FIRST_SAMPLE, pl.Int64),
        retired=pl.lit(value=False),
    )


def _told_by_files(
    folder: RunFolder, job_id: str, provider: str, model: str, requests: pl.DataFrame
) -> Iterator[tuple[str, str]]:
    for (shard_id,), rows in requests.group_by("shard_id", maintain_order=True):
        with suppress(OSError), folder.request_file(job_id, str(shard_id)).open("rb") as lines:
            for name, line in zip(rows["custom_id"], lines, strict=False):
                if name.encode() in line:
                    yield name, fingerprint(provider, model, line.rstrip(b"\n"), name)


def retired_ids(requests: pl.DataFrame) -> frozenset[str]:
    """The custom_ids that the run's latest revision does not ask for any more."""
    if "retired" not in requests.columns:
        return frozenset()
    return frozenset(requests.filter(pl.col("retired"))["custom_id"])


def without_retired(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests that count."""
    return requests.filter(~pl.col("retired")) if "retired" in requests.columns else requests


def of_shards(requests: pl.DataFrame, shards: Collection[str]) -> pl.DataFrame:
    """The requests of batches that are entered; rows beside them are of a plan that was cut short, and not asked."""
    return requests.filter(pl.col("shard_id").is_in(list(shards))) if len(requests) else requests
