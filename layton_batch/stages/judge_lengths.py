"""How long judges' requests can get while nobody has answered yet, by arithmetic: no long text is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from layton_batch.costs.estimate import TokenBound, text_bytes
from layton_batch.costs.expected import expected_input
from layton_batch.providers.protocol import Provider
from layton_batch.providers.request_line import request_line
from layton_batch.records import Item, ModelSpec, Prediction, Request
from layton_batch.runs.prompt_cache import PromptCache, SizedPrompt
from layton_batch.states import PredictionKind
from layton_batch.tasks.protocol import Candidate, JuryTask, is_unfenced

LINE_BYTES_PER_BYTE = 2
"""A fenced text holds no control character and no line break: JSON escapes only its quotes and backslashes."""
UNFENCED_LINE_BYTES_PER_BYTE = 6
"""Of a text that is not fenced: JSON writes a control character as six."""
BYTES_PER_TOKEN = 4
"""Of what a participant writes."""
LEAST_ALLOWANCE = 16_000
"""Bytes that an answer about the shortest item may have: the longest of 1,674 published ones (rvienne/layton-eval-ppi)
has 12,827."""
LEAST_ALLOWANCE_KNOWN = 2_000
"""The same where earlier answers of the model are known."""
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
