"""The labelling session of a run: chooses each person's next answer and writes every action before it confirms it.

Answers are those of the models that are done, under names that reveal no model. Claims keep two apps beside one folder
of labels from showing the same answer. Forecasts of the gain from further labels are computed in a thread of their own:
pages never wait for them.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import FileIO
from pathlib import Path
from secrets import token_hex

import orjson
import polars as pl

from layton_batch.clock import iso
from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.records import Item
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import check_has_jury
from layton_batch.runs.labels import (
    FLAG,
    LABEL,
    ON_ANSWERS,
    SKIP,
    UNDO,
    UNFLAG,
    UNSURE,
    LabelAction,
    LabelActions,
    append,
    read_label_actions,
)
from layton_batch.scoring.annotations import Annotation, AnswerKey
from layton_batch.scoring.judge_quality import AnnotatorAgreement, annotator_agreement
from layton_batch.scoring.label_plan import LabelForecast, outlook
from layton_batch.stages.rank import entrant, finished_jobs, joined, jury_board
from layton_batch.states import PredictionKind


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer with all that a person needs to judge it. Pages show nothing that names its model.

    ``id``: its name in the browser; ``seen``: digest of what the page shows of item and answer.
    """

    id: str
    seen: str
    key: AnswerKey
    item: Item
    answer: str
    justification: str | None


@dataclass(eq=False)
class Answers:
    """All answers of a run's models that are done. ``secret`` makes the names that the browser uses."""

    run: Run
    secret: bytes
    _jobs: Mapping[AnswerKey, str] = field(default_factory=dict)
    _by_id: Mapping[str, AnswerKey] = field(default_factory=dict)
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

    def __contains__(self, key: AnswerKey) -> bool:
        return key in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def id_of(self, key: AnswerKey) -> str:
        """Return the answer's name in the browser. The name is stable while the app runs and reveals nothing."""
        return hmac.new(self.secret, "\x1f".join(map(str, key)).encode(), sha256).hexdigest()[:24]

    def key_of(self, shown_id: str) -> AnswerKey | None:
        """Return the answer with this name in the browser; None if there is none."""
        return self._by_id.get(shown_id)

    def text(self, key: AnswerKey) -> tuple[str, str | None]:
        """Return answer and justification as the model gave them."""
        frame = tables.read_part(
            self.run.folder.part("predictions", self._jobs[key]), ["item_id", "answer", "justification"]
        )
        _, answer, justification = frame.filter(pl.col("item_id") == key[0]).row(0)
        return answer or "", justification

    def shown(self, key: AnswerKey) -> ShownAnswer:
        """Return the answer with what its page shows."""
        item = self.run.item(key[0])
        answer, justification = self.text(key)
        seen = sha256(repr((self.run.item_digest(item.id), answer, justification)).encode()).hexdigest()[:16]
        return ShownAnswer(self.id_of(key), seen, key, item, answer, justification)


def _answered(run: Run) -> Iterator[tuple[AnswerKey, str]]:
    item_ids = {item.id for item in run.items}
    for job in finished_jobs(run):
        participant = entrant(run, job)
        kinds = tables.read_part(run.folder.part("predictions", job.id), ["item_id", "kind"])
        for item_id in kinds.filter(pl.col("kind") == str(PredictionKind.ANSWERED))["item_id"]:
            if item_id in item_ids:  # the run may have answers on items that its manifest no longer has
                yield AnswerKey.of(participant, item_id), job.id


_PREFIX = ".shown-"


