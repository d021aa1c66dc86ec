"""Answers that were paid for already, or are asked for now, by whichever run of the workspace.

An answer is known by its fingerprint, a row of the database. One that is on its way is waited for, not asked again. One
that may have been paid for, and cannot be had, counts as paid for: it is a person's word whether it is bought again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from layton_batch.batches.fingerprints import scoped
from layton_batch.errors import LaytonBatchError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Batch, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.folders import on_this_machine, run_id_of
from layton_batch.states import AnswerState, BatchOutcome
from layton_batch.store.places import Place, other_places
from layton_batch.store.request_rows import KnownAnswer, asked_again
from layton_batch.store.run_store import RunStore


@dataclass(frozen=True, slots=True)
class Paid:
    """A place of an answer: in the table ``responses`` of a batch of a run. Not ``answered``: it may have been paid
    for, and only what went wrong is there."""

    folder: RunFolder
    run_id: str
    batch_id: str
    custom_id: str
    answered: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of an answer. ``fingerprint``: what it is, or would be, bought by, another one than it was looked up
    by where it is there and cannot be had; ``sent``: where it is asked for now."""

    fingerprint: bytes
    paid: Paid | None = None
    sent: KnownAnswer | None = None


def scope_of(manifest: Manifest, local: Collection[str], provider: str) -> str:
    """Return what tells answers of one kind from those of another that ask the same: what a sandbox on this machine
    answered is no answer of its provider's, and a manifest may ask everything anew. ``local``: providers on this
    machine."""
    own = "" if manifest.policy.reuse else f"run {manifest.run_id()}"
    return f"{own} sandbox" if provider in local else own


@dataclass(slots=True)
class PaidAnswers:
    """Looks answers up for one run. ``local``: the providers that a sandbox on this machine plays."""

    manifest: Manifest
    folder: RunFolder
    store: RunStore
    local: Collection[str]
    _folders: dict[str, RunFolder | None] = field(default_factory=dict)
    _places: dict[str, Place] = field(default_factory=dict)
    out_of_reach: dict[str, Place | None] = field(default_factory=dict)
    """Runs that have answers which cannot be had here, as far as any were looked for."""
    reported: set[str] = field(default_factory=set)
    """The ones among them that an event reports."""

    @classmethod
    def of(cls, run: Run) -> PaidAnswers:
        """Return the one that belongs to the run, as long as this process works on it."""
        if cls not in run.kept:
            run.kept[cls] = cls(run.manifest, run.folder, run.store, on_this_machine(run.folder))
        answers: PaidAnswers = run.kept[cls]
        return answers

    def fingerprint(self, spec: ModelSpec, digest: bytes) -> bytes:
        """Return what an answer of this model is bought by: the fingerprint of the request, in its scope."""
        return scoped(digest, scope_of(self.manifest, self.local, spec.provider))

    def look_up(self, fingerprints: Collection[bytes], reask: int = 0) -> dict[bytes, Standing]:
        """Return how these answers stand; nothing of those that nobody ever wanted. ``reask``: how often an answer must
        have been asked for again though there was one."""
        self._folders = {run_id: folder for run_id, folder in self._folders.items() if folder is not None}
        chains: dict[bytes, list[KnownAnswer]] = {}  # by fingerprint the answer, and each further one to its request
        left: Sequence[bytes] = list(fingerprints)
        number = 0
        while left:
            first = {asked_again(fingerprint, number): fingerprint for fingerprint in left}
            answers = self.store.known_answers(first)
            for further, answer in self._with_copies(answers).items():
                chains.setdefault(first[further], []).append(answer)
            left, number = [first[further] for further in answers], number + 1
        return {fingerprint: self._standing(fingerprint, chain, reask) for fingerprint, chain in chains.items()}

    def _with_copies(self, answers: Mapping[bytes, KnownAnswer]) -> Mapping[bytes, KnownAnswer]:
        """Put copies that other runs took over in the place of answers whose run has no folder here."""
        away = [fingerprint for fingerprint, answer in answers.items() if self._is_away(answer)]
        here = dict(answers)
        for fingerprint, copies in (self.store.copies_of(away) if away else {}).items():
            here[fingerprint] = next((copy for copy in copies if not self._is_away(copy)), answers[fingerprint])
        return here

    def _is_away(self, answer: KnownAnswer) -> bool:
        """Return whether an answer was bought, or may have been, and its run has no folder here."""
        return answer.state in _BOUGHT and self._folder(answer.run_id) is None

    def _standing(self, fingerprint: bytes, chain: Sequence[KnownAnswer], reask: int) -> Standing:
        paid = self._paid(chain[reask:])
        for answer in chain:
            mine = answer.run_id == self.store.run_id
            if answer.state is AnswerState.SENT or (answer.state is AnswerState.WANTED and answer.is_open and mine):
                return Standing(fingerprint, paid, answer)
        away = [answer.run_id for answer in chain if self._is_away(answer)]
        if away and paid is None:
            self.out_of_reach |= {run_id: self._place(run_id) for run_id in away}
            return Standing(scoped(fingerprint, f"run {self.store.run_id}"))
        return Standing(fingerprint, paid)

    def _paid(self, chain: Sequence[KnownAnswer]) -> Paid | None:
        """Return the latest answer; what may have been paid for only where that is all there is."""
        for state in _BOUGHT:
            for answer in reversed(chain):
                if answer.state is state and (folder := self._folder(answer.run_id)) is not None:
                    answered = state is AnswerState.ANSWERED
                    return Paid(folder, answer.run_id, answer.batch_id, answer.custom_id, answered)
        return None

    def _folder(self, run_id: str) -> RunFolder | None:
        """Return the folder of a run of the database; None where it is not on this machine."""
        if run_id not in self._folders:
            place = self._place(run_id)
            beside = [self.folder.root.parent / run_id, *([place.folder] if place else [])]
            self._folders[run_id] = next((RunFolder(path) for path in beside if _is_of(path, run_id)), None)
        return self._folders[run_id]

    def _place(self, run_id: str) -> Place | None:
        if run_id not in self._places:
            self._places = {place.run_id: place for place in other_places(self.store)}
        return self._places.get(run_id)


