"""A key that comes back in result bytes is covered, wherever chunks end and however it is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.errors import TransientProviderError
from layton_batch.redaction import Redactor, is_telling

KEY, LONGER, ODD = "sk-live-0123456789", "sk-live-0123456789-of-another", 'k"ey/with+signs=and spaces\\1'
COVER = Redactor.of([KEY, LONGER, ODD])


def covered(*chunks: bytes) -> bytes:
    return b"".join(COVER.stream(chunks))


@given(
    st.lists(st.sampled_from([KEY, LONGER, ODD, "text ", "sk-live-", "sk-", KEY[:-1], "\n"]), max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_wherever_chunks_end_no_key_is_left_and_every_other_byte_keeps_its_place(
    words: list[str], cuts: list[int]
) -> None:
    text = "|".join(words).encode()
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found = covered(*(text[start:end] for start, end in itertools.pairwise(ends)))
    assert len(found) == len(text)
    assert not any(key.encode() in found for key in (KEY, LONGER, ODD))
    at = 0
    for word in words:
        if word not in (KEY, LONGER, ODD):
            assert found[at : at + len(word)] == word.encode()
        at += len(word.encode()) + 1


@pytest.mark.parametrize(
    "form",
    [
        ODD,
        json.dumps(ODD),
        json.dumps(ODD).replace("/", "\\/"),
        quote(ODD, safe=""),
        quote(ODD, safe="").lower(),
    ],
)
def test_a_key_is_covered_as_json_and_urls_write_it(form: str) -> None:
    found = covered(f'{{"echo": "Authorization: {form}"}}'.encode())
    assert b"[hidden]" in found
    assert form.encode()[6:-6] not in found


def test_words_that_stand_for_keys_in_some_environments_stay_words() -> None:
    assert not any(map(is_telling, ("ollama", "postgres", "dummy-key", "EMPTY", "password")))
    assert all(map(is_telling, (KEY, "sandbox-key-groq", "abc1234567")))
    text = b"ollama and postgres are programs"
    assert b"".join(Redactor.of(["ollama", "postgres"]).stream([text])) == text


def test_a_download_that_breaks_within_a_key_goes_on_before_it() -> None:
    text = f"before {KEY} after".encode()

    def breaking() -> Iterator[bytes]:
        yield text[:15]
        raise TransientProviderError("gone")

    came: list[bytes] = []
    with pytest.raises(TransientProviderError):
        came.extend(COVER.stream(breaking()))
    assert came == [b"before "]
    came.append(covered(text[len(came[0]) :]))
    assert b"".join(came) == b"before [hidden]********** after"
