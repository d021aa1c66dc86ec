"""A riddle is found by its words, however a prompt quotes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from layton_batch.sandbox.answerers.riddle_lookup import (
    Passage,
    RiddleIndex,
    UnreadableRows,
    hints_shown,
    read_rows,
    riddle_from,
)

BRIDGE = (
    'Four hikers reach a rope bridge at night.\nThe guide says: "Only two at a time!" How do they cross in 17 minutes?'
)
LONGER = BRIDGE + "\nThe lamp burns for 15 minutes only."
CANDLE = "A candle of 30 cm burns from both ends… how long is it after one hour?"


def riddle(name: str, description: str, **columns: object) -> dict[str, object]:
    return {"id": name, "category": "Logic", "description": description, **columns}


def index(*rows: dict[str, object]) -> RiddleIndex:
    return RiddleIndex([riddle_from(row) for row in rows])


def found(where: RiddleIndex, text: str, *images: bytes) -> list[str]:
    return [hit.id for hit in where.find(Passage(text), images)]


@pytest.mark.parametrize(
    "quoted",
    [
        BRIDGE,
        " ".join(BRIDGE.split()),
        BRIDGE.replace("\n", "\r\n   "),
        json.dumps(BRIDGE),
        json.dumps({"riddle": BRIDGE}, ensure_ascii=False),
        "".join(f"\\u{ord(letter):04x}" for letter in BRIDGE),
    ],
    ids=["raw", "one line", "re-wrapped", "JSON string", "JSON object", "escaped throughout"],
)
def test_a_description_is_found_in_every_quotation(quoted: str) -> None:
    where = index(riddle("a", BRIDGE), riddle("b", CANDLE))
    assert found(where, f"Solve this.\n{quoted}\nReply in JSON.") == ["a"]


def test_of_descriptions_that_contain_each_other_the_longest_in_the_text_wins() -> None:
    where = index(riddle("short", BRIDGE), riddle("long", LONGER))
    assert found(where, f"> {LONGER}") == ["long"]
    assert found(where, f"> {BRIDGE}") == ["short"]


def test_a_text_without_a_known_description_finds_nothing() -> None:
    where = index(riddle("a", BRIDGE), riddle("empty", ""))
    assert found(where, "Four hikers reach a river.") == []
    assert found(index(), BRIDGE) == []


def test_a_description_without_a_word_is_found_too() -> None:
    assert found(index(riddle("signs", "→ ? ←")), "What comes here: → ? ←") == ["signs"]


def test_equal_descriptions_are_told_apart_by_image() -> None:
    pictures = {name: base64.b64encode(name.encode()).decode() for name in ("one", "two")}
    where = index(*(riddle(name, "What is odd here?", img=picture) for name, picture in pictures.items()))
    assert found(where, "What is odd here?", b"two") == ["two"]
    assert found(where, "What is odd here?") == ["one", "two"]


def test_equal_descriptions_are_told_apart_by_hints_and_reference() -> None:
    where = index(
        riddle("x", "What is it?", first_hint="It rolls.", solution="A ball."),
        riddle("y", "What is it?", first_hint="It ticks.", solution="A clock."),
    )
    assert found(where, "What is it?\nHint: It ticks.") == ["y"]
    assert found(where, "What is it?\nReference: A ball.") == ["x"]


def test_hints_are_counted_as_shown() -> None:
    known = riddle_from(
        riddle("a", BRIDGE, first_hint="Think of\nthe slow ones.", second_hint="", third_hint="Send back.")
    )
    assert [
        hints_shown(known, Passage(text))
        for text in ("", "Think of the slow ones.", "Think of the slow ones. Send back.")
    ] == [0, 1, 2]


def test_invisible_characters_and_surrogates_do_not_hinder() -> None:
    where = index(riddle("a", "Zero\u200bwidth and \x08bell and 🎲 dice"))
    assert found(where, json.dumps("Zero\u200bwidth and \x08bell and 🎲 dice")) == ["a"]
    assert found(where, "Zerowidth and bell and 🎲 dice") == ["a"]
    assert found(where, "\\ud83c alone") == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"id": "a", "descri', "line 1: not JSON"),
        (b'{"id": "a", "description": "x"}\n\xff\xfe{}', "line 2: not UTF-8"),
        (b"[1, 2]", "line 1: a JSON object was expected, not list"),
        (b'{"id": ' + b"9" * 5000 + b"}", "line 1: not JSON"),
    ],
)
def test_an_unreadable_file_is_refused_with_file_line_and_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "riddles.jsonl"
    path.write_bytes(content)
    with pytest.raises(UnreadableRows) as refusal:
        list(read_rows(path))
    assert f"{path}, {reason}" in str(refusal.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRows, match=r"absent\.jsonl: cannot be read"):
        list(read_rows(tmp_path / "absent.jsonl"))


def test_nulls_and_numbers_in_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "riddles.jsonl"
    row = riddle("a", BRIDGE, answer=None, solution="17", picarats=None, first_hint=None)
    path.write_text("\ufeff" + json.dumps(row | {"solution": 17}) + "\n\n", encoding="utf-8")
    [known] = [riddle_from(row) for _, row in read_rows(path)]
    assert (known.right_answer, known.picarats, known.hints) == ("17", None, ())
