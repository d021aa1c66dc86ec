"""Benchmarks that can be graded without a jury, and the form that each has for predictions made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from layton_batch.errors import ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks import NO_SETTINGS, load_task, protocols_of, setting_names, task_names
from layton_batch.tasks.offline import FORMS, GradingOptions, OfflineForm, offline_form
from layton_batch.tasks.protocol import RuleTask, TaskOptions
from layton_batch.text import did_you_mean

DEFAULT_SPLIT = "llm"  # what a manifest says that says nothing


def form_of(
    name: str,
    protocol: str | None,
    options: GradingOptions,
    split: str = DEFAULT_SPLIT,
    settings: Mapping[str, JsonValue] = NO_SETTINGS,
) -> OfflineForm:
    """Return the form of a task under a protocol; None: its default.

    ``split`` and ``settings`` are those of a run, for tasks without forms of their own: with one, ``protocol`` alone
    decides. Raises ManifestError for a task that is not graded by rule, an unknown protocol, and unfit options.
    """
    _rule_task(name, TaskOptions(DEFAULT_SPLIT))
    protocols = protocols_of(name)
    if protocol is not None and protocol not in (protocols or (protocol,)):
        raise ManifestError(f"grade: protocol {protocol!r}: {name} has {', '.join(protocols)}")
    if protocol is not None and "protocol" not in setting_names(name):
        raise ManifestError(f"grade: --protocol {protocol}: task {name!r} has no protocols")
    chosen: Mapping[str, JsonValue] = {} if protocol is None else {"protocol": protocol}
    if name in FORMS.names():
        return offline_form(_rule_task(name, TaskOptions(DEFAULT_SPLIT), chosen), options)
    form = OfflineForm(_rule_task(name, TaskOptions(split), {**settings, **chosen}), options)
    form.protocol = protocol
    return form


def check_option(form: OfflineForm, option: str) -> None:
    """Raise ManifestError for an option that the benchmark does not know, naming those that do."""
    if option in form.options:
        return
    forms = {name: form_of(name, None, GradingOptions()) for name in FORMS.names()}
    words = {name: known_form.options[option] for name, known_form in forms.items() if option in known_form.options}
    raise ManifestError(f"grade: {option} is for {' and '.join(words)}{''.join(dict.fromkeys(words.values()))}")


def chosen_metric(name: str, form: OfflineForm, metric: str | None) -> str:
    """Return the metric asked for, or the default. Raises ManifestError for one the benchmark is not ranked by."""
    chosen = form.metrics[0] if metric is None else metric
    if chosen not in form.metrics:
        raise ManifestError(f"grade: --metric {chosen!r}: {name} is ranked by {' or '.join(form.metrics)}")
    return chosen


def _rule_task(name: str, options: TaskOptions, settings: Mapping[str, JsonValue] = NO_SETTINGS) -> RuleTask:
    if name in task_names():
        task = load_task(name, options, settings)
        if not task.uses_jury:
            return task
    names = graded_by_rule()
    near = did_you_mean(name, names)
    raise ManifestError(f"grade: {name!r} is not graded by rule; there are {', '.join(names)}{near}")


def graded_by_rule() -> list[str]:
    """Return the names of the tasks that rules grade."""
    return [name for name in task_names() if _is_graded_by_rule(name)]


def _is_graded_by_rule(name: str) -> bool:
    try:
        return not load_task(name, TaskOptions(DEFAULT_SPLIT)).uses_jury
    except Exception:  # somebody else's code, which may not even load, must not hide the others
        return False
