"""READ SECOND. Every noun of the glossary as a frozen record.

Records carry values. Money is ``Decimal`` US dollars, times are epoch seconds, scores fractions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, PredictionKind, RequestOutcome, Role

T = TypeVar("T")
JsonValue = str | int | float | bool | None | list["JsonValue"] | Mapping[str, "JsonValue"]
"""A value as JSON knows it."""

EMPTY: Mapping[str, JsonValue] = MappingProxyType({})

End = tuple[RequestOutcome, ErrorClass]
"""The end of a request of a batch."""


# ---- what is asked -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """One image as a provider takes it: base64 text without line breaks, and its media type (``image/jpeg`` …)."""

    media_type: str
    base64: str


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its reference. ``hints`` holds levels 1..4 in order; a level the item lacks is None.

    ``payload``: what only its own task understands (options, grid …); ``picarats``: how hard it is said to be."""

    id: str
    split: str
    category: str
    question: str
    images: tuple[Image, ...] = ()
    hints: tuple[str | None, ...] = ()
    answer: str | None = None
    justification: str | None = None
    solution: str | None = None
    payload: Mapping[str, JsonValue] = field(default_factory=lambda: EMPTY)
    picarats: int | None = None


@dataclass(frozen=True)
class ResponseSchema:
    """A strict JSON schema the reply must follow; ``name`` is ``[A-Za-z0-9_-]{1,64}``."""

    name: str
    schema: Mapping[str, JsonValue]

    @cached_property
    def closed(self) -> JsonValue:
        """The schema with ``additionalProperties: false`` and all properties required where it says neither: strict
        modes refuse an object without them, each row on its own and only after submission."""
        return _closed(self.schema)


