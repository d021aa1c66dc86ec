"""The task seam: what a benchmark must be able to say. One file a benchmark.

A task turns rows into items, items into prompts and replies into predictions. Then it is one of two kinds, and
``uses_jury`` says which, also to a type checker: a ``RuleTask`` grades by rule (``grade``), a ``JuryTask`` says how a
jury is asked and understood (``judge_prompt``, ``parse_verdict``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from layton_batch.errors import LaytonBatchError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response, Verdict


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options from the manifest for a task. ``prompts`` maps a template's name to a file that replaces the template.

    ``folder``: base of relative paths among the task's settings. ``reasons``: a judge says why before it decides.
    """

    split: str
    hints: int = 0
    prompts: Mapping[str, Path] | None = None
    folder: Path | None = None
    reasons: bool = False

    def check(self, task: str, splits: Sequence[str] = (), levels: int = 0) -> None:
        """Raise ManifestError for a split or a hint level that the task does not have. ``splits``: empty if the task
        takes any."""
        if splits and self.split not in splits:
            raise ManifestError(f"split {self.split!r}: the {task} task has {', '.join(splits)}")
        if not 0 <= self.hints <= levels:
            has = f"levels 0 to {levels}" if levels else "no hints; take `hints` out (the task layton has hints)"
            raise ManifestError(f"hints {self.hints}: the {task} task has {has}")


class TaskSettings(BaseModel):
    """``[task_options]`` of a task."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Factory = Callable[..., "Task"]
"""Factory of a task: a class or function of the options and, if the task has any, of its ``settings``, a model derived
from ``TaskSettings``."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Item and a participant's prediction for it, to be judged."""

    item: Item
    prediction: Prediction


class _Benchmark(Protocol):
    """Common part of both kinds of task. Implementations hold only their ``TaskOptions`` and templates."""

    name: str
    metrics: Sequence[str]

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of a source as items. Raises DataError naming the row and column that is wrong.

        Rows of files are :class:`~layton_batch.files.sources.SourceRows`: ``placed()`` says which file each is from.
        """
        ...

    def bundled(self, split: str) -> Path:
        """The original items shipped with the package. Raises DataError for a split there is none of."""
        ...

    def prompt(self, item: Item) -> Prompt:
        """Return the prompt for a participant."""
        ...

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """A participant's reply as a prediction; never raises on model text."""
        ...


class RuleTask(_Benchmark, Protocol):
    """A benchmark that a rule grades."""

    uses_jury: Literal[False]

    def grade(self, item: Item, prediction: Prediction) -> Grade:
        """The rule's marks, one for every one of ``metrics``. Never raises on model text; an item the rule cannot grade
        gets zeros and a note."""
        ...


class JuryTask(_Benchmark, Protocol):
    """A benchmark that a jury of models grades."""

    uses_jury: Literal[True]

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        """Return the prompt for a judge.

        The participant's words are fenced as data, unless the user's manifest disables fences (``MayShowUnfenced``).
        """
        ...

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        """A judge's reply as a verdict; fields are None where it cannot be read. Never raises on model text."""
        ...


Task = RuleTask | JuryTask


@runtime_checkable
class AdvisesLimits(Protocol):
    """A task that advises an output limit, where the manifest sets none."""

    def output_tokens(self, item: Item) -> int: ...


@runtime_checkable
class MayShowReasons(Protocol):
    """A task whose judges can be asked why (``TaskOptions.reasons``): its verdicts have a ``reason`` then."""

    gives_reasons: bool


@runtime_checkable
class MayShowUnfenced(Protocol):
    """A task that can be told to put a participant's words into a judge's prompt as they are."""

    @property
    def shows_unfenced(self) -> bool: ...


@runtime_checkable
class StatesSpan(Protocol):
    """A task some of whose marks lie outside 0 to 1."""

    def span(self, metric: str) -> tuple[float, float]:
        """The least and the greatest mark that the rule can give by this metric."""
        ...


def mark_span(task: Task, metric: str) -> tuple[float, float]:
    """The least and the greatest mark by this metric: what the task states, else 0 and 1."""
    return task.span(metric) if isinstance(task, StatesSpan) else (0.0, 1.0)


@runtime_checkable
class HasStrata(Protocol):
    """A task whose benchmark is put together of so many items of each kind, as new ones would be."""

    def stratum(self, item: Item) -> str:
        """The item's kind."""
        ...


def stratum_of(task: Task, item: Item) -> str:
    """The item's kind, by which its benchmark is put together; empty where it is not."""
    return task.stratum(item) if isinstance(task, HasStrata) else ""


_UNFENCED = (
    "a participant's text is not fenced in the judges' prompts: what it says can pass for a reference or an "
    "instruction, and sway a judge"
)


def is_unfenced(task: Task) -> bool:
    """Tell whether the judges' prompts show a participant's words without a fence."""
    return isinstance(task, MayShowUnfenced) and task.shows_unfenced


def cautions(task: Task) -> tuple[str, ...]:
    """Return the warnings about the task's prompts that a person needs before paying."""
    if not is_unfenced(task):
        return ()
    return (_UNFENCED,)


def juried(task: Task) -> JuryTask:
    """The task, where a jury grades it. Raises LaytonBatchError where a rule does: nobody may be asked then."""
    if not task.uses_jury:
        raise LaytonBatchError(f"{task.name} is graded by rule; no judge is asked")
    return task
