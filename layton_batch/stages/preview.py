"""What a manifest would do and could cost, without doing it: ``plan``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.batches.batch_file import files_needed
from layton_batch.clock import Clock
from layton_batch.costs.estimate import bound_cost, output_bound
from layton_batch.costs.expected import bundled_priors
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import LaytonBatchError, ManifestError
from layton_batch.files import atomic, item_table
from layton_batch.files.item_list import digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import BUNDLED, is_missing, load_items, manifest_task
from layton_batch.manifest.form import BudgetTable
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import ModelFindings, check_models
from layton_batch.manifest.money_checks import gone_items, item_notes, move_note, picture_notes
from layton_batch.providers import problems
from layton_batch.records import Item, Job, ModelSpec
from layton_batch.runs.connections import connect_within
from layton_batch.runs.context import Run
from layton_batch.runs.folders import home_of, replacement_note
from layton_batch.runs.names import DIGITS, custom_id, custom_id_prefix
from layton_batch.runs.open import refuse_keys
from layton_batch.runs.past_usage import PastUsage
from layton_batch.runs.planning_copy import planning_copy
from layton_batch.runs.revisions import item_changes
from layton_batch.settings import Settings
from layton_batch.stages.ask import ask
from layton_batch.stages.grade import grade, grade_answers
from layton_batch.stages.judge_lengths import JudgeRequests, allowance
from layton_batch.stages.plan import plan
from layton_batch.stages.reserve import JobCosts, total, with_safety
from layton_batch.stages.turns import asked_items, open_turns
from layton_batch.states import AnswerState, ErrorClass, Lifecycle, Role
from layton_batch.store.request_rows import KnownRequest
from layton_batch.tasks.protocol import Task, cautions, juried
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.scoring.gold import GoldSet

IMPORT_ANSWERS = "`layton-batch import MANIFEST --model NAME --predictions FILE` takes in answers that are there"
DIFFERING = Decimal("0.06")
"""Share of answers on which two judges are expected to differ, so that a third is asked: 2.5 % (text) and 5.6 %
(visual) of the published verdicts."""
EARLIER, PRIORS = "earlier runs", "priors"
"""Where the tokens of an expected cost come from."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job as it would be: its requests, those of them that were asked already (``answered``, or about to be), in how
    many files the others are sent, what they will probably cost, by whose tokens (``EARLIER`` or ``PRIORS``), and the
    most they can cost (None: price unknown). Files and size of a judge's job are the most they can be as well.
    ``judged_again``: requests to send about items on which the judge gave a verdict before."""

    job: Job
    requests: int
    shards: int
    size_bytes: int
    max_usd: Decimal | None
    price_note: str
    too_large: int = 0
    answered: int = 0
    retired: int = 0
    judged_again: int = 0
    expected_usd: Decimal | None = None
    expected_from: str = PRIORS


@dataclass(frozen=True, slots=True)
class NeededKey:
    """A key that `run` needs, by the variables that may hold it; ``is_set``: one of them does."""

    variables: tuple[str, ...]
    is_set: bool

    def __str__(self) -> str:
        return " or ".join(self.variables)


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan: jobs, what to know before starting, and the most the run can cost by provider and in all."""

    run_id: str
    items: int
    jobs: tuple[PlannedJob, ...]
    caveats: tuple[str, ...]
    budget: BudgetTable
    refused: tuple[str, ...] = ()
    """Why `run` refuses to begin: keys of another provider, models that are gone, settings that they do not take."""
    keys: tuple[NeededKey, ...] = ()
    provider_notes: tuple[tuple[str, str], ...] = ()
    """Provider and what is to be known of its batches."""
    before_sending: tuple[str, ...] = ()
    """Caveats that `run` prints as well, before it sends: on items, labels, models and juries."""

    def with_model_findings(self, findings: ModelFindings) -> Preview:
        """Return the plan with further findings on its models."""
        new = tuple(line for line in findings.warnings if line not in self.caveats)
        return replace(self, caveats=(*new, *self.caveats), refused=(*self.refused, *findings.refused))

    @property
    def every_caveat(self) -> tuple[str, ...]:
        """Return the caveats with the missing keys and the notes on providers, a line each."""
        missing = [str(key) for key in self.keys if not key.is_set]
        keys = (f"`run` needs {', '.join(missing)} in the environment or in .env",) if missing else ()
        return (*keys, *self.caveats, *(f"{name}: {note}" for name, note in self.provider_notes))

    def by_provider(self) -> dict[str, Decimal | None]:
        """Return upper bounds in USD by provider; None: a model of the provider has no known price."""
        bounds: dict[str, Decimal | None] = {}
        for planned in self.jobs:
            name = planned.job.spec.provider
            so_far = bounds.get(name, Decimal(0))
            bounds[name] = None if so_far is None or planned.max_usd is None else so_far + planned.max_usd
        return bounds

    @property
    def requests(self) -> int:
        return sum(planned.requests for planned in self.jobs)

    @property
    def answered(self) -> int:
        return sum(planned.answered for planned in self.jobs)

    @property
    def to_send(self) -> int:
        """Return the number of requests without a known answer, except those that are too large to be sent."""
        return self.requests - self.answered - sum(planned.too_large for planned in self.jobs)

    @property
    def judged_again(self) -> int:
        """Return the number of requests to send about items on which the same judge gave a verdict before."""
        return sum(planned.judged_again for planned in self.jobs)

    @property
    def max_usd(self) -> Decimal | None:
        """Return the most that all first attempts can cost in USD."""
        return total(self.by_provider().values())

    @property
    def set_aside_usd(self) -> Decimal | None:
        """Return the budget's reserve for all first attempts in USD: their highest cost, unless the budget has less."""
        return total(with_safety(self.budget, job.max_usd, job.expected_usd) for job in self.jobs)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Return the models, as ``provider model``, that get no requests: there is a budget, and no price is known."""
        jobs = [planned for planned in self.jobs if planned.max_usd is None and planned.requests > planned.answered]
        names = dict.fromkeys(f"{planned.job.spec.provider} {planned.job.spec.model}" for planned in jobs)
        return () if self.budget.max_usd is None else tuple(names)

    @property
    def expected_usd(self) -> Decimal | None:
        """Return the expected cost of all first attempts in USD."""
        return total(planned.expected_usd for planned in self.jobs)


def preview(
    manifest: Manifest,
    settings: Settings,
    clock: Clock,
    write: Path | None = None,
    runs: Path = Path("runs"),
    items: Sequence[Item] | None = None,
    enter: Callable[[Run], object] | None = None,
) -> Preview:
    """Plan in a copy of the workspace ``runs``, of which nothing stays. With ``write``, the participants' batch files
    are kept in that folder. ``items``: None: as their source has them. ``enter`` is called with the run before it is
    planned, to enter answers that were given elsewhere.

    Raises ManifestError and DataError for everything that `run` would refuse before sending, save missing keys, which
    become caveats, and what is known of the models, which stands beside the plan: a benchmark of models that are gone
    can still be looked at.
    """
    task, settings = manifest_task(manifest), manifest.addressed(settings)
    items = load_items(manifest, task, settings, clock) if items is None else items
    gold = _check(manifest, task, settings, clock)
    folder = home_of(manifest, runs)
    with planning_copy(manifest, folder, settings, clock, items) as (run, trouble):
        before, run.past_usage = _Before.of(run), PastUsage(manifest, folder.root.parent)
        if enter is not None:
            enter(run)
        while plan(run) | grade(run):
            pass
        _ask_about_what_is_there(run)
        planned = _planned_jobs(run, before)
        participants = [job.spec for job in run.store.jobs() if job.role is Role.PREDICT]
        if write is not None:
            _keep_files(run, write)
    jobs = [planned_job.job for planned_job in planned]
    changed = tuple(_changed_settings(planned, before))
    models = check_models(manifest, settings, clock)
    asked = [job for job in jobs if job.role is not Role.REJUDGE]
    providers = tuple(dict.fromkeys(job.spec.provider for job in asked))
    seen = _labels_seen(manifest, folder, settings, clock)
    before_sending = (
        *_changed_items(folder, items, seen, is_same=before.same_items),
        *item_notes(items, task),
        *_refused_pictures(manifest, items, providers),
        *changed,
        *_short_juries(manifest, participants if task.uses_jury else ()),
    )
    caveats = (
        *(_of_labels(manifest, gold) if gold else ()),
        *_caveats(manifest, settings, asked, run.prices, has_labels=bool(seen)),
    )
    notes = (trouble, replacement_note(folder, manifest))
    caveats = (*filter(None, notes), *before_sending, *caveats)
    result = Preview(
        run_id=manifest.run_id(),
        items=len(items),
        jobs=tuple(planned),
        caveats=(*cautions(task), *caveats),
        budget=manifest.budget,
        before_sending=before_sending,
        refused=(*filter(None, map(settings.key_trouble, providers)), *models.refused),
        keys=_needed_keys(settings, providers),
        provider_notes=tuple(
            (name, note) for name in providers for note in connect_within(manifest, name, None).capabilities.caveats
        ),
    )
    return replace(result, caveats=(*_of_amounts(result), *models.warnings, *result.caveats))


def _refused_pictures(manifest: Manifest, items: Sequence[Item], providers: Sequence[str]) -> Iterator[str]:
    for name in providers:
        if (limits := connect_within(manifest, name, None).limits.pictures) is not None:
            yield from picture_notes(items, name, limits)


def _ask_about_what_is_there(run: Run) -> None:
    """Plan the judges' jobs that wait for their model's last answers, about those that are there."""
    for job in run.store.jobs():
        if job.role is Role.PREDICT and not job.graded:
            run.apart(job.id, partial(grade_answers, run, job))
    for job in run.store.jobs():
        if job.role is not Role.PREDICT and not job.planned:
            run.apart(job.id, partial(ask, run, job, run.mark))


# ---- what the run in the copy has planned ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Before:
    """A run before it was planned: requests by job, its batches, and the answers that its jobs have."""

    requests: Mapping[str, Sequence[KnownRequest]]
    batches: frozenset[str]
    jobs: Sequence[Job]
    answered: Mapping[str, int]
    same_items: bool

    @classmethod
    def of(cls, run: Run) -> _Before:
        jobs, row = run.store.all_jobs(), run.store.row()
        answered: Counter[str] = Counter()
        for count in run.store.count_requests():
            answered[count.job_id] += count.number if count.state is AnswerState.ANSWERED else 0
        return cls(
            {job.id: run.store.known_requests(job.id) for job in jobs},
            frozenset(batch.id for batch in run.store.batches()),
            [job for job in jobs if not job.retired],
            answered,
            row is not None and row.items == digest(run.load_items()),
        )


def _planned_jobs(run: Run, before: _Before) -> list[PlannedJob]:
    """Return what the run's jobs would send now; models whose answers came from a file send nothing."""
    jobs, asked = run.store.jobs(), {spec.name for spec in run.manifest.model_specs()}
    judges = JudgeRequests(juried(run.task), run.items) if run.task.uses_jury else None
    participants = {job.id: job for job in jobs if job.role is Role.PREDICT}
    planned = []
    for job in jobs:
        if job.role is Role.PREDICT and job.spec.name not in asked:
            continue
        unknown = None
        judged = participants.get(str(job.depends_on))
        is_open = judged is not None and (not judged.graded or run.manifest.in_turn)
        if judges is not None and judged is not None and is_open:
            unknown = _UnknownRequests.of(run, job, judged, judges)
        planned.append(_planned_job(run, job, before, unknown))
    return planned


