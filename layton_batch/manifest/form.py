"""The form of a manifest and of a panel file, table by table. Pure: reads no file and no registry."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit

import pydantic
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from layton_batch.files.run_folder import BATCHES
from layton_batch.records import JsonValue, Judge, ModelSpec, Reasoning, ServerForm
from layton_batch.text import plain, printable

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
LONGEST_NAME = 200
LONGEST_DESCRIPTION = 1_000
LONGEST_GUIDELINES = 20_000
MOST_HINTS = 4
DEFAULT_SEATS = 3
SECRET_NAME = re.compile(r"(?i)(api[_-]?key|authorization|password|secret|(access|auth|hf|session)[_-]?token)$")
_BEARER = re.compile(r"(?i)bearer\s+\S{6,}\s*")
"""Names of keys and passwords, and the value of an ``Authorization`` header. The environment's keys are looked for by
their values besides."""


def _wrong(reason: str) -> PydanticCustomError:
    # The reason is a value of the template, so that braces in it are not taken for fields.
    return PydanticCustomError("manifest", "{reason}", {"reason": reason})


def _run_name(value: str) -> str:
    if not RUN_NAME.match(value):
        raise _wrong("must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit")
    if value == BATCHES:
        raise _wrong(f"must not be {BATCHES!r}: the folder of that name holds the batches of all runs")
    return value


def _printable(value: str, longest: int = LONGEST_NAME) -> str:
    if not value.strip() or value != value.strip():
        raise _wrong("must not be empty or have blanks at its ends")
    if printable(value) != value:
        raise _wrong("must not contain control or invisible characters")
    if len(value) > longest:
        raise _wrong(f"must be at most {longest} characters, not {len(value)}")
    return value


def _lines(value: str) -> str:
    if not value.strip() or plain(value.replace("\t", " ")) != value.replace("\t", " "):
        raise _wrong("must be a text without control or invisible characters")
    if len(value) > LONGEST_GUIDELINES:
        raise _wrong(f"must be at most {LONGEST_GUIDELINES:,} characters, not {len(value):,}")
    return value


def _location(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise _wrong("must be a path, a URL or a hub address; write paths with / or in single quotes")
    if "@" in _host(value):
        raise _wrong("must not hold a user or password; for the hub set HF_TOKEN in the environment")
    return value


def _web_address(value: str) -> str:
    if not value.startswith(("https://", "http://")) or not _host(value):
        raise _wrong("must be an address that begins with https:// or http://")
    if "@" in _host(value) or not value.isprintable() or " " in value:
        raise _wrong("must not hold blanks, invisible characters, a user or a password")
    return value


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc
    except ValueError:
        raise _wrong("is not a valid address") from None


def _decimal(value: object) -> object:
    """Convert a number as it was written: 0.1 in a manifest is a tenth of a dollar, not its binary neighbour."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            raise _wrong(f"must be a number such as 5.00, not {str(value)[:40]!r}") from None
    return value


def _params(value: dict[str, pydantic.JsonValue]) -> dict[str, pydantic.JsonValue]:
    _check_params(cast("JsonValue", value), "")
    return value


def _check_params(value: JsonValue, at: str) -> None:
    """Refuse secrets by their names at any depth, and numbers that JSON has no way to say."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong("must not contain NaN or infinity, JSON has no way to say them")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _wrong("must not contain integers of more than 64 bits")
    if isinstance(value, list):
        value = {str(number): part for number, part in enumerate(value)}
    for key, part in value.items() if isinstance(value, Mapping) else ():
        # a table of such a name is a field of a form that a model fills in
        is_header = isinstance(part, str) and _BEARER.fullmatch(part)
        if is_header or (SECRET_NAME.search(key) and not isinstance(part, Mapping)):
            raise _wrong(f"must not hold '{at}{key}': it would be written to the batch files; keys go into the "
                         "environment")  # fmt: skip
        _check_params(part, f"{at}{key}.")


def _reasoning(value: object) -> object:
    if isinstance(value, bool | int | float):
        raise _wrong(f"must be an effort such as 'high', or a table such as {{ budget_tokens = 16000 }}, not {value}")
    return {"effort": value} if isinstance(value, str) else value


def _rejudged(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**31
    if not (is_count or value in (None, "all")):
        raise _wrong(f"must be 'all' or a whole number, 0 or more, not {str(value).lower()[:40]!r}")
    return value


def _levels(value: object) -> int | tuple[int, ...]:
    """Check the hint levels. A list of a single level becomes that level; a longer list is sorted."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    levels = [level for level in range(MOST_HINTS + 1) if any(part is level for part in given)]
    if not given or len(levels) < len(given):
        raise _wrong(f"must be a whole number from 0 to {MOST_HINTS}, or a list of different ones, not {value!r}")
    return levels[0] if len(levels) == 1 else tuple(levels)


