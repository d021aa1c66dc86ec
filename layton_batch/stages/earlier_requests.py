"""The jobs and requests of a manifest in the workspace's database: for `plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import LaytonBatchError
from layton_batch.files.item_list import digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers.protocol import Provider
from layton_batch.records import Item, Job, ModelSpec, Prediction
from layton_batch.runs.folders import home_of, on_this_machine, run_id_of
from layton_batch.runs.identity import run_mark
from layton_batch.runs.imported import imported_models
from layton_batch.runs.names import custom_id_prefix
from layton_batch.runs.request_planner import NoAnswers, RequestPlanner
from layton_batch.runs.stores import store_to_read
from layton_batch.runs.wanted_jobs import revision
from layton_batch.settings import Settings
from layton_batch.stages.candidates import read_predictions
from layton_batch.states import AnswerState, Lifecycle, Role

if TYPE_CHECKING:
    from layton_batch.runs.paid_answers import PaidAnswers


@contextmanager
def earlier_requests(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    wanted_jobs: Callable[[Sequence[ModelSpec]], Sequence[Job]],
    items: Sequence[Item],
) -> Iterator[PastRequests]:
    """Open the workspace's state store while the block lasts. Without a store there are no earlier requests.

    ``wanted_jobs``: returns the jobs of the manifest and of models whose answers the run has from files.
    """
    folder, mark = home_of(manifest, runs), manifest.identity()[:8]
    with ExitStack() as stack:
        if not settings.state_url and not folder.workspace.database.exists():
            yield PastRequests(mark, trouble=_trouble_of(folder))
            return
        from layton_batch.runs.paid_answers import PaidAnswers  # loads SQLAlchemy, which an empty workspace need not

        try:
            run_id = run_id_of(folder) if folder.manifest.exists() else manifest.run_id()
            store = stack.enter_context(store_to_read(folder, settings, run_id))
            stored = store.all_jobs()
            imported = [job.spec for job in imported_models(stored, store.batches())]
            wanted = wanted_jobs(imported)
            local = {job.spec.provider for job in wanted if settings.is_on_this_machine(job.spec.provider)}
            paid = PaidAnswers(manifest, folder, store, local | on_this_machine(folder))
            requests = replace(_look(paid, mark, stored, wanted, items), imported=imported)
        except LaytonBatchError as error:
            requests = PastRequests(mark, trouble=_unreadable(error))
        yield requests


def _trouble_of(folder: RunFolder) -> str | None:
    if not folder.manifest.exists():
        return None
    return _unreadable(f"{folder.workspace.database} is not there")


def _unreadable(why: object) -> str:
    return f"the run cannot be read, and all of it is counted as new: {why}"


def _look(
    paid: PaidAnswers, mark: str, stored: Sequence[Job], wanted: Sequence[Job], items: Sequence[Item]
) -> PastRequests:
    row = paid.store.row()
    jobs = revision(stored, wanted, "", "", new_items=False).jobs
    return PastRequests(
        mark if row is None else run_mark(row.identity, row.created_at),
        paid,
        {job.id: job for job in stored},
        {job.id: entered.id for job, entered in zip(wanted, jobs, strict=True)},
        same_items=row is not None and row.items == digest(items),
    )


@dataclass(frozen=True, slots=True)
class PlannedRequests:
    """Requests that a job has planned and not sent: item by custom_id, in so many batch ``files``."""

    requests: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PastRequests:
    """Earlier requests of the manifest's own run, and the answers of all runs beside it. ``trouble``: the reason why
    the run cannot be read. ``imported``: models whose answers the run has from files.

    ``_mark``: in the run's custom_ids; of the manifest where there is no run yet. ``_ids``: the run's job ids by the
    manifest's.
    """

    _mark: str
    _paid: PaidAnswers | None = None
    _stored: Mapping[str, Job] = field(default_factory=dict)
    _ids: Mapping[str, str] = field(default_factory=dict)
    same_items: bool = False
    trouble: str | None = None
    imported: Sequence[ModelSpec] = ()

    def planner(self, job: Job, provider: Provider, to_ask: set[bytes]) -> RequestPlanner:
        """Return the planner that a run has for this job. ``to_ask``: see there."""
        job_id = self._ids.get(job.id, job.id)
        prefix = custom_id_prefix(self._mark, job_id)
        if self._paid is None:
            return RequestPlanner(provider, prefix, (), NoAnswers(), to_ask)
        return RequestPlanner(provider, prefix, self._paid.store.known_requests(job_id), self._paid, to_ask)

    def unchanged(self, job: Job) -> int | None:
        """Count the requests of a job, where all of them were sent and nothing that they depend on has changed."""
        stored = self._job(job)
        if stored is None or stored.retired or not (stored.planned and self.same_items) or self.unsent(job).files:
            return None
        judged = self._stored.get(str(stored.depends_on))
        if judged is not None and not (judged.planned and judged.graded):
            return None  # its judges are planned again once its answers are graded
        return len(self.items(job))

    def is_retired(self, job: Job) -> bool:
        """Return whether the run's latest plan did not have the job, and an earlier one had it."""
        stored = self._job(job)
        return stored is not None and stored.retired

    def answers_by_model(self) -> dict[tuple[Role, str], tuple[ModelSpec, int]]:
        """Return, by role and name, each model that the run asks: what it is asked with, and how many answers the run
        has of it."""
        answered: Counter[str] = Counter()
        for count in self._paid.store.count_requests() if self._paid else ():
            answered[count.job_id] += count.number if count.state is AnswerState.ANSWERED else 0
        models: dict[tuple[Role, str], tuple[ModelSpec, int]] = {}
        for job in self._stored.values():
            if not job.retired:
                _, earlier = models.get((job.role, job.spec.name), (job.spec, 0))
                models[job.role, job.spec.name] = job.spec, earlier + answered[job.id]
        return models

    def unsent(self, job: Job) -> PlannedRequests:
        """Return the requests in batches of the run's job that are still to be sent, for want of money perhaps."""
        stored = self._job(job)
        if self._paid is None or stored is None:
            return PlannedRequests()
        store = self._paid.store
        batches = [batch for batch in store.job_batches(stored.id) if batch.state is Lifecycle.PLANNED]
        if not batches:
            return PlannedRequests()
        items = store.items_of(stored.id)
        custom_ids = [custom_id for batch in batches for custom_id in store.asked_of(batch.id) if custom_id in items]
        size = sum(batch.size_bytes for batch in batches)
        return PlannedRequests({custom_id: items[custom_id] for custom_id in custom_ids}, len(batches), size)

    def items(self, job: Job) -> Sequence[str]:
        """Return the item of each request that the run has of this job."""
        stored = self._job(job)
        return list(self._paid.store.items_of(stored.id).values()) if self._paid and stored else ()

    def predictions(self, job: Job, bought: Mapping[str, bytes]) -> dict[str, Prediction]:
        """Return the known answers of a participant by item: of requests that the run has, and of those ``bought``, as
        the runs graded them that want the same answer (its fingerprint), for whichever item.

        ``job``: with its identity. A run that is not here, or not graded, or cannot be read, says nothing.
        """
        by_item: dict[str, Prediction] = {}
        if self._paid is None:
            return by_item
        store = self._paid.store
        for run_id, job_id in store.jobs_alike(job.identity, {store.run_id}):
            by_item |= self._graded(run_id, job_id)
        items = {answer: item_id for item_id, answer in bought.items()}
        wanting: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for answer, run_id, job_id, item_id in store.requests_of(bought.values()):
            wanting.setdefault((run_id, job_id), []).append((items[answer], item_id))
        for item_id in bought:
            by_item.pop(item_id, None)
        for (run_id, job_id), pairs in wanting.items():
            graded = self._graded(run_id, job_id)
            by_item |= {own: replace(graded[theirs], item_id=own) for own, theirs in pairs if theirs in graded}
        return by_item

    def _graded(self, run_id: str, job_id: str) -> dict[str, Prediction]:
        """Return the predictions of a job by item; none where they cannot be had here."""
        workspace = self._paid.workspace_of(run_id) if self._paid else None
        part = None if workspace is None else workspace.run(run_id).part("predictions", job_id)
        if part is not None and part.exists():
            with suppress(LaytonBatchError):
                return {prediction.item_id: prediction for prediction in read_predictions(part)}
        return {}

    def out_of_reach(self) -> list[str]:
        """Return a sentence for each run whose answers are wanted, and whose folder is not here."""
        if self._paid is None:
            return []
        from layton_batch.runs.paid_answers import out_of_reach_sentence

        runs = self._paid.out_of_reach
        return [out_of_reach_sentence(run_id, place) for run_id, place in runs.items()]

    def _job(self, job: Job) -> Job | None:
        return self._stored.get(self._ids.get(job.id, job.id))
