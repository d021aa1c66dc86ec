"""The diagnosis of the judges, made with a board and kept beside the board for its pages."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.scoring.annotator_agreement import AnnotatorAgreement
from layton_batch.scoring.judge_quality import Diagnosis
from layton_batch.scoring.verdict_counts import VerdictCounts

TABLE = "judges"


@dataclass(frozen=True, slots=True)
class DiagnosisRecord:
    """Diagnosis of the jury, agreement of the people who labelled, where they are named, and how verdicts ended."""

    diagnosis: Diagnosis
    annotators: AnnotatorAgreement | None
    verdicts: tuple[VerdictCounts, ...] = ()


def write_record(path: Path, record: DiagnosisRecord | None) -> None:
    """Write the table of one record, or of none where nobody judged."""
    # json, not orjson: what is not a number stays one that can be told from nothing
    rows = [] if record is None else [{"document": json.dumps(asdict(record), ensure_ascii=True)}]
    tables.write(path, tables.frame(TABLE, rows))


def read_record(folder: Path) -> DiagnosisRecord | None:
    """Read the record from a run's tables; None where there is none yet. Raises DamagedTableError."""
    rows = tables.read(folder, TABLE, ("document",))
    if rows.is_empty():
        return None
    try:
        return _form().validate_json(rows.item(0, 0))
    except ValidationError as error:
        path = folder / TABLE
        raise DamagedTableError(f"{path} holds no record of judges: move it away, and the next board makes it", path) \
            from error  # fmt: skip


@cache
def _form() -> TypeAdapter[DiagnosisRecord]:
    return TypeAdapter(DiagnosisRecord)
