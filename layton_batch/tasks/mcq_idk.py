"""mcq_idk: multiple choice where "I don't know" is the last option, and a mistake costs a point (evaluate-idk).

Any data set with 2 to 25 options an item; ``mcq_idk_rules/mcq_items.py`` says which columns are read. The options are
shuffled once, when rows become items, and kept on the item: ``payload`` has ``options`` as shown, ``gold`` and
``idk_letter`` (letters), ``order`` (of each shown option, its index in the row) and ``seed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.mcq_idk_rules.corrected_letters import read_corrected
from layton_batch.tasks.mcq_idk_rules.mcq_items import (
    MAX_OPTIONS,
    MIN_OPTIONS,
    Key,
    belongs,
    idk_letter,
    item_from,
    item_key,
    option_letters,
)
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, McqOutcome, mark
from layton_batch.tasks.mcq_idk_rules.original_letters import read_original, without_think_blocks
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.reply_json import ending, failure
from layton_batch.tasks.templates import Templates, TemplateVariables, without_surrogates
from layton_batch.tasks.thoughts import without_thoughts

if TYPE_CHECKING:
    from layton_batch.tasks.mcq_idk_rules.evaluate_idk_files import McqForm
    from layton_batch.tasks.offline import GradingOptions

HERE = Path(__file__).parent
ORIGINAL, ORIGINAL_V2, CORRECTED = "original", "original_v2", "corrected"
PROTOCOLS = (CORRECTED, ORIGINAL, ORIGINAL_V2)
"""``original``: evaluate-idk to the letter, with its first prompts (all GPQA rows of its table). ``original_v2``: the
same with its present prompts (all LEXam rows). ``corrected``, the default: the requested form wins, 2 to 25 options."""
_END = {CORRECTED: "", ORIGINAL: "\n\n", ORIGINAL_V2: "\n"}
"""Line breaks after a prompt's last word."""
BUNDLED_SPLIT = "demo"
_ENDINGS: Mapping[FinishReason | None, str] = {FinishReason.LENGTH: "truncated", FinishReason.REFUSAL: "refused"}
"""In notes of a prediction, and tags of a grade beside the outcomes and ``missing``."""

_QUESTION = TemplateVariables(
    frozenset({"instruction", "question", "options", "idk_letter"}), frozenset({"question", "options"})
)
_SLOTS: Mapping[str, TemplateVariables] = {
    "instruction": TemplateVariables(frozenset({"idk_letter"}), must=frozenset({"idk_letter"})),
    "corrected": _QUESTION,
    "original": _QUESTION,
    "instruction_v2": TemplateVariables(frozenset({"idk_letter", "category", "course_name"})),
    "original_v2": _QUESTION,
}


