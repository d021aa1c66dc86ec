"""Import of labels that people gave elsewhere: one file in the run's folder for each import, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Annotation, annotation_row, latest
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class LabelImport:
    """Result of an import, in numbers of labels. ``unchanged``: equal to the present label, or older.

    ``strangers``: added or changed, but on a model or an item that the run does not have (yet).
    """

    run: str
    added: int
    changed: int
    unchanged: int
    strangers: int

    def lines(self) -> list[str]:
        """Return the result in sentences."""
        sentences = [
            f"{self.run}: {plural(self.added, 'label')} added, {self.changed} changed, {self.unchanged} unchanged"
        ]
        if self.strangers:
            sentences.append(f"{self.strangers} of them are of models or items that the run does not have")
        return sentences


def check_for_people(run: Run) -> None:
    """Raise DataError for a run whose answers people do not label."""
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: there is nothing for people to label")


def enter_labels(run: Run, given: Sequence[Annotation], source: str) -> LabelImport:
    """Add labels to the run's. ``source``: for messages. Raises DataError where none is on an answer of the run."""
    strange = _strangers(run, given)
    if given and strange == set(map(_key, given)):
        raise DataError(
            f"{source}: no row is of a model and an item of {run.id}; nothing was imported. A row names the model as "
            "the leaderboard does or as its provider does"
        )
    return add_labels(run.id, run.folder, given, run.load_labels().annotations, strange)


def add_labels(
    run_id: str,
    folder: RunFolder,
    given: Sequence[Annotation],
    active: Sequence[Annotation],
    strange: set[tuple[str, str]] | None = None,
) -> LabelImport:
    """Write the given labels that differ from the present labels (``active``) into a new file."""
    active_by_subject, newest = latest(active), latest(given)
    news = [label for subject, label in newest.items() if _is_news(label, active_by_subject.get(subject))]
    if news:
        content = b"".join(orjson.dumps(annotation_row(label)) + b"\n" for label in news)
        atomic.write_bytes(_free_name(folder.labels, content), content)
    changed = sum(label.about in active_by_subject for label in news)
    strangers = sum(_key(label) in (strange or ()) for label in news)
    return LabelImport(run_id, len(news) - changed, changed, len(newest) - len(news), strangers)


def _is_news(label: Annotation, active: Annotation | None) -> bool:
    if active is None:
        return True
    same = all(label.mark(metric) == active.mark(metric) for metric in _METRICS)
    return not same and label.replaces(active)


_METRICS = ("answer_correct", "justification_correct", "both_correct")


def _free_name(folder: Path, content: bytes) -> Path:
    """Return a file name that sorts after every earlier import. It has the content's digest, so that two imports at
    once do not take the same name.
    """
    last = max((int(path.name[:6]) for path in folder.glob("[0-9]*.jsonl") if path.name[:6].isdigit()), default=0)
    return folder / f"{last + 1:06d}-{sha256(content).hexdigest()[:12]}.jsonl"


def _key(label: Annotation) -> tuple[str, str]:
    return label.item_id, label.model


def _strangers(run: Run, given: Sequence[Annotation]) -> set[tuple[str, str]]:
    """Return (item id, model) of the labels on answers that the run cannot have."""
    specs = (*run.manifest.model_specs(), *(job.spec for job in run.store.jobs()))  # of imported models too
    names = {name for spec in specs for name in (spec.name, spec.model)}
    items: Mapping[str, None] = dict.fromkeys(item.id for item in run.items)
    return {
        _key(label)
        for label in given
        if label.item_id not in items or (label.said is None and not names & {label.model, label.also})
    }
