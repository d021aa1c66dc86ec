"""What a manifest would do and could cost, without doing it: ``plan``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.batches.batch_file import Line, files_needed, pack
from layton_batch.clock import Clock
from layton_batch.costs.estimate import CostBounds, bound_cost, output_bound
from layton_batch.costs.expected import bundled_priors, expected_cost, expected_input
from layton_batch.costs.prices import PriceBook, near_model
from layton_batch.errors import LaytonBatchError, ManifestError
from layton_batch.files import item_table
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import near_file
from layton_batch.manifest.asked import BUNDLED, is_missing, load_items, manifest_task
from layton_batch.manifest.form import BudgetTable
from layton_batch.manifest.item_notes import gone_items, item_notes, move_note
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import ModelFindings, check_models
from layton_batch.providers import connect, problems
from layton_batch.providers.protocol import Limits, Provider
from layton_batch.records import Item, Job, ModelSpec, Prediction
from layton_batch.runs.folders import home_of, labels_elsewhere, replacement_note
from layton_batch.runs.identity import job_identity, predict_id
from layton_batch.runs.names import DIGITS, custom_id, custom_id_prefix
from layton_batch.runs.open import connect_within, refuse_keys
from layton_batch.runs.own_prices import price_book
from layton_batch.runs.past_usage import PastUsage
from layton_batch.runs.prompt_cache import PromptCache, WantedPrompt
from layton_batch.runs.request_planner import PlannedRequest, RequestKind, RequestPlanner
from layton_batch.runs.revisions import item_changes
from layton_batch.runs.wanted_jobs import identified, identified_rejudging, plan_jobs
from layton_batch.settings import Settings
from layton_batch.stages.earlier_requests import PastRequests, PlannedRequests, earlier_requests
from layton_batch.stages.judge_lengths import JudgeRequest, JudgeRequests, allowance
from layton_batch.stages.reserve import stage_of, total, with_safety
from layton_batch.states import AnswerState, PredictionKind, Role
from layton_batch.tasks.protocol import Candidate, Task, cautions, juried
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.runs.rejudging import RejudgeJob
    from layton_batch.scoring.gold import GoldSet

IMPORT_ANSWERS = "`layton-batch import MANIFEST --model NAME --predictions FILE` takes in answers that are there"
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
class ImportedAnswers:
    """Answers of a model that nobody asks, for they were given elsewhere; its judges are asked about ``candidates``."""

    spec: ModelSpec
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class NeededKey:
    """A key that `run` needs, by the variables that may hold it; ``is_set``: one of them does."""

    variables: tuple[str, ...]
    is_set: bool
    blank: tuple[str, ...] = ()
    """The variables that are set but blank, where none holds a key."""

    def __str__(self) -> str:
        return " or ".join(self.variables)

    @property
    def lack(self) -> str:
        """Return the variables of a key that is missing, and which of them are blank."""
        names = "" if self.blank == self.variables else f"{' and '.join(self.blank)}: "
        return f"{self} ({names}set but blank)" if self.blank else str(self)


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
        missing = [key.lack for key in self.keys if not key.is_set]
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
    given: Sequence[ImportedAnswers] = (),
) -> Preview:
    """Plan without a run. With ``write``, the participants' batch files are kept in that folder. What was asked before,
    and the expected cost, are from the runs under ``runs`` where they tell it. ``items``: None: as their source has
    them. ``given``: answers that are judged beside those of the manifest's models.

    Raises ManifestError and DataError for everything that `run` would refuse before sending, save missing keys, which
    become caveats, and what is known of the models, which stands beside the plan: a benchmark of models that are gone
    can still be looked at.
    """
    task = manifest_task(manifest)
    items = load_items(manifest, task, settings, clock) if items is None else items
    gold = _check(manifest, task, settings, clock)
    prices = price_book(manifest, clock.now())
    rejudging = _rejudging(manifest, gold, items)
    specs = (*manifest.asked_specs(), *(answers.spec for answers in given))
    names = {spec.name for spec in specs}

    def jobs_with(imported: Iterable[ModelSpec]) -> list[Job]:
        others = (spec for spec in imported if spec.name not in names)
        return plan_jobs((*specs, *others), manifest.panel(), manifest.seats, task.uses_jury)

    def wanted_jobs(imported: Sequence[ModelSpec]) -> list[Job]:
        return [*identified(manifest, jobs_with(imported)), *identified_rejudging(manifest, rejudging)]

    candidates = {predict_id(answers.spec): answers.candidates for answers in given}
    with earlier_requests(manifest, runs, settings, wanted_jobs, items) as earlier:
        all_jobs = jobs_with(earlier.imported)
        imported = {predict_id(spec) for spec in earlier.imported if spec.name not in names}
        jobs = [job for job in all_jobs if job.id not in candidates.keys() | imported]
        participants = {job.id: job.spec for job in all_jobs}
        planner = _Planner(manifest, task, items, prices, runs, earlier, candidates, imported)
        planned = [planner.job(job, participants.get(str(job.depends_on)), write) for job in jobs]
        changed = tuple(_changed_settings(planned, earlier))
        planned += [planner.rejudged(judge_job) for judge_job in rejudging]
    models = check_models(manifest, settings, clock)
    providers = tuple(dict.fromkeys(job.spec.provider for job in jobs))
    judged_specs = [job.spec for job in all_jobs if job.role is Role.PREDICT] if task.uses_jury else []
    folder = home_of(manifest, runs)
    seen = _labels_seen(manifest, folder, settings, clock)
    before_sending = (
        *_changed_items(folder, items, seen, is_same=earlier.same_items),
        *labels_elsewhere(folder, manifest),
        *item_notes(items, task),
        *_mistyped_ids(jobs, prices),
        *changed,
        *_short_juries(manifest, judged_specs),
    )
    caveats = (
        *(_of_labels(manifest, gold) if gold else ()),
        *_caveats(manifest, settings, jobs, prices, has_labels=bool(seen)),
    )
    caveats = (earlier.trouble, *caveats) if earlier.trouble else caveats
    replaced = replacement_note(folder, manifest)
    caveats = (*((replaced,) if replaced else ()), *earlier.out_of_reach(), *before_sending, *caveats)
    result = Preview(
        run_id=manifest.run_id(),
        items=len(items),
        jobs=tuple(planned),
        caveats=(*cautions(task), *caveats),
        budget=manifest.budget,
        before_sending=before_sending,
        refused=(*filter(None, map(settings.key_trouble, providers)), *models.refused),
        keys=_needed_keys(settings, providers),
        provider_notes=tuple((name, note) for name in providers for note in connect(name, None).capabilities.caveats),
    )
    return replace(result, caveats=(*_of_amounts(result), *models.warnings, *result.caveats))


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
    return tuple(
        NeededKey(settings.key_names(name), settings.has_key(name), settings.blank_keys(name)) for name in providers
    )


def _rejudging(manifest: Manifest, gold: GoldSet | None, items: Sequence[Item]) -> Sequence[RejudgeJob]:
    """Return the labelled answers of the gold set that go before the run's jury."""
    if gold is None:
        return ()
    from layton_batch.runs.rejudging import rejudge_jobs

    return rejudge_jobs(manifest, gold, {item.id for item in items})


