"""Costs of requests to come: the reserve of a batch, and how long judges' requests can get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from layton_batch.batches.batch_file import RequestCosts
from layton_batch.costs.estimate import (
    PromptSize,
    TokenBound,
    bound_cost,
    bundled_priors,
    expected_cost,
    expected_input,
    text_bytes,
)
from layton_batch.manifest.form import BudgetTable
from layton_batch.providers.protocol import Provider
from layton_batch.providers.wire_json import request_line
from layton_batch.records import Item, Job, ModelSpec, Prediction, Request
from layton_batch.runs.context import Run
from layton_batch.runs.requests import PromptCache, SizedPrompt
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.protocol import Candidate, JuryTask, is_unfenced


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
        self._price = run.prices.price(job.spec.provider, job.spec.model)
        self._role = stage_of(job)
        self._tokens = run.past_usage.mean(self._role, job.spec)
        self.is_earlier = self._tokens is not None
        self._bounds: dict[int | None, TokenBound] = {}  # by output limit, all that tells settings of one job apart

    def of(self, spec: ModelSpec, size: PromptSize) -> RequestCosts:
        """Return the costs of one request with these settings of the job's model."""
        if self._price is None:
            return RequestCosts(None, None)
        limit = spec.max_output_tokens
        if limit not in self._bounds:
            self._bounds[limit] = TokenBound.of(0, spec)
        most = bound_cost(replace(self._bounds[limit], input=size.tokens(spec)), self._price)
        return RequestCosts(most, self.expected(spec, expected_input(size, spec)))

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


LINE_BYTES_PER_BYTE = 2
"""A fenced text holds no control character and no line break: JSON escapes only its quotes and backslashes."""
UNFENCED_LINE_BYTES_PER_BYTE = 6
"""Bytes in a line for each unfenced byte: JSON writes a control character as six."""
BYTES_PER_TOKEN = 4
"""Bytes of a participant's text for each token."""
LEAST_ALLOWANCE = 16_000
"""Bytes that an answer about the shortest item may have: the longest of 1,674 published ones (rvienne/layton-eval-ppi)
has 12,827."""
LEAST_ALLOWANCE_KNOWN = 2_000
"""Bytes that an answer may have where earlier answers of the model are known."""
ITEM_LENGTHS, EARLIER_LENGTHS = 4, 2
"""An answer may be so many times as long as its item and reference; as the longest earlier answer of the model."""


def allowance(item_bytes: int, limit: int, longest: int | None) -> int:
    """Return the longest answer, in bytes, that a plan assumes for its judges' requests. A run uses the answer itself.

    ``item_bytes``: of the item and its reference; ``limit``: of the participant's output in tokens; ``longest``: tokens
    of its longest earlier answer, None: there is none.
    """
    if longest is None:
        allowed = max(LEAST_ALLOWANCE, ITEM_LENGTHS * item_bytes)
    else:
        allowed = max(LEAST_ALLOWANCE_KNOWN, EARLIER_LENGTHS * longest * BYTES_PER_TOKEN)
    return min(allowed, limit * BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A judge's request about a justification of one byte; each byte more lengthens the prompt by ``growth`` bytes.
    Where no justification is asked for, the answer stands in its place. ``item_bytes``: of all that it shows of the
    item."""

    size: int
    bound: TokenBound
    expected_input: int
    growth: int
    item_bytes: int
    line_bytes: int = LINE_BYTES_PER_BYTE

    def longest_line(self, written: int) -> int:
        """Bound the bytes of the line about a submission that is ``written`` bytes long once it is fenced."""
        return self.size + self.line_bytes * self.growth * written

    def most_tokens(self, written: int) -> TokenBound:
        """Bound the tokens of that request: a token has at least one byte."""
        return replace(self.bound, input=self.bound.input + self.growth * max(written - 1, 0))


class JudgeRequests:
    """The requests of every judge about every item, each measured once, whichever participant is judged."""

    def __init__(self, task: JuryTask, items: Sequence[Item]) -> None:
        self._task, self._items = task, items
        self._prompts, self._growth = PromptCache(), dict[str, int]()
        self._line_bytes = UNFENCED_LINE_BYTES_PER_BYTE if is_unfenced(task) else LINE_BYTES_PER_BYTE
        self._measured: dict[tuple[str, str], list[JudgeRequest]] = {}

    def about(self, judge: ModelSpec, provider: Provider, name: str) -> list[JudgeRequest]:
        """Return a request for each item, in order. ``name`` is a custom_id; all custom_ids have the same length."""
        key = (judge.provider, judge.name)
        if key not in self._measured:
            self._measured[key] = [
                JudgeRequest(
                    size=len(request_line(provider, Request(name, item_id, judge, sized.prompt))),
                    bound=TokenBound.of(sized.size.tokens(judge), judge),
                    expected_input=expected_input(sized.size, judge),
                    growth=growth,
                    item_bytes=text_bytes(replace(sized.prompt, system="")),
                    line_bytes=self._line_bytes,
                )
                for item_id, sized, growth in map(self._prompt_and_growth, self._items)
            ]
        return self._measured[key]

    def _prompt_and_growth(self, item: Item) -> tuple[str, SizedPrompt, int]:
        """A manifest's own template may show the submission more than once."""
        short = Prediction(item.id, "x", PredictionKind.ANSWERED, "x", "x")
        sized = self._prompts.of(item, short, partial(self._task.judge_prompt, Candidate(item, short)))
        if item.id not in self._growth:
            # A task that asks for no justification shows the answer alone.
            longer = (replace(short, justification="xx"), replace(short, answer="xx"))
            prompts = (self._task.judge_prompt(Candidate(item, prediction)) for prediction in longer)
            growths = (text_bytes(prompt) - sized.size.text_bytes for prompt in prompts)
            self._growth[item.id] = next(filter(None, growths), 0)
        return item.id, sized, self._growth[item.id]
