"""The response that counts for each request of a job: the answer that it wants, in whichever batch that is."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from layton_batch.batches.answer_table import answer_parts, make_again
from layton_batch.batches.paid_answers import PaidAnswers
from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.records import Response
from layton_batch.runs.context import Run
from layton_batch.states import AnswerState, ErrorClass, FinishReason, RequestOutcome
from layton_batch.store.request_rows import Placement, asked_again

_KEPT_OPEN = 3
"""Part files held in memory: requests and the parts of their answers are in one order, but for later attempts."""
_SAID = ("batch_id", "attempt", "outcome", "error_class", "error_code", "error_message", "text",
         "finish_reason", "raw_finish_reason", "refusal", "served_model")  # fmt: skip
_PLACED = {
    "asked_as": pl.String,
    "item_id": pl.String,
    "run_id": pl.String,
    "batch_id": pl.String,
    "paid_as": pl.String,
    "part": pl.UInt32,
    "row": pl.UInt32,
}


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the responses of a job are. ``requests``: ``asked_as`` (the request's custom_id), ``item_id``, ``run_id``,
    ``batch_id``, ``paid_as`` (the name that the answer was bought under), ``part`` and ``row`` (null: there is no
    response), in the order of the requests; ``parts``: the part files by number."""

    requests: pl.DataFrame
    parts: tuple[Path, ...]

    @property
    def digest(self) -> str:
        """Of which answers these are."""
        return tables.digest(*map(repr, self.requests.select("asked_as", "run_id", "batch_id", "paid_as").iter_rows()))


def placed_responses(run: Run, job_id: str) -> Placed | None:
    """Find the responses of a job; None where some cannot be had here, and are to be asked again. Raises
    DamagedTableError where those of a collected batch lack rows: an answer that is gone was not missing."""
    found = _that_count(run, run.store.placements(job_id))
    if any(PaidAnswers.of(run).is_away(one.state, one.run_id) for one in found):
        return None
    batches = dict.fromkeys((str(one.run_id), str(one.batch_id), one.responses) for one in found if one.said_as)
    parts: list[Path] = []
    places: dict[tuple[str, str], Mapping[str, tuple[int, int]]] = {}
    for run_id, batch_id, responses in batches:
        its, names = _names_in(run, run_id, batch_id, responses)
        places[run_id, batch_id] = {
            name: (number, row) for number, part in enumerate(names, len(parts)) for row, name in enumerate(part)
        }
        parts += its
    columns: dict[str, list[object]] = {name: [] for name in _PLACED}
    nothing: tuple[int | None, int | None] = (None, None)
    for one in found:
        part, row = places.get((str(one.run_id), str(one.batch_id)), {}).get(str(one.said_as), nothing)
        values = (one.custom_id, one.item_id, one.run_id, one.batch_id, one.said_as, part, row)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return Placed(pl.DataFrame(columns, schema=_PLACED), tuple(parts))


def _that_count(run: Run, found: Sequence[Placement]) -> Sequence[Placement]:
    """A reply that could not be used counts where what was asked in its place brought nothing."""
    in_vain = {one.custom_id: one for one in found if one.reask and one.state is not AnswerState.ANSWERED}
    earlier: dict[str, Placement] = {}
    deepest = max((one.reask for one in in_vain.values()), default=0)
    for back in range(1, deepest + 1):
        left: defaultdict[bytes, list[Placement]] = defaultdict(list)
        for name, one in in_vain.items():
            if name not in earlier and one.reask >= back:
                left[asked_again(one.fingerprint or one.answer, one.reask - back)].append(one)
        for answer, place in run.store.answers_at(left).items():
            for one in left[answer]:
                earlier[one.custom_id] = place._replace(custom_id=one.custom_id, item_id=one.item_id)
    return [earlier.get(one.custom_id, one) for one in found]


def _names_in(
    run: Run, run_id: str, batch_id: str, responses: int | None
) -> tuple[Sequence[Path], Sequence[Sequence[str]]]:
    """The part files of a batch's responses, of so many requests (None: of as many as there are), and the custom_ids in
    each. Of a batch of this run they are made again where they are damaged."""
    home = PaidAnswers.of(run).workspace_of(run_id)
    if home is None:
        gone = run.folder.workspace.batches(run_id)
        raise DamagedTableError(f"answers of run {run_id} are wanted, and {gone} is not there: put it back", gone)
    folder = home.batch(run_id, batch_id)

    def read() -> tuple[Sequence[Path], Sequence[Sequence[str]]]:
        parts = answer_parts(folder, responses)
        return parts, [tables.read_part(part, ("custom_id",))["custom_id"].to_list() for part in parts]

    try:
        return read()
    except DamagedTableError:
        if run_id != run.id or not make_again(run, run.store.batch(batch_id)):
            raise
    return read()


def final_responses(placed: Placed) -> Iterator[Mapping[str, object]]:
    """The rows of :func:`final_portions`."""
    for portion in final_portions(placed):
        yield from portion.iter_rows(named=True)


def final_portions(placed: Placed) -> Iterator[pl.DataFrame]:
    """The job's requests with the response that counts: the answer, else what the last attempt said.

    In the order of the requests; a portion of the texts at a time is in memory.
    """
    read = functools.lru_cache(_KEPT_OPEN)(lambda part: tables.read_part(placed.parts[part], _SAID))
    for portion in placed.requests.iter_slices(tables.PORTION_ROWS):
        said = [
            read(part)[rows].with_columns(part=pl.lit(part, pl.UInt32), row=pl.Series(rows, dtype=pl.UInt32))
            for part, rows in _rows_by_part(portion)
        ]
        nothing = (
            tables.frame("responses", [])
            .select(_SAID)
            .with_columns(part=pl.lit(None, pl.UInt32), row=pl.lit(None, pl.UInt32))
        )
        texts = pl.concat(said) if said else nothing
        asked = portion.select("item_id", "part", "row", custom_id="asked_as")
        whole = asked.join(texts, on=("part", "row"), how="left", maintain_order="left").drop("part", "row")
        size = int(whole["text"].str.len_bytes().sum())
        yield from whole.iter_slices(
            max(1, tables.PORTION_ROWS * tables.PORTION_CHARACTERS // max(size, tables.PORTION_CHARACTERS))
        )


def _rows_by_part(portion: pl.DataFrame) -> Iterator[tuple[int, list[int]]]:
    """Which rows of which part a portion of requests needs, part by part, each once."""
    found: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for part, row in portion.select("part", "row").drop_nulls().iter_rows():
        found[part][row] = None
    yield from ((part, list(rows)) for part, rows in sorted(found.items()))


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
