"""Columns that several of a run's tables have."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Columns = Mapping[str, pl.DataType | type[pl.DataType]]
VERDICTS: Columns = {
    "item_id": pl.String,
    "model": pl.String,
    "judge": pl.String,
    "judge_provider": pl.String,
    "is_answer_correct": pl.Boolean,
    "is_justification_correct": pl.Boolean,
    "both_correct": pl.Boolean,
    "note": pl.String,
    "raw_text": pl.String,
    "custom_id": pl.String,
    "batch_id": pl.String,
    "attempt": pl.Int64,
    "sample": pl.Int64,
    "n_hints": pl.Int64,
}
"""Of this run's answers, and of labelled answers of the gold set."""
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
    "cost_usd": pl.String,
    "unbatched_usd": pl.String,
    "price_source": pl.String,
    "price_date": pl.String,
}
"""Of what was paid for here, and of answers taken over from a run, or a job, that paid for them."""
