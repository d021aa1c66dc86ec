"""Answers that were paid for already, or are asked for now, by whichever run of the workspace.

An answer is known by its fingerprint, a row of the database. One that is on its way is waited for, not asked again. One
that may have been paid for, and cannot be had, counts as paid for: it is a person's word whether it is bought again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from layton_batch.manifest.manifest import Manifest
from layton_batch.records import ModelSpec
from layton_batch.runs.fingerprints import scoped
from layton_batch.runs.request_planner import AnswerStatus
from layton_batch.states import AnswerState
from layton_batch.store.request_rows import asked_again
from layton_batch.store.requests import KnownAnswer
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
    store: RunStore
    local: Collection[str]

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
            yield scoped(digest, scope)

    def look_up(self, fingerprints: Collection[bytes]) -> dict[bytes, AnswerStatus]:
        """Return how the answers stand that requests with these fingerprints want. Of several answers to one request
        the last counts."""
        statuses = {fingerprint: AnswerStatus(fingerprint, fingerprint) for fingerprint in fingerprints}
        not_yet_final, reask = set(fingerprints), 0
        while not_yet_final:
            further = {fingerprint: asked_again(fingerprint, reask) for fingerprint in not_yet_final}
            rows = self.store.known_answers(further.values())
            for fingerprint, answer in further.items():
                row = rows.get(answer)
                is_answered = row is not None and row.state is AnswerState.ANSWERED
                if row is not None and (is_answered or reask == 0):
                    statuses[fingerprint] = AnswerStatus(
                        fingerprint, answer, reask, row.state, self._is_to_ask(row), row.run_id
                    )
                if not is_answered:
                    not_yet_final.remove(fingerprint)
            reask += 1
        failed_answers = {status.answer for status in statuses.values() if status.state is AnswerState.FAILED}
        given_up = self.store.attempted(failed_answers)
        return {
            fingerprint: replace(status, is_to_ask=False) if status.answer in given_up else status
            for fingerprint, status in statuses.items()
        }

    def _is_to_ask(self, answer: KnownAnswer) -> bool:
        if answer.state is AnswerState.PLANNED:
            return answer.run_id != self.store.run_id
        return answer.state in (AnswerState.WANTED, AnswerState.FAILED)