def _closed(schema: JsonValue) -> JsonValue:
    if isinstance(schema, list | tuple):
        return [_closed(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed: dict[str, JsonValue] = {key: _closed(value) for key, value in schema.items()}
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, Mapping):
        closed.setdefault("required", list(properties))
        closed.setdefault("additionalProperties", False)
    return closed


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt of a model in no provider's dialect: a system text, user parts in order, the form of the reply."""

    system: str
    parts: tuple[str | Image, ...]
    response_schema: ResponseSchema | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning effort of a model: a word, or a token budget, never both. Neither: the provider's default."""

    effort: str | None = None  # none | minimal | low | medium | high | xhigh | max
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as the manifest names it: ``name`` is what we show, ``model`` is what the provider is told."""

    name: str
    provider: str
    model: str
    family: str
    max_output_tokens: int | None = None
    reasoning: Reasoning = Reasoning()
    params: Mapping[str, JsonValue] = field(default_factory=lambda: EMPTY)
    window: str | None = None  # how long its batches may take (``1h``, ``24h``, ``7d``); None: the provider's usual
    sample: int = 1  # which answer to an item: with ``samples = 3`` a model is asked three times
    hints: int | None = None  # with how many hints, where the manifest asks with several numbers of them


@dataclass(frozen=True, slots=True)
class Judge:
    """A panel seat: a model, and whether it sits only where another seat is empty."""

    model: ModelSpec
    substitute: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One item put to one model: one line of a batch file, known by ``custom_id`` (``[A-Za-z0-9_-]{1,64}``)."""

    custom_id: str
    item_id: str
    model: ModelSpec
    prompt: Prompt


# ---- work ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A run's work for one (role, provider, model); a judge's job also names the predict job it judges."""

    id: str
    role: Role
    spec: ModelSpec
    depends_on: str | None = None
    planned: bool = False  # its requests are known, and its batch files are on disk
    graded: bool = False  # its responses were turned into predictions or verdicts
    identity: str = ""  # what it asks by (runs/jobs.py)
    retired: bool = False  # the manifest no longer has it: its answers stay on disk, and nothing more is sent
    news: int = 0  # grows with each batch that is entered or collected for its requests
    is_stale: bool = False  # it is graded, and answers that it wants came, or were asked for in vain, since

    @property
    def is_anchor(self) -> bool:
        """Return whether the job asks a judge about labelled answers once more."""
        return self.role is Role.REJUDGE and self.spec.sample > 1


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes to a run's jobs. ``jobs``: all that the manifest has, in its order, under the store's ids;
    ``again``: those of them that are to be planned once more; ``retired``: those that it no longer has.
    ``request_digest``, ``items``: digests of what they were made from."""

    jobs: Sequence[Job]
    again: Collection[str]
    retired: Collection[str]
    request_digest: str
    items: str


@dataclass(frozen=True, slots=True)
class Shard:
    """A slice of a job's requests within the provider's limits, as a file in the provider's format."""

    id: str
    path: str  # relative to the folder of runs
    requests: int
    size_bytes: int
    sha256: str
    max_cost: Decimal | None = None  # upper bound in USD; None = the model has no known price
    expected_usd: Decimal | None = None  # what its requests will probably cost


@dataclass(frozen=True, slots=True)
class Account:
    """The account that pays at a provider, as digests of this run: ``key`` stands for key and address, ``organisation``
    for the one that replies name. None: not known, or not yet."""

    key: str | None = None
    organisation: str | None = None


class NewRequest(NamedTuple):
    """A request that a job wants from now on. ``fingerprint``: of what it asks (None: nobody was asked); ``answer``: of
    what it wants, after ``reask`` earlier ones; ``without_limit``: fingerprint of what it asks without its output
    limit, ``room``."""

    custom_id: str
    item_id: str
    fingerprint: bytes | None
    answer: bytes
    reask: int = 0
    without_limit: bytes | None = None
    room: int | None = None


class NewAttempt(NamedTuple):
    """A request in a new batch, in the order of the lines of its file. ``answer``: the fingerprint of what it wants;
    ``max_cost``: upper bound in USD (None: not known); ``end``: of a batch that is over before it began, for its
    answers came from a file, or nothing of it can be sent."""

    custom_id: str
    answer: bytes
    max_cost: Decimal | None
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One attempt at a shard, from our side and the provider's. ``tag`` is what ``find`` looks for."""

    id: str
    job_id: str
    shard_id: str
    provider: str
    model: str
    attempt: int
    state: Lifecycle
    tag: str
    requests: int
    path: str  # of the batch file, relative to the folder of runs; empty: there is none
    sha256: str
    size_bytes: int
    max_cost: Decimal | None = None  # USD set aside for it, by default its upper bound; None = no known price
    expected_usd: Decimal | None = None  # what it will probably cost; None = no known price
    spent_usd: Decimal = Decimal(0)  # what its answers cost, as far as it is known
    unknown_usd: Decimal = Decimal(0)  # the most that its requests may have cost beside
    creates_usd: Decimal = Decimal(0)  # the most that its given-up creates may have cost
    outcome: BatchOutcome | None = None
    error_class: ErrorClass = ErrorClass.NONE  # of a batch that failed as a whole
    input_ref: str | None = None  # the uploaded file's id
    account: str | None = None  # digest of the key and address that its last create was intended for
    organisation: str | None = None  # digest of the organisation that replies named then
    provider_id: str | None = None
    provider_status: str | None = None
    results_ref: str | None = None  # where the results are, in the dialect's own form
    errors_ref: str | None = None
    reason: str | None = None
    parent_id: str | None = None  # the attempt whose unanswered rows this one repeats
    cause: str | None = None  # why there is this attempt, where it is not the first
    reask: int = 0  # how often its requests were answered before, and asked for once more all the same
    due_at: float = 0.0
    submitting_at: float | None = None
    unclear_since: float | None = None  # when the first of its last creates was not answered clearly
    listed_at: float | None = None  # when a list was last searched for its given-up creates
    submitted_at: float | None = None
    read_at: float | None = None  # when the provider last told of it
    ended_at: float | None = None
    deadline_at: float | None = None
    needs_person: bool = False  # it does not go on before a person mends what its reason names
    failures: int = 0  # consecutive failures of the current step, which decide about pauses and when a person is told
    failed_status: int | None = None  # HTTP status of the last of them; None: no reply, or none since
    stated_usd: Decimal | None = None  # what the provider says that the batch cost, and its tokens
    stated_input_tokens: int | None = None
    stated_output_tokens: int | None = None
    absent_looks: int = 0  # lists without the batch, since its create became unclear
    short_downloads: int = 0  # downloads in a row that came short and brought nothing new
    given_up_creates: int = 0  # creates without an answer after which the batch was sent again
    closed_creates: int = 0  # of these creates, those that are known to have cost nothing: a later list lacks them
    extra_batches: int = 0  # batches that these creates made all the same, and whose answers nobody collects
    stopped_elsewhere: bool = False  # it was cancelled at the provider, and this run had not asked for it
    content: Sequence[NewAttempt] = ()  # of a batch that is about to be entered

    @property
    def was_withdrawn(self) -> bool:
        """Return whether the batch was never sent, and never will be: nothing of a run comes from its file."""
        return self.outcome is BatchOutcome.CANCELLED and self.provider_id is None

    @property
    def creates_of_unknown_cost(self) -> int:
        """Given-up creates that may have been billed."""
        return self.given_up_creates - self.closed_creates


@dataclass(frozen=True, slots=True)
class ServerForm:
    """A server that speaks OpenAI's batch API, and what it does otherwise.

    ``windows``: how long a batch may be given; ``efforts``: the reasoning words it takes; ``max_tokens``: the key
    of the output limit; ``lists_batches``, ``lists_files``: whether it has these lists, with metadata and file names.
    """

    name: str
    base_url: str
    windows: tuple[str, ...] = ("24h",)
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high")
    max_tokens: str = "max_completion_tokens"
    lists_batches: bool = True
    lists_files: bool = True


@dataclass(eq=False, slots=True)
class ListReading:
    """One reading of a provider's list of batches, which all batches use that are sent within seconds of its begin.

    ``begun``: when it was begun, by our clock.
    """

    begun: float
    _parts: dict[str, Sequence[object]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def rows(self, read: Callable[[], Iterable[T]], part: str = "") -> Sequence[T]:
        """Return the rows of the list, or of a part of it, as ``read`` gives them; the first caller reads them.

        What ``read`` raises is raised, and the next caller reads again.
        """
        with self._lock:
            if part not in self._parts:
                self._parts[part] = list(read())
            return cast("Sequence[T]", self._parts[part])


@dataclass(frozen=True, slots=True)
class Submission:
    """Data that a dialect needs for upload and create: the batch file, our tag, and the number of requests."""

    batch_id: str
    tag: str
    path: Path
    file_name: str
    sha256: str
    requests: int
    model: str
    input_ref: str | None = None
    intended_at: float | None = None  # when the intent to create was committed, by our clock
    asked_at: float | None = None  # our clock now, where the provider's replies are to be compared with it
    oldest_at: float | None = None  # by our clock: no batch that is looked for was created before; None: not known
    window: str | None = None  # how long the batch may take; None: the provider's usual
    known_ids: frozenset[str] = frozenset()  # ids of other batches of ours at providers: they need no look
    marks: tuple[str, ...] = ()  # beginnings of the names that the run gives to batches and to requests
    knows: Callable[[Collection[str]], bool] = lambda _names: True  # whether the database has one of these names
    custom_ids: dict[str, frozenset[str]] = field(default_factory=dict)
    """Ids of requests in ended batches that this process has read, by batch: nobody needs to ask for them again."""
    reading: ListReading | None = None
    """The list before a create, of which only what is surely ours counts; None: a create was tried, and the list is
    read now."""

    def is_of_a_copy(self, provider_id: str | None, names: Collection[str]) -> bool:
        """Return whether a batch that the list shows before a create was sent by a copy of this workspace: its name, or
        those of its requests, carry the run's mark, and the database knows neither them nor its id."""
        is_marked = any(name.startswith(self.marks) for name in names) if self.marks else False
        return self.reading is not None and is_marked and provider_id not in self.known_ids and not self.knows(names)

    def listed(self, read: Callable[[], Iterable[T]], part: str = "") -> Sequence[T]:
        """Return the rows of the provider's list of batches; ``read`` asks for them, to the list's end."""
        return list(read()) if self.reading is None else self.reading.rows(read, part)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of a batch at its provider. ``state`` is in_flight, cancelling or ended."""

    provider_id: str
    provider_status: str
    state: Lifecycle
    outcome: BatchOutcome | None = None
    results_ref: str | None = None
    errors_ref: str | None = None
    total: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    message: str | None = None
    error_class: ErrorClass = ErrorClass.NONE  # of a batch that failed as a whole
    stated_usd: Decimal | None = None  # what the batch cost by the provider's own books, where it says so
    stated_usage: Usage | None = None  # its tokens by the provider's own books


@dataclass(frozen=True, slots=True)
class MatchingBatch:
    """A batch at the provider that may be ours. ``certain``: it carries our tag or our requests; otherwise it only
    looks like it, and ``may_tell`` says whether it will show more in time, or only a person can know. ``of_a_copy``:
    it is another one, which a copy of the workspace sent. ``provider_id`` is empty where the list shows none: the
    batch is there, and cannot be named."""

    provider_id: str
    certain: bool
    created_at: float | None = None
    may_tell: bool = False
    of_a_copy: bool = False

    def __str__(self) -> str:
        return self.provider_id or "one that the list shows without an id"


# ---- what comes back -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply. ``input_tokens`` includes cached ones, ``output_tokens`` includes reasoning ones.

    Not ``is_known``: the reply does not tell how many were read or written, so nobody can say from them what it cost.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    hour_write_tokens: int = 0  # of these, written to be kept for an hour
    is_known: bool = True
    stated_usd: Decimal | None = None  # what the provider says that this reply cost, where it says so


@dataclass(frozen=True, slots=True)
class Response:
    """One result line, decoded: a raw reply or the reason there is none."""

    custom_id: str
    outcome: RequestOutcome
    text: str | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    refusal: str | None = None
    usage: Usage = field(default_factory=Usage)
    error_class: ErrorClass = ErrorClass.NONE
    error_code: str | None = None
    error_message: str | None = None
    served_model: str | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A parsed response: what one model said about one item."""

    item_id: str
    model: str
    kind: PredictionKind
    answer: str | None = None
    justification: str | None = None
    raw_text: str | None = None
    note: str | None = None  # for people: why it is not `answered`, or how it was mended
    ending: FinishReason | None = None  # LENGTH or REFUSAL, where the reply did not come to its own end


@dataclass(frozen=True, slots=True)
class Verdict:
    """One grader's decision on one prediction; None where the grader's reply could not be read."""

    item_id: str
    model: str
    judge: str
    is_answer_correct: bool | None
    is_justification_correct: bool | None
    note: str | None = None
    reason: str | None = None  # why, in the grader's own words

    @property
    def both_correct(self) -> bool | None:
        if self.is_answer_correct is None or self.is_justification_correct is None:
            return None
        return self.is_answer_correct and self.is_justification_correct


@dataclass(frozen=True, slots=True)
class Grade:
    """A rule's marks on one prediction, one per metric of its task (fractions; a metric may go below zero).

    ``tag`` is the kind of failure in the task's own words, None where nothing failed.
    """

    item_id: str
    model: str
    marks: Mapping[str, float]
    tag: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RequestCost:
    """The cost of one request that was answered, or may have been billed without an answer: then it has no tokens.
    ``cost_usd``, ``unbatched_usd``: in its batch, and at the price without one; None: not known. ``unknown_cost``: why
    nobody can tell the cost."""

    custom_id: str
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    hour_write_tokens: int | None = None
    cost_usd: Decimal | None = None
    unbatched_usd: Decimal | None = None
    price_source: str | None = None
    price_date: str | None = None
    unknown_cost: str | None = None

    @property
    def is_answered(self) -> bool:
        """Return whether the request was answered."""
        return self.input_tokens is not None


# ---- decisions about a batch: ``batches/machine.py`` makes them, the store applies them ----------------------------

BatchEvent = tuple[str, str]  # kind and detail


@dataclass(frozen=True, slots=True)
class Wait:
    """The batch stays in its state and gets the columns of ``after``. ``extra_ids``: further batches at the provider
    that are known from now on to be this run's."""

    after: Batch
    events: tuple[BatchEvent, ...] = ()
    extra_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The path in the workspace, size and SHA-256 (hexadecimal) of a file that was committed."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Move:
    """The batch goes to ``after.state`` and gets its columns, with everything that belongs to the move.

    ``ends``: of the requests of a batch that is collected now, by custom_id; ``again``: those of them that go into
    another batch; ``charges``: what its answers cost; ``cut``: the answers that ended at their output limit;
    ``files``: its raw results and answers. ``plan_again``: its job is planned once more: others ask for some answers.
    """

    after: Batch
    events: tuple[BatchEvent, ...]
    ends: Mapping[str, End] = field(default_factory=lambda: MappingProxyType({}))
    again: Collection[str] = ()
    charges: Sequence[RequestCost] = ()
    cut: Collection[str] = ()
    files: Sequence[FileDigest] = ()
    plan_again: bool = False


@dataclass(frozen=True, slots=True)
class Collect:
    """File what is on disk. ``lacking``: why requests that no line names are out of reach; None: no answer."""

    after: Batch
    lacking: str | None = None
    events: tuple[BatchEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run, in order."""

    seq: int
    at: float
    batch_id: str | None
    kind: str
    detail: str
