"""Vertex's batch predictions of Gemini models, over plain HTTP and a bucket of your own, with the forms of batchling's
adapter.

batchling is an alpha: its public names only, and none of its own calls. These wait in a poll loop that fails on Python
3.11, lose error codes, and make an upload and the paid create in one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from layton_batch.errors import ManifestError, RequestRefusedError
from layton_batch.providers.dialect import opened
from layton_batch.providers.finding import pages
from layton_batch.providers.gemini import JOB_STATES, GeminiContent, class_of, counted
from layton_batch.providers.protocol import Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_json import JsonObject, at, clean, objects, text
from layton_batch.records import MatchingBatch, Snapshot, Submission

STORAGE = "https://storage.googleapis.com"
"""The host of batch files and results, by Google's documents."""


class Vertex(GeminiContent):
    """Its address says everything: ``https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION
    ?gcs=gs://BUCKET/PREFIX``. Its key is an OAuth access token."""

    name = "vertex"
    library = "httpx"
    limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,  # what may well be held in memory
        max_line_bytes=199_000_000,
        retention_seconds=30 * 86_400.0,  # results are in your own bucket
    )
    capabilities = Capabilities(
        shows_ours=False,
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

    @property
    def storage(self) -> Sequence[str]:  # type: ignore[override]
        return (STORAGE,)

    def _connect(self, key: str, access: Access, http: Any) -> Any:
        """Return the HTTP client itself: there is no SDK."""
        self._place()
        return http

    def _headers(self) -> dict[str, str]:
        self._open()
        headers: dict[str, str] = _adapter().build_api_headers(headers={"authorization": f"Bearer {self._key()}"})
        return headers

    def _json(self, method: str, url: str, call: str, **sent: Any) -> JsonObject:
        return self._ask(call, lambda http: http.request(method, url, headers=self._headers(), **sent))

    def upload(self, submission: Submission) -> str | None:
        """Return the file as an object whose name follows from our tag: a second upload replaces the first."""
        *_, folder = self._place()
        bucket, prefix = _bucket_of(folder)
        name = f"{prefix}inputs/{submission.model}/{submission.tag}.jsonl"
        with opened(submission.path, self.name) as file:  # an open file is streamed
            params = {"uploadType": "media", "name": name}
            self._json(
                "POST", _bucket_url(bucket, "/upload"), f"upload {submission.file_name}", params=params, content=file
            )
        return f"gs://{bucket}/{name}"

    def create(self, submission: Submission) -> str:
        input_ref, (base, version, parent, folder) = self._input_ref(submission), self._place()
        model, path = f"publishers/google/models/{submission.model}", f"/{version}/{parent}"
        if not _adapter().matches_batchable_endpoint(path=f"{path}/{model}:generateContent"):
            raise ManifestError(f"vertex: {submission.model!r} is not the name of a Gemini model on Vertex")
        job: JsonObject = {
            "displayName": submission.tag,
            "model": model,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input_ref]}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": f"{folder}/outputs/{submission.tag}"},
            },
            "instanceConfig": {"instanceType": "object", "keyField": "key"},
        }
        url = f"{base}{path}/batchPredictionJobs"
        name = self._created(submission, lambda http: http.post(url, headers=self._headers(), json=job), "name")
        return f"{version}/{name}"

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Return nothing: there is no way to list batches that could be relied on."""
        return []

    def snapshot(self, provider_id: str) -> Snapshot:
        base, *_ = self._place()
        spec = _adapter().build_poll_request_spec(base_url=base, api_headers=self._headers(), batch_id=provider_id)
        job = self._json(spec.method, f"{base}{spec.path}", f"poll batch {provider_id}")
        stats, error = at(job, "completionStats"), at(job, "error")
        kinds = ("successfulCount", "failedCount", "incompleteCount")
        succeeded, failed, incomplete = (counted(stats, kind) for kind in kinds)
        is_counted = succeeded is not None and failed is not None and incomplete is not None
        return self._snapshot(
            provider_id,
            job.get("state"),
            files=(text(at(job, "outputInfo"), "gcsOutputDirectory"), None),
            counts=((succeeded or 0) + (failed or 0) + (incomplete or 0) if is_counted else None, succeeded, failed),
            reason=text(error, "message"),
            error_class=class_of(error),
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if not snapshot.results_ref:
            return
        bucket, prefix = _bucket_of(snapshot.results_ref)
        for name in sorted(filter(_is_result, self._objects(bucket, prefix, snapshot.provider_id))):
            url = f"{_bucket_url(bucket)}/{quote(name, safe='')}?alt=media"
            download = partial(self._stream, url, f"download gs://{bucket}/{name}")
            yield ResultPart("errors" if _base_name(name).startswith("errors") else "output", download(), download)

    def _objects(self, bucket: str, prefix: str, provider_id: str) -> Iterator[str]:
        """Yield the names of all objects under a prefix."""

        def read(token: str | None) -> JsonObject:
            params = {"prefix": prefix} | ({"pageToken": token} if token else {})
            return self._json("GET", _bucket_url(bucket), f"list the results of batch {provider_id}", params=params)

        for page in pages(self.name, read, lambda page: text(page, "nextPageToken")):
            yield from filter(None, (text(item, "name") for item in objects(page, "items")))

    def cancel(self, provider_id: str) -> None:
        raise RequestRefusedError(
            f"{self.name}: batch {provider_id} cannot be cancelled from here; stop it in the provider's console"
        )

    def _place(self) -> tuple[str, str, str, str]:
        """Return the address, the version, ``projects/…/locations/…``, and the folder ``gs://bucket/prefix``."""
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
        return f"{parts.scheme}://{parts.netloc}", version, parent, bucket


def _adapter() -> Any:
    from batchling.providers.vertex import VertexProvider

    return VertexProvider()


def _bucket_url(bucket: str, way: str = "") -> str:
    """Return the URL of a bucket's objects."""
    return f"{STORAGE}{way}/storage/v1/b/{quote(bucket, safe='')}/o"


def _bucket_of(uri: str) -> tuple[str, str]:
    """Split ``gs://bucket/prefix`` into the bucket and the prefix, which ends with a slash or is empty."""
    bucket, _, prefix = uri.removeprefix("gs://").partition("/")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _is_result(name: str) -> bool:
    return name.endswith(".jsonl") and _base_name(name).startswith(("predictions", "errors"))
