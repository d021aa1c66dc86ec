"""What labels buy, worked out in a thread of its own: pages show the newest that is there and never wait."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from layton_batch.annotate.answers import Answers, Key
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Annotation, Joined
from layton_batch.scoring.annotators import AnnotatorAgreement, annotator_agreement
from layton_batch.scoring.label_plan import LabelAsk, Outlook, outlook
from layton_batch.stages.rank import evidence, joined

STEPS = (12, 50)
QUEUE = 100


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of the labels at one moment. ``queue``: what to label next; ``people``: by answer, who labelled it;
    ``disputed``: answers on which people differ and nobody has settled it, with what each of them says."""

    outlook: Outlook
    queue: tuple[Key, ...]
    people: Mapping[Key, frozenset[str]]
    disputed: Mapping[Key, Sequence[Annotation]]
    agreement: AnnotatorAgreement | None
    labels: int


def forecast(run: Run, design: str, extra: int = 0) -> Forecast:
    """Of the labels as they are now; ``extra``: how much longer than usual the queue is."""
    rules = run.rules
    votes, labels = evidence(run, rules.metric)
    given = joined(run, votes)
    view = outlook(votes, labels, rules, design, steps=STEPS, length=QUEUE + extra)
    return Forecast(
        outlook=view,
        queue=tuple(map(_key, view.queue)),
        people={
            key: frozenset(who.annotator for who in one.values() if not who.adjudicated) for key, one in _by_key(given)
        },
        disputed={key: found for key, one in _by_key(given) if (found := _dispute(one))},
        agreement=annotator_agreement(given, rules.metric, rules.level),
        labels=labels.height,
    )


def _key(ask: LabelAsk) -> Key:
    return ask.item_id, ask.provider, ask.model, ask.n_hints


def _by_key(given: Joined) -> list[tuple[Key, Mapping[str, Annotation]]]:
    return [
        ((item_id, who.provider, who.model, who.n_hints), people)
        for (who, item_id), people in given.by_prediction.items()
    ]


def _names(people: Mapping[str, Annotation]) -> frozenset[str]:
    return frozenset(one.annotator for one in people.values() if not one.adjudicated)


def _dispute(people: Mapping[str, Annotation]) -> Sequence[Annotation]:
    """Those who differ on the answer or on the justification; nobody where it is settled."""
    if any(one.adjudicated for one in people.values()):
        return ()
    marks = ("answer_correct", "justification_correct", "both_correct")
    differ = any(len({mark for one in people.values() if (mark := one.mark(name)) is not None}) > 1 for name in marks)
    return tuple(people.values()) if differ else ()


@dataclass(eq=False)
class Forecaster:
    """Keeps the newest forecast. Labels that come while one is worked out are in the next one."""

    run: Run
    answers: Answers
    design: str
    executor: Executor
    latest: Forecast = field(init=False)
    trouble: str = ""
    """Why the last one could not be worked out; the one before it is shown."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: threading.Event = field(default_factory=threading.Event)
    _again: bool = False
    _extra: int = 0
    _stamp: str = ""

    def __post_init__(self) -> None:
        self._idle.set()
        self._stamp = self._now()
        self.latest = forecast(self.run, self.design)

    @property
    def busy(self) -> bool:
        """Whether a newer one is on its way."""
        return not self._idle.is_set()

    def look(self, extra: int = 0) -> None:
        """Work out another one where labels or models changed, by whomever."""
        with self._lock:
            stamp = self._now()
            if stamp == self._stamp and extra <= self._extra:
                return
            self._stamp, self._extra = stamp, max(extra, self._extra)
            if self.busy:
                self._again = True
                return
            self._idle.clear()
        self.executor.submit(self._work)

    def settle(self) -> None:
        """Wait until the newest forecast is of the newest labels."""
        self._idle.wait()

    def _work(self) -> None:
        while True:
            try:
                self.answers.look_again()
                self.latest, self.trouble = forecast(self.run, self.design, self._extra), ""
            except Exception as error:  # the app goes on with what it has: no label may be lost to a damaged table
                self.trouble = str(error)
            except BaseException:  # a panic below Python: nobody waits for ever
                self._idle.set()
                raise
            with self._lock:
                if not self._again:
                    self._idle.set()
                    return
                self._again = False

    def _now(self) -> str:
        """Of the names and sizes of all that labels and scores are in."""
        folder = self.run.folder
        files = [*folder.labels.glob("*.jsonl"), *(folder.tables / "scores").glob("*.parquet")]
        return " ".join(sorted(f"{path.name}:{path.stat().st_size}" for path in files))
