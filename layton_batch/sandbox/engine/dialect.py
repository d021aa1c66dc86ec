"""Facts on one provider's rows that the engine needs. Everything else about a batch is the same for all eight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch


class Rejection(Exception):
    """`status` is the HTTP status; `code` and `param` go where the provider's error form has a place for them."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after


Row = Mapping[str, object]


class SandboxDialect(Protocol):
    """`error_file`: failed rows go to a file of their own. `early_output`: the result file can be read while the
    batch runs. `partial`: an expired or cancelled batch keeps the rows that were done."""

    @property
    def provider(self) -> str: ...
    @property
    def error_file(self) -> bool: ...
    @property
    def early_output(self) -> bool: ...
    @property
    def partial(self) -> bool: ...

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Judge the whole input (`size` in bytes): number of rows, the model they share or "", why it is refused."""
        ...

    def key(self, row: Row) -> str:
        """The row's custom_id, "" where it has none."""
        ...

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        """Raises Rejection for a row this provider answers with an error."""
        ...

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]: ...

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]: ...

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        """The line for a row that was never run; None where the provider says nothing about such rows."""
        ...

    def output_ids(self) -> tuple[str, str]:
        """New ids for the result and the error file."""
        ...