def _check(manifest: Manifest, task: Task, settings: Settings, clock: Clock) -> GoldSet | None:
    """Check what `run` would refuse besides manifest and items: keys, addresses, settings that no API honours, a bad
    gold set, labels of another jury. Return the gold set of a task with a jury.
    """
    refuse_keys(manifest, settings)
    for spec in (*manifest.model_specs(), *(judge.model for judge in manifest.panel())):
        settings.check_address(spec.provider)
        if faults := problems(connect(spec.provider, None), spec):
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


@dataclass(slots=True)
class _RequestCounts:
    """Counts the requests of a job. ``unsent``: those in batches of the job that are still to be sent, of which
    ``still_unsent`` counts those that are wanted; ``new_items``: of requests that the job does not have; ``to_answer``:
    those of them whose answer is not there yet; ``to_ask``: those that nobody asked for.

    ``bought``: the fingerprints of the answers which are there, by item. ``not_to_ask``: of all answers that new
    requests want and that need not be asked for.

    ``sizes``: bytes of each request that no batch has. Of these, and of those in batches to be sent: the most each can
    cost (USD; None: price unknown), and its tokens read and written by the priors.
    """

    limits: Limits
    costs: CostBounds
    stage: Role
    unsent: PlannedRequests
    still_unsent: int = 0
    kinds: Counter[RequestKind] = field(default_factory=Counter)
    new_items: set[str] = field(default_factory=set)
    to_answer: set[str] = field(default_factory=set)
    to_ask: set[str] = field(default_factory=set)
    bought: dict[str, bytes] = field(default_factory=dict)
    not_to_ask: set[bytes] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)
    max_costs: list[Decimal | None] = field(default_factory=list)
    guesses: list[tuple[int, int]] = field(default_factory=list)
    _written: dict[int | None, int] = field(default_factory=dict)

    @property
    def most_bytes(self) -> int:
        """Return the most bytes of a request's line, without its newline."""
        return min(self.limits.max_line_bytes, self.limits.max_bytes) - 1

    def lines(self, requests: Iterable[PlannedRequest]) -> Iterator[Line]:
        """Yield the lines of what nobody asked for, as each is counted."""
        most = self.most_bytes
        for request in requests:
            self.kinds[request.kind] += 1
            if request.kind is not RequestKind.KEPT:
                self.new_items.add(request.item_id)
            if request.kind not in (RequestKind.KEPT, RequestKind.ANSWERED):
                self.to_answer.add(request.item_id)
            if request.kind is RequestKind.ANSWERED and request.status is not None:
                self.bought[request.item_id] = request.status.answer
            if request.kind is not RequestKind.TO_ASK and request.status is not None:
                self.not_to_ask.add(request.status.answer)
            is_unsent = request.custom_id in self.unsent.requests
            if request.kind is not RequestKind.TO_ASK and not is_unsent:
                continue
            max_cost = self.costs.most(request.spec, request.size)
            if len(request.line) <= most:
                self.max_costs.append(max_cost)
                self.guesses.append((expected_input(request.size, request.spec), self._output(request.spec)))
            if is_unsent:
                self.still_unsent += 1
                continue
            self.to_ask.add(request.item_id)
            if len(request.line) <= most:
                self.sizes.append(len(request.line))
            yield Line(request.custom_id, request.line, max_cost)

    def _output(self, spec: ModelSpec) -> int:
        limit = spec.max_output_tokens  # all that tells the settings of one job's requests apart
        if limit not in self._written:
            self._written[limit] = bundled_priors().output(spec, self.stage)
        return self._written[limit]


