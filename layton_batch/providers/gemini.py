"""Google's batches of generateContent: the forms that Gemini's and Vertex's lines share, and the batch API of the
Gemini Developer API through ``google-genai``.

Uploads, creation and cancelling go through the SDK. Operations are read as the API sends them, over the SDK's own HTTP
client and connections: the SDK's objects drop a batch's error and counts, and turn an unknown state into a warning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    UnknownStatusError,
)
from layton_batch.providers.dialect import Dialect, opened
from layton_batch.providers.finding import ListedBatch, by_name, pages, rows
from layton_batch.providers.http_client import certificates
from layton_batch.providers.protocol import Access, Capabilities, Limits, ModelNotice, StatusMeaning
from layton_batch.providers.wire_errors import errored, malformed, rpc_error_class, unreadable
from layton_batch.providers.wire_json import (
    JsonObject,
    at,
    clean,
    count,
    merged,
    moment,
    objects,
    text,
    whole,
)
from layton_batch.records import (
    EMPTY,
    Image,
    JsonValue,
    MatchingBatch,
    ModelSpec,
    Reasoning,
    Request,
    Response,
    Snapshot,
    Submission,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome

VERSION, OLDER_VERSION = "v1", "v1beta"
"""The SDK speaks the first by itself. Google's pages on batches still show the second, and the first was seen to refuse
what it lacks: a call that is refused for that goes to the second, which is then kept.

Only a refusal with 404 or 400 leads there: it is certain that nothing was created and nothing is billed."""
LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH"}

_REQUEST_FIELDS = frozenset(
    {
        "systemInstruction", "contents", "generationConfig", "safetySettings", "tools", "toolConfig", "cachedContent",
        "labels", "store", "serviceTier",
    }
)  # fmt: skip
"""A passthrough parameter of another name belongs to ``generationConfig``, as ``temperature`` does."""

_FINISH = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.REFUSAL,
    "RECITATION": FinishReason.REFUSAL,
    "BLOCKLIST": FinishReason.REFUSAL,
    "PROHIBITED_CONTENT": FinishReason.REFUSAL,
    "SPII": FinishReason.REFUSAL,
    "IMAGE_SAFETY": FinishReason.REFUSAL,
}
_OWN_CODES = frozenset({"404", "NOT_FOUND"})
"""Codes of the API's own 404; another comes from who knows no such path."""
_OF_A_METHOD = re.compile(r"\bfor API version\b|\b(unknown|no such) method\b|\bmethod not found\b", re.IGNORECASE)
_UNKNOWN_NAME = re.compile(r"\bUnknown name\b", re.IGNORECASE)

_Made = TypeVar("_Made")
_KEY_HEADER = "x-goog-api-key"
_MEANINGS: Mapping[str, StatusMeaning] = {
    **dict.fromkeys(("PENDING", "QUEUED", "RUNNING", "PAUSED", "UPDATING"), Lifecycle.IN_FLIGHT),
    "CANCELLING": Lifecycle.CANCELLING,
    "SUCCEEDED": BatchOutcome.COMPLETED,
    "PARTIALLY_SUCCEEDED": BatchOutcome.COMPLETED,
    "FAILED": BatchOutcome.FAILED,
    "CANCELLED": BatchOutcome.CANCELLED,
    "EXPIRED": BatchOutcome.EXPIRED,
}
JOB_STATES: Mapping[str, StatusMeaning] = {f"JOB_STATE_{w}": m for w, m in _MEANINGS.items()}
"""The words of Vertex and of the SDK."""
_BATCH_STATES = {f"BATCH_STATE_{word}": means for word, means in _MEANINGS.items()}  # the words of the wire


class GeminiContent(Dialect):
    """The forms of a batch API whose lines carry requests and replies of generateContent."""

    efforts = ("none", *LEVELS)
    takes_budgets = True
    own_params = ("contents", "systemInstruction")
    name_key = "key"

    def check(self, spec: ModelSpec) -> list[str]:
        problems, effort = super().check(spec), spec.reasoning.effort
        if effort in LEVELS and "gemini-2" in spec.model:
            problems.append(
                f"{spec.model} takes a thinking budget, not a level: set reasoning = {{ budget_tokens = … }}"
            )
        if effort == "none" and "gemini-3" in spec.model:
            problems.append(
                f"{spec.model} cannot switch thinking off: the least is reasoning = 'minimal' or, without it, 'low'"
            )
        return problems + [f"params.{key}: the REST name is wanted, {_camel(key)}" for key in spec.params if "_" in key]

    def encode(self, request: Request) -> dict[str, JsonValue]:
        return {"key": request.custom_id, "request": _body(request)}

    def _decoded(self, key: str, row: JsonObject) -> Response:
        """Vertex writes an error as ``status``: a text, or an object like Gemini's ``error``; an empty one means
        success."""
        error = row.get("error") or row.get("status")
        if error and not objects(at(row, "response"), "candidates"):
            return errored(key, None, error)
        if isinstance(row.get("response"), Mapping):
            return _answer(key, at(row, "response"))
        return unreadable(
            key, f"{self.name}: the result line of {clean(key, 80)} holds neither a response nor an error"
        )


