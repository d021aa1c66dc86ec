"""Rows that almost follow a document: its keys in any nesting, holding anything."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Usage

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)


def almost(keys: str, words: str) -> st.SearchStrategy[bytes]:
    """JSON lines built of the space-separated ``keys`` and ``words`` of a document, and of anything else."""
    leaves = SCALARS | st.sampled_from(words.split())
    names = st.sampled_from(keys.split())
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6),
        max_leaves=20,
    )
    return values.map(lambda value: json.dumps(value).encode())


def claim_decode_is_total(provider: Provider, line: bytes) -> None:
    """Either a response that names its request and has sane counts, or the one error that a bad line may give."""
    try:
        response = provider.decode(line)
    except ProviderReplyError:
        return
    assert response.custom_id
    assert_sane(response.usage)


def assert_sane(usage: Usage) -> None:
    assert 0 <= usage.cached_input_tokens <= usage.input_tokens
    assert usage.output_tokens >= usage.reasoning_tokens >= 0
