"""The provider seam: what a batch API's dialect must be able to say.

A dialect is one module. It uses the provider's official SDK, imported lazily inside ``connect``,
with the SDK's own retries off on every call that costs money. It keeps no state: everything it needs to go on after a
crash is in the records it is handed.

Errors: every method raises only :mod:`layton_batch.errors` classes. ``TransientProviderError`` promises that the call
did nothing; ``AmbiguousCallError`` says that it may have; ``RequestRefusedError`` that it never will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from threading import Event
from typing import Protocol

from layton_batch.records import JsonValue, MatchingBatch, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds of one HTTP call: seconds from its begin to its end, and bytes after inflating."""

    seconds: float = 600.0
    """A gateway may hold a create for as long, and settling counts on no more."""
    bytes_per_second: float = 10_000.0
    """The deadline is later by the time that the bytes of an upload or a download take at this speed."""
    connect: float = 60.0
    stop: float = 1.0
    """Seconds that a call in progress has left when the program is told to stop."""
    reply_bytes: int = 64 * _MIB
    """The size limit of a reply that is held in memory whole."""
    file_bytes: int = 32 * 1024 * _MIB
    """The size limit of one result file, which is streamed to disk."""

    def timeouts(self) -> dict[str, float]:
        """Return the bounds of single waits, in the form of httpx's request extension ``timeout``."""
        return dict.fromkeys(("read", "write", "pool"), self.seconds) | {"connect": min(self.connect, self.seconds)}


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """The largest pictures that a provider accepts. It refuses a request with a larger one after the batch was sent.

    ``characters``: of its base64; ``side``: in pixels, and ``side_of_many`` in a request of more than ``many``.
    """

    characters: int
    side: int
    many: int
    side_of_many: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits from the provider's documents. Bytes count whole lines; retention is of results, in seconds."""

    max_requests: int
    max_bytes: int
    max_line_bytes: int
    window_seconds: float = 86_400.0
    """Time after which the provider gives up; a batch much older than this is past its deadline."""
    poll_seconds: float = 30.0
    max_concurrent_batches: int | None = None
    max_creates_per_hour: int | None = None
    max_enqueued_tokens: int | None = None
    """Tokens of a model in all batches that have not ended; by account tier, so unset unless a deployment sets it."""
    retention_seconds: float = 29 * 86_400.0
    pictures: PictureLimits | None = None
    """None: not known."""
    calls_at_once: int = 8
    """Most of our calls that it is given at a time; each has a connection of its own."""


NO_REASON = "the provider gave no reason"
"""Message of a batch that failed, if the provider says nothing."""
NO_REPLY = "0"
"""The error code of a row that says of its request only that it never got a reply: its HTTP status is 0."""

USUAL_WINDOW = "24h"
"""Window of a batch whose model's manifest does not say it."""


def seconds_of(window: str) -> float:
    """A window as manifests write it (``24h``, ``7d``), in seconds."""
    return float(window[:-1]) * (86_400.0 if window.endswith("d") else 3600.0)


StatusMeaning = Lifecycle | BatchOutcome
"""Meaning of one of the provider's status words: in flight, cancelling, or the outcome of a batch that has ended."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities and gaps of this API; gaps are declared here and printed by ``plan``."""

    images: bool = True
    shows_ours: bool = True  # `find` can return what is certainly ours: a look before a create is worth a call
    certain_find: bool = True  # `find` can prove that a batch does not exist
    cancel: bool = True
    caveats: tuple[str, ...] = ()


ACCOUNT_HEADERS = ("openai-organization", "anthropic-organization-id")
"""Headers of replies that name the organisation which pays."""


@dataclass(eq=False, slots=True)
class ReplyAccount:
    """The organisation that a provider's replies name. None: no reply has named one yet."""

    name: str | None = None

    def read(self, headers: Mapping[str, str]) -> None:
        """Keep the organisation that a reply's headers name, if they name one."""
        self.name = next((name for header in ACCOUNT_HEADERS if (name := headers.get(header))), self.name)


@dataclass(frozen=True, slots=True)
class Access:
    """Address, key and patience for one provider. ``api_key`` never appears in a repr.

    ``stopping``, once set, ends the calls in progress; see :mod:`layton_batch.providers.http_client`.
    """

    api_key: str
    base_url: str | None = None
    patience: CallLimits = field(default_factory=CallLimits)
    stopping: Event = field(default_factory=Event)
    api_version: str | None = None
    """The version of the API to speak, and no other; None: the dialect chooses."""
    account: ReplyAccount = field(default_factory=ReplyAccount)
    """The organisation that replies name; the connections of a run to one provider share it."""

    def __repr__(self) -> str:
        return f"Access(base_url={self.base_url!r}, api_key='***')"


@dataclass(frozen=True, slots=True)
class ResultPart:
    """One file of results. ``kind``: ``output`` or ``errors``; ``chunks``: raw bytes in order, not line-aligned.

    ``resume(n)`` gives the bytes after the first ``n``, for a download that broke off there; it raises a ProviderError
    where the server does not do that. None: the API cannot.
    """

    kind: str
    chunks: Iterator[bytes]
    resume: Callable[[int], Iterator[bytes]] | None = None
    size: int | None = None
    """Bytes, by the provider's own record of the file, where it counts nothing else."""


@dataclass(frozen=True, slots=True)
class ModelNotice:
    """Statement of a provider about one of its models; None where it says nothing."""

    id: str | None
    """Under which it answers: the one asked about, or what that stands for."""
    ends: date | None = None
    """The first day without it."""
    is_deprecated: bool = False
    """Its end has been announced, perhaps without a day."""
    is_over: bool = False
    """It is still in the catalogue, and requests to it fail."""
    runs_as_batch: bool | None = None
    replacement: str | None = None


class KnowsModels(Protocol):
    """Optional part of a provider; ``layton_batch.providers.knows_models`` tells which providers have it."""

    def about(self, model: str) -> ModelNotice | None:
        """Ask what the provider says of a model now, by free calls; None where it has no model of this id.

        Raises a ProviderError where the question failed, which says nothing of the model.
        """
        ...


class Provider(Protocol):
    """One batch API. Instances are made by the registry (``layton_batch.providers.connect``) and used by one thread."""

    name: str
    limits: Limits
    capabilities: Capabilities
    status_map: Mapping[str, StatusMeaning]

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """One line of a batch file, as an object of plain dicts, lists, texts and numbers, which is written as JSON in
        the order of its keys; the same request always gives the same bytes.

        It is called once for every request: it should only put the parts of the prompt in their places.
        """
        ...

    def upload(self, submission: Submission) -> str | None:
        """Bring the file to the provider; costs nothing; idempotent where the API allows. None: nothing to upload."""
        ...

    def create(self, submission: Submission) -> str:
        """The one paid call: exactly one POST. Returns the provider's id of the batch."""
        ...

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Batches at the provider that carry our tag, or, where it has none, look like ours."""
        ...

    def snapshot(self, provider_id: str) -> Snapshot:
        """One reading. Raises UnknownStatusError on a word that ``status_map`` lacks."""
        ...

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        """Every result and error file there is, streamed; nothing for a batch without results."""
        ...

    def decode(self, line: bytes) -> Response:
        """One result line. Raises ProviderReplyError where no request can be told from it.

        A line that names its request never does: a reply that the provider calls a success is SUCCEEDED, with no text
        where it is not of the documented form; where nothing is told, the row is ERRORED as ``UNREADABLE``
        (``result_rows``). Neither is bought again by itself.
        """
        ...

    def cancel(self, provider_id: str) -> None:
        """Ask the provider to stop; a batch that has already ended is not an error."""
        ...
