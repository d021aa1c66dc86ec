"""Facts on one provider's rows that the engine needs. Everything else about a batch is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch


@dataclass(eq=False)
class Rejection(Exception):
    """`status` is the HTTP status; `code` goes where the provider's error form has a place for it."""

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None


Row = Mapping[str, object]


class SandboxDialect(ABC):
    """`error_file`: failed rows go to a file of their own. `partial`: an expired or cancelled batch keeps the rows that
    were done. `file_id`: beginning of the ids of files."""

    provider: str
    error_file = False
    partial = True
    file_id = "file-"

    @abstractmethod
    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Judge the whole input (`size` in bytes): number of rows, the model they share or "", why it is refused."""

    def key(self, row: Row) -> str:
        """The row's custom_id, "" where it has none."""
        return str(row.get("custom_id") or "")

    @abstractmethod
    def question(self, row: Row, batch: SandboxBatch) -> Question:
        """Raises Rejection for a row that this provider answers with an error."""

    @abstractmethod
    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]: ...

    @abstractmethod
    def failure(self, key: str, rejection: Rejection) -> dict[str, object]: ...

    def unfinished(self, _key: str, _outcome: str) -> dict[str, object] | None:
        """The line for a row that was never run; None where the provider says nothing about such rows."""
        return None