@dataclass(frozen=True, slots=True)
class _UnknownRequests:
    """A judge's requests about answers that nobody knows yet, each as long as it may get. ``items``: what they are
    about, also those that are too large; of the others the bytes of each line, and in USD the most that each can cost
    and what it will probably cost."""

    items: frozenset[str]
    sizes: Sequence[int]
    most: Sequence[Decimal | None]
    expected: Sequence[Decimal | None]

    @classmethod
    def of(cls, run: Run, job: Job, judged: Job, judges: JudgeRequests) -> _UnknownRequests:
        provider, costs = run.providers.dialect(job.spec.provider), JobCosts(run, job)
        price = run.prices.price(job.spec.provider, job.spec.model)
        tokens = run.past_usage.mean(Role.PREDICT, judged.spec)
        longest = tokens.longest if tokens else None
        most_bytes = min(provider.limits.max_line_bytes, provider.limits.max_bytes) - 1
        answered = {
            request.item_id
            for request in run.store.known_requests(judged.id)
            if not request.retired and request.state is AnswerState.ANSWERED
        }
        requested = {request.item_id for request in run.store.known_requests(job.id) if not request.retired}
        answered -= open_turns(run, job) - requested
        name = custom_id(custom_id_prefix(run.mark, job.id), 1, bytes(DIGITS))
        unknown = [
            (item.id, request)
            for item, request in zip(run.items, judges.about(job.spec, provider, name), strict=True)
            if item.id not in answered
        ]
        fitting = [request for _, request in unknown if request.size <= most_bytes]
        written = [allowance(one.item_bytes, output_bound(judged.spec), longest) for one in fitting]
        read = bundled_priors().text[Role.PREDICT]
        is_asked = asked_items(run, job)
        chances = [1 if is_asked(item_id) else DIFFERING for item_id, request in unknown if request.size <= most_bytes]
        expected = [costs.expected(job.spec, one.expected_input + read * one.growth) for one in fitting]
        return cls(
            frozenset(item_id for item_id, _ in unknown),
            [min(one.longest_line(most), most_bytes) for one, most in zip(fitting, written, strict=True)],
            [
                bound_cost(one.most_tokens(most), price) if price else None
                for one, most in zip(fitting, written, strict=True)
            ],
            [None if usd is None else usd * chance for usd, chance in zip(expected, chances, strict=True)],
        )


