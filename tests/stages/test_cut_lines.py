"""Lines whose answers are cut out say what they say decoded whole, in every dialect, whatever is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layton_batch.batches import cut_lines, raw_results
from layton_batch.batches.cut_lines import STAND_IN, decoded
from layton_batch.batches.replies import unpacked
from layton_batch.providers import answer_keys, connect
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import JsonValue, Response

DIALECTS = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai", "vertex")
WORDS = st.sampled_from(
    ['"', "\\", "\\\\", "\n", "\t", "é", "漢", "🧩", "\x00", "\u2028", '"content": "', '"text":"', "}"]
)
SAID = st.lists(WORDS | st.sampled_from(["a word ", "x" * 40]), max_size=40).map("".join)
DAMAGE = st.sampled_from(
    [(b"a", b"\xff"), (b"a", b"\\ud83d"), (b"a", b"\t"), (b"a", b"\\x"), (b"stop", b"\xc3"), (b"", b"")]
)


def chat(text: JsonValue, more: JsonValue) -> JsonValue:
    message = {"role": "assistant", "content": text, "reasoning_content": more, "text": more}
    return {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}


def of_responses(text: JsonValue, more: JsonValue) -> JsonValue:
    parts = [{"type": "output_text", "text": text}, {"type": "refusal", "refusal": None}]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": more}]}
    message = {"type": "message", "content": parts}
    return {"object": "response", "status": "completed", "output": [thought, message], "text": {"format": "json"}}


def row(dialect: str, text: JsonValue, more: JsonValue, form: int) -> Mapping[str, JsonValue]:
    if dialect == "anthropic":
        blocks: JsonValue = [{"type": "thinking", "thinking": more}, {"type": "text", "text": text}]
        blocks = [*blocks, {"type": "text", "text": more}] if form and isinstance(blocks, list) else blocks
        message = {"content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}}
        return {"custom_id": "c1", "result": {"type": "succeeded", "message": message}}
    if dialect in ("gemini", "vertex"):
        parts: JsonValue = [{"text": more, "thought": not form}, {"text": text}]
        return {"key": "c1", "response": {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}}
    body = of_responses(text, more) if form and dialect == "openai" else chat(text, more)
    if dialect == "xai":
        return {"batch_request_id": "c1", "batch_result": {"response": {"chat_get_completion": body}}}
    return {"custom_id": "c1", "response": {"status_code": 200, "body": body}, "error": None}


def read(line: bytes, dialect: str, *, cut: bool) -> tuple[Response | str, bool]:
    """What the line says, and whether its answer was cut out."""
    provider = connect(dialect, None)
    keys = answer_keys(provider) if cut else ()
    [((one,), texts)] = list(decoded([(line, True)], provider.decode, keys))
    if not isinstance(one.said, Response):
        return str(one.said), False
    if one.place is None:
        return one.said, False
    start, length = one.place
    assert one.said.text == STAND_IN
    return replace(one.said, text=texts[start : start + length].decode()), True


@pytest.mark.parametrize("dialect", DIALECTS)
@given(text=SAID | st.lists(SAID, max_size=2) | st.none(), more=SAID, form=st.integers(0, 1), damage=DAMAGE,
       is_ascii=st.booleans(), end=st.integers(0, 30))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_what_a_line_says_does_not_hang_on_how_it_is_read(
    dialect: str, text: JsonValue, more: str, form: int, damage: tuple[bytes, bytes], is_ascii: bool, end: int
) -> None:
    line = json.dumps(row(dialect, text, more, form), ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    for one in (line, line.replace(*damage), line[: len(line) - end], b"\xef\xbb\xbf" + line, line + line):
        assert read(one, dialect, cut=True)[0] == read(one, dialect, cut=False)[0]
        assert STAND_IN not in repr(read(one, dialect, cut=True)[0])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_answer_is_cut_out_in_every_dialect_that_names_it(dialect: str) -> None:
    text = orjson.dumps({"answer": "two \\ pianos\n", "justification": '漢字, "said" ' * 90}).decode()
    for form in (0, 1) if dialect == "openai" else (0,):
        said, is_cut = read(orjson.dumps(row(dialect, text, "a thought", form)), dialect, cut=True)
        assert isinstance(said, Response)
        assert (said.text, is_cut) == (text, True)


def test_a_line_of_many_strings_is_decoded_whole() -> None:
    for number, is_cut in ((3, True), (100, False)):
        line = orjson.dumps(
            {"notes": [{"content": 'a "note" ' * 90}] * number, **row("openai", "an answer " * 90, "", 0)}
        )
        said, was_cut = read(line, "openai", cut=True)
        assert (said, was_cut) == (read(line, "openai", cut=False)[0], is_cut)


def test_a_line_is_not_decoded_a_second_time_where_its_answer_was_cut_out(tmp_path: Path) -> None:
    provider, seen = connect("openai", None), list[bytes]()

    def decode(line: bytes) -> Response:
        seen.append(line)
        return provider.decode(line)

    texts = [f"{number} " * 100 for number in range(5)]
    lines = [orjson.dumps({**row("openai", text, "", 0), "custom_id": f"c{n}"}) for n, text in enumerate(texts)]
    raw_results.store(tmp_path / "raw", [ResultPart("output", iter([b"\n".join(lines)]))])
    with unpacked(tmp_path / "raw", decode, tmp_path, answer_keys(provider)) as replies:
        responses, column = replies.together([one for one in replies.entries if not isinstance(one, str)])
    assert column.to_list() == texts
    assert [one.custom_id for one in responses] == ["c0", "c1", "c2", "c3", "c4"]
    assert len(seen) == 5
    assert not any(text.encode() in line for text, line in zip(texts, seen, strict=True))


def test_portions_of_lines_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = connect("openai", None)
    answers = ["long " * number for number in range(40)]
    lines = [orjson.dumps({**row("openai", text, "", 0), "custom_id": f"c{n}"}) for n, text in enumerate(answers)]
    lines.insert(7, lines[3][:90])
    lines.insert(9, lines[30].replace(b"long", b"l\xffng"))
    raw_results.store(tmp_path / "raw", [ResultPart("output", iter([b"\n".join(lines)]))])
    found = []
    for rows in (3, 1_000):
        monkeypatch.setattr(cut_lines, "_ROWS", rows)
        with unpacked(tmp_path / "raw", provider.decode, tmp_path, answer_keys(provider)) as replies:
            found.append([one if isinstance(one, str) else replies.whole(one) for one in replies.entries])
    assert found[0] == found[1]
    assert len(found[0]) == 42
