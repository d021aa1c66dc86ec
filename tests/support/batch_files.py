"""Lines written to batch files, as a job writes them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from layton_batch.batches.batch_file import BatchFiles, RequestCosts
from layton_batch.providers.protocol import Limits
from layton_batch.records import Shard


def files_of(
    lines: Iterable[bytes], limits: Limits, folder: Path, cost: Decimal | None = None
) -> tuple[list[Shard], list[str | None]]:
    """Return the files below ``folder``, and of each line the file that it is in; None: it is too large."""
    costs = RequestCosts(cost, cost)
    with BatchFiles(limits, folder, lambda shard: folder / "files" / f"{shard}.jsonl") as files:
        places = [files.add(line, costs) for line in lines]
    return files.shards, places