@dataclass(eq=False)
class Claims:
    """The claims in a folder of labels, as one app makes and sees them. Where nothing can be written, it makes none."""

    folder: Path
    _file: FileIO | None = None
    _name: str = field(default_factory=lambda: f"{_PREFIX}{token_hex(8)}")

    def claim(self, answers: Collection[AnswerKey]) -> None:
        """Claim these answers for this app, and no others any more."""
        with suppress(OSError):
            if self._file is None:
                atomic.make_folder(self.folder)
                self._file = (self.folder / self._name).open("wb", buffering=0)
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._file.truncate(0)
            os.pwrite(self._file.fileno(), orjson.dumps([*map(tuple, answers)]), 0)

    def of_others(self) -> set[AnswerKey]:
        """Return the answers that other apps are showing."""
        claimed: set[AnswerKey] = set()
        for path in self.folder.glob(f"{_PREFIX}*"):
            if path.name != self._name:
                with suppress(OSError, ValueError):
                    claimed |= _claimed(path)
        return claimed

    def close(self) -> None:
        """Give up all claims of this app."""
        if self._file is not None:
            self._file.close()
            (self.folder / self._name).unlink(missing_ok=True)
            self._file = None


def _claimed(path: Path) -> set[AnswerKey]:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # its app is running
            return {AnswerKey(*row) for row in orjson.loads(file.read())}
        path.unlink()
        return set()


QUEUE = 100


@dataclass(frozen=True, slots=True)
class Forecast:
    """State of the labels at one moment. ``people``: the annotators of each answer. ``disputed``: the labels of each
    answer on which people differ and which nobody has settled.
    """

    outlook: LabelForecast
    people: Mapping[AnswerKey, frozenset[str]]
    disputed: Mapping[AnswerKey, Sequence[Annotation]]
    agreement: AnnotatorAgreement | None
    labels: int


def forecast(run: Run, design: str) -> Forecast:
    """Compute the forecast from the present labels."""
    board = jury_board(run, run.rules)
    given = joined(run, board.votes)
    actions = read_label_actions(run.folder)
    put_off = sum(action.kind != LABEL for name in actions.by_annotator for action in actions.active(name))
    view = outlook(board, design, length=QUEUE + put_off)  # answers that a person put off stay in the queue
    return Forecast(
        outlook=view,
        people={
            key: frozenset(annotation.annotator for annotation in annotations.values() if not annotation.adjudicated)
            for key, annotations in given.by_prediction.items()
        },
        disputed={
            key: differing for key, annotations in given.by_prediction.items() if (differing := _dispute(annotations))
        },
        agreement=annotator_agreement(given, board.rules.metric, board.rules.level),
        labels=board.labels.height,
    )


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
    _stamp: str = ""

    def __post_init__(self) -> None:
        self._stamp = self._now()
        self.latest = forecast(self.run, self.design)

    @property
    def busy(self) -> bool:
        """Return whether a newer forecast is being computed."""
        return self._last is not None and not self._last.done()

    def look(self) -> None:
        """Start another computation if labels or models changed in any process."""
        with self._lock:
            stamp = self._now()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            if not self.busy or (self._last is not None and self._last.running()):
                self._last = self.executor.submit(self._work)

    def _work(self) -> None:
        try:
            self.answers.look_again()
            self.latest, self.trouble = forecast(self.run, self.design), ""
        except Exception as error:  # the app goes on with what it has: no label may be lost to a damaged table
            self.trouble = str(error)

    def _now(self) -> str:
        """Return the names and sizes of all files of labels and scores, as one text."""
        folder = self.run.folder
        files = [*folder.labels.glob("*.jsonl"), *(folder.tables / "scores").glob("*.parquet")]
        return " ".join(sorted(f"{path.name}:{path.stat().st_size}" for path in files))


DESIGNS = ("planned", "balanced")
"""Ways to choose what is labelled next."""
LONGEST_NOTE = 4_000


