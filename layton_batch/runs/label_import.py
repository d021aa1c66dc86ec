"""Import of labels that people gave elsewhere: one file in the run's folder for each import, whole or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.files import atomic
from layton_batch.files.sources import unknown_item
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Annotation, annotation_row, latest
from layton_batch.text import did_you_mean, plural

_STRANGERS_SHOWN = 5


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
    replaced: int
    """Rows whose verdict another row of the same annotator on the same answer replaced."""
    stranger_rows: tuple[str, ...]
    """The first strangers: where each is, and what the run does not have."""
    outdated: int
    """Labels, added or changed, that were given on an earlier form of the item."""
    unnamed: int
    """Labels, added or changed, without an annotator."""

    def lines(self) -> list[str]:
        """Return the result in sentences."""
        sentences = [
            f"{self.run}: {plural(self.added, 'label')} added, {self.changed} changed, {self.unchanged} unchanged"
        ]
        if self.replaced:
            rows = plural(self.replaced, "row was", "rows were")
            sentences.append(f"{rows} replaced by a newer row of the same annotator on the same answer")
        if self.unnamed:
            sentences.append(
                f"{self.unnamed} of them without an annotator: they count as one person's, and only on answers that "
                "nobody labelled by name; if several people gave them, fill in the column `annotator`, and import again"
            )
        if self.strangers:
            sentences.append(f"{self.strangers} of them on answers that the run does not have (yet):")
            sentences += self.stranger_rows
            more = self.strangers - len(self.stranger_rows)
            sentences += [f"{plural(more, 'more such label')}"] if more else []
        if self.outdated:
            sentences.append(
                f"{self.outdated} of them given before the question or the reference of the item changed: they do not "
                "count; label these answers again"
            )
        return sentences


def check_has_jury(run: Run) -> None:
    """Raise DataError for a run whose answers a rule grades."""
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: it has no votes, and nothing for people to label")


def enter_labels(run: Run, given: Sequence[Annotation], source: str) -> LabelImport:
    """Write the given labels that differ from the run's present labels into a new file.

    A label that does not say on which form of the item it was given belongs to the present form. ``source``: for
    messages. Raises DataError where no label is on an answer of the run.
    """
    answers = _KnownAnswers.of_run(run)
    if given and all(map(answers.lacks, given)):
        raise DataError(
            f"{source}: no row is of a model and an item of {run.id}; nothing was imported. A row names the model as "
            f"the leaderboard does or as its provider does. {answers.reason(given[0])}"
        )
    active_by_subject = latest(run.load_labels().annotations)
    given = _with_one_spelling(given, {label.annotator for label in active_by_subject.values()})
    ids = run.model_ids()
    newest = {
        subject: _with_model(_with_item(label, active_by_subject.get(subject), run), ids)
        for subject, label in latest(given).items()
    }
    news = [label for subject, label in newest.items() if _is_news(label, active_by_subject.get(subject))]
    if news:
        content = b"".join(orjson.dumps(annotation_row(label)) + b"\n" for label in news)
        atomic.write_bytes(_free_name(run.folder.labels, content), content)
    strangers = [label for label in news if answers.lacks(label)]
    other_marks = [label for label in given if label.marks != newest[label.about].marks]
    newly_said = [label for label in news if label.about in active_by_subject]
    return LabelImport(
        run.id,
        added=len(news) - len(newly_said),
        changed=len(newly_said),
        unchanged=len(newest) - len(news),
        strangers=len(strangers),
        replaced=len(other_marks),
        stranger_rows=tuple(map(answers.reason, strangers[:_STRANGERS_SHOWN])),
        outdated=sum(_is_outdated(label, run.item_digest(label.item_id)) for label in news),
        unnamed=sum(not label.annotator for label in news),
    )


def _is_outdated(label: Annotation, item_digest: str | None) -> bool:
    """Return whether the label was given on another form of the item. ``item_digest``: None: the run lacks the item."""
    return None not in (label.item_digest, item_digest) and label.item_digest != item_digest


def _with_item(label: Annotation, active: Annotation | None, run: Run) -> Annotation:
    """Return the label with the digest of its item. ``active``: the present label; if it is the same label, which is
    imported again, its digest stays.
    """
    if label.item_digest is not None:
        return label
    if active is not None and (label.marks, label.time) == (active.marks, active.time):
        return replace(label, item_digest=active.item_digest)
    return replace(label, item_digest=run.item_digest(label.item_id))


def _with_one_spelling(given: Sequence[Annotation], present: Collection[str]) -> list[Annotation]:
    """Return the labels, each annotator under a name that is ``present``, or was given first, in other capitals."""
    spellings = {name.casefold(): name for name in present}
    return [
        label
        if label.annotator in present
        else replace(label, annotator=spellings.setdefault(label.annotator.casefold(), label.annotator))
        for label in given
    ]


def _with_model(label: Annotation, ids: Mapping[str, str]) -> Annotation:
    """Return the label with its model's id, which the row or the run knows. ``ids``: by name."""
    named = ids.get(label.model) or (label.model if label.model in ids.values() else None)
    return label if label.model_id is not None else replace(label, model_id=named)


def _is_news(label: Annotation, active: Annotation | None) -> bool:
    if active is None:
        return True
    is_other = label.marks != active.marks or active.item_digest not in (None, label.item_digest)
    return is_other and label.replaces(active)


def _free_name(folder: Path, content: bytes) -> Path:
    """Return a file name that sorts after every earlier import. It has the content's digest, so that two imports at
    once do not take the same name.
    """
    last = max((int(path.name[:6]) for path in folder.glob("[0-9]*.jsonl") if path.name[:6].isdigit()), default=0)
    return folder / f"{last + 1:06d}-{sha256(content).hexdigest()[:12]}.jsonl"


@dataclass(frozen=True, slots=True)
class _KnownAnswers:
    """The models (by all their names) and items of a run: labels can be on their answers alone."""

    models: frozenset[str]
    items: frozenset[str]

    @classmethod
    def of_run(cls, run: Run) -> _KnownAnswers:
        specs = (*run.manifest.model_specs(), *(job.spec for job in run.store.jobs()))  # of imported models too
        names = frozenset(name for spec in specs for name in (spec.name, spec.model))
        return cls(names, frozenset(item.id for item in run.items))

    def lacks(self, label: Annotation) -> bool:
        """Return whether the run cannot have the labelled answer."""
        is_other_model = label.prediction_text is None and not self.models & {label.model, label.also}
        return label.item_id not in self.items or is_other_model

    def reason(self, label: Annotation) -> str:
        """Say for a label that ``lacks`` where it is, and what the run does not have."""
        place = "" if label.location is None else f"{label.location}: "
        if label.item_id not in self.items:
            return f"{place}{unknown_item(label.item_id, self.items)}"
        return f"{place}the run has no model {label.model!r}{did_you_mean(label.model, sorted(self.models))}"
