"""The chance with which an answer was picked to be labelled, as files of labels say it."""

from __future__ import annotations

from math import nan

from layton_batch.errors import DataError
from layton_batch.files.sources import Row, RowLocation

COLUMN = "propensity"


def propensity_of(row: Row, location: RowLocation) -> float | None:
    """None where the row does not say. Raises DataError for what is no chance above 0.

    A number in text is read, with a decimal point or comma: tables of spreadsheet programs have no numbers.
    """
    value = row.get(COLUMN)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    chance = _number(value.replace(",", ".")) if isinstance(value, str) else value
    if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance <= 1:
        raise DataError(f"{location}: column {COLUMN!r} must be a number above 0 and up to 1, not {value!r:.60}")
    return float(chance)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
