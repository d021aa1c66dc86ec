"""The planner: compares the requests that a manifest wants with those that a job has, and with answers that are there.

A run and the command `plan` go through the same planner. It reads rows and writes nothing: a run writes files and rows
of what it yields, `plan` counts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from layton_batch.costs.estimate import PromptSize
from layton_batch.providers.protocol import Provider
from layton_batch.providers.request_line import request_line
from layton_batch.records import ModelSpec, Request
from layton_batch.runs.fingerprints import fingerprint_bytes, without_limit
from layton_batch.runs.names import UNNAMED, custom_id
from layton_batch.runs.prompt_cache import SizedPrompt, WantedPrompt
from layton_batch.states import AnswerState

if TYPE_CHECKING:
    from layton_batch.store.request_rows import KnownRequest  # loads SQLAlchemy, which an empty workspace need not

_KEPT = frozenset({AnswerState.SENT, AnswerState.ANSWERED, AnswerState.UNCERTAIN})
PORTION = 500
"""The number of requests whose answers are looked up at a time."""


@dataclass(frozen=True, slots=True)
class AnswerStatus:
    """State of the answer that a request wants. ``fingerprint``: of the request. ``answer``: the fingerprint of the
    wanted answer, after ``reask`` earlier ones. ``state``: None: nobody ever wanted it. ``is_to_ask``: nobody has the
    answer, or asks for it."""

    fingerprint: bytes
    answer: bytes
    reask: int = 0
    state: AnswerState | None = None
    is_to_ask: bool = True
    run_id: str | None = None
    """The run in whose batch it is."""


class AnswerLookUp(Protocol):
    """Look-up of answers, whichever run asked for them."""

    def fingerprint(self, spec: ModelSpec, digest: bytes) -> bytes:
        """Return what an answer of this model is bought by; ``digest``: the fingerprint of the request."""
        ...

    def all_prints(self, digest: bytes) -> Iterable[bytes]:
        """Return everything that the run can have asked a request by, whatever its manifest and addresses were then."""
        ...

    def look_up(self, fingerprints: Collection[bytes]) -> Mapping[bytes, AnswerStatus]:
        """Return how the answers stand that requests with these fingerprints want."""
        ...


class RequestKind(StrEnum):
    """Kind of a wanted request: it says what the job has to do."""

    KEPT = "kept"  # nothing: the job has the request
    ANSWERED = "answered"  # enter it: its answer was bought
    IN_PROGRESS = "in_progress"  # enter it: a batch, or an earlier request of this plan, asks for its answer
    GIVEN_UP = "given_up"  # enter it: its answer may have been billed, or this run tried; a person's `retry` asks again
    TO_ASK = "to_ask"  # enter it, and send it


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that the manifest wants. ``line``: what its provider is sent, without a newline; empty unless it is to
    be sent. ``status``: of its answer; None: the job has the request, and its answer is not looked up."""

    kind: RequestKind
    custom_id: str
    item_id: str
    spec: ModelSpec
    size: PromptSize
    line: bytes
    status: AnswerStatus | None
    without_limit: bytes | None = None
    """The fingerprint of what it asks without its output limit."""

    @property
    def waits_for(self) -> str | None:
        """Return the run whose batch is to bring the answer; None: no other run asks for it."""
        if self.status is None or self.status.is_to_ask or self.kind is not RequestKind.IN_PROGRESS:
            return None
        return self.status.run_id


class _Written(NamedTuple):
    """A request as its provider takes it, but for its custom_id. ``digest``: its fingerprint; ``fingerprint``: the same
    within its scope."""

    item_id: str
    spec: ModelSpec
    sized: SizedPrompt
    line: bytes
    digest: bytes
    fingerprint: bytes
    without_limit: bytes


