"""The answers of a batch as a table, which is made again from the raw results where the disk damaged it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from layton_batch.batches.batch_results import Decode, Replies, RequestOutcomes, assign_outcomes, read_replies
from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic, tables
from layton_batch.files.digests import changed_files, file_digest
from layton_batch.files.run_folder import BatchFolder
from layton_batch.records import Batch, End, FileDigest, Response
from layton_batch.runs.context import Run
from layton_batch.states import ErrorClass
from layton_batch.store.run_store import RunStore


def write_answers(
    folder: BatchFolder,
    batch: Batch,
    replies: Replies,
    outcomes: RequestOutcomes,
    each: Callable[[Sequence[Response]], None],
) -> None:
    """Write a response for each request of a batch, in portions; ``each`` is told of every portion, without texts."""
    with atomic.writing_folder(folder.answers) as answers:
        portions = tables.portions(outcomes.replies.values(), lambda reply: reply.characters)
        for number, portion in enumerate(portions):
            responses = [reply.response for reply in portion]
            each(responses)
            table = _table(batch, responses, replies.texts_of(portion))
            tables.write(answers / f"{number:05d}.parquet", table)


def make_again(run: Run, batch: Batch) -> bool:
    """Make the answers of a collected batch again from its raw results. Return False if these do not have them all.

    Raises DamagedTableError if the raw results are damaged.
    """
    folder, ends = run.folder.batch(batch.id), run.store.ends_of(batch.id)
    _check_raw_results(run, batch)
    if not folder.raw_results:
        return False
    replies, outcomes = read_outcomes(folder, ends, batch, run.providers.dialect(batch.provider).decode)
    if outcomes.ends != ends:
        return False
    write_answers(folder, batch, replies, outcomes, lambda _responses: run.heed_stop())
    run.store.note_files(batch_digests(folder, run.folder.workspace.root))
    detail = "its answers were damaged, and were made again from the raw results"
    run.store.add_event(run.clock.now(), batch.id, "answers_made_again", detail)
    return True


def _check_raw_results(run: Run, batch: Batch) -> None:
    """Raise DamagedTableError if raw results of a collected batch are gone, or are not as they were recorded."""
    root = run.folder.workspace.root
    recorded = run.store.files(f"{run.folder.batch(batch.id).root.relative_to(root).as_posix()}/")
    if changed := changed_files(root, [file for file in recorded if file.name.endswith(".zst")]):
        names = ", ".join(path.name for path in changed)
        raise DamagedTableError(
            f"{changed[0]}: raw results of batch {batch.id} ({names}) are gone or were changed since they came: put "
            "them back from a copy; nothing is asked again",
            changed[0],
        )


def read_outcomes(
    folder: BatchFolder, ends: Mapping[str, End], batch: Batch, decode: Decode
) -> tuple[Replies, RequestOutcomes]:
    """Read how the requests of a collected batch ended from its raw results. ``ends``: as their rows say; the raw
    results do not say which requests were out of reach."""
    replies = read_replies(folder.root, decode)
    out_of_reach = {name for name, (_, error_class) in ends.items() if error_class is ErrorClass.OUT_OF_REACH}
    return replies, assign_outcomes(replies, list(ends), batch, batch.reason, out_of_reach)


def batch_digests(folder: BatchFolder, root: Path) -> list[FileDigest]:
    """Return the digests of a batch's raw results and answers, under their paths below ``root``."""
    paths = [*folder.raw_results, *sorted(folder.answers.glob("*.parquet"))]
    return [file_digest(path, path.relative_to(root).as_posix()) for path in paths]


def check_answers(store: RunStore, folder: BatchFolder, root: Path) -> None:
    """Raise DamagedTableError if answers of a batch of the store's run are gone, or are not as they were recorded."""
    for path in changed_files(root, store.files(f"{folder.answers.relative_to(root).as_posix()}/")):
        raise DamagedTableError(
            f"{path} was changed since layton-batch wrote it (its digest differs): put it back from a copy", path
        )


def answer_parts(folder: BatchFolder, expected: int | None) -> Sequence[Path]:
    """Return the part files of a batch's answers. Raises DamagedTableError where they have another number of rows than
    ``expected`` (None: any), or one cannot be read."""
    parts = sorted(folder.answers.glob("*.parquet"))
    if expected is not None:
        tables.check_rows(folder.answers, parts, expected)
    return parts


def _table(batch: Batch, responses: Sequence[Response], texts: pl.Series) -> pl.DataFrame:
    finish_reasons = [response.finish_reason for response in responses]
    return tables.of_columns(
        "responses",
        {
            "custom_id": [response.custom_id for response in responses],
            "job_id": batch.job_id,
            "batch_id": batch.id,
            "attempt": batch.attempt,
            "outcome": [str(response.outcome) for response in responses],
            "error_class": [str(response.error_class) for response in responses],
            "error_code": [response.error_code for response in responses],
            "error_message": [response.error_message for response in responses],
            "text": texts,
            "finish_reason": [str(reason) if reason else None for reason in finish_reasons],
            "raw_finish_reason": [response.raw_finish_reason for response in responses],
            "refusal": [response.refusal for response in responses],
            "served_model": [response.served_model for response in responses],
        },
    )
