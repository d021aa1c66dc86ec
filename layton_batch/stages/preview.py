"""What a manifest would do and could cost, without doing it: ``plan``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from pathlib import Path

from layton_batch.batches.batch_file import Packed, line_of, pack
from layton_batch.batches.names import custom_id
from layton_batch.clock import Clock
from layton_batch.costs.estimate import output_bound
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import ManifestError
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import check_models
from layton_batch.providers import connect, problems
from layton_batch.records import Item, Job, ModelSpec, Prediction, Prompt, Request
from layton_batch.run.open import connect_within, price_book, refuse_keys
from layton_batch.scoring.gold import BUNDLED, read_gold
from layton_batch.settings import Settings
from layton_batch.stages.plan import plan_jobs
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks import with_room
from layton_batch.tasks.protocol import Candidate, Task, juried
from layton_batch.text import plural

BYTES_PER_TOKEN = 4
"""Of what a participant may write, when bounding what its judges will have to read."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job as it would be: how much is sent, in how many files, and the most it can cost (None: price unknown)."""

    job: Job
    requests: int
    shards: int
    size_bytes: int
    max_usd: Decimal | None
    price_note: str
    too_large: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan: jobs, what to know before starting, and the most the run can cost by provider and in all."""

    run_id: str
    items: int
    jobs: tuple[PlannedJob, ...]
    caveats: tuple[str, ...]
    budget: Decimal | None
    refused: tuple[str, ...] = ()
    """Why `run` refuses to begin: models that are gone, settings that they do not take."""

    def by_provider(self) -> dict[str, Decimal | None]:
        """Upper bounds in USD; None where a model of the provider has no known price."""
        found: dict[str, Decimal | None] = {}
        for planned in self.jobs:
            name = planned.job.spec.provider
            so_far = found.get(name, Decimal(0))
            found[name] = None if so_far is None or planned.max_usd is None else so_far + planned.max_usd
        return found

    @property
    def max_usd(self) -> Decimal | None:
        """The most the first attempts can cost together."""
        amounts = list(self.by_provider().values())
        return None if None in amounts else sum((one for one in amounts if one is not None), Decimal(0))


def preview(manifest: Manifest, settings: Settings, clock: Clock, write: Path | None = None) -> Preview:
    """Plan without a run. With ``write``, the participants' batch files are kept in that folder.

    Raises ManifestError and DataError for everything that `run` would refuse before sending, save missing keys, which
    become caveats, and what is known of the models, which stands beside the plan: a benchmark of models that are gone
    can still be looked at.
    """
    task = manifest_task(manifest)
    items = load_items(manifest, task, settings, clock)
    _check(manifest, task, settings, clock)
    prices = price_book(manifest, clock)
    jobs = plan_jobs(manifest.model_specs(), manifest.panel(), manifest.seats, task.uses_jury)
    specs = {job.id: job.spec for job in jobs}
    planned = []
    for job in jobs:
        judged = specs[job.depends_on] if job.depends_on else None
        planned.append(_plan(manifest, task, items, prices, job, judged, write))
    models = check_models(manifest, settings, clock)
    result = Preview(
        run_id=manifest.run_id(),
        items=len(items),
        jobs=tuple(planned),
        caveats=tuple(_caveats(manifest, settings, jobs, prices)),
        budget=manifest.budget.max_usd,
        refused=models.refused,
    )
    return replace(result, caveats=(*_of_amounts(result), *models.warnings, *result.caveats))


def _check(manifest: Manifest, task: Task, settings: Settings, clock: Clock) -> None:
    """What `run` would refuse beside the manifest and the items: keys, settings no API honours, a bad gold set."""
    refuse_keys(manifest, settings)
    for spec in (*manifest.model_specs(), *(judge.model for judge in manifest.panel())):
        if found := problems(connect(spec.provider, None), spec):
            raise ManifestError(f"model {spec.name!r} ({spec.provider}): {'; '.join(found)}")
    if manifest.gold is not None:
        source = manifest.gold.source
        bundled = task.bundled(manifest.items.split) if source == BUNDLED else None
        read_gold(source, manifest.folder, settings, clock, bundled)


def _plan(
    manifest: Manifest,
    task: Task,
    items: Sequence[Item],
    prices: PriceBook,
    job: Job,
    judged: ModelSpec | None,
    write: Path | None,
) -> PlannedJob:
    provider = connect_within(manifest, job.spec.provider, None)
    specs = {item.id: with_room(task, item, job.spec) if judged is None else job.spec for item in items}
    names = (custom_id(manifest.identity()[:8], job.id, number) for number in count(1))
    prompts = zip(_prompts(task, items, judged), names, strict=False)
    requests = (Request(name, item_id, specs[item_id], prompt) for (item_id, prompt), name in prompts)
    lines = (line_of(request, provider, prices) for request in requests)
    with tempfile.TemporaryDirectory(prefix="layton-batch-") as scratch:
        root = write if write is not None and job.role is Role.PREDICT else Path(scratch)
        packed = pack(lines, provider.limits, root, root / "requests" / job.id)
    price = prices.price(job.spec.provider, job.spec.model)
    return PlannedJob(
        job=job,
        requests=sum(shard.requests for shard in packed.shards) + len(packed.too_large),
        shards=len(packed.shards),
        size_bytes=sum(shard.size_bytes for shard in packed.shards),
        max_usd=_bound(packed),
        price_note=f"{price.source}, {price.as_of}" if price else "unknown",
        too_large=len(packed.too_large),
    )


def _bound(packed: Packed) -> Decimal | None:
    costs = list(packed.max_cost.values())
    return None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))


def _prompts(task: Task, items: Iterable[Item], judged: ModelSpec | None) -> Iterator[tuple[str, Prompt]]:
    """Participants' prompts as they are; judges' with the longest submission the participant could write."""
    for item in items:
        if judged is None:
            yield item.id, task.prompt(item)
        else:
            longest = "x" * min(output_bound(judged) * BYTES_PER_TOKEN, 200_000)
            submission = Prediction(item.id, judged.name, PredictionKind.ANSWERED, "x", longest)
            yield item.id, juried(task).judge_prompt(Candidate(item, submission))


def _of_amounts(planned: Preview) -> Iterator[str]:
    """What the plan's own numbers say."""
    for one in planned.jobs:
        if one.too_large:
            what = plural(one.too_large, "request is", "requests are")
            yield f"{one.job.id}: {what} larger than {one.job.spec.provider} takes, and will not be sent"
    if planned.budget is not None and planned.max_usd is not None and planned.max_usd > planned.budget:
        yield "the upper bound is above the budget: `run` stops before a batch that could exceed the budget"


def _caveats(manifest: Manifest, settings: Settings, jobs: Sequence[Job], prices: PriceBook) -> Iterator[str]:
    """What a person should know before paying."""
    specs = dict.fromkeys((job.spec.provider, job.spec.model) for job in jobs)
    names = list(dict.fromkeys(provider for provider, _ in specs))
    if keys := [" or ".join(settings.key_names(name)) for name in names if not settings.has_key(name)]:
        yield f"`run` needs {', '.join(keys)} in the environment or in .env"
    for name in names:
        for caveat in connect(name, None).capabilities.caveats:
            yield f"{name}: {caveat}"
    for provider, model in specs:
        why = prices.why_unknown(provider, model)
        if why:
            yield why if manifest.budget.max_usd is None else f"{why}; with a budget, no request goes to this model"
    if manifest.gold is None and any(job.role is Role.JUDGE for job in jobs):
        yield "no gold set: the intervals will say almost nothing; give [gold] source"
