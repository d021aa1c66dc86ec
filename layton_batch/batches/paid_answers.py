"""Answers that were paid for already: by another job of the run, a retired one too, or by another run beside it.

A question is known by its fingerprint. One that is on its way in this run is waited for, not asked again. An answer
that may have been paid for, and cannot be had, counts as one: it is a person's word whether it is bought again.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from layton_batch.batches.attempts import reask_in
from layton_batch.batches.batch_file import batch_requests
from layton_batch.batches.fingerprints import requests_of
from layton_batch.batches.usage_rows import PERHAPS_BILLED
from layton_batch.errors import DamagedTableError, LaytonBatchError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_runs, on_this_machine, run_id_of, runs_of_database
from layton_batch.states import Lifecycle, RequestOutcome

if TYPE_CHECKING:
    from layton_batch.store.places import Place

_BRIEF = ("custom_id", "outcome", "error_class")


@dataclass(frozen=True, slots=True)
class Paid:
    """Where an answer is: a row of a part of the table ``responses``, of a batch of a run. ``reask``: how many times it
    had been answered before, and was asked for again."""

    folder: RunFolder
    run_id: str
    batch_id: str
    part: Path
    row: int
    custom_id: str
    answered: bool
    reask: int


@dataclass(slots=True)
class Answers:
    """Of each fingerprint the latest answer, and those that it was asked again for."""

    _latest: dict[str, Paid] = field(default_factory=dict)
    _again: dict[str, list[Paid]] = field(default_factory=dict)

    def enter(self, of: Mapping[str, str], found: Iterable[Paid]) -> None:
        """A later answer replaces an earlier one; what has none replaces nothing. ``of``: fingerprints by custom_id."""
        for paid in found:
            known = of.get(paid.custom_id)
            if known is None:
                continue
            if paid.answered or known not in self._latest:
                self._latest[known] = paid
            if paid.reask:
                self._again.setdefault(known, []).append(paid)

    def find(self, fingerprint: str, reask: int) -> Paid | None:
        """The latest of those that were asked for again at least so many times; one without an answer only where that
        is all there is."""
        if not reask:
            return self._latest.get(fingerprint)
        fitting = [paid for paid in self._again.get(fingerprint, ()) if paid.reask >= reask]
        return max(fitting, key=lambda paid: paid.answered) if fitting else None


@dataclass(slots=True)
class PaidBeside:
    """What other runs have answers to: those beside this one (``own``), and those of its database. Each is read once,
    when it is needed first; one that cannot be read has nothing to give. ``local``: whether a provider's address is on
    this machine: what a sandbox answered is no answer of the provider's. ``places``: the other runs of the database."""

    own: RunFolder
    local: Callable[[str], bool]
    places: Sequence[Place] = ()
    _naming: dict[tuple[str, str], Sequence[RunFolder]] = field(default_factory=dict)
    _indexes: dict[Path, Answers] = field(default_factory=dict)
    _of_database: tuple[Sequence[RunFolder], Sequence[Place]] | None = None

    def find(self, spec: ModelSpec, fingerprint: str, reask: int = 0) -> Paid | None:
        """The answer of the run that was touched last."""
        found = (self._index(folder).find(fingerprint, reask) for folder in self._asked(spec))
        return next((paid for paid in found if paid is not None), None)

    def may_have(self, spec: ModelSpec) -> bool:
        """Whether any of them asked this model."""
        return bool(self._asked(spec))

    def out_of_reach(self, spec: ModelSpec) -> Sequence[Place]:
        """The runs of the database that asked this model, and whose folders are not on this machine."""
        return [place for place in self._elsewhere()[1] if (spec.provider, spec.model) in place.asked]

    def _elsewhere(self) -> tuple[Sequence[RunFolder], Sequence[Place]]:
        """The database's runs in other places than beside this one, and those that cannot be had."""
        if self.places and self._of_database is None:
            self._of_database = runs_of_database(self.own, self.places)
        return self._of_database or ((), ())

    def _asked(self, spec: ModelSpec) -> Sequence[RunFolder]:
        key = spec.provider, spec.model
        if key not in self._naming:
            others = [folder for folder in find_runs(self.own.root.parent) if folder.root != self.own.root]
            others = [*self._elsewhere()[0], *others]
            self._naming[key] = [folder for folder in reversed(others) if self._names(folder, spec)]
        return self._naming[key]

    def _names(self, folder: RunFolder, spec: ModelSpec) -> bool:
        same_place = (spec.provider in on_this_machine(folder)) == self.local(spec.provider)
        return same_place and _names_model(folder, spec)

    def _index(self, folder: RunFolder) -> Answers:
        if folder.root not in self._indexes:
            try:
                self._indexes[folder.root] = _in_run(folder)
            except (LaytonBatchError, OSError):
                self._indexes[folder.root] = Answers()
        return self._indexes[folder.root]


