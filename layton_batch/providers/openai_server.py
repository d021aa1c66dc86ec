"""A server that speaks OpenAI's batch API at an address of its own, by what ``[providers.NAME]`` of a manifest says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layton_batch.providers import openai_elsewhere
from layton_batch.providers.openai_files import FileBatches
from layton_batch.providers.protocol import Access, Capabilities, Limits
from layton_batch.records import MatchingBatch, ServerForm, Submission


class OpenAIServer(FileBatches):
    """See the module text. Where its list of batches is missing, a create whose reply is lost is a person's to find."""

    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,  # of OpenAI's 200 MB most servers and proxies take half
        max_line_bytes=99_000_000,
        retention_seconds=7 * 86_400.0,  # nobody promises more: results are downloaded as soon as there are any
    )

    def __init__(self, form: ServerForm, access: Access | None) -> None:
        super().__init__(access)
        self._form = form
        self.name, self.key_variable = form.name, f"{form.name.upper()}_API_KEY"
        self.windows, self.efforts, self.max_tokens_key = form.windows, form.efforts, form.max_tokens
        unlisted = ("a batch whose create gets no reply cannot be looked for: a person decides",)
        self.capabilities = Capabilities(
            tag=form.lists_batches,
            certain_find=form.lists_batches,
            caveats=() if form.lists_batches else unlisted,
        )

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        return super().find(submission) if self._form.lists_batches else []

    def _connect(self, key: str, access: Access) -> Any:
        return openai_elsewhere.connect(key, access, self._form.base_url)

    def _uploaded(self, file_name: str, size: int) -> str | None:
        return super()._uploaded(file_name, size) if self._form.lists_files else None

    def _file_page(self) -> Any:
        return self._open().files.with_raw_response.list(purpose="batch")


def connect_to(form: ServerForm, access: Access | None) -> OpenAIServer:
    """Return the server ready for use, at the manifest's address unless ``access`` names another; nothing is sent."""
    if access is not None and access.base_url is None:
        access = replace(access, base_url=form.base_url)
    return OpenAIServer(form, access)
