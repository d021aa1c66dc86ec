"""Answers that were paid for already: by another job of the run, a retired one too, or by another run beside it.

A question is known by its fingerprint. One that is on its way in this run is waited for, not asked again. An answer
that may have been paid for, and cannot be had, counts as one: it is a person's word whether it is bought again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import polars as pl

from layton_batch.batches.batch_file import batch_requests
from layton_batch.batches.fingerprints import requests_of
from layton_batch.batches.usage_rows import PERHAPS_BILLED
from layton_batch.errors import DamagedTableError, LaytonBatchError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, ModelSpec, RowCount
from layton_batch.run.context import Run
from layton_batch.run.folders import find_runs, run_id_of, stored_manifest
from layton_batch.run.wanted_jobs import plan_jobs
from layton_batch.states import ErrorClass, Lifecycle, RequestOutcome
from layton_batch.text import plural

_BRIEF = ("custom_id", "outcome", "error_class")


@dataclass(frozen=True, slots=True)
class Paid:
    """Where an answer is: a row of a part of the table ``responses``, of a batch of a run."""

    folder: RunFolder
    run_id: str
    batch_id: str
    part: Path
    row: int
    custom_id: str


@dataclass(slots=True)
class PaidAnswers:
    """By fingerprint. Each batch is read once, and each other run when a job of one of its models is planned first."""

    run: Run
    _answers: dict[str, Paid] = field(default_factory=dict)
    _under_way: dict[str, str] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)
    _others: dict[tuple[str, str], Mapping[str, Paid]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> PaidAnswers:
        """The one that belongs to the run, as long as this process works on it."""
        found: PaidAnswers = run.kept.setdefault(cls, cls(run))
        return found

    def look(self, spec: ModelSpec) -> None:
        """Take in what the run's other jobs asked of this model since."""
        self._under_way = {}
        for batch in self.run.store.batches():
            if (batch.provider, batch.model) != (spec.provider, spec.model) or batch.id in self._read:
                continue
            try:
                self._take(batch)
            except DamagedTableError:
                continue  # its own job says so

    def under_way(self, fingerprint: str) -> str | None:
        """The batch of this run that is to answer it."""
        return self._under_way.get(fingerprint)

    def find(self, spec: ModelSpec, fingerprint: str) -> Paid | None:
        """The answer, in this run or, unless the manifest says otherwise, in another one beside it."""
        found = self._answers.get(fingerprint)
        if found is not None or not self.run.manifest.policy.reuse:
            return found
        key = spec.provider, spec.model
        if key not in self._others:
            self._others[key] = dict(paid_beside(self.run.folder, spec))
        return self._others[key].get(fingerprint)

    def _take(self, batch: Batch) -> None:
        folder = self.run.folder
        asked = requests_of(folder, batch.job_id, batch.provider, batch.model)
        of = dict(asked.select("custom_id", "fingerprint").iter_rows())
        if batch.state is not Lifecycle.COLLECTED:
            for name in batch_requests(self.run, batch)["custom_id"]:
                self._under_way[of[name]] = batch.id
            return
        for paid in _answered(folder, self.run.id, batch.id):
            if (known := of.get(paid.custom_id)) is not None:
                self._answers.setdefault(known, paid)
        self._read.add(batch.id)


def _answered(folder: RunFolder, run_id: str, batch_id: str) -> Iterator[Paid]:
    """The rows of a batch that were paid for, or may have been."""
    paid_for = [str(cause) for cause in PERHAPS_BILLED]
    for part in sorted((folder.tables / "responses" / batch_id).glob("*.parquet")):
        brief = tables.read_part(part, _BRIEF).with_row_index("row")
        said = pl.col("outcome") == str(RequestOutcome.SUCCEEDED)
        for row, name in brief.filter(said | pl.col("error_class").is_in(paid_for)).select("row", "custom_id").rows():
            yield Paid(folder, run_id, batch_id, part, row, name)


def paid_beside(own: RunFolder, spec: ModelSpec) -> Iterator[tuple[str, Paid]]:
    """What runs in the same place have of a model, the latest run last. One that cannot be read has nothing to give."""
    for folder in find_runs(own.root.parent):
        if folder.root != own.root and _names_model(folder, spec):
            try:
                yield from list(_in_run(folder, spec))
            except (LaytonBatchError, OSError):
                continue


