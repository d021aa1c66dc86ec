"""The answers that a person labels: those of the models that are done, under names that reveal no model."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import tables
from layton_batch.records import Item
from layton_batch.reports.label_sheet import Key, reference_texts
from layton_batch.runs.context import Run
from layton_batch.stages.rank import entrant, finished_jobs
from layton_batch.states import PredictionKind

_HINTS = ("First hint", "Second hint", "Third hint", "Special hint")
_PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
"""SVG is left out: it is a document that can carry scripts."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer with all that a person needs to judge it. Pages show nothing that names its model.

    ``id``: its name in the browser; ``seen``: digest of what the page shows of item and answer.
    """

    id: str
    seen: str
    key: Key
    item: Item
    answer: str
    justification: str | None

    @property
    def pictures(self) -> list[str]:
        """Return data URLs; an empty text for a type that is not shown."""
        return [
            f"data:{image.media_type};base64,{image.base64}" if image.media_type in _PICTURES else ""
            for image in self.item.images
        ]

    @property
    def hints(self) -> list[tuple[str, str]]:
        return [(name, text) for name, text in zip(_HINTS, self.item.hints, strict=False) if text]

    @property
    def reference(self) -> Sequence[tuple[str, str]]:
        return reference_texts(self.item)


@dataclass(eq=False)
class Answers:
    """All answers of a run's models that are done. ``secret`` makes the names that the browser uses."""

    run: Run
    secret: bytes
    _jobs: Mapping[Key, str] = field(default_factory=dict)
    _by_id: Mapping[str, Key] = field(default_factory=dict)
    _done: tuple[str, ...] = ()
    _table: tuple[int, int] = field(init=False)
    """Size and time of the table of items that is shown."""

    def __post_init__(self) -> None:
        self.read_items()
        self.look_again()

    def read_items(self) -> None:
        """Show the run's items as they are now."""
        self._table = self._table_now()
        self.run.forget_items()

    def check_items(self) -> None:
        """Raise DataError if the run has other items than those that are shown."""
        if self._table_now() != self._table:
            raise DataError(
                f"{self.run.id}: the items of the run changed since the app was started: stop it and start it again"
            )

    def _table_now(self) -> tuple[int, int]:
        try:
            status = self.run.folder.part("items", "items").stat()
        except OSError:
            return 0, 0
        return status.st_size, status.st_mtime_ns

    def look_again(self) -> None:
        """Add the answers of the models that are done by now."""
        done = tuple(job.id for job in finished_jobs(self.run))
        if done == self._done:
            return
        self._done = done
        self._jobs = dict(_answered(self.run))
        self._by_id = {self.id_of(key): key for key in self._jobs}

    def __contains__(self, key: Key) -> bool:
        return key in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def id_of(self, key: Key) -> str:
        """Return the answer's name in the browser. The name is stable while the app runs and reveals nothing."""
        return hmac.new(self.secret, "\x1f".join(map(str, key)).encode(), sha256).hexdigest()[:24]

    def key_of(self, shown_id: str) -> Key | None:
        """Return the answer with this name in the browser; None if there is none."""
        return self._by_id.get(shown_id)

    def text(self, key: Key) -> tuple[str, str | None]:
        """Return answer and justification as the model gave them."""
        frame = tables.read_part(
            self.run.folder.part("predictions", self._jobs[key]), ["item_id", "answer", "justification"]
        )
        _, answer, justification = frame.filter(pl.col("item_id") == key[0]).row(0)
        return answer or "", justification

    def shown(self, key: Key) -> ShownAnswer:
        """Return the answer with what its page shows."""
        item = self.run.item(key[0])
        answer, justification = self.text(key)
        seen = sha256(repr((self.run.item_digest(item.id), answer, justification)).encode()).hexdigest()[:16]
        return ShownAnswer(self.id_of(key), seen, key, item, answer, justification)


def _answered(run: Run) -> Iterator[tuple[Key, str]]:
    item_ids = {item.id for item in run.items}
    for job in finished_jobs(run):
        participant = entrant(run, job)
        kinds = tables.read_part(run.folder.part("predictions", job.id), ["item_id", "kind"])
        for item_id in kinds.filter(pl.col("kind") == str(PredictionKind.ANSWERED))["item_id"]:
            if item_id in item_ids:  # the run may have answers on items that its manifest no longer has
                yield (item_id, participant.provider, participant.model, participant.n_hints), job.id
