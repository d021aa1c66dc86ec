"""Requests that a manifest wants: what they ask, what they are called, and whose answers are there already."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from layton_batch.costs.estimate import PromptSize
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers.protocol import Provider
from layton_batch.providers.wire_json import request_line
from layton_batch.records import Item, ModelSpec, Prediction, Prompt, Request
from layton_batch.states import AnswerState
from layton_batch.store.request_rows import asked_again
from layton_batch.store.requests import KnownAnswer
from layton_batch.store.run_store import RunStore
from layton_batch.tasks import has_one_limit, with_room
from layton_batch.tasks.protocol import Candidate, JuryTask, Task

if TYPE_CHECKING:
    from layton_batch.store.request_rows import KnownRequest

FIRST_SAMPLE = 1
_LIMIT = re.compile(rb'"max(?<!\\"max)(?:_tokens|_completion_tokens|_output_tokens|OutputTokens)":\d+,?')
"""It begins with the literal, by which `re` finds it 15 times as fast."""


def fingerprint(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> str:
    """Return the SHA-256, in hex, of provider, model, sample number and the encoded line without its ``custom_id``.

    The dialect puts the ``custom_id`` before what is asked, which may hold the same characters.
    """
    return fingerprint_bytes(provider, model, line, custom_id, sample).hex()


def without_limit(line: bytes) -> bytes:
    """Return the encoded line without its output limit. Within a text the quotes around such a name are escaped."""
    return _LIMIT.sub(b"", line)


def fingerprint_bytes(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> bytes:
    """Return the 32 bytes of the same fingerprint."""
    digest = sha256(f"{provider}\x1f{model}\x1f{sample}\x1f".encode("utf-8", "surrogatepass"))
    digest.update(line.replace(custom_id.encode(), b"", 1))
    return digest.digest()


def scoped(fingerprint: bytes, scope: str) -> bytes:
    """Return the fingerprint within a scope, where it is another answer than in every other one; "" is all of them."""
    return sha256(f"{scope}\x1f".encode() + fingerprint).digest() if scope else fingerprint


DIGITS = 12
"""Hexadecimal digits of a request's fingerprint in its custom_id."""
FILE_DIGITS = 8
"""Hexadecimal digits of a batch file's SHA-256 in its tag."""
UNNAMED = "the-custom-id-of-a-request-comes-here-"
"""Stands in an encoded line for the custom_id, which is as long and is known once the line is hashed."""


def custom_id_prefix(mark: str, job_id: str) -> str:
    """Return the common start of the custom_ids of a job. A number of six digits or more follows."""
    return f"r{mark}-{_digest(job_id)}-"  # within every provider's rule: 1 to 64 of A-Za-z0-9_-


def custom_id(prefix: str, number: int, fingerprint: bytes) -> str:
    """Return a request's name, 38 characters of ``[a-z0-9-]``: of the job's ``prefix``, a number, and what is asked."""
    return f"{prefix}{number:06d}-{fingerprint.hex()[:DIGITS]}"


def tag(prefix: str, job_id: str, shard_id: str, attempt: int, file_sha256: str) -> str:
    """Return the name of a batch and its file: at most 57 characters of ``[a-z0-9-]``, another for every attempt."""
    return f"{prefix}-{_digest(job_id)}-{shard_id}-a{attempt}-{file_sha256[:FILE_DIGITS]}"


def _digest(job_id: str) -> str:
    return sha256(job_id.encode()).hexdigest()[:8]


KEPT_BYTES = 24 << 20
"""Most bytes of text in the kept prompts. Prompts beyond them are rendered again for every model."""
_OVERHEAD = 500
"""Bytes that a kept prompt takes besides its text."""


@dataclass(frozen=True, slots=True)
class SizedPrompt:
    """A prompt and its size, which no model changes."""

    prompt: Prompt
    size: PromptSize


WantedPrompt = tuple[str, ModelSpec, SizedPrompt]
"""A prompt that a manifest wants to send: the item, the model with its settings, the prompt and its size."""


