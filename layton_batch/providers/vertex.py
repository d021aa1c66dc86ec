"""Vertex's batch predictions of Gemini models, over plain HTTP and a bucket of your own, with the forms of batchling's
adapter.

batchling is an alpha: its public names only, and none of its own calls. These wait in a poll loop that fails on Python
3.11, lose error codes, and make an upload and the paid create in one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from layton_batch.errors import FileError, ManifestError, ProviderError, ProviderReplyError, RequestRefusedError
from layton_batch.providers import gemini_forms, http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.gemini import JOB_STATES
from layton_batch.providers.http_client import open_client
from layton_batch.providers.protocol import NO_REASON, Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import api_key, clean, parse_object, wire
from layton_batch.providers.wire_json import JsonObject, at, objects, text
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

if TYPE_CHECKING:
    import httpx

STORAGE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class _VertexLocation:
    """Project, region and folder of a Vertex job; see :class:`Vertex`."""

    base: str
    version: str
    parent: str  # projects/…/locations/…
    folder: str  # gs://bucket/prefix


class Vertex:
    """Its address says everything: ``https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION
    ?gcs=gs://BUCKET/PREFIX``. Its key is an OAuth access token."""

    name: str = "vertex"
    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,  # what may well be held in memory
        max_line_bytes=199_000_000,
        retention_seconds=30 * 86_400.0,  # results are in your own bucket
    )
    capabilities: Capabilities = Capabilities(
        tag=False,
        certain_find=False,
        cancel=False,
        caveats=(
            "a lost batch cannot be found again from here: look for its tag in the display names of the console",
            "batches cannot be cancelled from here",
            "the key is an access token that expires after about an hour: set a fresh one and run again",
            "batch files and results go through storage.googleapis.com whatever the address says",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = JOB_STATES

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self._http: httpx.Client | None = None

    def check(self, spec: ModelSpec) -> list[str]:
        """List in words which of a model's settings this API cannot do."""
        return gemini_forms.problems(spec)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        return gemini_forms.encode(request)

    def decode(self, line: bytes) -> Response:
        return gemini_forms.decode(line, self.name)

    def upload(self, submission: Submission) -> str | None:
        """The file as an object whose name follows from our tag: a second upload replaces the first."""
        bucket, prefix = _bucket_of(self._place().folder)
        name = f"{prefix}inputs/{submission.model}/{submission.tag}.jsonl"
        try:
            handle = submission.path.open("rb")
        except OSError as error:
            raise FileError(f"vertex: batch file {submission.path} cannot be read: {error.strerror}") from error
        url = f"{STORAGE}/upload/storage/v1/b/{quote(bucket, safe='')}/o"
        with handle:  # an open file is streamed
            params = {"uploadType": "media", "name": name}
            self._call("POST", url, f"upload {submission.file_name}", params=params, content=handle)
        return f"gs://{bucket}/{name}"

    def create(self, submission: Submission) -> str:
        if submission.input_ref is None:
            raise ProviderError(f"vertex: batch {submission.batch_id} was not uploaded before it was to be created")
        place, model = self._place(), f"publishers/google/models/{submission.model}"
        path = f"/{place.version}/{place.parent}"
        if not _adapter().matches_batchable_endpoint(path=f"{path}/{model}:generateContent"):
            raise ManifestError(f"vertex: {submission.model!r} is not the name of a Gemini model on Vertex")
        job: JsonObject = {
            "displayName": submission.tag,
            "model": model,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [submission.input_ref]}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": f"{place.folder}/outputs/{submission.tag}"},
            },
            "instanceConfig": {"instanceType": "object", "keyField": "key"},
        }
        call = f"create batch {submission.batch_id}"
        with self._wire(call, paid=True):
            name = text(self._call("POST", f"{path}/batchPredictionJobs", call, paid=True, json=job), "name")
            if name is None:
                raise ProviderReplyError("vertex: the reply to a create names no job")
            return f"{place.version}/{name}"

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Nothing: no way to list batches that could be relied on."""
        return []

    def snapshot(self, provider_id: str) -> Snapshot:
        spec = _adapter().build_poll_request_spec(
            base_url=self._place().base, api_headers=self._headers(), batch_id=provider_id
        )
        return vertex_snapshot(self._call(spec.method, spec.path, f"poll batch {provider_id}"), provider_id)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if not snapshot.results_ref:
            return
        bucket, prefix = _bucket_of(snapshot.results_ref)
        for name in sorted(filter(_is_result, self._objects(bucket, prefix, snapshot.provider_id))):
            url = f"{STORAGE}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
            download = partial(self._download, url, f"download gs://{bucket}/{name}")
            yield ResultPart("errors" if _base_name(name).startswith("errors") else "output", download(), download)

    def cancel(self, provider_id: str) -> None:
        raise RequestRefusedError(
            f"{self.name}: batch {provider_id} cannot be cancelled from here; stop it in the provider's console"
        )

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        client, self._http = self._http, None
        if client is not None:
            client.close()

    # ---- wire

    def _key(self) -> str:
        return api_key(self._access, "GOOGLE_VERTEX_ACCESS_TOKEN", self.name)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = _adapter().build_api_headers(headers={"authorization": f"Bearer {self._key()}"})
        return headers

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _open(self) -> httpx.Client:
        if self._http is None:
            import httpx

            base = self._place().base
            self._http = open_client(httpx.Client, self._access, [STORAGE], base_url=base, headers=self._headers())
        return self._http

    def _call(self, method: str, url: str, call: str, *, paid: bool = False, **sent: Any) -> JsonObject:
        """Make a plain HTTP call, to a path of this API or to another address. Return its reply as an object."""
        client = self._open()
        with self._wire(call, paid=paid):
            reply = client.request(method, url, **sent)
            reply.raise_for_status()
            return parse_object(reply.content or b"{}", self.name, f"the reply to: {call}")

    def _objects(self, bucket: str, prefix: str, provider_id: str) -> Iterator[str]:
        """The names of all objects under a prefix."""
        url = f"{STORAGE}/storage/v1/b/{quote(bucket, safe='')}/o"

        def read(token: str | None) -> JsonObject:
            params = {"prefix": prefix} | ({"pageToken": token} if token else {})
            return self._call("GET", url, f"list the results of batch {provider_id}", params=params)

        for page in http_rules.turned(self.name, read, lambda page: text(page, "nextPageToken")):
            yield from filter(None, (text(item, "name") for item in objects(page, "items")))

    def _download(self, url: str, call: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on, as it comes."""
        client, headers = self._open(), http_rules.range_headers(start)
        with self._wire(call), client.stream("GET", url, headers=headers) as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()

    def _place(self) -> _VertexLocation:
        self._key()  # without a key there is no address either: the key is what to ask for first
        address = (self._access.base_url if self._access else None) or ""
        parts = urlsplit(address)
        version, _, parent = parts.path.strip("/").partition("/")
        bucket = parse_qs(parts.query).get("gcs", [""])[0].rstrip("/")
        words = parent.split("/")
        if words[::2] != ["projects", "locations"] or len(words) != 4 or not bucket.startswith("gs://"):
            raise ManifestError(
                "vertex: GOOGLE_VERTEX_BASE_URL must read https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/"
                f"locations/LOCATION?gcs=gs://BUCKET/PREFIX, not {clean(address)!r}"
            )
        return _VertexLocation(f"{parts.scheme}://{parts.netloc}", version, parent, bucket)