class McqIdkTask:
    """The task for one split. Template names: ``instruction`` (the published words) and the protocol's own."""

    name: str = "mcq_idk"
    metrics: Sequence[str] = METRICS
    uses_jury: Literal[False] = False
    protocols: Sequence[str] = PROTOCOLS

    def __init__(
        self,
        options: TaskOptions,
        protocol: str = CORRECTED,
        seed: int = 0,
        n_options: int | None = None,
        instruction: bool = True,
    ) -> None:
        options.check_no_hints(self.name)
        if protocol not in PROTOCOLS:
            raise ManifestError(f"protocol {protocol!r}: mcq_idk has {' and '.join(PROTOCOLS)}")
        if n_options is not None and n_options not in range(MIN_OPTIONS, MAX_OPTIONS + 1):
            raise ManifestError(f"n_options {n_options!r}: a whole number from {MIN_OPTIONS} to {MAX_OPTIONS}")
        if not instruction and protocol != ORIGINAL_V2:
            raise ManifestError(f"instruction = false is for protocol {ORIGINAL_V2!r}, as idk-eval is asked")
        self.protocol = protocol
        self._split, self._seed, self._n_options = options.split, seed, n_options
        self._has_instruction = instruction
        self._templates = Templates(
            HERE / "prompts" / "mcq_idk", _SLOTS, options.prompts, as_written=protocol == ORIGINAL_V2
        )

    def span(self, metric: str) -> tuple[float, float]:
        """A wrong answer costs as much as a right one earns by ``idk_score``; the others are from 0 to 1."""
        return (-1.0 if metric == "idk_score" else 0.0), 1.0

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows as items; those of another split (or of another language than a two-letter split) are passed over."""
        split, seed, n_options = self._split, self._seed, self._n_options
        return [
            item_from(row, number, split, seed, n_options) for number, row in enumerate(rows, 1) if belongs(row, split)
        ]

    def bundled(self, split: str) -> Path:
        if split not in (BUNDLED_SPLIT, "llm"):  # "llm" is what a manifest says that says nothing
            raise DataError(f"no bundled items for split {split!r}; there is {BUNDLED_SPLIT!r}")
        return HERE / "data" / "mcq_idk" / f"{BUNDLED_SPLIT}.jsonl"

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
        return Prompt(system="", parts=(text + _END[self.protocol],))

    def _instruction(self, item: Item, idk: str) -> str:
        if self.protocol != ORIGINAL_V2:
            return self._templates.render("instruction", idk_letter=idk)
        if not self._has_instruction:
            return ""
        return self._templates.render(
            "instruction_v2", idk_letter=idk, category=item.category, course_name=item.category
        )

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with one of the item's letters, ``abstained`` with the last one, or ``unparsed``."""
        raw = without_surrogates(response.text) if response.text is not None else None
        note = failure(response)
        if note is not None:
            return Prediction(item.id, model, PredictionKind.MISSING, raw_text=raw, note=note)
        options, ended = item.payload.get("options"), ending(response)
        n_options = len(options) if isinstance(options, list) else None
        note = _ENDINGS.get(ended)
        letter = self._letter(raw, ended, MAX_OPTIONS if n_options is None else n_options)
        if letter is None:
            note = note or "no letter"
            return Prediction(item.id, model, PredictionKind.UNPARSED, raw_text=raw, note=note, ending=ended)
        abstained = n_options is not None and letter == idk_letter(n_options)
        kind = PredictionKind.ABSTAINED if abstained else PredictionKind.ANSWERED
        return Prediction(item.id, model, kind, answer=letter, raw_text=raw, note=note, ending=ended)

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
        marks = mark(letter, key.gold, key.n_options)
        values = {name: float(value) for name, value in marks.as_dict().items()}
        return Grade(item.id, prediction.model, values, tag_of(marks.outcome, prediction))

    def key(self, item: Item) -> Key:
        """Return the key of an item. Raises DataError where its payload is not what the task made it."""
        return item_key(item, first_alone=self.protocol != CORRECTED)

    def offline(self, options: GradingOptions) -> McqForm:
        """Return the form that reads and reports predictions made elsewhere."""
        from layton_batch.tasks.mcq_idk_rules.evaluate_idk_files import McqForm

        return McqForm(self, options)

    def _letter(self, raw: str | None, ended: FinishReason | None, n_options: int) -> str | None:
        """Read the letter. The original scores the text of a refusal too; corrected, a refusal has no letter."""
        if self.protocol == CORRECTED and ended is FinishReason.REFUSAL:
            return None
        return read_letter(raw or "", self.protocol, n_options)


def tag_of(outcome: McqOutcome, prediction: Prediction) -> str | None:
    """The kind of failure; None where nothing failed."""
    if outcome is McqOutcome.CORRECT:
        return None
    if outcome is not McqOutcome.NO_LETTER:
        return str(outcome)
    if prediction.kind is PredictionKind.MISSING:
        return str(PredictionKind.MISSING)
    return _ENDINGS.get(prediction.ending, str(outcome))


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read_letter(text: str, protocol: str, n_options: int) -> str | None:
    """Read the letter of a reply, None without one.

    The original knows no number of options: it reads A-E in prose and A-K in the requested forms, whatever was asked.
    """
    if protocol != CORRECTED:
        return read_original(without_think_blocks(text)).letter
    return read_corrected(without_thoughts(text), n_options)