@dataclass(slots=True)
class UnderWay:
    """By fingerprint: the batch of one model that is to answer it. What a batch file asks does not change, so each is
    read once."""

    _asked: dict[str, Sequence[str]] = field(default_factory=dict)
    _by_print: dict[str, str] = field(default_factory=dict)

    def look(self, is_open: Sequence[Batch], asked: Callable[[Batch], Sequence[str]]) -> Mapping[str, str]:
        """For the batches that are open now, in order of entry. One whose tables are damaged asks nothing: its own job
        says so."""
        if not self._asked.keys() <= {batch.id for batch in is_open}:
            self._asked, self._by_print = {}, {}
        for batch in is_open:
            if batch.id not in self._asked:
                with suppress(DamagedTableError):
                    self._asked[batch.id] = asked(batch)
                    self._by_print |= dict.fromkeys(self._asked[batch.id], batch.id)
        return self._by_print


@dataclass(slots=True)
class PaidAnswers:
    """By fingerprint: what this run has asked. What a batch was answered is read when a question of it comes up again,
    and once: a model that is added asks nothing that others asked, and must not read what all of them answered."""

    run: Run
    beside: PaidBeside
    _asked_as: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)  # jobs and names, by fingerprint
    _collected: dict[str, dict[str, int]] = field(default_factory=dict)  # by job its batches, with their order
    _answers_of: dict[str, Mapping[str, Sequence[Paid]]] = field(default_factory=dict)  # by batch, then by name
    _open: dict[tuple[str, str], UnderWay] = field(default_factory=dict)
    _under_way: Mapping[str, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, run: Run) -> PaidAnswers:
        """The one that belongs to the run, as long as this process works on it."""
        from layton_batch.store.places import other_places

        if cls not in run.kept:
            places = other_places(run.store) if run.manifest.policy.reuse else ()
            run.kept[cls] = cls(run, PaidBeside(run.folder, on_this_machine(run.folder).__contains__, places))
        found: PaidAnswers = run.kept[cls]
        return found

    def look(self, spec: ModelSpec) -> None:
        """Take in what the run's other jobs asked of this model since."""
        self._tell_of_those_out_of_reach(spec)
        is_open: list[Batch] = []
        new: dict[str, list[Batch]] = {}
        for batch in self.run.store.batches(provider=spec.provider, model=spec.model):
            if batch.state is not Lifecycle.COLLECTED:
                is_open.append(batch)
            elif batch.id not in self._collected.get(batch.job_id, ()):
                new.setdefault(batch.job_id, []).append(batch)
        for batches in new.values():
            with suppress(DamagedTableError):  # its own job says so
                self._take(batches)
        known = self._open.setdefault((spec.provider, spec.model), UnderWay())
        self._under_way = known.look(is_open, self._asked)

    def _tell_of_those_out_of_reach(self, spec: ModelSpec) -> None:
        for place in self.beside.out_of_reach(spec):
            if place.run_id not in self._told:
                self._told.add(place.run_id)
                self.run.store.add_event(self.run.clock.now(), None, "answers_out_of_reach", said_of_place(place))

    def may_know(self, spec: ModelSpec) -> bool:
        """Whether anything of the model is under way, or may have been paid for."""
        reuse = self.run.manifest.policy.reuse
        return bool(self._asked_as or self._under_way) or (reuse and self.beside.may_have(spec))

    def under_way(self, fingerprint: str) -> str | None:
        """The batch of this run that is to answer it."""
        return self._under_way.get(fingerprint)

    def find(self, spec: ModelSpec, fingerprint: str, reask: int = 0) -> Paid | None:
        """The answer, in this run or, unless the manifest says otherwise, in another one beside it. ``reask``: how many
        times it must have been asked for again."""
        found = self._own(fingerprint, reask)
        if found is not None or not self.run.manifest.policy.reuse:
            return found
        return self.beside.find(spec, fingerprint, reask)

    def _take(self, batches: Sequence[Batch]) -> None:
        """Batches of one job."""
        job_id = batches[0].job_id
        for name, known in self._prints(batches[0]).items():
            self._asked_as.setdefault(known, {})[job_id, name] = None
        taken = sum(map(len, self._collected.values()))
        self._collected.setdefault(job_id, {}).update({one.id: taken + number for number, one in enumerate(batches)})

    def _own(self, fingerprint: str, reask: int) -> Paid | None:
        answers = Answers()
        asked = [
            (order, batch_id, name)
            for job_id, name in self._asked_as.get(fingerprint, ())
            for batch_id, order in self._collected[job_id].items()
        ]
        for _, batch_id, name in sorted(asked):
            answers.enter({name: fingerprint}, self._answered(batch_id).get(name, ()))
        return answers.find(fingerprint, reask)

    def _answered(self, batch_id: str) -> Mapping[str, Sequence[Paid]]:
        if batch_id not in self._answers_of:
            found: dict[str, list[Paid]] = {}
            try:
                for paid in _answered(self.run.folder, self.run.id, batch_id):
                    found.setdefault(paid.custom_id, []).append(paid)
            except DamagedTableError:
                return {}  # its own job says so
            self._answers_of[batch_id] = found
        return self._answers_of[batch_id]

    def _asked(self, batch: Batch) -> Sequence[str]:
        of = self._prints(batch)
        return [of[name] for name in batch_requests(self.run, batch)["custom_id"] if name in of]

    def _prints(self, batch: Batch) -> dict[str, str]:
        asked = requests_of(self.run.folder, batch.job_id)
        return dict(asked.drop_nulls("fingerprint").select("custom_id", "fingerprint").iter_rows())


