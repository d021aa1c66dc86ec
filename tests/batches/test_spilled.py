"""A reply that was put on disk comes back as it was, and equal replies are equal bytes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layton_batch.batches import raw_results
from layton_batch.batches.replies import unpacked
from layton_batch.batches.spilled import packed, unpacked_reply
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

TEXT = st.none() | st.text(st.sampled_from('ab"\\\n\x00\x7fé漢\u2028\ufeff\ud800\udfff🧩'), max_size=40)
COUNT = st.integers(0, 2**60)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, st.booleans(), st.none() | st.decimals(allow_nan=False))
REPLY = st.builds(
    Response,
    st.text(max_size=10),
    st.sampled_from(RequestOutcome),
    TEXT,
    st.none() | st.sampled_from(FinishReason),
    TEXT,
    TEXT,
    USAGE,
    st.sampled_from(ErrorClass),
    TEXT,
    TEXT,
    TEXT,
)


@settings(deadline=None)
@given(REPLY)
def test_a_reply_comes_back_as_it_was(reply: Response) -> None:
    back = unpacked_reply(packed(reply))
    assert (back, repr(back)) == (reply, repr(reply))


@settings(deadline=None)
@given(REPLY, REPLY)
def test_two_replies_are_the_same_bytes_where_they_are_told_the_same(one: Response, other: Response) -> None:
    assert (packed(one) == packed(other)) == (repr(one) == repr(other))


def test_who_else_refers_to_a_text_changes_no_byte() -> None:
    word = "".join(["st", "op"])
    shared = Response(word, RequestOutcome.SUCCEEDED, word, raw_finish_reason=word, served_model=word)
    apart = Response(*("".join(["s", "top"]), RequestOutcome.SUCCEEDED, "".join(["sto", "p"])))
    apart = replace(apart, raw_finish_reason="stop", served_model="".join(["stop"]))
    assert packed(shared) == packed(apart)


class Loud(str):
    """A text of a dialect's own."""


@pytest.mark.parametrize("odd", [Loud("text"), object()])
def test_a_reply_with_something_of_a_dialects_own_is_kept_in_memory(tmp_path: Path, odd: str) -> None:
    reply = Response("c1", RequestOutcome.SUCCEEDED, odd, usage=Usage(stated_usd=Decimal("0.1")))
    with pytest.raises(ValueError):
        packed(reply)
    raw_results.store(tmp_path / "raw", [ResultPart("output", iter([b"line\n"]))])
    with unpacked(tmp_path / "raw", lambda _: reply, tmp_path) as replies:
        (entry,) = replies.entries
        assert entry is reply


def test_a_line_is_decoded_once(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def decode(line: bytes) -> Response:
        seen.append(line)
        return Response(line.decode(), RequestOutcome.SUCCEEDED, "text")

    raw_results.store(tmp_path / "raw", [ResultPart("output", iter([b"a\nb\n"]))])
    with unpacked(tmp_path / "raw", decode, tmp_path) as replies:
        whole = [replies.whole(one) for one in replies.entries if not isinstance(one, str)]
    assert [one.custom_id for one in whole] == ["a", "b"]
    assert seen == [b"a", b"b"]
