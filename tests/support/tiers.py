"""Which cases of a claim every change plays: those that the test names. The others are nightly."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

FAMILIES = ("openai", "anthropic", "gemini", "mistral")
"""One provider of each wire family. Groq, Doubleword and Together share the wire of OpenAI's batch files."""


def tiered(*axes: Iterable[object], ci: Iterable[object]) -> list[ParameterSet]:
    """Make the product of ``axes``, for ``parametrize``; a case that ``ci`` does not name is nightly.

    ``ci`` holds one value for each case of a single axis, and tuples for several. A name without a case is an error.
    """
    played = [case if isinstance(case, tuple) else (case,) for case in ci]
    product = list(itertools.product(*axes))
    missing = [case for case in played if case not in product]
    if missing or not played:
        raise ValueError(f"no such cases: {missing or 'none is named'}")
    return [pytest.param(*case, marks=() if case in played else pytest.mark.nightly) for case in product]
