"""mcq_idk: multiple choice where "I don't know" is the last option, and a mistake costs a point (evaluate-idk).

Any data set with 2 to 25 options an item; ``items.py`` beside this module says which columns are read. The options are
shuffled once, when rows become items, and kept on the item: ``payload`` has ``options`` as shown, ``gold`` and
``idk_letter`` (letters), ``order`` (of each shown option, its index in the row) and ``seed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.benchmark_rows import bundled_file
from layton_batch.tasks.mcq_idk.items import (
    CORRECT,
    MARKS,
    MAX_OPTIONS,
    METRICS,
    MIN_OPTIONS,
    NO_LETTER,
    Key,
    belongs,
    idk_letter,
    item_from,
    item_key,
    option_letters,
    outcome_of,
)
from layton_batch.tasks.mcq_idk.published_letters import read_original, without_think_blocks
from layton_batch.tasks.protocol import TaskOptions, TaskSettings
from layton_batch.tasks.reply_json import ENDINGS, unread, without_thoughts
from layton_batch.tasks.templates import Templates, TemplateVariables

ORIGINAL, ORIGINAL_V2, CORRECTED = "original", "original_v2", "corrected"
"""``original``: evaluate-idk to the letter, with its first prompts (all GPQA rows of its table). ``original_v2``: the
same with its present prompts (all LEXam rows). ``corrected``, the default: the requested form wins, 2 to 25 options."""
_PROMPT_END = {CORRECTED: "", ORIGINAL: "\n\n", ORIGINAL_V2: "\n"}
"""Line breaks after a prompt's last word."""

_QUESTION = TemplateVariables("question options", "instruction idk_letter")
_SLOTS: Mapping[str, TemplateVariables] = {
    "instruction": TemplateVariables("idk_letter"),
    "corrected": _QUESTION,
    "original": _QUESTION,
    "instruction_v2": TemplateVariables(may="idk_letter category course_name"),
    "original_v2": _QUESTION,
}


class McqSettings(TaskSettings):
    """``seed``: of the order of options. ``n_options``: which of several numbers of options a row's columns have.
    ``instruction = false``: the present prompt without the published words, as idk-eval is asked."""

    protocol: Literal["corrected", "original", "original_v2"] = "corrected"
    seed: int = 0
    n_options: Annotated[int, Field(ge=MIN_OPTIONS, le=MAX_OPTIONS)] | None = None
    instruction: bool = True


