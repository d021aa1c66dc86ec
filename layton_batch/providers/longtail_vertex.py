"""Vertex's batch predictions of Gemini models, through batchling's adapter, over a bucket of your own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from layton_batch.errors import ManifestError
from layton_batch.providers import gemini_forms
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.gemini import JOB_STATES
from layton_batch.providers.longtail_wire import MEMORY, Adapted
from layton_batch.providers.protocol import Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import clean
from layton_batch.providers.wire_json import JsonObject, at, text
from layton_batch.records import JsonValue, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a Vertex job runs and keeps its files; see :class:`Vertex`."""

    base: str
    version: str
    parent: str  # projects/…/locations/…
    bucket: str  # gs://bucket/prefix


class Vertex(Adapted):
    """Its address says everything: ``https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION
    ?gcs=gs://BUCKET/PREFIX``. Its key is an OAuth access token."""

    name: str = "vertex"
    adapter_path: str = "batchling.providers.vertex:VertexProvider"
    answer_keys: tuple[str, ...] = ("text",)
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
            f"{MEMORY}, and each result file too",
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
        place, lines, headers = self._place(), self._lines(submission.path), self._headers()
        adapter = self._adapter()
        with self._wire(f"upload {submission.file_name}"):
            prefix = adapter._parse_gcs_prefix(uri=place.bucket)
            return str(
                self._drive(
                    adapter._upload_input_jsonl(
                        gcs_prefix=prefix,
                        object_name=adapter._build_gcs_object_name(
                            prefix=prefix.prefix,
                            folder="inputs",
                            model_name=submission.model,
                            suffix=f"{submission.tag}.jsonl",
                        ),
                        jsonl_lines=lines,
                        api_headers=headers,
                        client_factory=self._client_factory,
                    ),
                    self.limits.max_bytes,
                )
            )

    def create(self, submission: Submission) -> str:
        input_uri = self._input_ref(submission)
        place, adapter, headers = self._place(), self._adapter(), self._headers()
        endpoint = f"/{place.version}/{place.parent}/publishers/google/models/{submission.model}:generateContent"
        match = adapter._generate_content_endpoint_pattern.fullmatch(string=endpoint)
        if match is None:
            raise ManifestError(f"vertex: {submission.model!r} is not the name of a Gemini model on Vertex")
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            return str(
                self._drive(
                    adapter._create_batch_job(
                        base_url=place.base,
                        api_headers=headers,
                        endpoint_match=match,
                        input_uri=input_uri,
                        output_uri_prefix=f"{place.bucket}/outputs/{submission.tag}",
                        model_name=submission.model,
                        request_id=submission.tag,
                        client_factory=self._client_factory,
                    )
                )
            )

    def snapshot(self, provider_id: str) -> Snapshot:
        payload, _ = self._poll(provider_id)
        return vertex_snapshot(payload, provider_id)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if not snapshot.results_ref:
            return
        adapter, headers = self._adapter(), self._headers()
        with self._wire(f"list the results of batch {snapshot.provider_id}"):
            place = adapter._parse_gcs_prefix(uri=snapshot.results_ref)
            listed = self._drive(
                adapter._list_gcs_objects(
                    bucket=place.bucket, prefix=place.prefix, api_headers=headers, client_factory=self._client_factory
                )
            )
        for name in sorted(one for one in listed if adapter._is_result_jsonl_object_name(object_name=one)):
            kind = "errors" if name.rsplit("/", 1)[-1].startswith("errors") else "output"
            yield ResultPart(kind, self._object(place.bucket, name))

    def _object(self, bucket: str, name: str) -> Iterator[bytes]:
        adapter, headers = self._adapter(), self._headers()
        with self._wire(f"download gs://{bucket}/{name}"):
            content = self._drive(
                adapter._download_gcs_object(
                    bucket=bucket, object_name=name, api_headers=headers, client_factory=self._plain_client
                ),
                self.limits.max_bytes,
            )
            yield str(content).encode("utf-8", "replace") + b"\n"

    def _base(self) -> str:
        return self._place().base

    def _place(self) -> _Place:
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
        return _Place(f"{parts.scheme}://{parts.netloc}", version, parent, bucket)


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
        total=None if None in counts else sum(one or 0 for one in counts),
        succeeded=counts[0],
        failed=counts[1],
        message=clean(text(error, "message") or "") or ("the provider gave no reason" if failed else None),
        error_class=gemini_forms.error_class_of(error) if failed else ErrorClass.NONE,
    )
