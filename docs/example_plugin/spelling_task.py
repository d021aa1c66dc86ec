"""A benchmark in one file: spell a word backwards, graded by a rule. Nothing in layton-batch knows its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import PredictionKind, RequestOutcome
from layton_batch.tasks.protocol import TaskOptions, TaskSettings


class SpellingSettings(TaskSettings):
    """``[task_options]`` of the task."""

    case_matters: bool = False


class SpellingTask:
    """``case_matters`` can be set in a manifest: ``[task_options] case_matters = true``."""

    name: str = "spelling"
    metrics: Sequence[str] = ("exact",)
    uses_jury: Literal[False] = False

    def __init__(self, options: TaskOptions, settings: SpellingSettings) -> None:
        self._case_matters = settings.case_matters

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        return [self._item(row, number) for number, row in enumerate(rows, 1)]

    def bundled(self, split: str) -> Path:
        return Path(__file__).with_name("spelling_items.jsonl")

    def prompt(self, item: Item) -> Prompt:
        return Prompt("You spell words backwards.", (f"Spell this word backwards, nothing else: {item.question}",))

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        if response.outcome is not RequestOutcome.SUCCEEDED:
            return Prediction(item.id, model, PredictionKind.MISSING, note=response.error_message)
        words = (response.text or "").split()
        if not words:
            return Prediction(item.id, model, PredictionKind.UNPARSED, raw_text=response.text, note="blank")
        return Prediction(item.id, model, PredictionKind.ANSWERED, words[-1].strip(".\"'"), raw_text=response.text)

    def grade(self, item: Item, prediction: Prediction) -> Grade:
        said, wanted = prediction.answer or "", item.answer or ""
        same = said == wanted if self._case_matters else said.casefold() == wanted.casefold()
        failure = "wrong" if prediction.kind is PredictionKind.ANSWERED else str(prediction.kind)
        return Grade(item.id, prediction.model, {"exact": float(same)}, None if same else failure)

    def _item(self, row: Mapping[str, JsonValue], number: int) -> Item:
        word = row.get("word")
        if not isinstance(word, str) or not word:
            raise DataError(f"row {number}: column 'word' must be a word")
        return Item(str(row.get("id", number)), "llm", "", word, answer=word[::-1])