class _Planner:
    """Plans a manifest's jobs one by one; what they share is made once."""

    def __init__(
        self,
        manifest: Manifest,
        task: Task,
        items: Sequence[Item],
        prices: PriceBook,
        runs: Path,
        earlier: PastRequests,
        given: Mapping[str, Sequence[Candidate]],
        imported: Collection[str],
    ) -> None:
        self._given, self._imported = given, imported
        self._manifest, self._task, self._items, self._prices = manifest, task, items, prices
        self._requests, self._new_items = earlier, dict[str, frozenset[str]]()
        self._to_answer = dict[str, frozenset[str]]()
        self._bought, self._answered_by = dict[str, Mapping[str, bytes]](), ("", dict[str, Prediction]())
        self._prompts, self._to_ask, self._mark = PromptCache(), set[bytes](), manifest.identity()[:8]
        self._earlier, self._priors = PastUsage(manifest, runs), bundled_priors()

    def job(self, job: Job, judged: ModelSpec | None, write: Path | None) -> PlannedJob:
        """Plan a job of the run's own models and judges."""
        candidates: Iterable[Candidate] | None = self._given.get(str(job.depends_on))
        if candidates is None and (requests := self._requests.unchanged(job)) is not None:
            return replace(self._planned(job, ()), requests=requests, answered=requests, max_usd=Decimal(0))
        if judged is None:
            return self.participant(job, write)
        if candidates is None and job.depends_on in self._imported:
            candidates = self._candidates(job, judged)
        return self.judge(job, judged) if candidates is None else self.judge_of_given(job, candidates)

    def participant(self, job: Job, write: Path | None) -> PlannedJob:
        """Plan a job of a model that answers; its batch files are kept under ``write``."""
        task = self._task if job.spec.hints is None else manifest_task(self._manifest, hints=job.spec.hints)
        self._prompts.about(job.spec.hints)
        return self._exact(
            job, self._prompts.participants(self._items, job.spec, task, self._task), self._to_ask, write
        )

    def judge_of_given(self, job: Job, candidates: Iterable[Candidate]) -> PlannedJob:
        """Plan a judge's job on answers that are there."""
        self._prompts.about(job.depends_on)
        return self._exact(job, self._prompts.judges(candidates, job.spec, juried(self._task)), set(), None)

    def rejudged(self, rejudged: RejudgeJob) -> PlannedJob:
        """Plan a judge's job on labelled answers of the gold set, also on answers that the run may get itself."""
        task, items, name = juried(self._task), {item.id: item for item in self._items}, rejudged.judged.name
        self._prompts.about(rejudged.job.id)
        candidates = (
            Candidate(
                items[item_id],
                Prediction(item_id, name, PredictionKind.ANSWERED, answer, justification),
            )
            for item_id, answer, justification in rejudged.rows.select("item_id", "answer", "justification").iter_rows()
        )
        # which of the judges' jobs asks first for what several want depends on when their models are done
        return self._exact(rejudged.job, self._prompts.judges(candidates, rejudged.job.spec, task), set(), None)

    def _exact(self, job: Job, wanted: Iterable[WantedPrompt], to_ask: set[bytes], write: Path | None) -> PlannedJob:
        """Plan a job whose requests are known. ``to_ask``: answers that earlier jobs ask for; the job adds its own.
        Its batch files are kept under ``write``.
        """
        provider = connect_within(self._manifest, job.spec.provider, None)
        planner, counts = self._requests.planner(job, provider, to_ask), self._counts(job, provider)
        lines = counts.lines(planner.plan(wanted))
        if write is not None:
            pack(lines, provider.limits, write, write / "requests" / job.id)
        else:
            for _ in lines:
                pass
        is_back = {
            request.item_id: request.answer
            for request in planner.earlier
            if request.retired and request.custom_id in planner.still_wanted and request.state is AnswerState.ANSWERED
        }
        self._new_items[job.id], self._bought[job.id] = frozenset(counts.new_items), counts.bought | is_back
        self._to_answer[job.id] = frozenset(counts.to_answer)
        again = 0 if job.role is Role.PREDICT else self._judged_again(job, planner, counts, counts.to_ask)
        counted = self._counted(job, counts, counts.kinds.total())
        return replace(counted, retired=len(planner.retired()), judged_again=again)

    def judge(self, job: Job, judged: ModelSpec) -> PlannedJob:
        """Plan a judge's job: exactly where the participant's answer is known, else with a request as long as its
        answer may be (``allowance``)."""
        provider = connect_within(self._manifest, job.spec.provider, None)
        counts, answers = self._counts(job, provider), self._answers(str(job.depends_on), judged)
        self._prompts.about(job.depends_on)
        prompts = self._prompts.judges(self._candidates(job, judged), job.spec, juried(self._task))
        planner = self._requests.planner(job, provider, set())
        for _ in counts.lines(planner.plan(prompts)):
            pass
        # an answer that cannot be read here was judged, unless its participant is asked something else by now
        settled_items = self._sent_items(job) - self._new_items.get(str(job.depends_on), frozenset()) | answers.keys()
        measured = self._judges.about(
            job.spec, provider, custom_id(custom_id_prefix(self._mark, job.id), 1, bytes(DIGITS))
        )
        unknown = {
            item.id: request
            for item, request in zip(self._items, measured, strict=True)
            if item.id not in settled_items
        }
        self._count_unknown(job, judged, counts, unknown.values())
        judged_again = self._judged_again(job, planner, counts, counts.to_ask | unknown.keys())
        return replace(self._counted(job, counts, len(self._items)), judged_again=judged_again)

    def _count_unknown(
        self, job: Job, judged: ModelSpec, counts: _RequestCounts, requests: Collection[JudgeRequest]
    ) -> None:
        """Add a judge's requests about answers that nobody knows yet."""
        limit, earlier = output_bound(judged), self._earlier.mean(Role.PREDICT, judged)
        longest = None if earlier is None else earlier.longest
        price = self._prices.price(job.spec.provider, job.spec.model)
        read, answer = self._priors.text[Role.PREDICT], self._priors.output(job.spec, stage_of(job))
        counts.kinds[RequestKind.TO_ASK] += len(requests)
        for request in requests:
            if request.size <= counts.most_bytes:
                written = allowance(request.item_bytes, limit, longest)
                counts.sizes.append(min(request.longest_line(written), counts.most_bytes))
                counts.max_costs.append(bound_cost(request.most_tokens(written), price) if price else None)
                counts.guesses.append((request.expected_input + read * request.growth, answer))

    def _sent_items(self, job: Job) -> frozenset[str]:
        """Return the items about which the run has requests of the job that were sent. None of a job that comes back:
        its items may have been changed while it was away."""
        if self._requests.is_retired(job):
            return frozenset()
        return frozenset(self._requests.items(job)).difference(self._requests.unsent(job).requests.values())

    def _judged_again(self, job: Job, planner: RequestPlanner, counts: _RequestCounts, to_ask: Collection[str]) -> int:
        """Count the items to ask a judge about on which it gave a verdict before. A verdict that is used for another
        item, because its question moved to another id, is not given again."""
        moved = {
            request.item_id
            for request in planner.earlier
            if not request.retired and request.answer in counts.not_to_ask
        }
        return len(self._sent_items(job).difference(moved).intersection(to_ask))

    def _candidates(self, job: Job, judged: ModelSpec) -> Iterator[Candidate]:
        """Yield the known answers that go before the job's judge."""
        answers = self._answers(str(job.depends_on), judged)
        for item in self._items:
            prediction = answers.get(item.id)
            if prediction is not None and prediction.kind is PredictionKind.ANSWERED:
                yield Candidate(item, prediction)

    def _answers(self, job_id: str, spec: ModelSpec) -> Mapping[str, Prediction]:
        """Return the known answers of the participant to what it is asked by now, by item. Its judges follow each
        other: one is kept."""
        if self._answered_by[0] != job_id:
            job = Job(job_id, Role.PREDICT, spec)
            identified_job = replace(job, identity=job_identity(self._manifest, job))
            answers = self._requests.predictions(identified_job, self._bought.get(job_id, {}))
            for item_id in self._to_answer.get(job_id, frozenset()):
                answers.pop(item_id, None)
            self._answered_by = job_id, answers
        return self._answered_by[1]

    def _counts(self, job: Job, provider: Provider) -> _RequestCounts:
        unsent = self._requests.unsent(job)
        return _RequestCounts(provider.limits, CostBounds(self._prices), stage_of(job), unsent)

    def _counted(self, job: Job, counts: _RequestCounts, requests: int) -> PlannedJob:
        """Return the job with its counts. ``requests``: all of the job, those too that need not be asked."""
        to_send, sizes, unsent = counts.kinds[RequestKind.TO_ASK], counts.sizes, counts.unsent
        return replace(
            self._planned(job, counts.guesses),
            requests=requests,
            shards=files_needed(sizes, counts.limits) + unsent.files,
            size_bytes=sum(sizes) + len(sizes) + unsent.size_bytes,
            max_usd=total(counts.max_costs),
            too_large=to_send - len(sizes),
            answered=requests - to_send - counts.still_unsent,
        )

    @cached_property
    def _judges(self) -> JudgeRequests:
        return JudgeRequests(juried(self._task), self._items)

    def _planned(self, job: Job, guesses: Sequence[tuple[int, int]]) -> PlannedJob:
        """The job with what its requests will probably cost; ``guesses``: tokens read and written, by the priors."""
        price = self._prices.price(job.spec.provider, job.spec.model)
        tokens = self._earlier.mean(stage_of(job), job.spec)
        if tokens is not None:
            guesses = [(tokens.input, tokens.output)] * len(guesses)
        return PlannedJob(
            job=job,
            requests=0,
            shards=0,
            size_bytes=0,
            max_usd=None,
            price_note=f"{price.source}, {price.as_of}" if price else "unknown",
            expected_usd=total(expected_cost(read, written, price) for read, written in guesses) if price else None,
            expected_from=PRIORS if tokens is None else EARLIER,
        )


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


