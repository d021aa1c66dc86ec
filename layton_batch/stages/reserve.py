"""The reserve of a batch in the budget: the most it can cost, or, where ``[budget] bound = "expected"``, less."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from layton_batch.costs.expected import BYTES_PER_TOKEN, bundled_priors, expected_cost
from layton_batch.manifest.form import BudgetTable
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.states import Role


def stage_of(job: Job) -> Role:
    """Return the role whose replies tell how long the job's are: any verdict is as long as one on a labelled answer."""
    return Role.JUDGE if job.role is Role.REJUDGE else job.role


def with_safety(budget: BudgetTable, most: Decimal | None, expected: Decimal | None) -> Decimal | None:
    """Return the reserve, in USD, for what costs at most ``most`` and probably ``expected``. None: not known."""
    if budget.bound is None or most is None or expected is None:
        return most
    return min(most, expected * budget.safety)


def reserve(run: Run, job: Job, requests: int, size_bytes: int, most: Decimal | None) -> Decimal | None:
    """Return the budget's reserve for a batch of the job with so many requests, in a file of this size.

    The expected cost is that of the tokens of earlier answers of the model, in this workspace, else of the priors.
    """
    budget = run.manifest.budget
    price = run.prices.price(job.spec.provider, job.spec.model)
    if budget.bound is None or price is None or not requests:
        return most
    tokens = run.past_usage.mean(stage_of(job), job.spec)
    if tokens is None:
        read, written = size_bytes // requests // BYTES_PER_TOKEN, bundled_priors().output(job.spec, stage_of(job))
    else:
        read, written = tokens.input, tokens.output
    return with_safety(budget, most, requests * expected_cost(read, written, price))


def total(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """Return the sum of the amounts in USD; None where one is unknown."""
    amount = Decimal(0)
    for usd in amounts:
        if usd is None:
            return None
        amount += usd
    return amount