def _day(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        try:
            date.fromisoformat(value)
        except ValueError:
            raise _wrong(f"must be a day such as '2026-11-01', not {value[:40]!r}") from None
    return value


def _provider(value: str, about: ValidationInfo) -> str:
    """Refuse an unknown provider. The context, if there is one, says what is wrong with a name."""
    if about.context is not None and (reason := about.context(value)):
        raise _wrong(reason)
    return value


def _unique(names: Iterable[str]) -> None:
    """Refuse a name that stands twice."""
    listed = list(names)
    if repeated := next((name for name in listed if listed.count(name) > 1), None):
        raise _wrong(f"{repeated!r} is there twice; names must be unique")


Printable = Annotated[str, AfterValidator(_printable)]
Provider = Annotated[Printable, AfterValidator(_provider)]
Location = Annotated[str, AfterValidator(_location)]
Description = Annotated[str, AfterValidator(lambda value: _printable(value, LONGEST_DESCRIPTION))]
Window = Annotated[str, Field(pattern="^[1-9][0-9]{0,2}[hd]$", description="hours or days, as in '24h' or '7d'")]
ServerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Lines = Annotated[str, AfterValidator(_lines)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Colour = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")]
Hints = Annotated[int | tuple[int, ...], BeforeValidator(_levels, json_schema_input_type=int | list[int])]
Usd = Annotated[
    Decimal, BeforeValidator(_decimal, json_schema_input_type=float | str), Field(ge=0, allow_inf_nan=False)
]
LEAST_RATE = Decimal("0.001")
"""US dollars per million tokens. A rate between 0 and this is a slip: no model costs so little."""


def _per_million(rate: Decimal) -> Decimal:
    if 0 < rate < LEAST_RATE:
        raise ValueError(
            f"{rate:f} US dollars per million tokens is less than any model costs; if it is the price of one token, "
            f"write {(rate * 1_000_000).normalize():f}"
        )
    return rate


Rate = Annotated[Usd, AfterValidator(_per_million)]
Count = Annotated[int, Field(ge=1, le=2**31)]
Samples = Annotated[int | None, Field(ge=1, le=100), AfterValidator(lambda value: None if value == 1 else value)]
"""One sample is what a manifest without the key says: both are the same manifest."""
Times = Annotated[int, Field(ge=0, le=100)]


class ManifestTable(BaseModel):
    """A table of the file: no unknown keys, no silent conversions, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ReasoningTable(ManifestTable):
    """``reasoning = "high"`` or ``reasoning = { budget_tokens = 32000 }``."""

    effort: Effort | None = None
    budget_tokens: Count | None = None

    @model_validator(mode="after")
    def _one(self) -> ReasoningTable:
        if (self.effort is None) == (self.budget_tokens is None):
            raise _wrong("needs either an effort or budget_tokens, and not both")
        return self


class ModelTable(ManifestTable):
    """``[[models]]``: ``name`` is what we show, ``model`` what the provider is told."""

    name: Printable
    provider: Provider
    model: Printable
    family: Printable | None = None
    max_output_tokens: Count | None = None
    reasoning: Annotated[
        ReasoningTable | None, BeforeValidator(_reasoning, json_schema_input_type=Effort | ReasoningTable)
    ] = None
    params: Annotated[dict[str, pydantic.JsonValue], AfterValidator(_params)] = {}
    window: Window | None = None
    samples: Samples = None

    @model_validator(mode="after")
    def _room_to_answer(self) -> ModelTable:
        budget = self.reasoning.budget_tokens if self.reasoning else None
        if budget is not None and self.max_output_tokens is not None and budget >= self.max_output_tokens:
            raise _wrong(
                f"max_output_tokens ({self.max_output_tokens}) must leave room beyond budget_tokens ({budget})"
            )
        return self

    def spec(self) -> ModelSpec:
        thinking = self.reasoning or ReasoningTable.model_construct()
        return ModelSpec(
            name=self.name,
            provider=self.provider,
            model=self.model,
            family=self.family or _maker(self.provider, self.model),
            max_output_tokens=self.max_output_tokens,
            reasoning=Reasoning(thinking.effort, thinking.budget_tokens),
            params=cast("Mapping[str, JsonValue]", self.params),
            window=self.window,
        )


MAKERS = {"google": "gemini", "mistralai": "mistral", "x-ai": "xai", "meta-llama": "meta"}
"""Makers that OpenRouter names otherwise than manifests do."""


def _maker(provider: str, model: str) -> str:
    """Return the family of a model whose manifest states none: the start of an OpenRouter id, else the provider."""
    maker, slash, _ = model.lstrip("~").partition("/")
    return MAKERS.get(maker, maker) if provider == "openrouter" and slash and maker else provider


class JudgeTable(ModelTable):
    """``[[judges]]`` of a panel file, ``[[jury.judges]]`` of a manifest."""

    substitute: bool = False

    @model_validator(mode="after")
    def _asked_once(self) -> JudgeTable:
        if self.samples is not None:
            raise _wrong("samples is a key of [[models]]: a judge is asked once about every answer")
        return self

    def judge(self) -> Judge:
        return Judge(self.spec(), self.substitute)


def _named_apart(models: tuple[ModelTable, ...]) -> tuple[ModelTable, ...]:
    _unique(model.name for model in models)
    return models


Judges = Annotated[tuple[JudgeTable, ...], Strict(False), Field(min_length=1), AfterValidator(_named_apart)]


class PanelFile(ManifestTable):
    """A panel file: the judges in order."""

    judges: Judges


PAPER_LEVEL = 0.95
IN_TURN_SEATS = 3
"""Judges of a jury whose third is asked only where two differ."""


class JuryTable(ManifestTable):
    """``[jury]``: how many sit, and the panel they come from, as a file or in place.

    ``ask``: all judges of a jury at once, or two and the third only where their verdicts differ. ``anchors``: how many
    labelled answers of the gold set each judge is asked about once more, to see whether it judges as it did;
    ``anchor_round``: a higher number asks them anew. ``reasons``: a judge says in a sentence why, before it decides.
    """

    seats: Count = DEFAULT_SEATS
    ask: Literal["all", "two, then the third"] = "all"
    anchors: Annotated[int, Field(ge=0, le=100_000)] = 0
    anchor_round: Count = 1
    reasons: bool = False
    panel: Location | None = None
    judges: Judges | None = None

    @model_validator(mode="after")
    def _one(self) -> JuryTable:
        if self.ask != "all" and self.seats != IN_TURN_SEATS:
            raise _wrong(f"ask = {self.ask!r} is for a jury of three: leave seats out, or ask all")
        if self.panel is not None and self.judges is not None:
            raise _wrong("has both a panel file and judges of its own; leave one out")
        return self


class ItemsTable(ManifestTable):
    """``[items]``: what is asked, and with how many hints."""

    source: Location
    split: Printable = "llm"
    hints: Hints = 0
    limit: Count | None = None

    @property
    def levels(self) -> tuple[int, ...]:
        """Return the hint levels. Each level is a job of its own."""
        return self.hints if isinstance(self.hints, tuple) else (self.hints,)


class GoldTable(ManifestTable):
    """``[gold]``: human-labelled predictions with jury verdicts, people's labels without (``annotations``), or both.

    ``rejudge``: how many of the labelled answers go before the run's own jury; None: all where the jury differs from
    the gold set's. ``trust``: use the labels of another jury as they are. ``label_error``: the share of labels that are
    wrong.
    """

    source: Location | None = None
    annotations: Location | None = None
    rejudge: Annotated[Literal["all"] | int | None, BeforeValidator(_rejudged)] = None
    trust: bool = False
    label_error: Annotated[float, Field(ge=0, lt=0.5, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _one(self) -> GoldTable:
        if self.trust and self.rejudge:
            raise _wrong("has both rejudge and trust; leave one out")
        if self.source is None and self.annotations is None:
            raise _wrong("has neither source nor annotations; give one")
        return self


class ScoringTable(ManifestTable):
    """``[scoring]``. An empty ``metric`` stands for the task's first; ``load_manifest`` fills it in."""

    method: Literal["paper"] | None = None
    metric: str = ""
    level: Annotated[float, Field(gt=0, le=1 - 1e-9, allow_inf_nan=False)] = 0.95  # no interval is computed beyond
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class BudgetTable(ManifestTable):
    """``[budget]``: US dollars over everything the run does; None = no limit of our own.

    ``bound``: what is set aside for a batch before it is sent: the most that it can cost, or, where it says
    ``expected``, ``safety`` times the expected cost, but not more than the first.
    """

    max_usd: Usd | None = None
    bound: Literal["expected"] | None = None
    safety: Annotated[Decimal, BeforeValidator(_decimal), Field(ge=1, le=1000, allow_inf_nan=False)] = Decimal(3)


class PolicyTable(ManifestTable):
    """``[policy]``: how often rows without an answer, and answers that cannot be read, are sent again. ``reuse``:
    whether answers that another run beside this one paid for are used."""

    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    reask_unparsed: Times = 0
    reask_truncated: Times = 0
    reuse: bool = True
    deadline_hours: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)] | None = None