_BOUGHT = (AnswerState.ANSWERED, AnswerState.UNCERTAIN)
"""States of what was paid for, or may have been, the better one first."""


def _is_of(path: Path, run_id: str) -> bool:
    try:
        return run_id_of(RunFolder(path)) == run_id
    except LaytonBatchError:
        return False


def out_of_reach_sentence(run_id: str, place: Place | None) -> str:
    """Return the sentence that a run of the database has answers which cannot be had here."""
    where = f" ({place.folder} on {place.host})" if place else ""
    return (
        f"run {run_id} of this database has answers that this run wants, and its folder{where} is not here: what it "
        "paid for is asked again; share the folder, or run where it is"
    )


def asked_elsewhere(run: Run, batch: Batch) -> frozenset[str]:
    """Return the custom_ids of a batch that was never sent whose answers others ask for, or have brought.

    An answer that is there and cannot be had here is wanted as one of the run's own from then on.
    """
    if batch.provider_id is not None or batch.outcome is not BatchOutcome.CANCELLED:
        return frozenset()
    names = run.store.attempted(batch.id)
    away: dict[str, Standing] = {}
    elsewhere: set[str] = set()
    for fingerprint, standing in PaidAnswers.of(run).look_up(names).items():
        if standing.fingerprint != fingerprint:
            away[names[fingerprint]] = standing
        elif standing.paid or _is_other(standing.sent, run, batch):
            elsewhere.add(names[fingerprint])
    want_own(run, batch.job_id, away)
    return frozenset(elsewhere)


def _is_other(sent: KnownAnswer | None, run: Run, batch: Batch) -> bool:
    return sent is not None and (sent.run_id, sent.batch_id) != (run.id, batch.id)


def want_own(run: Run, job_id: str, away: Mapping[str, Standing]) -> None:
    """Have requests of a job, by custom_id, want answers of the run's own in the place of those that cannot be had."""
    if away:
        run.store.rebind(job_id, {name: standing.fingerprint for name, standing in away.items()})
    report_out_of_reach(run)


def report_out_of_reach(run: Run) -> None:
    """Write an event, once, for each run whose answers cannot be had here."""
    paid = PaidAnswers.of(run)
    for run_id, place in paid.out_of_reach.items():
        if run_id not in paid.reported:
            paid.reported.add(run_id)
            run.store.add_event(run.clock.now(), None, "answers_out_of_reach", out_of_reach_sentence(run_id, place))
