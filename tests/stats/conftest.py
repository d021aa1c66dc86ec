"""The real boards and their recorded results, read once."""

from __future__ import annotations

from typing import Any

import pytest

from .boards import FIELDS, Board, read_json, read_lines, real_board


@pytest.fixture(scope="session")
def boards() -> dict[str, Board]:
    rows = read_lines("ppi_llm.jsonl")
    return {field: real_board(rows, field) for field in FIELDS}


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    return dict(read_json("expected_llm.json"))
