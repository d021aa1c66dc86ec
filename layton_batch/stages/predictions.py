"""Predictions as the tables have them."""

from __future__ import annotations

import polars as pl

from layton_batch.records import Prediction
from layton_batch.run import Run
from layton_batch.states import PredictionKind


def stored_predictions(run: Run, predict_id: str) -> dict[str, Prediction]:
    """What one model said, by item id."""
    names = ["item_id", "model", "kind", "answer", "justification"]
    rows = pl.read_parquet(run.folder.part("predictions", predict_id), columns=names).iter_rows(named=True)
    return {
        row["item_id"]: Prediction(
            row["item_id"], row["model"], PredictionKind(row["kind"]), row["answer"], row["justification"]
        )
        for row in rows
    }
