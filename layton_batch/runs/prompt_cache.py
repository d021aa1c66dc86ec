"""Prompts that were rendered for one model, kept for the next one that is asked the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from layton_batch.costs.estimate import PromptSize
from layton_batch.records import Item, ModelSpec, Prediction, Prompt
from layton_batch.tasks import has_one_limit, with_room
from layton_batch.tasks.protocol import Candidate, JuryTask, Task

KEPT_BYTES = 24 << 20
"""Most bytes of text in the kept prompts. Prompts beyond them are rendered again for every model."""
_OVERHEAD = 500
"""Bytes that a kept prompt takes besides its text."""


@dataclass(frozen=True, slots=True)
class SizedPrompt:
    """A prompt and its size, which no model changes."""

    prompt: Prompt
    size: PromptSize


WantedPrompt = tuple[str, ModelSpec, SizedPrompt]
"""A prompt that a manifest wants to send: the item, the model with its settings, the prompt and its size."""


@dataclass(slots=True)
class PromptCache:
    """The prompts of one subject: a run's items, or one model's answers to them. Prompts with pictures are not kept."""

    _subject: tuple[object, ...] = ()
    _kept: dict[str, tuple[Item, Prediction | None, SizedPrompt]] = field(default_factory=dict)
    _bytes: int = 0

    def about(self, *subject: object) -> None:
        """Begin a subject, and forget the prompts of another one."""
        if subject != self._subject:
            self._subject, self._kept, self._bytes = subject, {}, 0

    def of(self, item: Item, judged: Prediction | None, render: Callable[[], Prompt]) -> SizedPrompt:
        """Return the prompt about an item, or about a prediction of it: a kept prompt if both are the same, else the
        result of ``render``."""
        entry = self._kept.get(item.id)
        if entry is not None and entry[:2] == (item, judged):
            return entry[2]
        prompt = render()
        sized = SizedPrompt(prompt, PromptSize.of(prompt))
        if entry is None and not sized.size.images and self._bytes < KEPT_BYTES:
            self._kept[item.id] = item, judged, sized
            self._bytes += _OVERHEAD + sized.size.text_bytes
        return sized

    def participants(self, items: Iterable[Item], spec: ModelSpec, task: Task, base: Task) -> Iterator[WantedPrompt]:
        """Yield what a participant is asked, an item each. ``task``: with the hints of its job; ``base``: with the
        manifest's, which advises the limits of replies."""
        has_own_limit = has_one_limit(base, spec)
        for item in items:
            limited = spec if has_own_limit else with_room(base, item, spec)
            yield item.id, limited, self.of(item, None, partial(task.prompt, item))

    def judges(self, candidates: Iterable[Candidate], spec: ModelSpec, task: JuryTask) -> Iterator[WantedPrompt]:
        """Yield what a judge is asked about each of the candidates."""
        for candidate in candidates:
            item, prediction = candidate.item, candidate.prediction
            yield item.id, spec, self.of(item, prediction, partial(task.judge_prompt, candidate))
