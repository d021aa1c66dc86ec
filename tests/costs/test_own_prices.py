"""A manifest's own prices: what it leaves out of a batch's rates follows from the provider's discount."""

from __future__ import annotations

from decimal import Decimal as D
from pathlib import Path

from layton_batch.costs.rates import Rates
from tests.support.lab import lab, quiz_text

HALF, WHOLE = Rates(D("1.0"), D("4.0"), D("0.5")), Rates(D("2"), D("8"), D("0.5"))
PRICES = (
    ("openai", 'cached_input = "0.5"', HALF),  # its discount does not stack with caching
    ("gemini", 'cached_input = "0.5"', HALF),
    ("anthropic", 'cached_input = "0.5"', Rates(D("1.0"), D("4.0"), D("0.25"), D("1.25"))),  # a write to its cache
    ("openai", 'cached_input = "1.5"', Rates(D("1.0"), D("4.0"), D("1.0"))),  # cached is never dearer than fresh
    ("together", 'cached_input = "0.5"', WHOLE),  # not on its list of discounted models
    ("openai", 'batch_input = "1.5"', Rates(D("1.5"), D("4.0"))),
    ("openai", 'batch_input = "2"\nbatch_output = "8"', Rates(D("2"), D("8"))),  # an account without the discount
    ("openai", 'cached_input = "0.5"\nbatch_cached_input = "0.3"', Rates(D("1.0"), D("4.0"), D("0.3"))),
)
"""The provider, what else its entry has, and the rates of its batches."""


def test_a_batch_costs_what_the_manifest_says_else_the_discount(tmp_path: Path) -> None:
    entries = (
        f'[[prices]]\nprovider = "{provider}"\nmodel = "ours-{number}"\ninput = "2"\noutput = "8"\n{more}\n'
        for number, (provider, more, _) in enumerate(PRICES)
    )
    with lab(tmp_path) as there, there.open(quiz_text(prices="".join(entries))) as run:
        for number, (provider, _, rates) in enumerate(PRICES):
            price = run.prices.price(provider, f"ours-{number}")
            assert price is not None
            assert (price.standard.input, price.standard.output, price.inferred) == (D(2), D(8), False)
            assert price.batch == rates