def class_of(error: JsonObject) -> ErrorClass:
    """Classify why a batch failed, by its google.rpc.Status."""
    return rpc_error_class(whole(error.get("code")), text(error, "status"), text(error, "message"))


class Gemini(GeminiContent):
    """See the module text."""

    name = "gemini"
    limits = Limits(
        max_requests=200_000,  # none is documented; the file's size is what counts
        max_bytes=1_980_000_000,  # 2 GB less 1 %
        max_line_bytes=1_980_000_000,
        window_seconds=48 * 3600.0,  # 24 hours is the target, 48 the end
        max_concurrent_batches=100,
        retention_seconds=42 * 86_400.0,
    )
    capabilities = Capabilities(
        caveats=(
            "enqueued tokens are limited per model and tier; above that creation is refused with 429",
            "a batch that expires after 48 hours or is cancelled gives no results at all",
            "uploaded batch files vanish after 48 hours",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {**_BATCH_STATES, **JOB_STATES}
    # FAILED_PRECONDITION, Google's word for a batch that has ended, is also its word for an account without billing
    refuses_cancel = (400, 402, 409)

    def __init__(self, access: Access | None) -> None:
        super().__init__(access)
        version = access.api_version if access is not None else None
        self._version, self._may_change = version or VERSION, version is None

    def _connect(self, key: str, access: Access, http: Any) -> Any:
        from google import genai

        return genai.Client(
            vertexai=False,  # else an environment variable could send everything elsewhere
            api_key=key,
            http_options={  # type: ignore[arg-type]
                "base_url": self._address,
                "api_version": self._version,
                "timeout": int(access.patience.seconds * 1000),
                "retry_options": {"attempts": 1},
                "httpx_client": http,
                "async_client_args": dict.fromkeys(("verify", "ssl"), certificates("httpx2")),  # unused
            },
        )

    def _headers(self) -> dict[str, str]:
        self._open()
        return {_KEY_HEADER: self._key()}

    # ---- two versions

    def _in_a_version_that_knows(self, call: Callable[[], _Made], *, paid: bool = False) -> _Made:
        """Return the result of ``call``. Repeat the call in the older version if ours may lack the method.

        The older one is kept if it carried the call out, or may have. ``paid``: only if the refusal is of a method or a
        field; what may be about the file or the model is no reason to send a create again.
        """
        try:
            return call()
        except RequestRefusedError as error:
            is_newer = self._may_change and self._version == VERSION
            if not is_newer or not _is_of_version(error, named=paid):
                raise
        self._version = OLDER_VERSION
        try:
            return call()
        except ProviderError as error:
            if not isinstance(error, AmbiguousCallError):
                self._version = VERSION
            raise

    @property
    def _options(self) -> dict[str, Any]:
        """The options of a call of the SDK: the version, and the address, else data goes to whatever host a reply
        names."""
        return {"http_options": {"base_url": self._address, "api_version": self._version}}

    def _get(self, path: str, call: str, **query: str) -> JsonObject:
        """Read a resource as the API sends it."""

        def ask() -> JsonObject:
            url = f"{self._address}/{self._version}/{path}"
            return self._ask(call, lambda _: self._http.get(url, params=query, headers=self._headers()))

        return self._in_a_version_that_knows(ask)

    # ---- calls

    def upload(self, submission: Submission) -> str | None:
        """Return the file's name, chosen by us: a second upload of it is refused and the first one is taken."""
        name, client = _file_name(submission), self._open()
        opened(submission.path, self.name).close()
        described = {"name": name, "display_name": submission.tag, "mime_type": "application/jsonl"}

        def send() -> None:
            with self._wire(f"upload {submission.file_name}"):
                client.files.upload(file=submission.path, config={**described, **self._options})

        try:
            self._in_a_version_that_knows(send)
        except ProviderError as error:
            # 404 too: the SDK may send the last part again by itself when only the reply to it was bad
            if error.status not in (400, 404, 409) or not self._is_there(name, submission):
                raise
        return name

    def _is_there(self, name: str, submission: Submission) -> bool:
        """Return whether an earlier upload of the same bytes holds the name; 403 or 404 if there is none."""
        try:
            file = self._get(_resource(name), f"look for the uploaded file {name}")
        except RequestRefusedError:
            return False
        return count(file, "sizeBytes") == submission.path.stat().st_size and text(file, "state") != "FAILED"

    def create(self, submission: Submission) -> str:
        source = {"file_name": self._input_ref(submission)}

        def send() -> str:
            config = {"display_name": submission.tag, **self._options}
            return self._created(
                submission,
                lambda client: client.batches.create(model=submission.model, src=source, config=config),
                "name",
            )

        return self._in_a_version_that_knows(send, paid=True)

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Return batches of our display name; what shows nothing of itself may be ours, and only a person can know.

        If a create was tried and our version shows none, the older one is asked too: it may have been made there.
        """
        matches = self._matches(submission)
        if not matches and submission.intended_at is not None and self._may_change and self._version == VERSION:
            self._version = OLDER_VERSION
            try:
                matches = self._matches(submission)
            except RequestRefusedError as error:
                if not _is_of_version(error, named=False):
                    raise
            finally:
                self._version = OLDER_VERSION if matches else VERSION
        return matches

    def _matches(self, submission: Submission) -> Sequence[MatchingBatch]:
        batches = submission.listed(lambda: self._listed(submission), self._version)
        return by_name(batches, submission, submission.tag)

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        """Yield every operation: the API neither filters nor promises an order."""

        def read(token: str | None) -> JsonObject:
            return self._get("batches", "list batches", pageSize="100", **({"pageToken": token} if token else {}))

        def following(page: JsonObject) -> str | None:
            return (text(page, "nextPageToken") or "") if page.get("nextPageToken") else None

        for page in pages(self.name, read, following):
            for operation in rows(page, "operations", self.name, may_lack=("nextPageToken",)):
                name, metadata = text(operation, "name"), at(operation, "metadata")
                is_blank = not isinstance(operation.get("metadata"), Mapping)
                if name is None and is_blank:
                    raise ProviderReplyError("gemini: the list of batches shows one without a name")
                tag = None if is_blank else text(metadata, "displayName") or ""
                yield ListedBatch(name or "", moment(metadata, "createTime"), name=tag, is_blank=is_blank)

    def snapshot(self, provider_id: str) -> Snapshot:
        operation = self._get(_resource(provider_id), f"poll batch {provider_id}")
        metadata, error = at(operation, "metadata"), at(operation, "error")
        word, means = self._meaning(metadata.get("state"), provider_id)
        stats, outcome = at(metadata, "batchStats"), means if isinstance(means, BatchOutcome) else None
        total = whole(stats.get("requestCount"))
        succeeded, failed = (counted(stats, f"{kind}RequestCount") for kind in ("successful", "failed"))
        file = text(at(metadata, "output"), "responsesFile") or text(at(operation, "response"), "responsesFile")
        if outcome is BatchOutcome.COMPLETED and file is None:
            if not total or failed != total or succeeded != 0:
                # as a word that tells nothing: the file may still come; the deadline holds
                raise UnknownStatusError(
                    f"gemini: batch {provider_id} is {word} but names no results file", code=f"{word} without results"
                )
            outcome = BatchOutcome.FAILED
        return self._snapshot(
            provider_id,
            word,
            outcome=outcome,
            files=(file, None),
            counts=(total, succeeded, failed),
            reason=text(error, "message"),
            error_class=class_of(error),
        )

    def _send_cancel(self, provider_id: str) -> None:
        self._in_a_version_that_knows(partial(super()._send_cancel, provider_id))

    def _cancel(self, client: Any, provider_id: str) -> object:
        return client.batches.cancel(name=provider_id, config=self._options)

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        with ExitStack() as stack:

            def ask() -> tuple[bytes, Iterator[bytes]]:
                url = f"{self._address}/{self._version}/{_resource(ref)}:download?alt=media"
                pieces = stack.enter_context(closing(self._stream(url, f"download {ref}", start)))
                return next(pieces, b""), pieces  # the first piece shows that the version has the file

            first, rest = self._in_a_version_that_knows(ask)
            yield first
            yield from rest

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page."""

        def ask() -> JsonObject:
            return self._ask("ask about a model", lambda client: client.models.get(model=model, config=self._options))

        try:
            page = self._in_a_version_that_knows(ask)
        except NotFoundError:
            return None
        return ModelNotice((text(page, "name") or "").removeprefix("models/") or None)


def _is_of_version(error: RequestRefusedError, *, named: bool) -> bool:
    """Return whether an API version may have refused a call because it lacks its method or a field. ``named``: only
    where it says so; else any 404 counts, also one that may be about what was asked for."""
    if error.status == 400:
        return _UNKNOWN_NAME.search(str(error)) is not None
    if error.status != 404:
        return False
    return not named or error.code not in _OWN_CODES or _OF_A_METHOD.search(str(error)) is not None


def counted(stats: JsonObject, key: str) -> int | None:
    """One of a batch's counts, 0 where it is left out among others; None where nothing usable is told."""
    return whole(stats.get(key, 0)) if stats else None


def _file_name(submission: Submission) -> str:
    """Return at most 40 characters of a-z, 0-9 and dashes, the same for the same attempt with the same bytes."""
    digest = hashlib.sha256(f"{submission.tag}\n{submission.sha256}".encode()).hexdigest()
    return f"files/layton-{digest[:32]}"


def _resource(name: str) -> str:
    return quote(name, safe="/")


# ---- forms of requests


def _body(request: Request) -> JsonObject:
    """The REST form (camelCase) of one generateContent call; the model is named by the batch, not here."""
    spec, prompt = request.model, request.prompt
    call: dict[str, JsonValue] = {}
    if prompt.system:
        call["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    call["contents"] = [{"role": "user", "parts": [_part(part) for part in prompt.parts]}]
    config: dict[str, JsonValue] = {}
    if prompt.response_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = prompt.response_schema.schema
    if spec.max_output_tokens is not None:
        config["maxOutputTokens"] = spec.max_output_tokens
    thinking = _thinking(spec.reasoning)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        call["generationConfig"] = config
    return merged(call, _sorted_params(spec.params))


def _part(part: str | Image) -> JsonObject:
    if isinstance(part, str):
        return {"text": part}
    return {"inlineData": {"mimeType": part.media_type, "data": part.base64}}


def _thinking(reasoning: Reasoning) -> JsonObject:
    """Levels for the Gemini 3 family, budgets for the 2.5 one; a budget of 0 is what switches thinking off."""
    if reasoning.budget_tokens is not None:
        return {"thinkingBudget": reasoning.budget_tokens}
    if reasoning.effort == "none":
        return {"thinkingBudget": 0}
    return {"thinkingLevel": LEVELS.get(reasoning.effort, reasoning.effort.upper())} if reasoning.effort else {}


def _sorted_params(params: JsonObject) -> JsonObject:
    top = {key: value for key, value in params.items() if key in _REQUEST_FIELDS}
    config = {key: value for key, value in params.items() if key not in _REQUEST_FIELDS}
    return merged(top, {"generationConfig": config}) if config else top


def _camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(word.capitalize() for word in rest)


# ---- forms of replies


def _answer(custom_id: str, reply: JsonObject) -> Response:
    candidates = objects(reply, "candidates")
    candidate = candidates[0] if candidates else EMPTY
    parts = objects(at(candidate, "content"), "parts")
    answer = "".join(text(part, "text") or "" for part in parts if part.get("thought") is not True)
    blocked = text(at(reply, "promptFeedback"), "blockReason") if not candidates else None
    raw = text(candidate, "finishReason") or blocked
    if not answer and raw is None:
        return malformed(custom_id, _usage(at(reply, "usageMetadata")), text(reply, "modelVersion"))
    finish = FinishReason.REFUSAL if blocked else _FINISH.get(raw or "", FinishReason.OTHER)
    why = text(candidate, "finishMessage") or text(at(reply, "promptFeedback"), "blockReasonMessage") or raw
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        text=answer or None,
        finish_reason=finish,
        raw_finish_reason=clean(raw, 80) if raw else None,
        refusal=why if finish is FinishReason.REFUSAL else None,
        usage=_usage(at(reply, "usageMetadata")),
        served_model=text(reply, "modelVersion"),
    )


def _usage(usage: JsonObject) -> Usage:
    """Billed output is candidates plus thoughts; the prompt's count already includes what came from a cache."""
    thoughts = count(usage, "thoughtsTokenCount")
    sent = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    return Usage(
        input_tokens=sent,
        cached_input_tokens=min(count(usage, "cachedContentTokenCount"), sent),
        output_tokens=count(usage, "candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
        # Google leaves out what is 0
        is_known=None not in (whole(usage.get("promptTokenCount")), whole(usage.get("candidatesTokenCount", 0))),
    )
