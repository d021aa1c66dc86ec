"""Text made to be slow or to crash takes time in proportion to its length, under every protocol."""

from __future__ import annotations

import time
from functools import cache

import pytest

from layton_batch.tasks.zebralogic import PROTOCOLS
from tests.support.tiers import tiered

from .grids import GOLD, reply

SECONDS = {100_000: 3.0, 1_000_000: 30.0}
"""By size. The slowest text of a megabyte takes 3 s on two shared cores; quadratic time would be hours."""


@cache
def texts(size: int) -> dict[str, str]:
    def repeated(piece: str) -> str:
        return piece * (size // len(piece))

    return {
        "open braces": repeated("{"),
        "closing braces": repeated("}"),
        "empty objects": repeated("{}"),
        "broken keys": repeated('{"'),
        "broken values": repeated('{"a":x'),
        "open objects": repeated('{"a":'),
        "nested 10,000 deep": '{"a":' * 10_000 + "1" + "}" * 10_000,
        "nested 100,000 deep": '{"a":' * 100_000 + "1" + "}" * 100_000,
        "arrays 10,000 deep": '{"a":' + "[" * 10_000 + "]" * 10_000 + "}",
        "a deep value": '{"House 1": {"Name": ' + "[" * 980 + "]" * 980 + "}}",
        "fences": repeated("```json\n"),
        "a fence and newlines": "```json" + repeated("\n"),
        "fences and newlines": repeated("```\n\n\n\n\n"),
        "escaped quotes": '{"' + repeated('\\"'),
        "backslashes": '{"' + repeated("\\"),
        "quotes": repeated('"'),
        "a number": '{"House 1": ' + repeated("9") + "}",
        "a deep start and a long tail": '{"a":' * 900 + '{"k":[' + repeated("1,"),
        "a deeper start and a long tail": '{"a":' * 1500 + repeated('"k":1,'),
        "a tail in the middle": '{"a":' * 999 + repeated('"k":1,') + '"z":' + '{"a":' * 3000,
        "objects in strings": repeated('{"k":"{",":1,":"{", '),
        "blanks": repeated("{     "),
        "a long key": '{"house' + repeated(" ") + '1": {}}',
        "one key again and again": "{" + repeated('"House 1": {"Name": "x"}, ') + '"House 1": {}}',
        "grids": repeated('{"House 1": {"Name": "x"}} '),
        "bad escapes": repeated('{"a":"\\q",'),
        "lone surrogates": repeated("\ud800{"),
    }


NAMES = list(texts(1))
BROKEN = {
    "broken values", "open objects", "nested 10,000 deep", "nested 100,000 deep", "a deep start and a long tail",
    "a deeper start and a long tail", "a tail in the middle", "objects in strings", "bad escapes",
}  # fmt: skip
"""Thousands of broken objects: the search for a whole one ends before their end."""


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", tiered(SECONDS, ci=(100_000,)))
def test_hostile_text_is_graded_in_linear_time(size: int, protocol: str, name: str) -> None:
    start = time.monotonic()
    grade = PROTOCOLS[protocol].grade(texts(size)[name], GOLD)
    assert grade.score == 0.0
    assert grade.tag.value in {"no_answer", "wrong_answer", "malformed_output", "harness_error"}
    assert time.monotonic() - start < SECONDS[size]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BROKEN])
@pytest.mark.parametrize("size", tiered(SECONDS, ci=(100_000,)))
def test_the_tolerant_reader_finds_the_grid_that_comes_after(size: int, name: str) -> None:
    start = time.monotonic()
    assert PROTOCOLS["corrected"].grade(f"{texts(size)[name]}\n{reply()}", GOLD).score == 1.0
    assert time.monotonic() - start < SECONDS[size]