@dataclass(eq=False)
class LabellingSession:
    """Labelling of one run by several people. ``overlap``: the share of answers that a second annotator labels too."""

    run: Run
    secret: bytes
    executor: Executor
    design: str = "planned"
    overlap: float = 0.0
    answers: Answers = field(init=False)
    forecaster: Forecaster = field(init=False)
    _claims: Claims = field(init=False)
    _model_ids: Mapping[str, str] = field(init=False)
    _shown: dict[str, AnswerKey] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        check_has_jury(self.run)
        self.answers = Answers(self.run, self.secret)
        if not len(self.answers):
            raise DataError(f"{self.run.id}: no model is done yet, so there is nothing to label; `run` goes on with it")
        self.forecaster = Forecaster(self.run, self.answers, self.design, self.executor)
        self._claims = Claims(self.run.folder.labels)
        self._model_ids = self.run.model_ids()

    # ---- what pages show ---------------------------------------------------------------------------------------------

    @property
    def forecast(self) -> Forecast:
        """Return the newest forecast. Start another computation if labels or models changed."""
        self.forecaster.look()
        return self.forecaster.latest

    def actions(self) -> LabelActions:
        """Return all actions so far on the present answers, from all processes."""
        with self._lock:
            actions = read_label_actions(self.run.folder)
            return actions.on_present_answers(self.run.item_digest, self._model_ids)

    def current(self, annotator: str) -> AnswerKey | None:
        """Return the answer that this person labels now. It stays the same until an action on it. None: all is done."""
        with self._lock:
            shown = self._shown.get(annotator)
            if shown is None or shown not in self.answers:
                shown = self._next(annotator)
                self._shown.pop(annotator, None)
                if shown is not None:
                    self._show(annotator, shown)
            return shown

    def _show(self, annotator: str, key: AnswerKey) -> None:
        self._shown[annotator] = key
        self._claims.claim(self._shown.values())

    def close(self) -> None:
        """Release the answers that are shown here to other apps."""
        self._claims.close()

    def given(self, annotator: str, key: AnswerKey) -> LabelAction | None:
        """Return this person's last action on an answer that was not undone."""
        active = self.actions().active(annotator)
        return next((action for action in reversed(active) if action.answer == key and not action.adjudicated), None)

    def done(self, annotator: str) -> int:
        """Count the answers that have this person's label."""
        active = self.actions().active(annotator)
        return len({action.answer for action in active if action.kind == LABEL and not action.adjudicated})

    def flagged(self, annotator: str, item_id: str) -> bool:
        """Return whether this person flagged the item as faulty."""
        return any(action.annotator == annotator for action in self.actions().flags().get(item_id, ()))

    @property
    def guidelines(self) -> str:
        """Return what the manifest tells the people who label."""
        labels = self.run.manifest.labels
        return (labels and labels.guidelines) or ""

    def disputed(self) -> dict[AnswerKey, Sequence[Annotation]]:
        """Return the answers on which people differ and that nobody has settled by now."""
        settled = _settled(self.actions())
        return {
            key: people for key, people in self.forecast.disputed.items() if key not in settled and key in self.answers
        }

    # ---- what is done ------------------------------------------------------------------------------------------------

    def label(
        self,
        annotator: str,
        key: AnswerKey,
        answer: bool | None,
        justification: bool | None,
        note: str = "",
        *,
        adjudicated: bool = False,
    ) -> None:
        """Keep a label on an answer, with the answer as the model gave it. None: the person left that part open."""
        item_id, provider, model, n_hints = key
        marks = answer, justification
        both = False if False in marks else None if None in marks else True
        annotation = Annotation(
            item_id, model, answer, justification, both, provider, n_hints, annotator,
            self._time(), self.answers.text(key), None, note, adjudicated, item_digest=self.run.item_digest(item_id),
            model_id=self._model_ids.get(model),
        )  # fmt: skip
        self._do(LabelAction(LABEL, annotator, str(annotation.time), key, annotation, note, adjudicated))

    def pass_over(self, annotator: str, key: AnswerKey, note: str = "", *, unsure: bool) -> None:
        """Give no label. ``unsure``: leave the answer to other people; else show it again when all others are done."""
        self._do(LabelAction(UNSURE if unsure else SKIP, annotator, self._time(), key, None, note))

    def undo(self, annotator: str) -> LabelAction | None:
        """Undo the person's last action on an answer and show the answer again. None: there is nothing to undo."""
        with self._lock:
            active = self.actions().active(annotator)
            if not active:
                return None
            last = active[-1]
            self._do(LabelAction(UNDO, annotator, self._time(), last.answer, adjudicated=last.adjudicated))
            if not last.adjudicated:
                self._show(annotator, last.answer)
            return last

    def flag(self, annotator: str, key: AnswerKey, note: str = "") -> None:
        """Flag the item as faulty, or remove this person's flag."""
        with self._lock:
            kind = UNFLAG if self.flagged(annotator, key[0]) else FLAG
            self._do(LabelAction(kind, annotator, self._time(), key, None, note))

    def _do(self, action: LabelAction) -> None:
        with self._lock:
            append(self.run.folder, replace(action, item_digest=self.run.item_digest(action.answer[0])))
            if action.kind in ON_ANSWERS and self._shown.get(action.annotator) == action.answer:
                del self._shown[action.annotator]
        self.forecaster.look()

    def _time(self) -> str:
        return iso(self.run.clock.now())

    # ---- what is next ------------------------------------------------------------------------------------------------

    def _next(self, annotator: str) -> AnswerKey | None:
        actions, forecast = self.actions(), self.forecast
        active = actions.active(annotator)
        mine = {action.answer for action in active if not action.adjudicated}
        shown_elsewhere = {key for name, key in self._shown.items() if name != annotator} | self._claims.of_others()
        labelled = self._labelled(actions, forecast)
        fresh = (key for key in forecast.outlook.queue if key not in mine | shown_elsewhere and not labelled.get(key))
        twice = self._to_label_twice(labelled, mine | shown_elsewhere, annotator)
        sources: tuple[Iterator[AnswerKey], ...] = (twice, fresh) if len(active) % 2 else (fresh, twice)
        done = mine | _settled(actions)
        tied = (key for key in forecast.outlook.queue if key not in done and len(labelled.get(key, ())) > 1)
        skipped = (action.answer for action in active if action.kind == SKIP and _is_last(action, active))
        for source in (*sources, tied, skipped):
            key = next((key for key in source if key in self.answers), None)
            if key is not None:
                return key
        return None

    def _labelled(self, actions: LabelActions, forecast: Forecast) -> dict[AnswerKey, frozenset[str]]:
        """Return the annotators of each answer: those of the forecast and those of later labels."""
        annotators = dict(forecast.people)
        for label in actions.labels():
            if not label.adjudicated and label.provider is not None and label.n_hints is not None:
                key = AnswerKey(label.item_id, label.provider, label.model, label.n_hints)
                annotators[key] = annotators.get(key, frozenset()) | {label.annotator}
        return annotators

    def _to_label_twice(
        self, labelled: dict[AnswerKey, frozenset[str]], mine: set[AnswerKey], annotator: str
    ) -> Iterator[AnswerKey]:
        for key, people in labelled.items():
            if len(people) == 1 and annotator not in people and key not in mine and _share(key) < self.overlap:
                yield key


def _settled(actions: LabelActions) -> set[AnswerKey]:
    """Return the answers that somebody adjudicated."""
    active = (action for annotator in actions.by_annotator for action in actions.active(annotator))
    return {action.answer for action in active if action.adjudicated and action.kind == LABEL}


def _is_last(action: LabelAction, active: Sequence[LabelAction]) -> bool:
    return next(candidate for candidate in reversed(active) if candidate.answer == action.answer) is action


def _share(key: AnswerKey) -> float:
    """Return a number between 0 and 1, equal in every process. Answers below the overlap are labelled twice."""
    return int.from_bytes(sha256("\x1f".join(map(str, key)).encode()).digest()[:8], "big") / 2**64
