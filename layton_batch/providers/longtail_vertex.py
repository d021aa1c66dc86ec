"""Vertex's batch predictions of Gemini models, over a bucket of your own, with the forms of batchling's adapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qs, quote, urlsplit

from layton_batch.errors import FileError, ManifestError, ProviderReplyError
from layton_batch.providers import gemini_forms, http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.gemini import JOB_STATES
from layton_batch.providers.longtail_wire import AdapterProvider
from layton_batch.providers.protocol import Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import clean
from layton_batch.providers.wire_json import JsonObject, at, objects, text
from layton_batch.records import JsonValue, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

STORAGE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class _VertexLocation:
    """Project, region and folder of a Vertex job; see :class:`Vertex`."""

    base: str
    version: str
    parent: str  # projects/…/locations/…
    folder: str  # gs://bucket/prefix


class Vertex(AdapterProvider):
    """Its address says everything: ``https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION
    ?gcs=gs://BUCKET/PREFIX``. Its key is an OAuth access token."""

    name: str = "vertex"
    adapter_path: str = "batchling.providers.vertex:VertexProvider"
    key_variable: str = "GOOGLE_VERTEX_ACCESS_TOKEN"
    address: str = ""
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

    def check(self, spec: ModelSpec) -> list[str]:
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
        with handle:  # an open file is streamed
            self._call(
                "POST",
                f"{STORAGE}/upload/storage/v1/b/{quote(bucket, safe='')}/o",
                f"upload {submission.file_name}",
                params={"uploadType": "media", "name": name},
                content=handle,
            )
        return f"gs://{bucket}/{name}"

    def create(self, submission: Submission) -> str:
        input_uri, place = self._input_ref(submission), self._place()
        model = f"publishers/google/models/{submission.model}"
        if not self._adapter().matches_batchable_endpoint(
            path=f"/{place.version}/{place.parent}/{model}:generateContent"
        ):
            raise ManifestError(f"vertex: {submission.model!r} is not the name of a Gemini model on Vertex")
        job: JsonObject = {
            "displayName": submission.tag,
            "model": model,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input_uri]}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": f"{place.folder}/outputs/{submission.tag}"},
            },
            "instanceConfig": {"instanceType": "object", "keyField": "key"},
        }
        path = f"/{place.version}/{place.parent}/batchPredictionJobs"
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            reply = self._call("POST", path, f"create batch {submission.batch_id}", body=job, paid=True)
            name = text(reply, "name")
            if name is None:
                raise ProviderReplyError("vertex: the reply to a create names no job")
            return f"{place.version}/{name}"

    def snapshot(self, provider_id: str) -> Snapshot:
        payload, _ = self._poll(provider_id)
        return vertex_snapshot(payload, provider_id)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if not snapshot.results_ref:
            return
        bucket, prefix = _bucket_of(snapshot.results_ref)
        for name in sorted(filter(_is_result, self._objects(bucket, prefix, snapshot.provider_id))):
            url = f"{STORAGE}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
            download = partial(self._download, url, f"download gs://{bucket}/{name}")
            yield ResultPart("errors" if _base_name(name).startswith("errors") else "output", download(), download)

    def _objects(self, bucket: str, prefix: str, provider_id: str) -> Iterator[str]:
        """The names of all objects under a prefix."""
        url = f"{STORAGE}/storage/v1/b/{quote(bucket, safe='')}/o"

        def read(token: str | None) -> JsonObject:
            params = {"prefix": prefix} | ({"pageToken": token} if token else {})
            return self._call("GET", url, f"list the results of batch {provider_id}", params=params)

        for page in http_rules.turned(self.name, read, lambda page: text(page, "nextPageToken")):
            yield from filter(None, (text(item, "name") for item in objects(page, "items")))

    def _base(self) -> str:
        return self._place().base

    def _other_addresses(self) -> Sequence[str]:
        return (STORAGE,)

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
        message=clean(text(error, "message") or "") or ("the provider gave no reason" if failed else None),
        error_class=gemini_forms.error_class_of(error) if failed else ErrorClass.NONE,
    )
