"""A manifest's own prices: what it leaves out of a batch's rates follows from the provider's discount."""

from __future__ import annotations

from decimal import Decimal as D
from pathlib import Path

import pytest

from layton_batch.costs.rates import Rates
from layton_batch.manifest.checks import load_manifest
from layton_batch.runs.own_prices import price_book
from tests.support.lab import manifest_text

HALF, WHOLE = Rates(D("1.0"), D("4.0"), D("0.5")), Rates(D("2"), D("8"), D("0.5"))


def batch_rates(folder: Path, provider: str, more: str = "") -> Rates:
    own = f'[[prices]]\nprovider = "{provider}"\nmodel = "a-model-of-ours"\ninput = "2"\noutput = "8"\n'
    path = folder / "m.toml"
    path.write_text(manifest_text(prices=own + more))
    price = price_book(load_manifest(path), 1_795_000_000.0).price(provider, "a-model-of-ours")
    assert price is not None
    assert (price.standard.input, price.standard.output) == (2, 8)
    assert not price.inferred
    return price.batch


@pytest.mark.parametrize(
    ("provider", "more", "rates"),
    [
        ("openai", 'cached_input = "0.5"', HALF),  # its discount does not stack with caching
        ("gemini", 'cached_input = "0.5"', HALF),
        (
            "anthropic",
            'cached_input = "0.5"',
            Rates(D("1.0"), D("4.0"), D("0.25"), D("1.25")),
        ),  # a write to its cache is dearer
        ("openai", 'cached_input = "1.5"', Rates(D("1.0"), D("4.0"), D("1.0"))),  # cached is never dearer than fresh
        ("together", 'cached_input = "0.5"', WHOLE),  # not on its list of discounted models
        ("openai", 'batch_input = "1.5"', Rates(D("1.5"), D("4.0"))),
        ("openai", 'batch_input = "2"\nbatch_output = "8"', Rates(D("2"), D("8"))),  # an account without the discount
        ("openai", 'cached_input = "0.5"\nbatch_cached_input = "0.3"', Rates(D("1.0"), D("4.0"), D("0.3"))),
    ],
)
def test_a_batch_costs_what_the_manifest_says_else_the_discount(
    tmp_path: Path, provider: str, more: str, rates: Rates
) -> None:
    assert batch_rates(tmp_path, provider, more) == rates
