"""How long judges' requests can get while nobody has answered yet, by arithmetic: no long text is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from layton_batch.batches.request_lines import LineWriter, images
from layton_batch.batches.shown_prompts import Shown, ShownPrompts
from layton_batch.costs.estimate import TokenBound, text_bytes
from layton_batch.costs.expected import expected_tokens
from layton_batch.records import Item, ModelSpec, Prediction
from layton_batch.states import PredictionKind
from layton_batch.tasks.protocol import Candidate, JuryTask, is_unfenced

LINE_BYTES_PER_BYTE = 2
"""A fenced text holds no control character and no line break: JSON escapes only its quotes and backslashes."""
UNFENCED_LINE_BYTES_PER_BYTE = 6
"""Of a text that is not fenced: JSON writes a control character as six."""


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A judge's request about a justification of one byte; each byte more lengthens the prompt by ``growth`` bytes."""

    size: int
    bound: TokenBound
    expected_input: int
    growth: int
    line_bytes: int = LINE_BYTES_PER_BYTE

    def longest_line(self, written: int) -> int:
        """At least the bytes of the line about a justification that is ``written`` bytes long once it is fenced."""
        return self.size + self.line_bytes * self.growth * written

    def most_tokens(self, written: int) -> TokenBound:
        """At least the tokens of that request: a token has at least one byte."""
        return TokenBound(self.bound.input + self.growth * max(written - 1, 0), self.bound.output)


class JudgeRequests:
    """The requests of every judge about every item, each measured once, whichever participant is judged."""

    def __init__(self, task: JuryTask, items: Sequence[Item]) -> None:
        self._task, self._items = task, items
        self._shown, self._growth = ShownPrompts(), dict[str, int]()
        self._line_bytes = UNFENCED_LINE_BYTES_PER_BYTE if is_unfenced(task) else LINE_BYTES_PER_BYTE
        self._measured: dict[tuple[str, str], list[JudgeRequest]] = {}

    def about(self, judge: ModelSpec, writer: LineWriter, name: str) -> list[JudgeRequest]:
        """In the items' order. ``name`` is a custom_id; all are of one length."""
        key = (judge.provider, judge.name)
        if key not in self._measured:
            self._measured[key] = [
                JudgeRequest(
                    size=writer.size(name, item_id, judge, shown)[0],
                    bound=writer.tokens(judge, shown),
                    expected_input=expected_tokens(shown.text_bytes, images(judge, shown)),
                    growth=growth,
                    line_bytes=self._line_bytes,
                )
                for item_id, shown, growth in map(self._shown_and_growth, self._items)
            ]
        return self._measured[key]

    def _shown_and_growth(self, item: Item) -> tuple[str, Shown, int]:
        """A manifest's own template may show the submission more than once."""
        short, longer = (Prediction(item.id, "x", PredictionKind.ANSWERED, "x", text) for text in ("x", "xx"))
        shown = self._shown.of(item, short, cache(partial(self._task.judge_prompt, Candidate(item, short))))
        if item.id not in self._growth:
            more = self._task.judge_prompt(Candidate(item, longer))
            self._growth[item.id] = text_bytes(more) - shown.text_bytes
        return item.id, shown, self._growth[item.id]
