"""Fingerprints: what a request asks its provider, whatever it is called. By its fingerprint it is paid for once."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

import polars as pl

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder

FIRST_SAMPLE = 1


def fingerprint(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> str:
    """SHA-256, in hex, over provider, model, sample number and the encoded line without its ``custom_id``, wherever the
    dialect puts that."""
    found = begun(provider, model, sample)
    found.update(line.replace(custom_id.encode(), b""))
    return str(found.hexdigest())


def begun(provider: str, model: str, sample: int = FIRST_SAMPLE) -> Any:
    """The hash of a :func:`fingerprint` before it has seen anything of the line."""
    return sha256(f"{provider}\x1f{model}\x1f{sample}\x1f".encode("utf-8", "surrogatepass"))


class Seen:
    """Fingerprints that were seen, as digests, in sixteen to thirty-two bytes each. Half of a digest's first half tells
    one from another: of a million requests two are taken for one in one of forty million runs."""

    def __init__(self) -> None:
        self._slots, self._mask, self._count = array("Q", bytes(8 << 10)), (1 << 10) - 1, 0

    def add(self, digests: Sequence[bytes]) -> list[bool]:
        """Of each, whether it was seen for the first time."""
        values = array("Q", b"".join(digests))[::4]
        while 2 * (self._count + len(values)) > self._mask:
            self._grow()
        new, slots, mask = list[bool](), self._slots, self._mask
        for value in values:
            value = value or 1
            at = value & mask
            while (there := slots[at]) and there != value:
                at = (at + 1) & mask
            slots[at] = value
            new.append(not there)
        self._count += sum(new)
        return new

    def _grow(self) -> None:
        old, self._mask = self._slots, 4 * self._mask + 3
        slots, mask = array("Q", bytes(8 * (self._mask + 1))), self._mask
        for value in filter(None, old):
            at = value & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = value
        self._slots = slots


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
