"""Providers' words on requests without an answer, from the replies to their last attempts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from layton_batch.errors import DamagedTableError
from layton_batch.files.run_folder import BatchFolder, RunFolder
from layton_batch.runs.imported import is_imported
from layton_batch.runs.status import Status

MOST_WORDS = 3
"""Different messages of a job that are told, the most frequent first."""


def failure_words(folder: RunFolder, status: Status) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return by job the provider's messages about requests without an answer, each with their number.

    An error that a later attempt solved is left out. A part that cannot be read has no words.
    """
    attempts: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    of_files = {batch.id for batch in status.batches if is_imported(batch)}
    for request in status.failed:
        if request.run_id == status.run and request.batch_id in of_files:
            continue  # no provider said a word of what a file lacks
        attempts[request.job_id, request.run_id, request.batch_id].add(request.custom_id)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for (job_id, run_id, batch_id), custom_ids in attempts.items():
        words[job_id] += _words(folder.workspace.batch(run_id, batch_id), custom_ids)
    return {job_id: counts.most_common(MOST_WORDS) for job_id, counts in words.items() if counts}


def _words(folder: BatchFolder, custom_ids: Collection[str]) -> Counter[str]:
    import polars as pl  # only if something failed: the rest of `status` does without

    from layton_batch.files import tables

    words: Counter[str] = Counter()
    for part in sorted(folder.answers.glob("*.parquet")):
        with suppress(DamagedTableError):
            responses = tables.read_part(part, ["custom_id", "error_message"])
            failed = responses.filter(pl.col("custom_id").is_in(list(custom_ids)))
            words.update(failed["error_message"].drop_nulls().to_list())
    return words
