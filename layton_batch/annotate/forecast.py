"""Forecasts of the gain from further labels, computed in a thread of their own: pages never wait for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field

from layton_batch.annotate.answers import Answers
from layton_batch.reports.label_sheet import Key
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Annotation, JoinedLabels
from layton_batch.scoring.judge_quality import AnnotatorAgreement, annotator_agreement
from layton_batch.scoring.label_plan import LabelForecast, LabelRequest, outlook
from layton_batch.stages.rank import joined, jury_board

QUEUE = 100


@dataclass(frozen=True, slots=True)
class Forecast:
    """State of the labels at one moment. ``queue``: the answers to label next, in order.

    ``people``: the annotators of each answer. ``disputed``: the labels of each answer on which people differ and
    which nobody has settled.
    """

    outlook: LabelForecast
    queue: tuple[Key, ...]
    people: Mapping[Key, frozenset[str]]
    disputed: Mapping[Key, Sequence[Annotation]]
    agreement: AnnotatorAgreement | None
    labels: int


def forecast(run: Run, design: str, extra: int = 0) -> Forecast:
    """Compute the forecast from the present labels. ``extra``: answers in the queue beyond the usual number."""
    board = jury_board(run, run.rules)
    given = joined(run, board.votes)
    view = outlook(board, design, length=QUEUE + extra)
    return Forecast(
        outlook=view,
        queue=tuple(map(_key, view.queue)),
        people={
            key: frozenset(annotation.annotator for annotation in annotations.values() if not annotation.adjudicated)
            for key, annotations in _by_key(given)
        },
        disputed={key: differing for key, annotations in _by_key(given) if (differing := _dispute(annotations))},
        agreement=annotator_agreement(given, board.rules.metric, board.rules.level),
        labels=board.labels.height,
    )


def _key(ask: LabelRequest) -> Key:
    return ask.item_id, ask.provider, ask.model, ask.n_hints


def _by_key(given: JoinedLabels) -> list[tuple[Key, Mapping[str, Annotation]]]:
    return [
        ((item_id, entrant.provider, entrant.model, entrant.n_hints), annotations)
        for (entrant, item_id), annotations in given.by_prediction.items()
    ]


def _dispute(annotations: Mapping[str, Annotation]) -> Sequence[Annotation]:
    """Return all labels if people differ on the answer or the justification; none if the answer is settled."""
    if any(annotation.adjudicated for annotation in annotations.values()):
        return ()
    marks = ("answer_correct", "justification_correct", "both_correct")
    differ = any(
        len({mark for annotation in annotations.values() if (mark := annotation.mark(name)) is not None}) > 1
        for name in marks
    )
    return tuple(annotations.values()) if differ else ()


@dataclass(eq=False)
class Forecaster:
    """Holder of the newest forecast. ``executor``: does one computation at a time.

    A computation that waits has the labels that come meanwhile; those that come during one are part of the next.
    """

    run: Run
    answers: Answers
    design: str
    executor: Executor
    latest: Forecast = field(init=False)
    trouble: str = ""
    """The reason why the last computation failed; pages then show the forecast before it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: Future[None] | None = None
    _extra: int = 0
    _stamp: str = ""

    def __post_init__(self) -> None:
        self._stamp = self._now()
        self.latest = forecast(self.run, self.design)

    @property
    def busy(self) -> bool:
        """Return whether a newer forecast is being computed."""
        return self._last is not None and not self._last.done()

    def look(self, extra: int = 0) -> None:
        """Start another computation if labels or models changed in any process."""
        with self._lock:
            stamp = self._now()
            if stamp == self._stamp and extra <= self._extra:
                return
            self._stamp, self._extra = stamp, max(extra, self._extra)
            if not self.busy or (self._last is not None and self._last.running()):
                self._last = self.executor.submit(self._work)

    def settle(self) -> None:
        """Wait until the newest forecast contains the newest labels."""
        if self._last is not None:
            wait([self._last])

    def _work(self) -> None:
        try:
            self.answers.look_again()
            self.latest, self.trouble = forecast(self.run, self.design, self._extra), ""
        except Exception as error:  # the app goes on with what it has: no label may be lost to a damaged table
            self.trouble = str(error)

    def _now(self) -> str:
        """Return the names and sizes of all files of labels and scores, as one text."""
        folder = self.run.folder
        files = [*folder.labels.glob("*.jsonl"), *(folder.tables / "scores").glob("*.parquet")]
        return " ".join(sorted(f"{path.name}:{path.stat().st_size}" for path in files))
