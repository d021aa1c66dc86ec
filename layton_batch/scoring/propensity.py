"""The chance with which an answer was picked to be labelled, as files of labels say it."""

from __future__ import annotations

from layton_batch.errors import DataError
from layton_batch.files.sources import Row, RowLocation

COLUMN = "propensity"


def propensity_of(row: Row, location: RowLocation) -> float | None:
    """None where the row does not say. Raises DataError for what is no chance above 0."""
    value = row.get(COLUMN)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise DataError(f"{location}: column {COLUMN!r} must be a number above 0 and up to 1, not {value!r:.60}")
    return float(value)