def _planned_job(run: Run, job: Job, before: _Before, unknown: _UnknownRequests | None) -> PlannedJob:
    """Count what a job's planned batches hold, and the ``unknown`` requests beside it."""
    batches = run.store.job_batches(job.id)
    unsent = [batch for batch in batches if batch.state is Lifecycle.PLANNED]
    new = [batch for batch in batches if batch.id not in before.batches]
    too_large = sum(batch.requests for batch in new if batch.error_class is ErrorClass.TOO_LARGE)
    earlier, now = before.requests.get(job.id, ()), run.store.known_requests(job.id)
    bounds = {name: usd for batch in unsent for name, usd in run.store.asked_of(batch.id).items()}
    to_ask = {request.item_id for request in now if request.custom_id in bounds}
    requests = sum(not request.retired for request in now)
    sizes, most = list[int](), list(bounds.values())
    expected = [batch.expected_usd for batch in unsent]
    if unknown is not None:
        to_ask |= unknown.items
        sizes, most, expected = [*unknown.sizes], [*most, *unknown.most], [*expected, *unknown.expected]
        too_large += len(unknown.items) - len(sizes)
        requests += len(unknown.items)
    price = run.prices.price(job.spec.provider, job.spec.model)
    retired = {request.custom_id for request in earlier if request.retired}
    return PlannedJob(
        job=job,
        requests=requests,
        shards=len(unsent) + files_needed(sizes, run.providers.dialect(job.spec.provider).limits),
        size_bytes=sum(batch.size_bytes for batch in unsent) + sum(sizes) + len(sizes),
        max_usd=total(most),
        price_note=f"{price.source}, {price.as_of}" if price else "unknown",
        too_large=too_large,
        answered=max(requests - len(bounds) - len(sizes) - too_large, 0),
        retired=sum(request.retired and request.custom_id not in retired for request in now),
        judged_again=0 if job.role is Role.PREDICT else _judged_again(earlier, now, to_ask),
        expected_usd=total(expected) if price else None,
        expected_from=EARLIER if JobCosts(run, job).is_earlier else PRIORS,
    )


