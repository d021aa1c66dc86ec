"""Who labels what next, and what becomes of it: every deed is on the disk before anybody is told that it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from hashlib import sha256

from layton_batch.annotate.answers import Answers, Key
from layton_batch.annotate.claims import Claims
from layton_batch.annotate.forecast import Forecast, Forecaster
from layton_batch.clock import iso
from layton_batch.errors import DataError
from layton_batch.runs.context import Run
from layton_batch.runs.label_log import (
    FLAG,
    LABEL,
    ON_ANSWERS,
    SKIP,
    UNDO,
    UNFLAG,
    UNSURE,
    Deed,
    Deeds,
    LogReader,
    append,
)
from layton_batch.scoring.annotations import Annotation

DESIGNS = {"planned": "contested", "balanced": "balanced"}
"""By what the command line calls them."""
LONGEST_NOTE = 4_000


@dataclass(frozen=True, slots=True)
class Marks:
    """A person's verdict: None is no word on it."""

    answer: bool | None
    justification: bool | None

    @property
    def both(self) -> bool | None:
        """What follows: an answer that is wrong is not both right, whatever its justification is."""
        if self.answer is False or self.justification is False:
            return False
        return None if self.answer is None or self.justification is None else True


@dataclass(eq=False)
class Desk:
    """``overlap``: the share of answers that a second annotator labels as well."""

    run: Run
    secret: bytes
    executor: Executor
    design: str = "planned"
    overlap: float = 0.0
    answers: Answers = field(init=False)
    forecaster: Forecaster = field(init=False)
    _log: LogReader = field(init=False)
    _claims: Claims = field(init=False)
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

    # ---- what is seen ------------------------------------------------------------------------------------------------

    @property
    def forecast(self) -> Forecast:
        """The newest one; another is worked out where something changed."""
        self.forecaster.look(self._put_off())
        return self.forecaster.latest

    def deeds(self) -> Deeds:
        """Everything that was done so far, by whichever process."""
        with self._lock:
            return self._log.read()

    def current(self, annotator: str) -> Key | None:
        """The answer that this person is to label now: the same until something is done with it. None: all is done."""
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
        """Leave the answers that are shown here to other apps."""
        self._claims.close()

    def given(self, annotator: str, key: Key) -> Deed | None:
        """The last thing that this person did with an answer and did not take back."""
        standing = self.deeds().standing(annotator)
        return next((deed for deed in reversed(standing) if deed.answer == key and not deed.adjudicated), None)

    def flagged(self, annotator: str, item_id: str) -> bool:
        """Whether this person said that something is wrong with the item."""
        return any(deed.annotator == annotator for deed in self.deeds().flags().get(item_id, ()))

    def disputed(self) -> dict[Key, Sequence[Annotation]]:
        """The answers on which people differ and that nobody has settled by now."""
        deeds = self.deeds()
        settled = {
            deed.answer
            for annotator in deeds.by_annotator
            for deed in deeds.standing(annotator)
            if deed.adjudicated and deed.kind == LABEL
        }
        return {
            key: people for key, people in self.forecast.disputed.items() if key not in settled and key in self.answers
        }

    # ---- what is done ------------------------------------------------------------------------------------------------

    def label(self, annotator: str, key: Key, marks: Marks, note: str = "", *, adjudicated: bool = False) -> None:
        """Keep a verdict on an answer, with the answer as the model gave it."""
        item_id, provider, model, n_hints = key
        label = Annotation(
            item_id, model, marks.answer, marks.justification, marks.both, provider, n_hints, annotator,
            self._time(), self.answers.said(key), None, note, adjudicated,
        )  # fmt: skip
        self._do(Deed(LABEL, annotator, str(label.time), key, label, note, adjudicated))

    def pass_over(self, annotator: str, key: Key, note: str = "", *, unsure: bool) -> None:
        """No label: ``unsure``, and it is somebody else's; else it comes again when the others are done."""
        self._do(Deed(UNSURE if unsure else SKIP, annotator, self._time(), key, None, note))

    def undo(self, annotator: str) -> Deed | None:
        """Take back the last thing done with an answer; it is shown again. None: there is nothing left to undo."""
        with self._lock:
            standing = self.deeds().standing(annotator)
            if not standing:
                return None
            last = standing[-1]
            self._do(Deed(UNDO, annotator, self._time(), last.answer, adjudicated=last.adjudicated))
            if not last.adjudicated:
                self._show(annotator, last.answer)
            return last

    def flag(self, annotator: str, key: Key, note: str = "") -> None:
        """Say that something is wrong with the item, or take that back."""
        with self._lock:
            kind = UNFLAG if self.flagged(annotator, key[0]) else FLAG
            self._do(Deed(kind, annotator, self._time(), key, None, note))

    def _do(self, deed: Deed) -> None:
        with self._lock:
            append(self.run.folder, deed)
            if deed.kind in ON_ANSWERS and self._shown.get(deed.annotator) == deed.answer:
                del self._shown[deed.annotator]
        self.forecaster.look(self._put_off())

    def _time(self) -> str:
        return iso(self.run.clock.now())

    # ---- what is next ------------------------------------------------------------------------------------------------

    def _put_off(self) -> int:
        """Answers that stay in the planner's queue although somebody is done with them, to the next hundred."""
        deeds = self.deeds()
        count = sum(deed.kind != LABEL for name in deeds.by_annotator for deed in deeds.standing(name))
        return -(-count // 100) * 100

    def _next(self, annotator: str) -> Key | None:
        deeds, latest = self.deeds(), self.forecast
        standing = deeds.standing(annotator)
        mine = {deed.answer for deed in standing if not deed.adjudicated}
        others = {key for name, key in self._shown.items() if name != annotator} | self._claims.of_others()
        labelled = self._labelled(deeds, latest)
        fresh = (key for key in latest.queue if key not in mine | others and not labelled.get(key))
        twice = self._to_label_twice(labelled, mine | others, annotator)
        ways: tuple[Iterator[Key], ...] = (twice, fresh) if len(standing) % 2 else (fresh, twice)
        tied = (key for key in latest.queue if key not in mine and len(labelled.get(key, ())) > 1)
        skipped = (deed.answer for deed in standing if deed.kind == SKIP and _is_last(deed, standing))
        for way in (*ways, tied, skipped):
            found = next((key for key in way if key in self.answers), None)
            if found is not None:
                return found
        return None

    def _labelled(self, deeds: Deeds, latest: Forecast) -> dict[Key, frozenset[str]]:
        """By answer, who labelled it: as the forecast has it, and since."""
        found = dict(latest.people)
        for one in deeds.labels():
            if not one.adjudicated and one.provider is not None and one.n_hints is not None:
                key = (one.item_id, one.provider, one.model, one.n_hints)
                found[key] = found.get(key, frozenset()) | {one.annotator}
        return found

    def _to_label_twice(self, labelled: dict[Key, frozenset[str]], mine: set[Key], annotator: str) -> Iterator[Key]:
        for key, people in labelled.items():
            if len(people) == 1 and annotator not in people and key not in mine and _share(key) < self.overlap:
                yield key


def _is_last(deed: Deed, standing: Sequence[Deed]) -> bool:
    return next(one for one in reversed(standing) if one.answer == deed.answer) is deed


def _share(key: Key) -> float:
    """The answer's place between 0 and 1, the same in every process: those below the share are labelled twice."""
    return int.from_bytes(sha256("\x1f".join(map(str, key)).encode()).digest()[:8], "big") / 2**64
