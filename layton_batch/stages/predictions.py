"""Predictions as the tables have them."""

from __future__ import annotations

from collections.abc import Iterator

from layton_batch.files import tables
from layton_batch.records import Prediction
from layton_batch.run.context import Run
from layton_batch.states import PredictionKind

_COLUMNS = ("item_id", "model", "kind", "answer", "justification")


def stored_predictions(run: Run, predict_id: str) -> Iterator[Prediction]:
    """What one model said, item by item in their order; without the raw text."""
    for portion in tables.read_portions(run.folder.part("predictions", predict_id), _COLUMNS):
        for item_id, model, kind, answer, justification in portion.iter_rows():
            yield Prediction(item_id, model, PredictionKind(kind), answer, justification)