def _changed_settings(planned: Iterable[PlannedJob], earlier: PastRequests) -> Iterator[str]:
    """Yield a note on each model none of whose paid answers is used any more, because its settings are others."""
    jobs_by_model: dict[tuple[Role, str], list[PlannedJob]] = {}
    for planned_job in planned:
        jobs_by_model.setdefault((planned_job.job.role, planned_job.job.spec.name), []).append(planned_job)
    unused = [model for model, jobs in jobs_by_model.items() if not any(job.answered for job in jobs)]
    before = earlier.answers_by_model() if unused else {}
    for role, name in unused:
        spec = jobs_by_model[role, name][0].job.spec
        old_spec, answers = before.get((role, name), (spec, 0))
        changed = [key for key in _SETTINGS if getattr(spec, key) != getattr(old_spec, key)]
        if changed and answers:
            noun = "answer" if role is Role.PREDICT else "verdict"
            yield (
                f"{name}: {', '.join(changed)} changed, so {plural(answers, noun)} that you paid for before are asked "
                "and paid for again; to keep them, undo that, or give the model another name"
            )


def _mistyped_ids(jobs: Sequence[Job], prices: PriceBook) -> Iterator[str]:
    """Yield a note on each model that no price list has, and whose id is nearly another's of its provider."""
    for provider, model in dict.fromkeys((job.spec.provider, job.spec.model) for job in jobs):
        if prices.price(provider, model) is None and (near := near_model(provider, model)):
            yield f"no price list has {provider} {model}{near}"


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
    if not jobs:
        yield f"no [[models]]: nobody is asked; {IMPORT_ANSWERS}"
    annotations = manifest.gold.annotations if manifest.gold is not None else None
    if annotations is not None and is_missing(annotations, manifest, settings):
        near = near_file(manifest.folder / Path(annotations).expanduser())
        yield (
            f"[gold] annotations: {annotations} is not there yet, so no label of it counts; labels of `annotate` and "
            f"`import --labels` count without it{near}"
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
