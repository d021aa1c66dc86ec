"""Faults in the models that a manifest names, by what ``models.toml`` knows of them on a day.

A refusal is of what is sure to fail, and says how to overrule the table: at another address than the provider's own,
which may serve anything, it is a warning. A model that the table does not have is one as well, once for the manifest
and only at its provider's own address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from layton_batch import model_table
from layton_batch.clock import Clock, utc
from layton_batch.costs.estimate import bundled_priors
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.model_table import KnownModel, KnownModels
from layton_batch.records import ModelSpec
from layton_batch.settings import Settings, address_name
from layton_batch.states import Role

NOTICE_DAYS = 60
"""Before a model's end: from then on it is told."""
OLD_DAYS = 60
"""Age in days from which a looked-up fact may not hold any more."""


@dataclass(frozen=True, slots=True)
class ModelFindings:
    """Findings about models: what `run` refuses, and what a person should know; a sentence each."""

    refused: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """A statement on a model and its source. ``fails``: its requests are sure to be refused, or answered by another
    model. ``in_params``: the API's own name of the setting, in ``params``, is not checked."""

    reason: str
    source: str = ""
    fails: bool = True
    in_params: bool = False


def check_models(manifest: Manifest, settings: Settings, clock: Clock) -> ModelFindings:
    """Check the manifest's models and their judges against the table, as of now."""
    table, today = model_table.load(), utc(clock.now()).date()
    specs = asked_models(manifest)
    names_by_finding: dict[tuple[str, str, ModelFinding], list[str]] = {}
    for spec in specs:
        for finding in _findings(spec, table, today):
            names_by_finding.setdefault((spec.provider, spec.model, finding), []).append(spec.name)
    refused, warnings = [], []
    for (provider, model, finding), names in names_by_finding.items():
        sentence = f"{who(provider, model, names)} {finding.reason} ({finding.source})"
        if not finding.fails:
            warnings.append(sentence)
        elif settings.is_elsewhere(provider):
            warnings.append(f"{sentence}; {sent_all_the_same(provider, settings)}")
        else:
            params = "write it in params as the API has it, or " if finding.in_params else ""
            usual = f"set {address_name(provider)}, if only to its usual address, and this is a warning"
            refused.append(f"{sentence}. If that is out of date: {params}{usual}")
    warnings += dict.fromkeys([*_twin_judges(manifest), *_short_replies(specs)])
    return ModelFindings(tuple(refused), (*warnings, *_of_the_table(specs, table, today, settings)))


def asked_models(manifest: Manifest) -> list[ModelSpec]:
    """Return the manifest's models and every judge that has a seat, each once. Any judge of the panel may have one
    where answers come from elsewhere: from a file, or from a gold set."""
    models, panel = manifest.model_specs(), manifest.panel()
    if not models or manifest.gold is not None:
        return list(manifest.all_specs())
    judges = [judge.model for model in models for judge in seat_jury(panel, model, manifest.seats)]
    return [*models, *{judge.name: judge for judge in judges}.values()]


def sent_all_the_same(provider: str, settings: Settings) -> str:
    """Say why requests go to a provider at another address than its own, whatever is known of the model."""
    if settings.is_on_this_machine(provider):
        return f"it is sent all the same, because {provider} is played on this machine"
    return f"{address_name(provider)} is set, so it is sent all the same"


def who(provider: str, model: str, names: Sequence[str]) -> str:
    """Return a model by its names in the manifest, its provider and its id there."""
    shown = ", ".join(repr(name) for name in dict.fromkeys(names))
    return f"{'model' if len(set(names)) == 1 else 'models'} {shown} ({provider}): {model}"


# ---- one model -----------------------------------------------------------------------------------------------------


def _findings(spec: ModelSpec, table: KnownModels, today: date) -> Iterator[ModelFinding]:
    for stated in table.wire_refusals(spec.provider):
        for name in (name for name in stated.refuses if name in spec.params):
            reason = f"has params.{name}, which {stated.wire} refuses: leave it out"
            yield ModelFinding(reason, f"{stated.source}, {stated.as_of}")
    model = table.model(spec.provider, spec.model)
    if model is None:
        return
    if sentence := _retirement(model, today):
        yield ModelFinding(
            sentence, model.sources["ends" if model.ends else "may_end"], model.ends is not None and today >= model.ends
        )
    if model.batch is False:
        reason = f"is not run as a batch by {spec.provider}: name another model, or another provider of it"
        yield ModelFinding(reason, model.sources["batch"])
    yield from _of_settings(spec, model)


