"""What a dialect is told of a batch that is uploaded, created or looked for."""

from __future__ import annotations

from layton_batch.batches.names import has_mark
from layton_batch.records import Batch, Submission
from layton_batch.run.context import Run


def submission(run: Run, batch: Batch) -> Submission:
    """What a dialect needs to know of a batch."""
    return Submission(
        batch_id=batch.id,
        tag=batch.tag,
        path=run.folder.root / batch.path,
        file_name=f"{batch.tag}.jsonl",
        sha256=batch.sha256,
        requests=batch.requests,
        model=batch.model,
        input_ref=batch.input_ref,
        not_before=batch.submitting_at,
        marked=_is_marked(run, batch),
        window=run.window(batch),
    )


def _is_marked(run: Run, batch: Batch) -> bool:
    try:
        with (run.folder.root / batch.path).open("rb") as lines:
            return has_mark(run.mark, lines.read(_FIRST))
    except OSError:
        return False  # the file is gone; nothing is sent without it


_FIRST = 1024
"""Bytes of a batch file in which its first custom_id stands."""