class McqIdkTask:
    """The task for one split. Template names: ``instruction`` (the published words) and the protocol's own."""

    name: str = "mcq_idk"
    metrics: Sequence[str] = METRICS
    uses_jury: Literal[False] = False

    def __init__(self, options: TaskOptions, settings: McqSettings = McqSettings()) -> None:  # noqa: B008 - frozen
        options.check(self.name)
        if not settings.instruction and settings.protocol != ORIGINAL_V2:
            raise ManifestError(f"task_options.instruction = false is for protocol {ORIGINAL_V2!r}")
        self.protocol: str = settings.protocol
        self._split, self._settings = options.split, settings
        self._templates = Templates("mcq_idk", _SLOTS, options.prompts, as_written=self.protocol == ORIGINAL_V2)

    def span(self, metric: str) -> tuple[float, float]:
        """A wrong answer costs as much as a right one earns by ``idk_score``; the others are from 0 to 1."""
        return (-1.0 if metric == "idk_score" else 0.0), 1.0

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows as items; those of another split (or of another language than a two-letter split) are passed over."""
        split, chosen = self._split, self._settings
        numbered = ((number, row) for number, row in enumerate(rows, 1) if belongs(row, split))
        return [item_from(row, number, split, chosen.seed, chosen.n_options) for number, row in numbered]

    def bundled(self, split: str) -> Path:
        return bundled_file("mcq_idk/demo.jsonl", split, ("demo", "llm"))

    def prompt(self, item: Item) -> Prompt:
        """One user message and no system text, as published. The originals' bytes: no blank between instruction and
        question, and two line breaks (version 2: one) at the end."""
        options = item.payload.get("options")
        shown = [str(option) for option in options] if isinstance(options, list) else []
        idk = idk_letter(len(shown))
        lines = zip(option_letters(len(shown)) + idk, [*shown, "I don't know"], strict=True)
        text = self._templates.render(
            self.protocol,
            instruction=self._instruction(item, idk),
            question=item.question,
            options="\n".join(f"{letter}) {option}" for letter, option in lines),
            idk_letter=idk,
        )
        return Prompt(system="", parts=(text + _PROMPT_END[self.protocol],))

    def _instruction(self, item: Item, idk: str) -> str:
        if self.protocol != ORIGINAL_V2:
            return self._templates.render("instruction", idk_letter=idk)
        if not self._settings.instruction:
            return ""
        return self._templates.render(
            "instruction_v2", idk_letter=idk, category=item.category, course_name=item.category
        )

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with one of the item's letters, ``abstained`` with the last one, or ``unparsed``."""
        prediction = unread(item, model, response)
        if prediction.kind is PredictionKind.MISSING:
            return prediction
        options = item.payload.get("options")
        n_options = len(options) if isinstance(options, list) else MAX_OPTIONS
        letter = self._letter(prediction.raw_text, prediction.ending, n_options)
        if letter is None:
            return replace(prediction, note=prediction.note or "no letter")
        kind = PredictionKind.ABSTAINED if letter == idk_letter(n_options) else PredictionKind.ANSWERED
        return replace(prediction, kind=kind, answer=letter)

    def grade(self, item: Item, prediction: Prediction) -> Grade:
        """Marks of the reply, read again among the item's own letters. No readable letter costs a point, as published.

        The tag is ``wrong``, ``abstained``, ``no_letter``, ``truncated``, ``refused`` or ``missing``; None if right.
        """
        try:
            key = self.key(item)
        except DataError as error:
            return Grade(item.id, prediction.model, dict.fromkeys(METRICS, 0.0), "ungradable", str(error))
        is_missing = prediction.kind is PredictionKind.MISSING
        letter = None if is_missing else self._letter(prediction.raw_text, prediction.ending, key.n_options)
        outcome = outcome_of(letter, key.gold, idk_letter(key.n_options))
        return Grade(item.id, prediction.model, dict(MARKS[outcome]), tag_of(outcome, prediction))

    def key(self, item: Item) -> Key:
        """Return the key of an item. Raises DataError where its payload is not what the task made it."""
        return item_key(item, first_alone=self.protocol != CORRECTED)

    def _letter(self, raw: str | None, ended: FinishReason | None, n_options: int) -> str | None:
        """Read the letter. The original scores the text of a refusal too; corrected, a refusal has no letter."""
        if self.protocol == CORRECTED and ended is FinishReason.REFUSAL:
            return None
        return read_letter(raw or "", self.protocol, n_options)


def tag_of(outcome: str, prediction: Prediction) -> str | None:
    """Return the kind of failure; None where nothing failed."""
    if outcome == CORRECT:
        return None
    if outcome != NO_LETTER:
        return outcome
    if prediction.kind is PredictionKind.MISSING:
        return str(PredictionKind.MISSING)
    return ENDINGS.get(prediction.ending, outcome)


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read_letter(text: str, protocol: str, n_options: int) -> str | None:
    """Read the letter of a reply, None without one.

    The original knows no number of options: it reads A-E in prose and A-K in the requested forms, whatever was asked.
    """
    if protocol != CORRECTED:
        return read_original(without_think_blocks(text)).letter
    return read_corrected(without_thoughts(text), n_options)


_END = r"(?=[)\]}.:*_`$](?!\w)|[ \t]*$)"
"""End of a letter: a closing mark or the end of its line. "Answer: A company" and "Answer: A or B" name no letter."""


def read_corrected(text: str, n_options: int) -> str | None:
    r"""Read the letter of a reply without its thoughts.

    The last ``###X###`` decides; without any, the last "Answer: X", "answer is X" or ``\boxed{X}``.
    """
    for form in _forms(n_options):
        if letters := form.findall(text):
            return str(letters[-1])
    return None


@cache
def _forms(n_options: int) -> tuple[re.Pattern[str], ...]:
    letter = f"([{option_letters(n_options)}{idk_letter(n_options)}])"
    return (
        re.compile(f"###{letter}###"),
        re.compile(rf"(?:(?i:answer(?:\s+is)?)|\\boxed)\W{{1,12}}{letter}{_END}", re.MULTILINE),
    )
