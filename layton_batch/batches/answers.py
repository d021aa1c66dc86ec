"""The answers of batches as tables: written from the raw results, and found for the requests of a job.

A request finds its answer by the custom_id under which it was bought, whichever run and batch bought it. Answers of
this run that the disk damaged are made again from the raw results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from layton_batch.batches.batch_results import Decode, RequestOutcomes, assign_outcomes, read_replies
from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic, tables
from layton_batch.files.atomic import changed_files, file_digest
from layton_batch.files.run_folder import BatchFolder
from layton_batch.records import Batch, End, FileDigest, Response
from layton_batch.runs.context import Run
from layton_batch.states import AnswerState, ErrorClass, FinishReason, RequestOutcome
from layton_batch.store.request_rows import asked_again
from layton_batch.store.requests import AnswerLocation

_REPLY = ("batch_id", "attempt", "outcome", "error_class", "error_code", "error_message", "text",
          "finish_reason", "raw_finish_reason", "refusal", "served_model")  # fmt: skip
_PLACE = ("request_id", "run_id", "batch_id", "batch_custom_id")
"""Columns that say which response a request has."""
_FOUND_BY = ("part", "batch_custom_id")


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_answers(
    folder: BatchFolder, batch: Batch, outcomes: RequestOutcomes, each: Callable[[Sequence[Response]], None]
) -> None:
    """Write a response for each request of a batch, in portions; ``each`` is told of every portion, without texts."""
    with atomic.writing_folder(folder.answers) as answers:
        portions = tables.portions(outcomes.replies.values(), lambda reply: len(reply.utf8 or b""))
        for number, portion in enumerate(portions):
            responses = [reply.response for reply in portion]
            each(responses)
            table = response_table(batch, responses, [reply.text for reply in portion])
            tables.write(answers / f"{number:05d}.parquet", table)


def response_table(batch: Batch, responses: Sequence[Response], texts: Sequence[str | None]) -> pl.DataFrame:
    """Return rows of the table ``responses``. ``texts``: of the responses, which need not have them."""
    names = [field.name for field in fields(Response) if field.name in ("custom_id", *_REPLY)]
    columns = {name: [getattr(response, name) for response in responses] for name in names}
    same = {"job_id": batch.job_id, "batch_id": batch.id, "attempt": batch.attempt}
    return tables.of_columns("responses", {**columns, **same, "text": list(texts)})


def batch_digests(folder: BatchFolder, root: Path) -> list[FileDigest]:
    """Return the digests of a batch's raw results and answers, under their paths below ``root``."""
    return [
        file_digest(path, path.relative_to(root).as_posix()) for path in (*folder.raw_results, *folder.answer_parts)
    ]


def read_outcomes(folder: BatchFolder, ends: Mapping[str, End], batch: Batch, decode: Decode) -> RequestOutcomes:
    """Read how the requests of a collected batch ended from its raw results. ``ends``: as their rows say; the raw
    results do not say which requests were out of reach."""
    replies = read_replies(folder.root, decode)
    out_of_reach = {name for name, (_, error_class) in ends.items() if error_class is ErrorClass.OUT_OF_REACH}
    return assign_outcomes(replies, list(ends), batch, batch.reason, out_of_reach)


# ---- finding ---------------------------------------------------------------------------------------------------------


def locate_responses(run: Run, job_id: str, *, only_answers: bool = False) -> pl.DataFrame:
    """Find the responses of a job. ``only_answers``: what is not answered yet counts as missing.

    Columns, in the order of the requests: ``request_id`` (the request's custom_id), ``item_id``, and of the response
    ``run_id``, ``batch_id``, ``batch_custom_id`` (the name that it was bought under) and ``part``, its file (null:
    there is no response).

    Raises DamagedTableError if answers are gone or changed: an answer that is gone was not missing.
    """
    locations = [
        location if location.state is AnswerState.ANSWERED or not only_answers
        else location._replace(batch_custom_id=None)
        for location in _final_answers(run, run.store.answer_locations(job_id))
    ]  # fmt: skip
    rows = [
        (
            location.custom_id,
            location.item_id,
            location.run_id,
            location.batch_id,
            location.batch_custom_id,
            location.responses is not None,
        )
        for location in locations
    ]
    schema = {**dict.fromkeys((_PLACE[0], "item_id", *_PLACE[1:]), pl.String), "is_filed": pl.Boolean}
    requests = pl.DataFrame(rows, schema=schema, orient="row")
    batch = ("run_id", "batch_id")
    bought = {(location.run_id, location.batch_id): location for location in locations if location.batch_custom_id}
    names = [_read(None).with_columns(**dict.fromkeys(batch, pl.lit(None, pl.String)))]
    for (run_id, batch_id), location in bought.items():
        key = pl.lit(run_id).alias("run_id"), pl.lit(batch_id).alias("batch_id")
        names += [_read(str(part)).with_columns(*key) for part in _whole_parts(run, location)]
    located = requests.join(pl.concat(names), on=(*batch, "batch_custom_id"), how="left", maintain_order="left")
    lost = located.filter("is_filed", pl.col("part").is_null(), pl.col("batch_custom_id").is_not_null())
    for place in lost.select(batch).head(1).iter_rows():
        folder = _folder(run, bought[place]).answers
        raise DamagedTableError(f"{folder} lacks answers: {tables.what_to_do(folder)}", folder)
    return located.drop("is_filed")


def _folder(run: Run, location: AnswerLocation) -> BatchFolder:
    return run.folder.workspace.batch(str(location.run_id), str(location.batch_id))