@dataclass(slots=True)
class PromptCache:
    """The prompts of one subject: a run's items, or one model's answers to them. Prompts with pictures are not kept."""

    _subject: tuple[object, ...] = ()
    _kept: dict[str, tuple[Item, Prediction | None, SizedPrompt]] = field(default_factory=dict)
    _bytes: int = 0

    def about(self, *subject: object) -> None:
        """Begin a subject, and forget the prompts of another one."""
        if subject != self._subject:
            self._subject, self._kept, self._bytes = subject, {}, 0

    def of(self, item: Item, judged: Prediction | None, render: Callable[[], Prompt]) -> SizedPrompt:
        """Return the prompt about an item, or about a prediction of it: a kept prompt if both are the same, else the
        result of ``render``."""
        entry = self._kept.get(item.id)
        if entry is not None and entry[:2] == (item, judged):
            return entry[2]
        prompt = render()
        sized = SizedPrompt(prompt, PromptSize.of(prompt))
        if entry is None and not sized.size.images and self._bytes < KEPT_BYTES:
            self._kept[item.id] = item, judged, sized
            self._bytes += _OVERHEAD + sized.size.text_bytes
        return sized

    def participants(self, items: Iterable[Item], spec: ModelSpec, task: Task, base: Task) -> Iterator[WantedPrompt]:
        """Yield what a participant is asked, an item each. ``task``: with the hints of its job; ``base``: with the
        manifest's, which advises the limits of replies."""
        has_own_limit = has_one_limit(base, spec)
        for item in items:
            limited = spec if has_own_limit else with_room(base, item, spec)
            yield item.id, limited, self.of(item, None, partial(task.prompt, item))

    def judges(self, candidates: Iterable[Candidate], spec: ModelSpec, task: JuryTask) -> Iterator[WantedPrompt]:
        """Yield what a judge is asked about each of the candidates."""
        for candidate in candidates:
            item, prediction = candidate.item, candidate.prediction
            yield item.id, spec, self.of(item, prediction, partial(task.judge_prompt, candidate))


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

    def all_prints(self, spec: ModelSpec, digest: bytes) -> Iterable[bytes]:
        """Return everything that the run can have asked a request by, whatever its manifest and addresses were then,
        but for an address elsewhere that is not its provider's any more."""
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
        keys = (
            (request.item_id, fingerprint)
            for fingerprint in (*self.answers.all_prints(request.spec, request.digest), None)
        )
        if (same := next((custom_ids[key] for key in keys if key in custom_ids), None)) is not None:
            return same
        earlier_request = self._kept.get((request.item_id, request.without_limit))
        has_room = earlier_request is not None and not earlier_request.lacks_room(request.spec.max_output_tokens)
        return earlier_request.custom_id if earlier_request is not None and has_room else None

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


_PLAYED = " sandbox"
"""The scope of answers of a sandbox on this machine."""


def _of_run(run_id: str) -> str:
    """Return the scope of answers that one run alone may use."""
    return f"run {run_id}"


@dataclass(slots=True)
class PaidAnswers:
    """Looks answers up for one run. ``local``: the providers that a sandbox on this machine plays; ``elsewhere``: the
    address that a provider is called at, if it is not the provider's own."""

    manifest: Manifest
    store: RunStore
    local: Collection[str]
    elsewhere: Callable[[str], str | None] = lambda _provider: None

    def fingerprint(self, spec: ModelSpec, digest: bytes) -> bytes:
        """Return what an answer of this model is bought by: the fingerprint of the request, in its scope.

        What a sandbox on this machine or a gateway answered is no answer of its provider's, and a manifest may ask
        everything anew.
        """
        own = "" if self.manifest.policy.reuse else _of_run(self.manifest.name)
        return scoped(digest, f"{own}{self._place(spec.provider)}")

    def _place(self, provider: str) -> str:
        """Return the part of the scope that says where the provider's answers come from; "" is its own address."""
        if provider in self.local:
            return _PLAYED
        address = self.elsewhere(provider)
        return "" if address is None else f" at {address}"

    def all_prints(self, spec: ModelSpec, digest: bytes) -> Iterator[bytes]:
        """Yield what this run can have asked a request by. What it asked at another address elsewhere and has an answer
        to is found by ``without_limit``."""
        own = _of_run(self.store.run_id)
        for place in dict.fromkeys(("", _PLAYED, self._place(spec.provider))):
            yield scoped(digest, place)
            yield scoped(digest, f"{own}{place}")

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