def _judged_again(earlier: Sequence[KnownRequest], now: Sequence[KnownRequest], to_ask: Collection[str]) -> int:
    """Count the items to ask a judge about on which it gave a verdict before. A verdict that is used for another item,
    because its question moved to another id, is not given again."""
    used = {request.answer for request in now if not request.retired and request.state is not AnswerState.PLANNED}
    judged = {request.item_id for request in earlier if request.state in _SENT and request.answer not in used}
    return len(judged.intersection(to_ask))


_SENT = frozenset({AnswerState.SENT, AnswerState.ANSWERED, AnswerState.UNCERTAIN})


def _keep_files(run: Run, folder: Path) -> None:
    """Copy the participants' batch files, a folder a job."""
    participants = {job.id for job in run.store.jobs() if job.role is Role.PREDICT}
    for batch in run.store.batches({Lifecycle.PLANNED}):
        if batch.job_id in participants:
            path = folder / "requests" / batch.job_id / f"{batch.shard_id}.jsonl"
            atomic.write_bytes(path, (run.folder.workspace.root / batch.path).read_bytes())


# ---- what to know before ---------------------------------------------------------------------------------------------


def _labels_seen(manifest: Manifest, folder: RunFolder, settings: Settings, clock: Clock) -> list[tuple[str, str]]:
    """Return of each label in the run's folder the item's id and the digest of what was shown of it, where it is known.
    Labels that cannot be read are left out: the run says so when it needs them."""
    if not any(folder.labels.glob("*.jsonl")):
        return []
    from layton_batch.runs.labels import LabelSources  # reading labels loads tables

    with suppress(LaytonBatchError):
        labels = LabelSources(manifest, folder, settings, clock, None, only_copies=True).read().annotations
        return [(label.item_id, label.item_digest) for label in labels if label.item_digest is not None]
    return []


