"""Probable cost of a request, before it is sent: a guess for people. The bound is in :mod:`.estimate`.

Tokens come from earlier runs of the same model and task where there are any, else from ``priors.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files

from layton_batch.costs.estimate import PromptSize, output_bound
from layton_batch.costs.rates import Price, charge
from layton_batch.records import ModelSpec, Usage
from layton_batch.states import Role

BYTES_PER_TOKEN = 4
"""Bytes of ordinary text for each token."""
OVERHEAD = 150
"""Tokens of the chat template and the response schema."""


@dataclass(frozen=True, slots=True)
class Priors:
    """Tokens of a reply: ``text`` by role, ``reasoning`` by effort (``default``: none named), or of a budget; a judge's
    is ``of_judging`` of that."""

    as_of: str
    text: Mapping[str, int]
    reasoning: Mapping[str, int]
    of_budget: float
    of_judging: float

    def output(self, spec: ModelSpec, role: Role) -> int:
        """Estimate the output tokens of one request, reasoning included; at most what the request may use."""
        budget, effort = spec.reasoning.budget_tokens, spec.reasoning.effort or "default"
        if budget is not None:
            thought = int(self.of_budget * max(budget, 0))
        else:  # an effort that the table lacks is above those it has
            thought = self.reasoning.get(effort, self.reasoning["high"])
        share = 1.0 if role is Role.PREDICT else self.of_judging
        return min(self.text[role] + int(share * thought), output_bound(spec))


@cache
def bundled_priors() -> Priors:
    """Load ``priors.toml`` of the package."""
    data = tomllib.loads((files("layton_batch.costs") / "priors.toml").read_text(encoding="utf-8"))
    reasoning = dict(data["reasoning"])
    budget, judging = float(reasoning.pop("of_budget")), float(reasoning.pop("of_judging"))
    return Priors(str(data["as_of"]), data["text"], reasoning, budget, judging)


def expected_input(size: PromptSize, spec: ModelSpec) -> int:
    """Estimate the input tokens of a prompt of ordinary text; images count as in the bound."""
    return OVERHEAD + size.image_tokens(spec) + size.text_bytes // BYTES_PER_TOKEN


def expected_cost(input_tokens: int, output_tokens: int, price: Price) -> Decimal:
    """Return the USD of one request in a batch, nothing cached."""
    return charge(Usage(input_tokens=input_tokens, output_tokens=output_tokens), price, batched=True)