def asked_in(folder: RunFolder, spec: ModelSpec) -> Iterator[str]:
    """The fingerprints of all that a run asked this model, or has planned to ask."""
    for job_id in _jobs_of(folder, spec):
        asked = requests_of(folder, job_id, spec.provider, spec.model)
        yield from asked["fingerprint"].drop_nulls()


def _names_model(folder: RunFolder, spec: ModelSpec) -> bool:
    """Whether any revision of the run had the model: a quick look."""
    try:
        return orjson.dumps(spec.model).decode() in folder.manifest.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _in_run(folder: RunFolder, spec: ModelSpec) -> Iterator[tuple[str, Paid]]:
    run_id, of = run_id_of(folder), dict[str, str]()
    for job_id in _jobs_of(folder, spec):
        asked = requests_of(folder, job_id, spec.provider, spec.model)
        of |= dict(asked.drop_nulls("fingerprint").select("custom_id", "fingerprint").iter_rows())
    for batch in sorted((folder.tables / "responses").glob("[!.]*")):
        for paid in _answered(folder, run_id, batch.name):
            if (known := of.get(paid.custom_id)) is not None:
                yield known, paid


def _jobs_of(folder: RunFolder, spec: ModelSpec) -> Sequence[str]:
    """The jobs of the run that may have asked the model: all that say by themselves what they asked, and, of an earlier
    version, those that its manifest says were for it."""
    manifest = stored_manifest(folder)
    planned = plan_jobs(manifest.model_specs(), manifest.panel(), manifest.seats, uses_jury=bool(manifest.panel()))
    for_it = {job.id for job in planned if (job.spec.provider, job.spec.model) == (spec.provider, spec.model)}
    return [
        path.stem
        for path in sorted((folder.tables / "requests").glob("[!.]*.parquet"))
        if path.stem in for_it or _says_what_it_asked(path)
    ]


def _says_what_it_asked(requests: Path) -> bool:
    try:
        return "fingerprint" in pl.read_parquet_schema(requests)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DamagedTableError(f"{requests} cannot be read: {error}", requests) from error


@dataclass(frozen=True, slots=True)
class TakenOver:
    """An answer that a request of this run gets, under its own name."""

    custom_id: str
    paid: Paid


def write_tables(run: Run, batch: Batch, taken: Sequence[TakenOver], role: str, model: str) -> list[RowCount]:
    """The answers, as responses of the batch, and what they cost when they were paid for, in the table ``reused``.
    Returns how they ended."""
    responses, usage = [], []
    ends: Counter[tuple[str, str]] = Counter()
    for one in taken:
        said = tables.read_part(one.paid.part)[one.paid.row].row(0, named=True)
        here = {"custom_id": one.custom_id, "batch_id": batch.id, "attempt": batch.attempt}
        responses.append({**said, **here, "job_id": batch.job_id})
        ends[said["outcome"], said["error_class"]] += 1
        charged = _charged(one.paid)
        if charged is not None:
            whose = {"run": one.paid.run_id, "paid_as": one.paid.custom_id} if "run" not in charged else {}
            usage.append({**charged, **whose, **here, "role": role, "model": model})
    tables.write(run.folder.tables / "responses" / batch.id / "00000.parquet", tables.frame("responses", responses))
    tables.write(run.folder.part("reused", batch.id), tables.frame("reused", usage))
    return [
        RowCount(batch.id, RequestOutcome(outcome), ErrorClass(cause), number)
        for (outcome, cause), number in ends.items()
    ]


def _charged(paid: Paid) -> dict[str, object] | None:
    """The usage row of an answer, where it was paid for or where it was taken over to."""
    for name in ("usage", "reused"):
        path = paid.folder.part(name, paid.batch_id)
        if path.exists():
            found = tables.read_part(path).filter(pl.col("custom_id") == paid.custom_id)
            if not found.is_empty():
                return found.row(0, named=True)
    return None


def said_of(taken: Sequence[TakenOver]) -> str:
    """How many answers came from where."""
    runs = sorted({one.paid.run_id for one in taken})
    return f"{plural(len(taken), 'answer')} that {', '.join(runs)} paid for already"
