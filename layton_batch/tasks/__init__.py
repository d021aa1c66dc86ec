"""The registry of benchmarks: a name to a factory, without importing any of them.

A factory takes :class:`~layton_batch.tasks.protocol.TaskOptions` and returns a Task; it raises ManifestError for
options the task cannot work with.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast, get_args

from pydantic import ValidationError

from layton_batch.errors import DataError, ManifestError
from layton_batch.plug_ins import Registry
from layton_batch.tasks.protocol import AdvisesLimits, MayShowReasons, TaskSettings
from layton_batch.text import did_you_mean

if TYPE_CHECKING:
    from layton_batch.records import Item, JsonValue, ModelSpec
    from layton_batch.tasks.protocol import Factory, Task, TaskOptions

BUILT_IN: dict[str, str] = {
    "layton": "layton_batch.tasks.layton:layton_task",
    "mcq_idk": "layton_batch.tasks.mcq_idk.task:McqIdkTask",
    "zebralogic": "layton_batch.tasks.zebralogic.task:ZebraLogicTask",
    "rome": "layton_batch.tasks.rome.task:rome_task",
    "qa": "layton_batch.tasks.qa:QaTask",
}

_REGISTRY = Registry("task", "layton_batch.tasks", BUILT_IN)

FIRST = next(iter(BUILT_IN))
"""The one that is shown where none is asked for."""
OWN = "qa"
"""The one for questions of one's own."""
CHOICES = "mcq_idk"
"""The task for questions with options."""

NO_SETTINGS: Mapping[str, JsonValue] = {}


def task_names() -> tuple[str, ...]:
    """Every name a manifest may use: built-in ones first, then those of installed entry points."""
    return _REGISTRY.names()


def load_task(name: str, options: TaskOptions, settings: Mapping[str, JsonValue] = NO_SETTINGS) -> Task:
    """Create the task of this name. ``settings``: the table ``[task_options]``.

    Raises ManifestError for an unknown name or setting (with the nearest one) or unfit options.
    """
    form = _settings_form(name)
    if unknown := next((key for key in settings if key not in form.model_fields), None):
        names = ", ".join(form.model_fields) or "none"
        near = did_you_mean(unknown, form.model_fields)
        raise ManifestError(f"task_options.{unknown}: task {name!r} has no such option{near} (known: {names})")
    try:
        has_settings = form is not TaskSettings
        task = _factory(name)(options, *([form.model_validate(dict(settings))] if has_settings else []))
    except ValidationError as error:
        reasons = (
            f"task_options.{fault['loc'][0]}: {fault['msg']}, not {fault['input']!r}" for fault in error.errors()
        )
        raise ManifestError("; ".join(reasons)) from error
    if options.reasons and not (isinstance(task, MayShowReasons) and task.gives_reasons):
        raise ManifestError(f"jury.reasons: judges of task {name!r} are asked for no reason: leave it out")
    return task


def setting_names(name: str) -> list[str]:
    """Return the keys of ``[task_options]`` for a task. Raises ManifestError for an unknown task."""
    return list(_settings_form(name).model_fields)


def protocols_of(name: str) -> Sequence[str]:
    """Return the protocols that a task's settings name, the default first; none without a choice of protocols."""
    field = _settings_form(name).model_fields.get("protocol")
    return () if field is None else get_args(field.annotation)


def _settings_form(name: str) -> type[TaskSettings]:
    """Return the model of a task's settings; the empty one for a task without settings."""
    factory = _factory(name)
    parameter = inspect.signature(factory).parameters.get("settings")
    form = TaskSettings if parameter is None else parameter.annotation
    return cast("type[TaskSettings]", getattr(sys.modules[factory.__module__], form) if isinstance(form, str) else form)


def with_room(task: Task, item: Item, spec: ModelSpec) -> ModelSpec:
    """A participant with the output limit that the task advises for this item, where the manifest sets none.

    The advice is about what is written out. A budget for reasoning comes on top: limits count its tokens too.
    """
    if spec.max_output_tokens is not None or not isinstance(task, AdvisesLimits):
        return spec
    return replace(spec, max_output_tokens=task.output_tokens(item) + max(0, spec.reasoning.budget_tokens or 0))


def has_one_limit(task: Task, spec: ModelSpec) -> bool:
    """Tell whether :func:`with_room` leaves the participant unchanged for every item."""
    return spec.max_output_tokens is not None or not isinstance(task, AdvisesLimits)


def validate_items(items: Sequence[Item]) -> None:
    """Raises DataError where there is no item, or two have one id."""
    if not items:
        raise DataError("no items of the split asked for")
    twice = [item_id for item_id, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        raise DataError(
            f"item ids must be unique; more than once: {', '.join(map(repr, twice[:5]))}{more}. Give each row its own "
            "id; a row with an empty id has its row's number as id"
        )


def _factory(name: str) -> Factory:
    return cast("Factory", _REGISTRY.load(name))


def unknown_task(name: str) -> str:
    """Say that there is no task of this name, and which ones there are."""
    return _REGISTRY.unknown(name)