def _final_answers(run: Run, locations: Sequence[AnswerLocation]) -> Iterator[AnswerLocation]:
    """Yield for each request the last answer that came: an unusable reply counts if its re-ask brought nothing."""
    earlier = {
        location.custom_id: [
            asked_again(location.fingerprint or location.answer, reask) for reask in reversed(range(location.reask))
        ]
        for location in locations
        if location.state is not AnswerState.ANSWERED
    }
    answers = run.store.locate_answers({answer for wanted in earlier.values() for answer in wanted})
    for location in locations:
        came = (answers[answer] for answer in earlier.get(location.custom_id, ()) if answer in answers)
        answer = next(came, location)
        yield answer._replace(custom_id=location.custom_id, item_id=location.item_id)


def _whole_parts(run: Run, location: AnswerLocation) -> Sequence[Path]:
    """Return the part files of a batch's answers. Those of a batch of this run are made again if they are damaged."""
    folder, root, run_id = _folder(run, location), run.folder.workspace.root, str(location.run_id)
    if not (batches := run.folder.workspace.batches(run_id)).is_dir():
        raise DamagedTableError(
            f"answers of run {run_id} are wanted, and {batches} is not there: put it back; a database has the state of "
            "one folder of runs",
            batches,
        )
    recorded = run.store.of_run(run_id).files(f"{folder.answers.relative_to(root).as_posix()}/")
    written = {root / file.name for file in recorded}
    foreign = [path for path in folder.answer_parts if written and path not in written]
    for path in (*changed_files(root, recorded), *foreign):
        if run_id != run.id or not _make_again(run, run.store.batch(str(location.batch_id))):
            reason = "is gone, was changed (its digest differs) or was put there since layton-batch wrote the answers"
            raise DamagedTableError(f"{path} {reason}: put it back from a copy", path)
        break
    return folder.answer_parts


def _make_again(run: Run, batch: Batch) -> bool:
    """Make the answers of a collected batch again from its raw results. Return False if these do not have them all.

    Raises DamagedTableError if the raw results are damaged.
    """
    folder, root, ends = run.folder.batch(batch.id), run.folder.workspace.root, run.store.ends_of(batch.id)
    recorded = run.store.files(f"{folder.root.relative_to(root).as_posix()}/")
    if changed := changed_files(root, [file for file in recorded if file.name.endswith(".zst")]):
        names = ", ".join(path.name for path in changed)
        raise DamagedTableError(
            f"{changed[0]}: raw results of batch {batch.id} ({names}) are gone or were changed since they came: put "
            "them back from a copy; nothing is asked again",
            changed[0],
        )
    if not folder.raw_results:
        return False
    outcomes = read_outcomes(folder, ends, batch, run.providers.dialect(batch.provider).decode)
    if outcomes.ends != ends:
        return False
    write_answers(folder, batch, outcomes, lambda _responses: run.heed_stop())
    run.store.note_files(batch_digests(folder, root))
    detail = "its answers were damaged, and were made again from the raw results"
    run.store.add_event(run.clock.now(), batch.id, "answers_made_again", detail)
    return True


def located_digest(located: pl.DataFrame) -> str:
    """Digest where a job's responses are."""
    return tables.digest(*map(repr, located.select(_PLACE).iter_rows()))


# ---- reading ---------------------------------------------------------------------------------------------------------


def final_responses(located: pl.DataFrame) -> Iterator[Mapping[str, object]]:
    """Yield the rows of :func:`final_portions`."""
    for portion in final_portions(located):
        yield from portion.iter_rows(named=True)


def final_portions(located: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the located requests with the response that counts: the answer, else the end of the last attempt.

    In the order of the requests; a portion of the texts at a time is in memory.
    """
    for portion in located.iter_slices(tables.PORTION_ROWS):
        requests = portion.select("item_id", "part", "batch_custom_id", custom_id="request_id")
        parts = portion["part"].drop_nulls().unique(maintain_order=True).to_list()
        wanted = requests.select(_FOUND_BY)
        texts = pl.concat([_read(part, *_REPLY).join(wanted, on=_FOUND_BY, how="semi") for part in (None, *parts)])
        joined = requests.join(texts, on=_FOUND_BY, how="left", maintain_order="left").drop(_FOUND_BY)
        size = int(joined["text"].str.len_bytes().sum())
        share = tables.PORTION_CHARACTERS / max(size, tables.PORTION_CHARACTERS)
        yield from joined.iter_slices(max(1, int(tables.PORTION_ROWS * share)))


def _read(part: str | None, *columns: str) -> pl.DataFrame:
    """Read rows of a part file by what finds them; None: no row."""
    rows = tables.frame("responses", []) if part is None else tables.read_part(Path(part), ("custom_id", *columns))
    return rows.select(pl.lit(part, pl.String).alias("part"), pl.col("custom_id").alias("batch_custom_id"), *columns)


def response_from(row: Mapping[str, object]) -> Response:
    """Make the response of a row of the tables; a request without a response is MISSING."""
    texts: dict[str, Any] = {name: None if row[name] is None else str(row[name]) for name in _TEXTS}
    return Response(
        custom_id=str(row["custom_id"]),
        outcome=RequestOutcome(str(row["outcome"] or "missing")),
        finish_reason=FinishReason(str(row["finish_reason"])) if row["finish_reason"] else None,
        error_class=ErrorClass(str(row["error_class"] or "none")),
        **texts,
    )


_TEXTS = ("text", "raw_finish_reason", "refusal", "error_code", "error_message", "served_model")
