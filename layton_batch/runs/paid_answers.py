"""Answers that were paid for already, or are asked for now, by whichever run of the workspace.

An answer is known by its fingerprint, a row of the database. One that is on its way is waited for, not asked again. One
that may have been paid for, and cannot be had, counts as paid for: it is a person's word whether it is bought again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from layton_batch.files.run_folder import RunFolder, Workspace
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import ModelSpec
from layton_batch.runs.fingerprints import scoped
from layton_batch.runs.request_planner import AnswerStatus
from layton_batch.states import AnswerState
from layton_batch.store.places import RunLocation, other_places
from layton_batch.store.request_rows import KnownAnswer, asked_again
from layton_batch.store.run_store import RunStore

_PLAYED = " sandbox"
"""The scope of answers of a sandbox on this machine."""


def _of_run(run_id: str) -> str:
    """Return the scope of answers that one run alone may use."""
    return f"run {run_id}"


@dataclass(slots=True)
class PaidAnswers:
    """Looks answers up for one run. ``local``: the providers that a sandbox on this machine plays."""

    manifest: Manifest
    folder: RunFolder
    store: RunStore
    local: Collection[str]
    _homes: dict[str, Workspace | None] = field(default_factory=dict)
    _places: dict[str, RunLocation] = field(default_factory=dict)
    out_of_reach: dict[str, RunLocation | None] = field(default_factory=dict)
    """Runs that have answers which cannot be had here, as far as any were looked for."""
    reported: set[str] = field(default_factory=set)
    """The ones among them that an event reports."""

    def fingerprint(self, spec: ModelSpec, digest: bytes) -> bytes:
        """Return what an answer of this model is bought by: the fingerprint of the request, in its scope.

        What a sandbox on this machine answered is no answer of its provider's, and a manifest may ask everything anew.
        """
        own = "" if self.manifest.policy.reuse else _of_run(self.manifest.run_id())
        return scoped(digest, f"{own}{_PLAYED}" if spec.provider in self.local else own)

    def all_prints(self, digest: bytes) -> Iterator[bytes]:
        """Yield everything that this run can have asked a request by, whatever its manifest and addresses were then."""
        own = _of_run(self.store.run_id)
        for scope in ("", _PLAYED, own, f"{own}{_PLAYED}"):
            fingerprint = scoped(digest, scope)
            yield fingerprint
            yield self.own(fingerprint)

    def own(self, fingerprint: bytes) -> bytes:
        """Return what an answer is bought by where the one that is there cannot be had here."""
        return scoped(fingerprint, _of_run(self.store.run_id))

    def look_up(self, fingerprints: Collection[bytes]) -> dict[bytes, AnswerStatus]:
        """Return how the answers stand that requests with these fingerprints want."""
        self._homes = {run_id: home for run_id, home in self._homes.items() if home is not None}
        statuses = self._look_up({fingerprint: fingerprint for fingerprint in fingerprints})
        out_of_reach_here = [
            fingerprint for fingerprint, status in statuses.items() if self.is_away(status.state, status.run_id)
        ]
        statuses |= self._look_up({fingerprint: self.own(fingerprint) for fingerprint in out_of_reach_here})
        failed_answers = {status.answer for status in statuses.values() if status.state is AnswerState.FAILED}
        given_up = self.store.attempted(failed_answers)
        return {
            fingerprint: replace(status, is_to_ask=False) if status.answer in given_up else status
            for fingerprint, status in statuses.items()
        }

    def _look_up(self, own_fingerprints: Mapping[bytes, bytes]) -> dict[bytes, AnswerStatus]:
        """Look up the statuses of answers. Of several answers to one request the last counts.

        ``own_fingerprints``: the fingerprint by which each request asks, by the fingerprint that is looked up.
        """
        statuses = {fingerprint: AnswerStatus(own, own) for fingerprint, own in own_fingerprints.items()}
        not_yet_final, reask = dict(own_fingerprints), 0
        while not_yet_final:
            further = {fingerprint: asked_again(own, reask) for fingerprint, own in not_yet_final.items()}
            rows = self.store.known_answers(further.values())
            for fingerprint, answer in further.items():
                row = rows.get(answer)
                is_here = row is not None and row.state is AnswerState.ANSWERED and not self._is_gone(row.run_id)
                if row is not None and (is_here or reask == 0):
                    own = own_fingerprints[fingerprint]
                    statuses[fingerprint] = AnswerStatus(
                        own, answer, reask, row.state, self._is_to_ask(row), row.run_id
                    )
                if not is_here:
                    del not_yet_final[fingerprint]
            reask += 1
        return statuses

    def _is_to_ask(self, answer: KnownAnswer) -> bool:
        if answer.state is AnswerState.PLANNED:
            return answer.run_id != self.store.run_id
        return answer.state in (AnswerState.WANTED, AnswerState.FAILED)

    def is_away(self, state: AnswerState | None, run_id: str | None) -> bool:
        """Return whether an answer was bought, or may have been, by a run whose batches are not here."""
        if state not in _BOUGHT or not self._is_gone(run_id):
            return False
        self.out_of_reach[str(run_id)] = self._place(str(run_id))
        return True

    def _is_gone(self, run_id: str | None) -> bool:
        return run_id is not None and self.workspace_of(run_id) is None

    def workspace_of(self, run_id: str) -> Workspace | None:
        """Return the workspace that has the batches of a run of the database; None where it is not on this machine."""
        if run_id not in self._homes:
            place = self._place(run_id)
            homes = [self.folder.workspace, *([RunFolder(place.folder).workspace] if place else [])]
            self._homes[run_id] = next((home for home in homes if home.batches(run_id).is_dir()), None)
        return self._homes[run_id]

    def _place(self, run_id: str) -> RunLocation | None:
        if run_id not in self._places:
            self._places = {place.run_id: place for place in other_places(self.store)}
        return self._places.get(run_id)


_BOUGHT = (AnswerState.ANSWERED, AnswerState.UNCERTAIN)
"""States of what was paid for, or may have been."""


def out_of_reach_sentence(run_id: str, place: RunLocation | None) -> str:
    """Return the sentence that a run of the database has answers which cannot be had here."""
    where = f" ({place.folder} on {place.host})" if place else ""
    return (
        f"run {run_id} of this database has answers that this run wants, and its folder{where} is not here: what it "
        "paid for is asked again; share the folder, or run where it is"
    )


def report_out_of_reach(paid: PaidAnswers, at: float) -> None:
    """Write an event, once, for each run whose answers cannot be had here."""
    for run_id, place in paid.out_of_reach.items():
        if run_id not in paid.reported:
            paid.reported.add(run_id)
            paid.store.add_event(at, None, "answers_out_of_reach", out_of_reach_sentence(run_id, place))