def _changed_items(
    folder: RunFolder, items: Sequence[Item], seen: Sequence[tuple[str, str]], *, is_same: bool
) -> Iterator[str]:
    """Yield what is different in the items since the run last planned, and what becomes of their answers and labels.
    ``seen``: see ``move_note``."""
    if is_same or not folder.part("items", "items").exists():
        return
    try:
        old = item_table.read(folder)
    except LaytonBatchError:  # the run says so when it needs them
        return
    old, items = ([replace(item, split="") for item in listed] for listed in (old, items))
    if (changed := item_changes(old, items)) is None:
        return
    moved, gone = move_note(old, items, seen), gone_items(old, items)
    kept = f"; what was taken out ({gone}) keeps its answers and labels, for when its rows are back" if gone else ""
    yield f"{changed} since the run last planned{'' if moved else kept}"
    if moved:
        yield moved


def _needed_keys(settings: Settings, providers: Iterable[str]) -> tuple[NeededKey, ...]:
    return tuple(NeededKey(settings.key_names(name), settings.has_key(name)) for name in providers)


def _check(manifest: Manifest, task: Task, settings: Settings, clock: Clock) -> GoldSet | None:
    """Check what `run` would refuse besides manifest and items: keys, addresses, settings that no API honours, a bad
    gold set, labels of another jury. Return the gold set of a task with a jury.
    """
    refuse_keys(manifest, settings)
    for spec in (*manifest.model_specs(), *(judge.model for judge in manifest.panel())):
        settings.check_address(spec.provider)
        if faults := problems(connect_within(manifest, spec.provider, None), spec):
            raise ManifestError(f"model {spec.name!r} ({spec.provider}): {'; '.join(faults)}")
    if manifest.gold is None:
        return None
    from layton_batch.runs.labels import check_annotations
    from layton_batch.runs.rejudging import check_labels
    from layton_batch.scoring.gold_file import read_gold

    check_annotations(manifest, settings, clock)
    source = manifest.gold.source
    if source is None:
        return None
    bundled = task.bundled(manifest.items.split) if source == BUNDLED else None
    gold = read_gold(source, manifest.folder, settings, clock, bundled)
    if not task.uses_jury:
        return None
    check_labels(manifest, gold)
    return gold


def _of_amounts(planned: Preview) -> Iterator[str]:
    """Yield the notes on the plan's own numbers: requests that are too large, and an upper bound above the budget."""
    for planned_job in planned.jobs:
        if planned_job.too_large:
            requests = plural(planned_job.too_large, "request is", "requests are")
            job = planned_job.job
            yield f"{job.id}: {requests} larger than {job.spec.provider} takes, and will not be sent"
    budget, aside = planned.budget, planned.set_aside_usd
    if budget.max_usd is None or aside is None or aside <= budget.max_usd:
        return
    if budget.bound is not None:
        yield (
            f"{budget.safety:f} times the expected cost is above the budget: `run` stops before a batch exceeds it. "
            "Raise max_usd, lower safety in [budget], or ask fewer items ([items] limit)"
        )
        return
    dearest = max(planned.jobs, key=lambda job: job.max_usd or Decimal(0)).job.spec
    yield (
        "the upper bound is above the budget: `run` stops before a batch that could exceed it. Lower "
        f"max_output_tokens, first of {dearest.name} (now {output_bound(dearest):,} a reply), or raise max_usd, or "
        'set bound = "expected" in [budget]'
    )


def _of_labels(manifest: Manifest, gold: GoldSet) -> Iterator[str]:
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


def _changed_settings(planned: Iterable[PlannedJob], before: _Before) -> Iterator[str]:
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


def _caveats(
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


def _short_juries(manifest: Manifest, specs: Iterable[ModelSpec]) -> Iterator[str]:
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