class LimitsTable(ManifestTable):
    """``[limits.openai]``: what this account may do, where that is less than the documents allow or not in them."""

    max_requests: Count | None = None
    max_bytes: Annotated[int, Field(ge=1_000, le=2**53)] | None = None
    max_concurrent_batches: Count | None = None
    max_creates_per_hour: Count | None = None
    max_enqueued_tokens: Annotated[int, Field(ge=1, le=2**53)] | None = None

    def of_files(self) -> dict[str, int]:
        """Return the limits that decide how requests are packed into batch files."""
        return self.model_dump(include={"max_requests", "max_bytes"}, exclude_none=True)


class ProviderTable(ManifestTable):
    """``[providers.NAME]``: a server that speaks OpenAI's batch API. Its key is in ``NAME_API_KEY``."""

    base_url: WebAddress
    windows: Annotated[tuple[Window, ...], Strict(False), Field(min_length=1)] = ("24h",)
    efforts: Annotated[tuple[Printable, ...], Strict(False)] = ServerForm("", "").efforts
    max_tokens: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    lists_batches: bool = True
    lists_files: bool = True

    def server(self, name: str) -> ServerForm:
        """Return the server of this name."""
        return ServerForm(name, **self.model_dump())


class PriceTable(ManifestTable):
    """``[[prices]]``: the user's own rates, US dollars per million tokens."""

    provider: Provider
    model: Printable
    input: Rate
    output: Rate
    cached_input: Rate | None = None
    batch_input: Rate | None = None
    batch_output: Rate | None = None
    batch_cached_input: Rate | None = None
    source: str = "manifest"
    date: Annotated[str | None, BeforeValidator(_day, json_schema_input_type=str)] = None


