"""The labelling session of a run: chooses each person's next answer and writes every action before it confirms it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from hashlib import sha256

from layton_batch.annotate.answers import Answers
from layton_batch.annotate.claims import Claims
from layton_batch.annotate.forecast import Forecast, Forecaster
from layton_batch.clock import iso
from layton_batch.errors import DataError
from layton_batch.reports.label_sheet import Key
from layton_batch.runs.context import Run
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
    LogReader,
    append,
)
from layton_batch.scoring.annotations import Annotation

DESIGNS = {"planned": "contested", "balanced": "balanced"}
"""The planner's name of each design, by its name on the command line."""
LONGEST_NOTE = 4_000


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label. None: the person left that part open."""

    answer: bool | None
    justification: bool | None

    @property
    def both(self) -> bool | None:
        """Return whether answer and justification are both right. False if either is wrong; None if that is open."""
        if self.answer is False or self.justification is False:
            return False
        return None if self.answer is None or self.justification is None else True


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
    _log: LogReader = field(init=False)
    _claims: Claims = field(init=False)
    _model_ids: Mapping[str, str] = field(init=False)
    _shown: dict[str, Key] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        if not self.run.task.uses_jury:
            raise DataError(f"{self.run.id}: this task is graded by rule: there is nothing for people to label")
        self.answers = Answers(self.run, self.secret)
        if not len(self.answers):
            raise DataError(f"{self.run.id}: no model is done yet, so there is nothing to label; `run` goes on with it")
        self.forecaster = Forecaster(self.run, self.answers, DESIGNS[self.design], self.executor)
        self._log = LogReader(self.run.folder)
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
            return self._log.read().on_present_answers(self.run.item_digest, self._model_ids)

    def current(self, annotator: str) -> Key | None:
        """Return the answer that this person labels now. It stays the same until an action on it. None: all is done."""
        with self._lock:
            shown = self._shown.get(annotator)
            if shown is None or shown not in self.answers:
                shown = self._next(annotator)
                self._shown.pop(annotator, None)
                if shown is not None:
                    self._show(annotator, shown)
            return shown

    def _show(self, annotator: str, key: Key) -> None:
        self._shown[annotator] = key
        self._claims.claim(self._shown.values())

    def close(self) -> None:
        """Release the answers that are shown here to other apps."""
        self._claims.close()

    def given(self, annotator: str, key: Key) -> LabelAction | None:
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

    def disputed(self) -> dict[Key, Sequence[Annotation]]:
        """Return the answers on which people differ and that nobody has settled by now."""
        settled = _settled(self.actions())
        return {
            key: people for key, people in self.forecast.disputed.items() if key not in settled and key in self.answers
        }

    # ---- what is done ------------------------------------------------------------------------------------------------

    def label(self, annotator: str, key: Key, label: Label, note: str = "", *, adjudicated: bool = False) -> None:
        """Keep a label on an answer, with the answer as the model gave it."""
        item_id, provider, model, n_hints = key
        annotation = Annotation(
            item_id, model, label.answer, label.justification, label.both, provider, n_hints, annotator,
            self._time(), self.answers.text(key), None, note, adjudicated, item_digest=self.run.item_digest(item_id),
            model_id=self._model_ids.get(model),
        )  # fmt: skip
        self._do(LabelAction(LABEL, annotator, str(annotation.time), key, annotation, note, adjudicated))

    def pass_over(self, annotator: str, key: Key, note: str = "", *, unsure: bool) -> None:
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

    def flag(self, annotator: str, key: Key, note: str = "") -> None:
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

    def _next(self, annotator: str) -> Key | None:
        actions, forecast = self.actions(), self.forecast
        active = actions.active(annotator)
        mine = {action.answer for action in active if not action.adjudicated}
        shown_elsewhere = {key for name, key in self._shown.items() if name != annotator} | self._claims.of_others()
        labelled = self._labelled(actions, forecast)
        fresh = (key for key in forecast.queue if key not in mine | shown_elsewhere and not labelled.get(key))
        twice = self._to_label_twice(labelled, mine | shown_elsewhere, annotator)
        sources: tuple[Iterator[Key], ...] = (twice, fresh) if len(active) % 2 else (fresh, twice)
        done = mine | _settled(actions)
        tied = (key for key in forecast.queue if key not in done and len(labelled.get(key, ())) > 1)
        skipped = (action.answer for action in active if action.kind == SKIP and _is_last(action, active))
        for source in (*sources, tied, skipped):
            key = next((key for key in source if key in self.answers), None)
            if key is not None:
                return key
        return None

    def _labelled(self, actions: LabelActions, forecast: Forecast) -> dict[Key, frozenset[str]]:
        """Return the annotators of each answer: those of the forecast and those of later labels."""
        annotators = dict(forecast.people)
        for label in actions.labels():
            if not label.adjudicated and label.provider is not None and label.n_hints is not None:
                key = (label.item_id, label.provider, label.model, label.n_hints)
                annotators[key] = annotators.get(key, frozenset()) | {label.annotator}
        return annotators

    def _to_label_twice(self, labelled: dict[Key, frozenset[str]], mine: set[Key], annotator: str) -> Iterator[Key]:
        for key, people in labelled.items():
            if len(people) == 1 and annotator not in people and key not in mine and _share(key) < self.overlap:
                yield key


def _settled(actions: LabelActions) -> set[Key]:
    """Return the answers that somebody adjudicated."""
    active = (action for annotator in actions.by_annotator for action in actions.active(annotator))
    return {action.answer for action in active if action.adjudicated and action.kind == LABEL}


def _is_last(action: LabelAction, active: Sequence[LabelAction]) -> bool:
    return next(candidate for candidate in reversed(active) if candidate.answer == action.answer) is action


def _share(key: Key) -> float:
    """Return a number between 0 and 1, equal in every process. Answers below the overlap are labelled twice."""
    return int.from_bytes(sha256("\x1f".join(map(str, key)).encode()).digest()[:8], "big") / 2**64