def _retirement(model: KnownModel, today: date) -> str:
    """Describe a model's retirement; empty while it is far or unknown."""
    instead = f": use {model.replacement}" if model.replacement else ""
    day = model.ends or model.may_end
    if day is None or (day - today).days > NOTICE_DAYS:
        return ""
    if model.ends is None:
        return f"may be shut down from {day} on{instead}"
    return f"was shut down on {day}{instead}" if today >= day else f"will be shut down on {day}{instead}"


def _of_settings(spec: ModelSpec, model: KnownModel) -> Iterator[ModelFinding]:
    effort, budget, limit = spec.reasoning.effort, spec.reasoning.budget_tokens, spec.max_output_tokens
    if effort is not None and model.efforts is not None and effort not in model.efforts:
        reason = f"does not take reasoning {effort!r}: {_ways_to_reason(model)}"
        yield ModelFinding(reason, model.sources["efforts"], in_params=True)
    if budget is not None and model.thinking is not None and "budget" not in model.thinking:
        reason = f"does not take reasoning by budget_tokens: {_ways_to_reason(model)}"
        yield ModelFinding(reason, model.sources["thinking"], in_params=True)
    for name in (name for name in model.refuses or () if name in spec.params):
        yield ModelFinding(f"refuses params.{name}: leave it out", model.sources["refuses"])
    if limit is not None and (most := model.max_output_tokens) is not None and limit > most:
        reason = f"writes at most {most:,} tokens, and max_output_tokens is {limit:,}: lower it"
        yield ModelFinding(reason, model.sources["max_output_tokens"], in_params=True)


def _ways_to_reason(model: KnownModel) -> str:
    """Say which values ``reasoning`` may have."""
    efforts = f"one of {', '.join(model.efforts)}" if model.efforts else ""
    budget = "{ budget_tokens = … }" if "budget" in (model.thinking or ()) else ""
    ways = " or ".join(way for way in (efforts, budget) if way)
    return f"set it to {ways}" if ways else "leave it out"


# ---- judges and lengths ---------------------------------------------------------------------------------------------


def _twin_judges(manifest: Manifest) -> Iterator[str]:
    """Yield a note on judges of one model and the same settings."""
    names_by_spec: dict[str, list[str]] = {}
    for judge in manifest.panel():
        names_by_spec.setdefault(repr(replace(judge.model, name="", family="")), []).append(judge.model.name)
    for names in names_by_spec.values():
        if len(names) > 1:
            yield (
                f"judges {' and '.join(map(repr, names))} are the same model with the same settings: one verdict "
                f"counts {len(names)} times. Leave one of them out, and lower seats under [jury] if need be"
            )


def _short_replies(specs: Sequence[ModelSpec]) -> Iterator[str]:
    """Yield a note on each model whose stated effort takes more tokens than its replies may have."""
    for spec in specs:
        limit, effort = spec.max_output_tokens, spec.reasoning.effort
        if limit is None or effort in (None, "none"):
            continue
        usual = bundled_priors().output(replace(spec, max_output_tokens=None), Role.PREDICT)
        if limit < usual:
            yield (
                f"{who(spec.provider, spec.model, [spec.name])} has max_output_tokens = {limit:,}, thoughts included, "
                f"and a reply with reasoning {effort!r} takes about {usual:,}: most replies are cut, and paid"
            )


# ---- the table -----------------------------------------------------------------------------------------------------


def _of_the_table(specs: Sequence[ModelSpec], table: KnownModels, today: date, settings: Settings) -> Iterator[str]:
    """Yield what the table cannot say, at most once for all models."""
    models: Mapping[tuple[str, str], KnownModel | None] = {
        (spec.provider, spec.model): table.model(spec.provider, spec.model) for spec in specs
    }
    missing = [named for named, about in models.items() if about is None]
    if unknown := [f"{provider} {model}" for provider, model in missing if not settings.is_elsewhere(provider)]:
        yield f"not checked whether these are on sale and take their settings (not in our table): {', '.join(unknown)}"
    looked_up = [about.as_of for about in models.values() if about is not None]
    if looked_up and (age := (today - min(looked_up)).days) > OLD_DAYS:
        yield f"what is known of these models was looked up {age} days ago, on {min(looked_up)}: it may have changed"
