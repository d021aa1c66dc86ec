"""Files of intents: a damaged one is named as such, and never taken for another intent."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from layton_batch.records import Event
from layton_batch.store.intents import INTENT, Intent, read_intents, writing_intent


def written(folder: Path) -> Path:
    with writing_intent(folder, "predict-x.s0001.a1") as note:
        note(Event(1024, 0.0, "predict-x.s0001.a1", INTENT, ""))
    return folder / "predict-x.s0001.a1.json"


def test_an_intent_reads_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path)
    assert read_intents(tmp_path) == [Intent(1024, "predict-x.s0001.a1")]


def test_a_flipped_bit_in_an_intent_is_damage_and_no_other_one(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=rf"{path} is damaged"):
            read_intents(tmp_path)