def _adapter() -> Any:
    from batchling.providers.vertex import VertexProvider

    return VertexProvider()


def _bucket_of(uri: str) -> tuple[str, str]:
    """Split ``gs://bucket/prefix`` into the bucket and the prefix, which ends with a slash or is empty."""
    bucket, _, prefix = uri.removeprefix("gs://").partition("/")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _is_result(name: str) -> bool:
    return name.endswith(".jsonl") and _base_name(name).startswith(("predictions", "errors"))


def vertex_snapshot(payload: JsonObject, provider_id: str) -> Snapshot:
    """A reading of a batchPredictionJob."""
    word, means = shape.meaning(JOB_STATES, payload.get("state"), "vertex", provider_id)
    stats, error = at(payload, "completionStats"), at(payload, "error")
    counts = [gemini_forms.counted(stats, key) for key in ("successfulCount", "failedCount", "incompleteCount")]
    failed = means.outcome is BatchOutcome.FAILED
    folder = text(at(payload, "outputInfo"), "gcsOutputDirectory")
    return Snapshot(
        provider_id=provider_id,
        provider_status=word,
        state=means.state,
        outcome=means.outcome,
        results_ref=folder if means.state is Lifecycle.ENDED else None,
        total=None if None in counts else sum(number or 0 for number in counts),
        succeeded=counts[0],
        failed=counts[1],
        message=clean(text(error, "message") or "") or (NO_REASON if failed else None),
        error_class=gemini_forms.error_class_of(error) if failed else ErrorClass.NONE,
    )
