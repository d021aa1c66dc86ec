"""The reserve of a batch in the budget: the most it can cost, or, where ``[budget] bound = "expected"``, less."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from layton_batch.batches.batch_file import RequestCosts
from layton_batch.costs.estimate import CostBounds, PromptSize
from layton_batch.costs.expected import bundled_priors, expected_cost, expected_input
from layton_batch.manifest.form import BudgetTable
from layton_batch.records import Job, ModelSpec
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


class JobCosts:
    """Costs of a job's requests, by the tokens of earlier answers of the model in this workspace, else by the
    priors. ``is_earlier``: there are such answers."""

    def __init__(self, run: Run, job: Job) -> None:
        self._bounds = CostBounds(run.prices)
        self._price = run.prices.price(job.spec.provider, job.spec.model)
        self._role = stage_of(job)
        self._tokens = run.past_usage.mean(self._role, job.spec)
        self.is_earlier = self._tokens is not None

    def of(self, spec: ModelSpec, size: PromptSize) -> RequestCosts:
        """Return the costs of one request with these settings of the job's model."""
        return RequestCosts(self._bounds.most(spec, size), self.expected(spec, expected_input(size, spec)))

    def expected(self, spec: ModelSpec, read: int) -> Decimal | None:
        """Return what a request of about so many tokens will probably cost in USD."""
        if self._price is None:
            return None
        if self._tokens is not None:
            return expected_cost(self._tokens.input, self._tokens.output, self._price)
        return expected_cost(read, bundled_priors().output(spec, self._role), self._price)


def total(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """Return the sum of the amounts in USD; None where one is unknown."""
    amount = Decimal(0)
    for usd in amounts:
        if usd is None:
            return None
        amount += usd
    return amount