def _answered(folder: RunFolder, run_id: str, batch_id: str) -> Iterator[Paid]:
    """The rows of a batch that were paid for, or may have been."""
    paid_for = [str(cause) for cause in PERHAPS_BILLED]
    said, reask = pl.col("outcome") == str(RequestOutcome.SUCCEEDED), reask_in(folder, batch_id)
    for part in sorted((folder.tables / "responses" / batch_id).glob("*.parquet")):
        brief = tables.read_part(part, _BRIEF).with_row_index("row").with_columns(answered=said)
        rows = brief.filter(pl.col("answered") | pl.col("error_class").is_in(paid_for))
        for row, name, answered in rows.select("row", "custom_id", "answered").iter_rows():
            yield Paid(folder, run_id, batch_id, part, row, name, answered, reask)


def asked_in(folder: RunFolder) -> Iterator[str]:
    """The fingerprints of all that a run asked, or has planned to ask."""
    for asked in _requests_in(folder).values():
        yield from asked["fingerprint"].drop_nulls()


def _names_model(folder: RunFolder, spec: ModelSpec) -> bool:
    """Whether any revision of the run had the model: a quick look."""
    try:
        return orjson.dumps(spec.model).decode() in folder.manifest.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _in_run(folder: RunFolder) -> Answers:
    found = Answers()
    run_id = run_id_of(folder)
    for job_id, asked in _requests_in(folder).items():
        of = dict(asked.drop_nulls("fingerprint").iter_rows())
        for batch in sorted((folder.tables / "responses").glob(f"{glob.escape(job_id)}.*")):
            found.enter(of, _answered(folder, run_id, batch.name))
    return found


def _requests_in(folder: RunFolder) -> Mapping[str, pl.DataFrame]:
    """By job: the names and the fingerprints of its requests."""
    parts = sorted((folder.tables / "requests").glob("[!.]*.parquet"))
    return {path.stem: tables.read_part(path, ("custom_id", "fingerprint")) for path in parts}


def said_of_place(place: Place) -> str:
    """That a run of the database has answers which cannot be had here."""
    models = ", ".join(sorted({model for _, model in place.asked}))
    return (
        f"run {place.run_id} of this database asked {models}, and its folder ({place.folder} on {place.host}) is not "
        "here: what it paid for "
        "is asked again; share the folder, or run where it is"
    )
