"""What providers said of requests that failed, from the responses of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from layton_batch.errors import DamagedTableError
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.imported import is_imported
from layton_batch.runs.status import Status
from layton_batch.states import RequestOutcome

MOST_WORDS = 3
"""Different messages of a job that are told, the most frequent first."""


def failure_words(folder: RunFolder, status: Status) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return the provider's messages by job with failed requests, and the number of responses with each.

    Of every attempt: what was sent again counts as well. A part that cannot be read has no words, and so has a file
    that was imported.
    """
    sent = [batch for batch in status.batches if not is_imported(batch)]
    words_by_job = {
        job.id: _words(path for batch in sent if batch.job_id == job.id for path in _parts(folder, batch.id))
        for job in status.jobs
        if job.errored
    }
    return {job_id: words.most_common(MOST_WORDS) for job_id, words in words_by_job.items() if words}


def _parts(folder: RunFolder, batch_id: str) -> list[Path]:
    return sorted(folder.batch(batch_id).answers.glob("*.parquet"))


def _words(parts: Iterable[Path]) -> Counter[str]:
    import polars as pl  # only where something failed: the rest of `status` does without

    from layton_batch.files import tables

    words: Counter[str] = Counter()
    failed = pl.col("outcome") == str(RequestOutcome.ERRORED)
    for part in parts:
        with suppress(DamagedTableError):
            responses = tables.read_part(part, ["outcome", "error_message"])
            words.update(responses.filter(failed)["error_message"].drop_nulls().to_list())
    return words