@dataclass
class RequestPlanner:
    """Plans one job. ``prefix``: of its custom_ids; ``earlier``: every request that the job ever had.

    ``still_wanted``: the custom_ids of earlier requests that are wanted; ``to_ask``: the answers to buy.
    """

    provider: Provider
    prefix: str
    earlier: Sequence[KnownRequest]
    answers: AnswerLookUp
    still_wanted: set[str] = field(default_factory=set)
    to_ask: set[bytes] = field(default_factory=set)

    def plan(self, wanted: Iterable[WantedPrompt]) -> Iterator[PlannedRequest]:
        """Yield what there is to do about each request, in order. New requests are numbered after the earlier ones."""
        number, prompts = len(self.earlier) + 1, iter(wanted)
        custom_ids = {(request.item_id, request.fingerprint): request.custom_id for request in self.earlier}
        while portion := list(islice(prompts, PORTION)):
            written = [self._written(*prompt) for prompt in portion]
            new = [request for request in written if (request.item_id, request.fingerprint) not in custom_ids]
            statuses = self.answers.look_up({request.fingerprint for request in new})
            for request in written:
                name, status = self._earlier_custom_id(custom_ids, request) if custom_ids else None, None
                if name is None:
                    name, status = custom_id(self.prefix, number, request.fingerprint), statuses[request.fingerprint]
                    number += 1
                yield self._planned(name, request, status)

    def retired(self) -> list[str]:
        """Return the custom_ids of requests that were wanted before this plan, and are not any more."""
        return [
            request.custom_id
            for request in self.earlier
            if not request.retired and request.custom_id not in self.still_wanted
        ]

    def _written(self, item_id: str, spec: ModelSpec, sized: SizedPrompt) -> _Written:
        line = request_line(self.provider, Request(UNNAMED, item_id, spec, sized.prompt))
        digest, coarse = (
            fingerprint_bytes(spec.provider, spec.model, text, UNNAMED, spec.sample)
            for text in (line, without_limit(line))
        )
        return _Written(item_id, spec, sized, line, digest, self.answers.fingerprint(spec, digest), coarse)

    def _earlier_custom_id(self, custom_ids: Mapping[tuple[str, bytes | None], str], request: _Written) -> str | None:
        """Return the request by which the job asked the same before, also where its manifest or addresses were others
        then; an imported request stands for its item. An answer that was not cut, or may yet come, stands whatever the
        output limit is by now."""
        if (name := custom_ids.get((request.item_id, request.fingerprint))) is not None:
            return name
        keys = ((request.item_id, fingerprint) for fingerprint in (*self.answers.all_prints(request.digest), None))
        if (same := next((custom_ids[key] for key in keys if key in custom_ids), None)) is not None:
            return same
        kept = self._kept.get((request.item_id, request.without_limit))
        has_room = kept is not None and not kept.lacks_room(request.spec.max_output_tokens)
        return kept.custom_id if kept is not None and has_room else None

    @cached_property
    def _kept(self) -> Mapping[tuple[str, bytes | None], KnownRequest]:
        """Requests that are answered, or may yet be, by what they ask whatever room it has."""
        return {
            (request.item_id, request.without_limit): request
            for request in self.earlier
            if request.without_limit is not None and request.state in _KEPT
        }

    def _planned(self, name: str, request: _Written, status: AnswerStatus | None) -> PlannedRequest:
        kind, line, sized = self._kind(status), b"", request.sized
        if status is None:
            self.still_wanted.add(name)
        elif kind is RequestKind.TO_ASK:
            self.to_ask.add(status.answer)
            line = request.line.replace(UNNAMED.encode(), name.encode(), 1)
        return PlannedRequest(
            kind, name, request.item_id, request.spec, sized.size, line, status, request.without_limit
        )

    def _kind(self, status: AnswerStatus | None) -> RequestKind:
        if status is None:
            return RequestKind.KEPT
        if status.is_to_ask:
            return RequestKind.IN_PROGRESS if status.answer in self.to_ask else RequestKind.TO_ASK
        if status.state is AnswerState.ANSWERED:
            return RequestKind.ANSWERED
        is_in_batch = status.state in (AnswerState.PLANNED, AnswerState.SENT)
        return RequestKind.IN_PROGRESS if is_in_batch else RequestKind.GIVEN_UP
