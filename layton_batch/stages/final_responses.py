"""The response that counts for each request of a job, over all its attempts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from layton_batch.batches.fingerprints import retired_ids, without_retired
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Response
from layton_batch.runs.context import Run
from layton_batch.states import ErrorClass, FinishReason, Lifecycle, RequestOutcome

_IN_BRIEF = ("custom_id", "batch_id", "attempt", "outcome", "error_class")
_KEPT_OPEN = 3
"""Part files held in memory: requests and the parts of their answers are in one order, but for later attempts."""


_SAID = ("custom_id", "batch_id", "attempt", "outcome", "error_class", "error_code", "error_message", "text",
         "finish_reason", "raw_finish_reason", "refusal", "served_model")  # fmt: skip


def final_responses(folder: RunFolder, job_id: str, parts: Sequence[Path]) -> Iterator[Mapping[str, object]]:
    """The rows of :func:`final_portions`."""
    for portion in final_portions(folder, job_id, parts):
        yield from portion.iter_rows(named=True)


def final_portions(folder: RunFolder, job_id: str, parts: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """The job's requests with the response that counts: the answer, else what the last attempt said. ``parts``: as
    :func:`parts_of` finds them.

    In the order of the requests; a portion of the texts at a time is in memory.
    """
    requests = without_retired(tables.read_part(folder.part("requests", job_id)))
    best = _that_count(_in_brief(parts)).select("custom_id", "part", "row")
    asked = requests.select("custom_id", "item_id", "model")
    placed = asked.join(best, on="custom_id", how="left", maintain_order="left")
    read = functools.lru_cache(_KEPT_OPEN)(lambda part: tables.read_part(parts[part], _SAID))
    for portion in placed.iter_slices(tables.PORTION_ROWS):
        said = [read(part)[rows] for part, rows in _rows_by_part(portion)]
        texts = pl.concat(said) if said else tables.frame("responses", []).select(_SAID)
        whole = portion.drop("part", "row").join(texts, on="custom_id", how="left", maintain_order="left")
        size = int(whole["text"].str.len_bytes().sum())
        yield from whole.iter_slices(
            max(1, tables.PORTION_ROWS * tables.PORTION_CHARACTERS // max(size, tables.PORTION_CHARACTERS))
        )


def _that_count(responses: pl.DataFrame) -> pl.DataFrame:
    """Of each request the answer, else what the last attempt said."""
    return (
        responses.with_columns(answered=pl.col("outcome") == str(RequestOutcome.SUCCEEDED))
        .sort("answered", "attempt", descending=True, maintain_order=True)
        .unique("custom_id", keep="first", maintain_order=True)
    )


def ends_of_retired(run: Run, job_id: str) -> Mapping[tuple[RequestOutcome, ErrorClass], int]:
    """How those of the job's requests ended, all being over, that the manifest does not ask for any more: by their last
    attempts, as the store counts."""
    retired = retired_ids(tables.read_part(run.folder.part("requests", job_id)))
    if not retired:
        return {}
    said = last_responses(run, job_id).filter(pl.col("custom_id").is_in(list(retired)))
    ends = Counter((RequestOutcome(end), ErrorClass(cause)) for end, cause in said.select(_IN_BRIEF[3:]).iter_rows())
    if unsent := len(retired) - said.height:
        ends[RequestOutcome.ERRORED, ErrorClass.TOO_LARGE] += unsent
    return ends


def last_responses(run: Run, job_id: str) -> pl.DataFrame:
    """``custom_id, batch_id, attempt, outcome, error_class`` of the last attempt at each request of the job, whether it
    brought an answer or not, in no order."""
    newest_first = _in_brief(parts_of(run, job_id)).reverse().sort("attempt", descending=True, maintain_order=True)
    return newest_first.unique("custom_id", keep="first").select(_IN_BRIEF)


def parts_of(run: Run, job_id: str) -> Sequence[Path]:
    """Part files of every response of the job, in the order in which their batches were entered.

    Raises DamagedTableError where those of a collected batch lack rows: an answer that is gone was not missing.
    """
    found: list[Path] = []
    for batch in run.store.job_batches(job_id):
        folder = run.folder.tables / "responses" / batch.id
        parts = sorted(folder.glob("*.parquet"))
        if batch.state is Lifecycle.COLLECTED and batch.path:
            tables.check_rows(folder, parts, batch.requests)
        found += parts
    return found


def _in_brief(parts: Sequence[Path]) -> pl.DataFrame:
    """Every response without its text, and where that is: ``part`` counts the files, ``row`` the rows of each."""
    frames = [
        tables.read_part(path, columns=list(_IN_BRIEF))
        .with_row_index("row")
        .with_columns(part=pl.lit(number, pl.UInt32))
        for number, path in enumerate(parts)
    ]
    if frames:
        return pl.concat(frames)
    nothing = tables.frame("responses", []).select(_IN_BRIEF)
    return nothing.with_row_index("row").with_columns(part=pl.lit(None, pl.UInt32))


def _rows_by_part(portion: pl.DataFrame) -> Iterator[tuple[int, list[int]]]:
    """Which rows of which part a portion of requests needs, part by part."""
    found = portion.drop_nulls("part").group_by("part").agg("row").sort("part")
    yield from found.iter_rows()


def response_from(row: Mapping[str, object]) -> Response:
    """A response as the tables have it; a request nothing is known of is MISSING."""
    return Response(
        custom_id=str(row["custom_id"]),
        outcome=RequestOutcome(_text(row["outcome"]) or "missing"),
        text=_text(row["text"]),
        finish_reason=FinishReason(str(row["finish_reason"])) if row["finish_reason"] else None,
        raw_finish_reason=_text(row["raw_finish_reason"]),
        refusal=_text(row["refusal"]),
        error_class=ErrorClass(_text(row["error_class"]) or "none"),
        error_code=_text(row["error_code"]),
        error_message=_text(row["error_message"]),
        served_model=_text(row["served_model"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
