"""The response that counts for each request of a job, what it cost elsewhere, and who answered."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from layton_batch.batches.answer_table import answer_parts, check_answers, make_again
from layton_batch.batches.run_costs import charge_columns
from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic, tables
from layton_batch.model_table import is_same_model
from layton_batch.records import Job, Response
from layton_batch.runs.context import Run
from layton_batch.states import AnswerState, ErrorClass, FinishReason, RequestOutcome
from layton_batch.store.request_rows import asked_again
from layton_batch.store.requests import AnswerLocation

_KEPT_OPEN = 3
"""Part files held in memory: requests and the parts of their answers are in one order, but for later attempts."""
_SAID = ("batch_id", "attempt", "outcome", "error_class", "error_code", "error_message", "text",
         "finish_reason", "raw_finish_reason", "refusal", "served_model")  # fmt: skip
_LOCATED = {
    "request_id": pl.String,
    "item_id": pl.String,
    "run_id": pl.String,
    "batch_id": pl.String,
    "batch_custom_id": pl.String,
    "part": pl.UInt32,
    "row": pl.UInt32,
}


@dataclass(frozen=True, slots=True)
class ResponseLocations:
    """The responses of a job, and where they are. ``requests``: ``request_id`` (the request's custom_id), ``item_id``,
    ``run_id``, ``batch_id``, ``batch_custom_id`` (the name that the answer was bought under), ``part`` and ``row``
    (null: there is no response), in the order of the requests; ``parts``: the part files by number."""

    requests: pl.DataFrame
    parts: tuple[Path, ...]

    @property
    def digest(self) -> str:
        """Digest of the answers' locations."""
        return tables.digest(
            *map(repr, self.requests.select("request_id", "run_id", "batch_id", "batch_custom_id").iter_rows())
        )


def locate_responses(run: Run, job_id: str, *, only_answers: bool = False) -> ResponseLocations:
    """Find the responses of a job. ``only_answers``: what is not answered yet counts as missing.

    Raises DamagedTableError if the batches of a run are gone, or those of a collected batch lack rows: an answer that
    is gone was not missing.
    """
    locations = _select_final_answers(run, run.store.answer_locations(job_id))
    if only_answers:
        locations = [
            location if location.state is AnswerState.ANSWERED else location._replace(batch_custom_id=None)
            for location in locations
        ]
    for run_id in {location.run_id for location in locations if location.state in _BOUGHT and location.run_id}:
        if not (batches_of_run := run.folder.workspace.batches(run_id)).is_dir():
            raise DamagedTableError(
                f"answers of run {run_id} are wanted, and {batches_of_run} is not there: put it back; a database has "
                "the state of one folder of runs",
                batches_of_run,
            )
    batches = dict.fromkeys(
        (str(location.run_id), str(location.batch_id), location.responses)
        for location in locations
        if location.batch_custom_id
    )
    parts: list[Path] = []
    places: dict[tuple[str, str], Mapping[str, tuple[int, int]]] = {}
    for run_id, batch_id, responses in batches:
        batch_parts, names = _names_in(run, run_id, batch_id, responses)
        places[run_id, batch_id] = {
            name: (number, row) for number, part in enumerate(names, len(parts)) for row, name in enumerate(part)
        }
        parts += batch_parts
    columns: dict[str, list[object]] = {name: [] for name in _LOCATED}
    no_row: tuple[int | None, int | None] = (None, None)
    for location in locations:
        part, row = places.get((str(location.run_id), str(location.batch_id)), {}).get(
            str(location.batch_custom_id), no_row
        )
        values = (
            location.custom_id,
            location.item_id,
            location.run_id,
            location.batch_id,
            location.batch_custom_id,
            part,
            row,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return ResponseLocations(pl.DataFrame(columns, schema=_LOCATED), tuple(parts))


_BOUGHT = (AnswerState.ANSWERED, AnswerState.UNCERTAIN)
"""States of what was paid for, or may have been."""


def _select_final_answers(run: Run, locations: Sequence[AnswerLocation]) -> Sequence[AnswerLocation]:
    """Select for each request the last answer that came: an unusable reply counts where its re-ask brought nothing."""
    unanswered = {
        location.custom_id: location
        for location in locations
        if location.reask and location.state is not AnswerState.ANSWERED
    }
    earlier: dict[str, AnswerLocation] = {}
    deepest = max((location.reask for location in unanswered.values()), default=0)
    for rounds_back in range(1, deepest + 1):
        by_answer: defaultdict[bytes, list[AnswerLocation]] = defaultdict(list)
        for name, location in unanswered.items():
            if name not in earlier and location.reask >= rounds_back:
                by_answer[asked_again(location.fingerprint or location.answer, location.reask - rounds_back)].append(
                    location
                )
        for fingerprint, answer in run.store.locate_answers(by_answer).items():
            for location in by_answer[fingerprint]:
                earlier[location.custom_id] = answer._replace(custom_id=location.custom_id, item_id=location.item_id)
    return [earlier.get(location.custom_id, location) for location in locations]


def _names_in(
    run: Run, run_id: str, batch_id: str, responses: int | None
) -> tuple[Sequence[Path], Sequence[Sequence[str]]]:
    """The part files of a batch's responses, of so many requests (None: of as many as there are), and the custom_ids in
    each. Of a batch of this run they are made again where they are damaged."""
    workspace = run.folder.workspace
    folder, store = workspace.batch(run_id, batch_id), run.store.of_run(run_id)

    def read() -> tuple[Sequence[Path], Sequence[Sequence[str]]]:
        check_answers(store, folder, workspace.root)
        parts = answer_parts(folder, responses)
        return parts, [tables.read_part(part, ("custom_id",))["custom_id"].to_list() for part in parts]

    try:
        return read()
    except DamagedTableError:
        if run_id != run.id or not make_again(run, run.store.batch(batch_id)):
            raise
    return read()


def final_responses(located: ResponseLocations) -> Iterator[Mapping[str, object]]:
    """Yield the rows of :func:`final_portions`."""
    for portion in final_portions(located):
        yield from portion.iter_rows(named=True)


def final_portions(located: ResponseLocations) -> Iterator[pl.DataFrame]:
    """Yield the job's requests with the response that counts: the answer, else the end of the last attempt.

    In the order of the requests; a portion of the texts at a time is in memory.
    """
    read = functools.lru_cache(_KEPT_OPEN)(lambda part: tables.read_part(located.parts[part], _SAID))
    for portion in located.requests.iter_slices(tables.PORTION_ROWS):
        parts = [
            read(part)[rows].with_columns(part=pl.lit(part, pl.UInt32), row=pl.Series(rows, dtype=pl.UInt32))
            for part, rows in _rows_by_part(portion)
        ]
        no_texts = (
            tables.frame("responses", [])
            .select(_SAID)
            .with_columns(part=pl.lit(None, pl.UInt32), row=pl.lit(None, pl.UInt32))
        )
        texts = pl.concat(parts) if parts else no_texts
        requests = portion.select("item_id", "part", "row", custom_id="request_id")
        joined = requests.join(texts, on=("part", "row"), how="left", maintain_order="left").drop("part", "row")
        size = int(joined["text"].str.len_bytes().sum())
        yield from joined.iter_slices(
            max(1, tables.PORTION_ROWS * tables.PORTION_CHARACTERS // max(size, tables.PORTION_CHARACTERS))
        )


def _rows_by_part(portion: pl.DataFrame) -> Iterator[tuple[int, list[int]]]:
    """Yield the rows of each part that a portion of requests needs, each part once."""
    rows_by_part: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for part, row in portion.select("part", "row").drop_nulls().iter_rows():
        rows_by_part[part][row] = None
    yield from ((part, list(rows)) for part, rows in sorted(rows_by_part.items()))


def response_from(row: Mapping[str, object]) -> Response:
    """Make the response of a row of the tables; a request without a response is MISSING."""
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


def write_reused(run: Run, job: Job) -> None:
    """Write what the answers cost that another run, or another request of this one, paid for: a row for each request
    that has one."""
    rows: list[tables.Row] = []
    for custom_id, paying_run, batch_id, charge in run.store.bought_elsewhere(job.id):
        rows.append(
            {
                **charge_columns(charge), "custom_id": custom_id, "role": str(job.role), "model": job.spec.name,
                "provider": job.spec.provider, "run": paying_run, "batch_id": batch_id, "paid_as": charge.custom_id,
            }
        )  # fmt: skip
    part = run.folder.part("reused", job.id)
    if rows:
        digest = tables.digest("reused", *(repr(sorted(row.items(), key=str)) for row in rows))
        tables.write(part, tables.frame("reused", rows), digest)
    else:
        atomic.remove(part)


_REMEMBERED = 65_536
"""Batches whose responses are read once, however often the board is looked at."""


def served_others(run: Run, jobs: Iterable[Job]) -> frozenset[str]:
    """Return the names of the jobs' models of which at least one response came from another model.

    Responses that do not say who answered, and tables that cannot be read, say nothing here.
    """
    specs = {job.id: job.spec for job in jobs}
    names = set()
    for job_id, run_id, batch_id in run.store.answering_batches():
        spec = specs.get(job_id)
        if spec is None or spec.name in names:
            continue
        served_models = _of_batch(str(run.folder.workspace.batch(run_id, batch_id).answers))
        if any(not is_same_model(spec.model, served) for served in served_models):
            names.add(spec.name)
    return frozenset(names)


def _of_batch(folder: str) -> frozenset[str]:
    try:
        written = os.stat(folder)
        return _of_folder(folder, written.st_mtime_ns, written.st_ino)
    except FileNotFoundError:
        return frozenset()
    except (DamagedTableError, OSError):  # not remembered: a person may put the part back
        return frozenset().union(*(_readable(path) for path in Path(folder).glob("*.parquet")))


@lru_cache(_REMEMBERED)
def _of_folder(folder: str, _written: int, _which: int) -> frozenset[str]:
    """Read a folder's parts. They never change: a folder is replaced as a whole."""
    return frozenset().union(*(_of_part(path) for path in Path(folder).glob("*.parquet")))


def _readable(path: Path) -> frozenset[str]:
    try:
        return _of_part(path)
    except (DamagedTableError, OSError):
        return frozenset()


def _of_part(path: Path) -> frozenset[str]:
    return frozenset(tables.read_part(path, columns=["served_model"])["served_model"].drop_nulls().unique())
