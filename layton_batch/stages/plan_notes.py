"""Notes on a plan: what a person should know before paying for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from layton_batch.clock import Clock
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import LaytonBatchError
from layton_batch.files.items import read_items
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import is_missing
from layton_batch.manifest.item_check import gone_items, item_notes, move_note, picture_notes
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, Job, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.revisions import item_changes
from layton_batch.settings import Settings
from layton_batch.stages.plan_counts import DIFFERING, PastState, PlannedJob
from layton_batch.states import Role
from layton_batch.tasks.protocol import Task
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.scoring.gold import GoldSet

IMPORT_ANSWERS = "`layton-batch import MANIFEST --model NAME --predictions FILE` takes in answers that are there"


def notes_on_items(
    folder: RunFolder, task: Task, items: Sequence[Item], seen: Sequence[tuple[str, str]], *, is_same: bool
) -> tuple[str, ...]:
    """Return the notes on items that a run is about to plan: changes since it last planned, and likely mistakes.

    ``seen``: see :func:`labels_seen`; ``is_same``: the items are those of before.
    """
    return (*_changed_items(folder, items, seen, is_same=is_same), *item_notes(items, task))


def refused_pictures(run: Run, items: Sequence[Item], providers: Iterable[str]) -> Iterator[str]:
    """Yield the notes on pictures that these providers refuse."""
    for name in providers:
        if (limits := run.providers.dialect(name).limits.pictures) is not None:
            yield from picture_notes(items, name, limits)


def labels_seen(manifest: Manifest, folder: RunFolder, settings: Settings, clock: Clock) -> list[tuple[str, str]]:
    """Return of the last label of each annotator and answer the item's id and the digest of what was shown of it, if it
    is known. Labels that cannot be read are left out: the run says so when it needs them."""
    if not any(folder.labels.glob("*.jsonl")):
        return []
    from layton_batch.runs.labels import LabelSources  # reading labels loads tables
    from layton_batch.scoring.annotations import latest

    with suppress(LaytonBatchError):
        labels = LabelSources(manifest, folder, settings, clock, None, only_copies=True).read().annotations
        newest = latest(labels).values()
        return [(label.item_id, label.item_digest) for label in newest if label.item_digest is not None]
    return []


def _changed_items(
    folder: RunFolder, items: Sequence[Item], seen: Sequence[tuple[str, str]], *, is_same: bool
) -> Iterator[str]:
    """Yield what is different in the items since the run last planned, and what becomes of their answers and labels.
    ``seen``: see :func:`labels_seen`."""
    if is_same or not folder.part("items", "items").exists():
        return
    try:
        old = read_items(folder)
    except LaytonBatchError:  # the run says so when it needs them
        return
    old, items = ([replace(item, split="") for item in listed] for listed in (old, items))
    if (changed := item_changes(old, items)) is None:
        return
    moved, gone = move_note(old, items, seen), gone_items(old, items)
    removal_note = (
        f"; what was taken out ({gone}) keeps its answers and labels, for when its rows are back" if gone else ""
    )
    yield f"{changed} since the run last planned{'' if moved else removal_note}"
    if moved:
        yield moved


def label_notes(manifest: Manifest, gold: GoldSet) -> Iterator[str]:
    """Yield a note if the gold set has the votes of another jury, with the remedy."""
    from layton_batch.runs.rejudging import differences, rejudge_count

    if not (clauses := differences(manifest, gold)):
        return
    if rejudge_count(manifest, gold):
        remedy = "this run's jury judges its labelled answers as well"
        yield f"the gold set has the votes of another jury ({clauses[0]}): {remedy}"
    else:
        yield f"the labels are trusted though they are those of another jury ({clauses[0]}); the board says so"


_SETTINGS = ("provider", "model", "max_output_tokens", "reasoning", "params", "window")
"""Keys of a model that its requests depend on."""


def changed_settings(planned: Iterable[PlannedJob], before: PastState) -> Iterator[str]:
    """Yield a note on each model none of whose paid answers is used any more, because its settings are others."""
    jobs_by_model: dict[tuple[Role, str], list[PlannedJob]] = {}
    for planned_job in planned:
        jobs_by_model.setdefault((planned_job.job.role, planned_job.job.spec.name), []).append(planned_job)
    unused = [model for model, jobs in jobs_by_model.items() if not any(job.answered for job in jobs)]
    for role, name in unused:
        spec = jobs_by_model[role, name][0].job.spec
        old_jobs = [job for job in before.jobs if (job.role, job.spec.name) == (role, name)]
        old_spec = old_jobs[0].spec if old_jobs else spec
        answers = sum(before.answered.get(job.id, 0) for job in old_jobs)
        changed = [key for key in _SETTINGS if getattr(spec, key) != getattr(old_spec, key)]
        if changed and answers:
            noun = "answer" if role is Role.PREDICT else "verdict"
            yield (
                f"{name}: {', '.join(changed)} changed, so {plural(answers, noun)} that you paid for before are asked "
                "and paid for again; to keep them, undo that, or give the model another name"
            )


def caveats(
    manifest: Manifest, settings: Settings, jobs: Sequence[Job], prices: PriceBook, *, has_labels: bool
) -> Iterator[str]:
    """Yield the notes that a person should know before paying."""
    specs = dict.fromkeys((job.spec.provider, job.spec.model) for job in jobs)
    for provider, model in specs:
        why = prices.why_unknown(provider, model)
        if why:
            yield why if manifest.budget.max_usd is None else f"{why}; with a budget, no request goes to this model"
    if manifest.budget.bound is None and "safety" in manifest.budget.model_fields_set:
        yield '[budget] safety changes nothing without bound = "expected": at most max_usd is spent either way'
    if manifest.in_turn:
        yield (
            "[jury] ask: two judges are asked about each answer, and the third where they differ. If they differ on "
            f"{100 * DIFFERING:f} % of the answers, {100 * (1 - DIFFERING) / 3:.0f} % of the verdicts are saved; the "
            "bound takes a third one for each. The jury takes one batch cycle more"
        )
    if not jobs:
        yield f"no [[models]]: nobody is asked; {IMPORT_ANSWERS}"
    annotations = manifest.gold.annotations if manifest.gold is not None else None
    if annotations is not None and is_missing(annotations, manifest, settings):
        yield (
            f"[gold] annotations: {annotations} is not there yet, so no label of it counts; labels of `label` and "
            "`label import` count without it"
        )
    if manifest.gold is None and not has_labels and any(job.role is Role.JUDGE for job in jobs):
        yield "no gold set and no labels: the board will be uncalibrated; give [gold] source or annotations"


def short_juries(manifest: Manifest, specs: Iterable[ModelSpec]) -> Iterator[str]:
    """Yield a note on models for which fewer judges may sit than the manifest has seats."""
    names_by_judges: dict[int, list[str]] = {}
    for spec in specs:
        judges = len(seat_jury(manifest.panel(), spec, manifest.seats))
        if judges < manifest.seats:
            names_by_judges.setdefault(judges, []).append(spec.name)
    for judges, names in names_by_judges.items():
        yield (
            f"[jury] seats = {manifest.seats}, and the panel has {plural(judges, 'judge')} of another maker for "
            f"{', '.join(dict.fromkeys(names))}: only these judge"
        )