def _priced_once(prices: tuple[PriceTable, ...]) -> tuple[PriceTable, ...]:
    _unique(f"{price.provider} {price.model}" for price in prices)
    return prices


class LabelsTable(ManifestTable):
    """``[labels]``: what people are told who label the answers."""

    guidelines: Lines | None = None


class SiteTable(ManifestTable):
    """``[site]``: what the pages say of the benchmark in addition to its numbers.

    ``author``, ``address``: who is cited, and where the site is published; ``links``: addresses by what they are
    called; ``logo``: the path of an image; ``colours``: of charts, by maker.
    """

    title: Printable | None = None
    description: Description | None = None
    links: Annotated[dict[Printable, WebAddress], Field(max_length=12)] = {}
    logo: Printable | None = None
    license: Printable | None = None
    author: Printable | None = None
    address: WebAddress | None = None
    colours: dict[Printable, Colour] = {}


class ManifestForm(ManifestTable):
    """A whole manifest as written. Without ``models`` all answers are given elsewhere and imported."""

    name: Annotated[str, AfterValidator(_run_name)]
    task: Printable
    items: ItemsTable
    gold: GoldTable | None = None
    scoring: ScoringTable = ScoringTable()
    budget: BudgetTable = BudgetTable()
    policy: PolicyTable = PolicyTable()
    models: Annotated[tuple[ModelTable, ...], Strict(False), AfterValidator(_named_apart)] = ()
    jury: JuryTable | None = None
    prompts: dict[str, Location] = {}
    task_options: Annotated[dict[str, pydantic.JsonValue], AfterValidator(_params)] = {}
    limits: dict[Provider, LimitsTable] = {}
    providers: dict[ServerName, ProviderTable] = {}
    prices: Annotated[tuple[PriceTable, ...], Strict(False), AfterValidator(_priced_once)] = ()
    labels: LabelsTable | None = None
    site: SiteTable | None = None

    @model_validator(mode="after")
    def _suits_the_method(self) -> ManifestForm:
        """The published method has labels without errors, one level, and juries that judge every answer."""
        if self.jury is not None and self.jury.anchors and (self.gold is None or self.gold.source is None):
            raise _wrong("jury.anchors asks labelled answers of the gold set again: give [gold] source")
        if self.scoring.method is None:
            return self
        changed = {
            "scoring.level": self.scoring.level != PAPER_LEVEL,
            "gold.label_error": self.gold is not None and self.gold.label_error > 0,
            "jury.ask": self.jury is not None and self.jury.ask != "all",
        }
        if key := next((key for key, is_changed in changed.items() if is_changed), None):
            raise _wrong(f"{key}: the paper's method has its own; leave out {key} or [scoring] method")
        return self
