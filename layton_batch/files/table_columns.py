"""The columns of a run's tables."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from layton_batch.files.leaderboard_columns import STORED

Columns = Mapping[str, pl.DataType | type[pl.DataType]]
VERDICTS: Columns = {
    "item_id": pl.String,
    "model": pl.String,
    "judge": pl.String,
    "judge_provider": pl.String,
    "is_answer_correct": pl.Boolean,
    "is_justification_correct": pl.Boolean,
    "both_correct": pl.Boolean,
    "kind": pl.String,
    "note": pl.String,
    "reason": pl.String,
    "raw_text": pl.String,
    "custom_id": pl.String,
    "batch_id": pl.String,
    "attempt": pl.Int64,
    "sample": pl.Int64,
    "n_hints": pl.Int64,
}
"""Columns of this run's answers, and of labelled answers of the gold set."""
USAGE: Columns = {
    "custom_id": pl.String,
    "role": pl.String,
    "provider": pl.String,
    "model": pl.String,
    "batch_id": pl.String,
    "attempt": pl.Int64,
    "input_tokens": pl.Int64,
    "cached_input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "reasoning_tokens": pl.Int64,
    "cache_write_tokens": pl.Int64,
    "hour_write_tokens": pl.Int64,
    "cost_usd": pl.String,
    "unbatched_usd": pl.String,
    "price_source": pl.String,
    "price_date": pl.String,
}
"""Columns of what was paid for here, and of answers that another run, or another job, paid for."""
_MARKS = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), pl.Boolean)
_IMAGE = pl.Struct({"media_type": pl.String, "base64": pl.String})

SCHEMAS: Mapping[str, Columns] = {
    "items": {
        "item_id": pl.String,
        "split": pl.String,
        "category": pl.String,
        "question": pl.String,
        "images": pl.List(_IMAGE),
        "hints": pl.List(pl.String),
        "answer": pl.String,
        "justification": pl.String,
        "solution": pl.String,
        "payload": pl.String,
    },
    "responses": {
        "custom_id": pl.String,
        "job_id": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
        "outcome": pl.String,
        "error_class": pl.String,
        "error_code": pl.String,
        "error_message": pl.String,
        "text": pl.String,
        "finish_reason": pl.String,
        "raw_finish_reason": pl.String,
        "refusal": pl.String,
        "served_model": pl.String,
    },
    "usage": USAGE,
    "reused": {**USAGE, "run": pl.String, "paid_as": pl.String},
    "predictions": {
        **dict.fromkeys(("item_id", "model", "provider", "family", "split"), pl.String),
        "n_hints": pl.Int64,
        **dict.fromkeys(("kind", "answer", "justification", "raw_text", "note", "finish_reason"), pl.String),
        **dict.fromkeys(("custom_id", "batch_id"), pl.String),
        "attempt": pl.Int64,
        "sample": pl.Int64,
    },
    "verdicts": VERDICTS,
    "rejudged": VERDICTS,
    "grades": {
        **dict.fromkeys(("item_id", "model", "metric"), pl.String),
        "grade": pl.Float64,
        "tag": pl.String,
        "note": pl.String,
        "sample": pl.Int64,
    },
    "scores": {
        **dict.fromkeys(("item_id", "model", "metric"), pl.String),
        "yes": pl.Int64,
        "total": pl.Int64,
        "judges": pl.Int64,
        "vote": pl.Float64,
        "flag": pl.String,
        "sample": pl.Int64,
        "n_hints": pl.Int64,
        "content": pl.Int64,
    },
    "labels": {
        **dict.fromkeys(("item_id", "model"), pl.String),
        **dict.fromkeys(("n_hints", "sample"), pl.Int64),
        **_MARKS,
        "labels": pl.List(pl.Struct({"people": pl.Int64, "adjudicated": pl.Boolean, **_MARKS})),
    },
    "leaderboard": STORED,
    "pairs": {
        **dict.fromkeys(("model", "other"), pl.String),
        **dict.fromkeys(("n_hints", "other_hints"), pl.Int64),
        **dict.fromkeys(("better", "lower", "upper", "better_new", "lower_new", "upper_new"), pl.Float64),
    },
    "label_need": {"labels": pl.Int64, "half_width_now": pl.Float64, "half_width_then": pl.Float64},
    "judges": {"document": pl.String},
    "cost": {
        "provider": pl.String,
        "model": pl.String,
        "stage": pl.String,
        "requests": pl.Int64,
        "input_tokens": pl.Int64,
        "cached_input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "reasoning_tokens": pl.Int64,
        "cost_usd": pl.String,
        "unbatched_usd": pl.String,
        "saved_usd": pl.String,
        "price_source": pl.String,
        "price_date": pl.String,
    },
}
"""Column types by table. Money is exact decimal text; scores in ``leaderboard`` are percent, as printed."""
