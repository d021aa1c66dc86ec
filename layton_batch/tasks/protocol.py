"""The task seam: what a benchmark must be able to say. One file a benchmark.

A task turns rows into items, items into prompts and replies into predictions. Then it either grades by rule
(``grade``) or says how a jury is asked and understood (``judge_prompt``, ``parse_verdict``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response, Verdict


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What the manifest says to the task. ``prompts`` maps a template's name to a file that replaces it; ``folder`` is
    where relative paths among the task's settings start."""

    split: str
    hints: int = 0
    prompts: Mapping[str, Path] | None = None
    folder: Path | None = None


class Factory(Protocol):
    """What makes a task: a class or function of the options; keyword parameters are what ``[task_options]`` may say."""

    def __call__(self, options: TaskOptions, **settings: JsonValue) -> Task: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a judge judges: an item and what a participant said about it."""

    item: Item
    prediction: Prediction


class Task(Protocol):
    """A benchmark. Implementations hold only what ``TaskOptions`` gave them and their templates.

    A task may also have ``output_tokens(item) -> int``: the output limit it advises where the manifest sets none.
    """

    name: str
    metrics: Sequence[str]
    uses_jury: bool

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of a source as items. Raises DataError naming the row and column that is wrong.

        Rows of files are :class:`~layton_batch.files.sources.Rows`, whose ``places`` say which file each is from.
        """
        ...

    def bundled(self, split: str) -> Path:
        """The original items shipped with the package. Raises DataError for a split there is none of."""
        ...

    def prompt(self, item: Item) -> Prompt:
        """What a participant is shown."""
        ...

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """A participant's reply as a prediction; never raises on model text."""
        ...

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        """What a judge is shown. The participant's words are fenced as data."""
        ...

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        """A judge's reply as a verdict; fields are None where it cannot be read. Never raises on model text."""
        ...

    def grade(self, item: Item, prediction: Prediction) -> Grade:
        """The rule's marks, one for every one of ``metrics``. Only for tasks with ``uses_jury`` False. Never raises on
        model text; an item the rule cannot grade gets zeros and a note."""
        ...
