"""The labels of a run: its gold set and annotations as they are now, each time it is scored, and what people did in the
labelling app.

The run keeps a copy of gold set and annotations as they were when it began: what is judged again is made from the gold
set's, and what became of the labels since is counted from them. A source that cannot be read gives way to the newest
copy, and that is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import file_digest, sha256
from itertools import chain
from pathlib import Path
from typing import TypeVar

import orjson

from layton_batch.clock import Clock, utc
from layton_batch.errors import DataError, FileError, file_error
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address, shown
from layton_batch.files.atomic import append_json_line
from layton_batch.files.run_folder import RunFolder, slug
from layton_batch.files.sources import RowLocation, Rows, read_rows, user_path
from layton_batch.manifest.asked import is_missing
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.rejudging import frozen_gold
from layton_batch.scoring.annotations import (
    Annotation,
    AnswerKey,
    annotation_row,
    latest,
    parse_annotation,
    parse_annotations,
)
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.gold import BUNDLED, HUMAN, GoldSet, bundled_gold, gold_rows, parse_gold
from layton_batch.settings import Settings
from layton_batch.text import plural

LABEL, UNSURE, SKIP, UNDO, FLAG, UNFLAG = "label", "unsure", "skip", "undo", "flag", "unflag"
ON_ANSWERS = (LABEL, UNSURE, SKIP)
"""Kinds of actions that an undo can take back."""
MANY_UNSURE = 0.05
"""Share of unsure answers from which a note says so (of those seen in the app), and intervals are wider (of all labels
and them)."""
_PREFIX = "annotate-"
Content = TypeVar("Content", GoldSet, list[Annotation])


@dataclass(frozen=True, slots=True)
class LabelAction:
    """Action of an annotator: one line of the log. ``answer``: a flag uses its item only. ``label``: set if ``kind`` is
    "label". ``adjudicated``: the label settles a dispute between annotators. ``item_digest``: digest of what the
    annotator saw of the item.
    """

    kind: str
    annotator: str
    time: str
    answer: AnswerKey
    label: Annotation | None = None
    note: str = ""
    adjudicated: bool = False
    item_digest: str | None = None


@dataclass(frozen=True, slots=True)
class LabelActions:
    """All actions of each annotator, in order. ``passed_over``: the reasons why lines of the logs do not count."""

    by_annotator: Mapping[str, Sequence[LabelAction]]
    passed_over: Sequence[str] = ()

    def on_present_answers(
        self, item_digest: Callable[[str], str | None], model_ids: Mapping[str, str]
    ) -> LabelActions:
        """Leave out what was done with answers to an earlier form of an item, or of another model of the same name.

        ``item_digest``: an item's digest today; ``model_ids``: by name, as their providers name them today.
        """

        def is_present(action: LabelAction) -> bool:
            labelled_model = None if action.label is None else action.label.model_id
            is_same_model = labelled_model in (None, model_ids.get(action.answer.model))
            return action.kind in (FLAG, UNFLAG) or (
                is_same_model and action.item_digest in (None, item_digest(action.answer.item_id))
            )

        present = {name: list(filter(is_present, actions)) for name, actions in self.by_annotator.items()}
        return replace(self, by_annotator=present)

    def active(self, annotator: str) -> list[LabelAction]:
        """Return an annotator's actions on answers that were not undone, in order."""
        active: list[LabelAction] = []
        for action in self.by_annotator.get(annotator, ()):
            if action.kind in ON_ANSWERS:
                active.append(action)
            elif action.kind == UNDO:
                about = (action.answer, action.adjudicated)
                at = next((i for i in reversed(range(len(active))) if _about(active[i]) == about), None)
                if at is not None:
                    del active[at]
        return active

    def _last_words(self) -> Iterator[LabelAction]:
        """Yield the last action of each annotator on each answer that says what it is, or that they are unsure."""
        for annotator in self.by_annotator:
            words = (action for action in self.active(annotator) if action.kind in (LABEL, UNSURE))
            yield from {_about(action): action for action in words}.values()

    def labels(self) -> Iterator[Annotation]:
        """Yield the labels that count. A later `unsure` on an answer removes its label."""
        return (action.label for action in self._last_words() if action.label is not None)

    def unsure(self) -> tuple[int, int]:
        """Return how many answers people are unsure about that nobody labelled in the app, and how many they saw."""
        words = list(self._last_words())
        seen = {action.answer for action in words}
        unsure = len(seen - {action.answer for action in words if action.kind == LABEL})
        return unsure, len(seen)

    def unsure_note(self) -> str | None:
        """Return a sentence where people are unsure about many answers that nobody labelled; None: about few."""
        unsure, seen = self.unsure()
        if not unsure or unsure < MANY_UNSURE * seen:
            return None
        return (
            f"people are unsure about {unsure} of {plural(seen, 'answer')}, which have no label: they may be the hard "
            "ones; `layton-batch label` shows them to somebody else"
        )

    def flags(self) -> dict[str, list[LabelAction]]:
        """Return the flags of each item that were not removed, at most one of each annotator."""
        flags_by_item: dict[str, dict[str, LabelAction]] = defaultdict(dict)
        for annotator, actions in self.by_annotator.items():
            for action in actions:
                if action.kind == FLAG:
                    flags_by_item[action.answer.item_id][annotator] = action
                elif action.kind == UNFLAG:
                    flags_by_item[action.answer.item_id].pop(annotator, None)
        return {item: list(flags.values()) for item, flags in flags_by_item.items() if flags}


def _about(action: LabelAction) -> tuple[AnswerKey, bool]:
    return action.answer, action.adjudicated


# ---- files -----------------------------------------------------------------------------------------------------------


def is_log(path: Path) -> bool:
    """Return whether a file of labels is a log of the app, which grows. A file of an import never changes."""
    return path.name.startswith(_PREFIX)


def log_paths(folder: RunFolder) -> list[Path]:
    """Return the log files of all annotators."""
    return sorted(path for path in folder.labels.glob("*.jsonl") if is_log(path))


def append(folder: RunFolder, action: LabelAction) -> None:
    """Append an action to its annotator's log. Raises FileError if it cannot be written; then it does not count."""
    path = folder.labels / f"{_PREFIX}{_file_name(action.annotator)}.jsonl"
    try:
        atomic.make_folder(path.parent)
        append_json_line(path, _row(action))
    except OSError as error:
        raise file_error(f"cannot write {path}: {error.strerror or error}; the label is not kept", error) from error


def _file_name(annotator: str) -> str:
    name = slug(annotator)
    # names that differ only in case are two files also where the file system knows no case
    return name if name == name.lower() else f"{name.lower()}-{sha256(annotator.encode()).hexdigest()[:6]}"


def read_label_actions(folder: RunFolder) -> LabelActions:
    """Read the actions of all annotators so far. Raises DataError for a file that cannot be read."""
    actions: dict[str, list[LabelAction]] = defaultdict(list)
    passed_over: list[str] = []
    for path in log_paths(folder):
        try:
            status = path.stat()
            lines, reasons = _read_log(path, status.st_size, status.st_mtime_ns)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
        for action in lines:
            actions[action.annotator].append(action)
        passed_over += reasons
    return LabelActions(actions, passed_over)


@lru_cache(maxsize=64)
def _read_log(path: Path, _size: int, _changed: int) -> tuple[list[LabelAction], list[str]]:
    """Read a log, once for each size and time: the app reads it for every page. Return its actions, and the reasons why
    lines were passed over: a bad line costs that line, not the labels of all."""
    actions, passed_over = list[LabelAction](), list[str]()
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        location = RowLocation(str(path), number)
        try:
            actions += [_parse_action(orjson.loads(line), location)] if line.strip() else []
        except orjson.JSONDecodeError:
            passed_over.append(f"{location}: is cut off: the machine stopped in between")
        except DataError as error:
            passed_over.append(str(error))
    return actions, passed_over


def _row(action: LabelAction) -> dict[str, object]:
    about = annotation_row(action.label) if action.label else action.answer._asdict()
    row: dict[str, object] = {"kind": action.kind, **about}
    row |= {"annotator": action.annotator, "time": action.time}
    if action.item_digest is not None:
        row["item_digest"] = action.item_digest
    if action.note:
        row["note"] = action.note
    if action.adjudicated:
        row["adjudicated"] = True
    return {**row, _CHECK: _check_of(row)}


_CHECK = "check"
"""The field that holds the digest of a line's other fields. A line that somebody else wrote may do without."""


def _check_of(row: Mapping[str, object]) -> str:
    return sha256(orjson.dumps(row)).hexdigest()[:16]


def _parse_action(row: object, location: RowLocation) -> LabelAction:
    if not isinstance(row, dict):
        raise DataError(f"{location}: is no line of the labelling app")
    kind, names = row.get("kind"), ("item_id", "provider", "model", "annotator", "time")
    texts = [value for name in names if isinstance(value := row.get(name), str)]
    hints, note, item_digest = row.get("n_hints"), row.get("note"), row.get("item_digest")
    if _CHECK in row and row[_CHECK] != _check_of({name: value for name, value in row.items() if name != _CHECK}):
        raise DataError(f"{location}: was changed since the labelling app wrote it")
    if kind not in (*ON_ANSWERS, UNDO, FLAG, UNFLAG) or len(texts) < len(names) or not isinstance(hints, int):
        raise DataError(f"{location}: is no line of the labelling app; `label import` takes labels from elsewhere")
    item_id, provider, model, annotator, time = texts
    return LabelAction(
        str(kind),
        annotator,
        time,
        AnswerKey(item_id, provider, model, hints),
        parse_annotation(row, location) if kind == LABEL else None,
        note if isinstance(note, str) else "",
        row.get("adjudicated") is True,
        item_digest if isinstance(item_digest, str) else None,
    )


@dataclass(frozen=True, slots=True)
class LabelChange:
    """Numbers of labels that differ from those at the run's beginning."""

    added: int = 0
    changed: int = 0
    gone: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.gone)


_MOST_NOTED = 5
"""Lines that are named one by one."""


@dataclass(frozen=True, slots=True)
class Labels:
    """People's labels as they are now. ``digest``: SHA-256 digest of gold set and annotations. ``notes``: sources that
    could not be read, and the copies used instead. ``unsure``: the unsure answers' share of these and all
    labels; 0: of few.
    """

    gold: GoldSet | None = None
    annotations: tuple[Annotation, ...] = ()
    change: LabelChange = field(default_factory=LabelChange)
    notes: tuple[str, ...] = ()
    digest: str = ""
    unsure: float = 0.0


@dataclass(eq=False)
class LabelSources:
    """Sources of a run's labels. An address is fetched once; a file is read again whenever it may have changed.

    ``forgiving``: use the run's copy also for rows that are no labels, so that a mistake in a file of labels stops no
    collecting of paid answers. Else such rows raise DataError. ``only_copies``: read no source that the run has a copy
    of.
    """

    manifest: Manifest
    folder: RunFolder
    settings: Settings
    clock: Clock
    bundled_items: Path | None
    forgiving: bool = False
    only_copies: bool = False
    _fetched: dict[str, Rows | DataError] = field(default_factory=dict)
    _known: Labels | None = None
    _raw: str = ""

    def read(self) -> Labels:
        """Read the present labels. Raises DataError naming file and line for rows that are no labels."""
        raw = self._fingerprint()
        if self._known is None or raw is None or raw != self._raw:
            self._known, self._raw = self._read(), raw or ""
        return self._known

    @property
    def _sources(self) -> tuple[str | None, str | None]:
        """Return the manifest's sources of the gold set and of annotations."""
        table = self.manifest.gold
        return (None, None) if table is None else (table.source, table.annotations)

    def check(self) -> None:
        """Check the annotations before the run begins. A missing file is no fault. Raises DataError naming file and
        line for rows that are no labels."""
        _, source = self._sources
        is_new = source is not None and not self.folder.annotations(source).exists()
        if source and is_new and not is_missing(source, self.manifest, self.settings):
            parse_annotations(read_rows(source, self.manifest.folder, self.settings, self.clock))

    def keep_first(self, gold: GoldSet | None) -> None:
        """Copy the labels at the run's beginning, unless there is a copy. A source named later is copied as empty."""
        gold_source, source = self._sources
        if gold is not None and gold_source is not None and not self.folder.gold(gold_source).exists():
            _write(self.folder.gold(gold_source), gold_rows(frozen_gold(self.manifest, gold)))
        if source is not None and not (copy := self.folder.annotations(source)).exists():
            has_begun = self.folder.part("items", "items").exists()
            with suppress(FileError):
                _write(copy, () if has_begun else map(annotation_row, self._annotations([], keep=False)))

    # ---- one reading -------------------------------------------------------------------------------------------------

    def _fingerprint(self) -> str | None:
        """Return the digest of all sources, without parsing them. None: a source has to be read for it."""
        parts = [str(path) for path in self._imported()]
        parts += [f"{path} {path.stat().st_size}" for path in log_paths(self.folder)]
        for source in () if self.only_copies else self._sources:
            if source is None or source == BUNDLED or is_address(source):
                continue
            path = self.manifest.folder / user_path(source)
            if is_missing(source, self.manifest, self.settings):
                parts.append("missing")
            elif path.is_file():
                with suppress(OSError), path.open("rb") as content:
                    parts.append(file_digest(content, "sha256").hexdigest())
            else:
                return None
        return sha256("\x1f".join(parts).encode()).hexdigest()

    def _read(self) -> Labels:
        notes: list[str] = []
        gold = self._gold(notes)
        actions = read_label_actions(self.folder)
        notes += _action_notes(actions)
        annotations = [*self._annotations(notes, keep=True), *self.imported(), *actions.labels()]
        marks, (unsure, _) = _marks(gold, annotations), actions.unsure()
        share = unsure / max(unsure + len(marks), 1)
        return Labels(
            gold=gold,
            annotations=tuple(annotations),
            change=_changed(self._first(), marks),
            notes=tuple(notes),
            digest=_digest(
                chain(
                    gold_rows(gold) if gold else (),
                    map(annotation_row, annotations),
                    [{UNSURE: unsure}] if unsure else (),
                )
            ),
            unsure=share if share >= MANY_UNSURE else 0.0,
        )

    def _gold(self, notes: list[str]) -> GoldSet | None:
        source, _ = self._sources
        if source is None:
            return None
        return self._from(
            source, self.folder.gold(source), lambda rows: parse_gold(rows.placed()), gold_rows, None, notes
        )

    def _annotations(self, notes: list[str], *, keep: bool) -> list[Annotation]:
        _, source = self._sources
        if source is None:
            return []
        first = self.folder.annotations(source)
        return self._from(source, first, parse_annotations, partial(map, annotation_row), [], notes, keep=keep)

    def _from(
        self,
        source: str,
        first: Path,
        parse: Callable[[Rows], Content],
        rows_of: Callable[[Content], Iterable[Mapping[str, object]]],
        nothing: Content | None,
        notes: list[str],
        *,
        keep: bool = True,
    ) -> Content:
        """Read a source of labels, or its newest copy. ``first``: the copy of the run's beginning. ``nothing``: what
        stands for a source without a copy that cannot be read; None: then its error is raised. ``keep``: copy what was
        read, if there is a first copy, in case the source cannot be read later."""
        newest = first.with_name(f"{first.stem}.newest.jsonl")
        copy = newest if newest.exists() else first
        has_copy = copy.exists() and copy.stat().st_size > 0
        if self.only_copies and has_copy:
            return parse(self._stored(copy))
        if self.only_copies and nothing is not None:
            return nothing
        try:
            content = parse(self._rows(source))
        except DataError as error:
            if not self._may_use_copy(source):
                raise
            if has_copy:
                day = utc(copy.stat().st_mtime).date()
                notes.append(f"{shown(str(error))}; the run's copy of {day} is used")
                return parse(self._stored(copy))
            if nothing is None:
                raise
            notes.append(f"{error}; no labels are taken from there")
            return nothing
        if keep and copy.exists() and not _holds(copy, rows_of(content)):
            with suppress(FileError):  # the old copy stays if the folder cannot be written
                _write(newest, rows_of(content))
        return content

    def _stored(self, path: Path) -> Rows:
        return read_rows(str(path.resolve()), path.parent, self.settings, self.clock)

    def _rows(self, source: str) -> Rows:
        """Read the rows of a source. An address is fetched once and with few retries, because there is a copy."""
        if source == BUNDLED:
            source = bundled_gold(self.bundled_items)
        if not is_address(source):
            return read_rows(source, self.manifest.folder, self.settings, self.clock)
        if source not in self._fetched:
            try:
                self._fetched[source] = read_rows(
                    source, self.manifest.folder, self.settings, self.clock, patient=False
                )
            except DataError as error:
                self._fetched[source] = error
        rows = self._fetched[source]
        if isinstance(rows, DataError):
            raise rows
        return rows

    def _may_use_copy(self, source: str) -> bool:
        """Return whether the copy may be used: the source is missing or out of reach, or all faults are forgiven."""
        is_out_of_reach = is_address(source) and isinstance(self._fetched.get(source), DataError)
        return self.forgiving or is_out_of_reach or is_missing(source, self.manifest, self.settings)

    # ---- what was imported -----------------------------------------------------------------------------------------

    def _imported(self) -> list[Path]:
        return sorted(path for path in self.folder.labels.glob("*.jsonl") if not is_log(path))

    def imported(self) -> list[Annotation]:
        """Read the labels that were imported, in the order of the imports."""
        annotations: list[Annotation] = []
        for path in self._imported():
            try:
                annotations += parse_annotations(self._stored(path))
            except DataError as error:
                raise DataError(
                    f"{error}. Put the file back from a copy; or move it away and import its labels again: "
                    f"`layton-batch import {self.folder.root.name} --labels FILE`"
                ) from error
        return annotations

    def _first(self) -> Mapping[tuple[object, ...], object]:
        """Read the labels of the run's beginning, by subject."""
        gold, annotations = None, list[Annotation]()
        gold_source, source = self._sources
        if gold_source is not None and (copy := self.folder.gold(gold_source)).exists():
            gold = parse_gold(self._stored(copy).placed())
        if source is not None and (copy := self.folder.annotations(source)).exists() and copy.stat().st_size:
            annotations = parse_annotations(self._stored(copy))
        return _marks(gold, annotations)


def _action_notes(actions: LabelActions) -> Iterator[str]:
    """Yield the notes on the labelling app's logs."""
    yield from (f"{reason}; the line is passed over" for reason in actions.passed_over[:_MOST_NOTED])
    if (more := len(actions.passed_over) - _MOST_NOTED) > 0:
        yield f"{plural(more, 'more line')} of the labelling app's files passed over"
    if note := actions.unsure_note():
        yield note


def _marks(gold: GoldSet | None, annotations: Sequence[Annotation]) -> dict[tuple[object, ...], object]:
    """Return every label by its subject."""
    marks: dict[tuple[object, ...], object] = {}
    if gold:
        labels = gold.labelled.select(*PREDICTION, *HUMAN.values()).iter_rows()
        marks = {("gold", *label[: len(PREDICTION)]): label[len(PREDICTION) :] for label in labels}
    for about, annotation in latest(annotations).items():
        marks[("annotation", *about)] = annotation.marks
    return marks


def _changed(then: Mapping[tuple[object, ...], object], now: Mapping[tuple[object, ...], object]) -> LabelChange:
    return LabelChange(
        added=len(now.keys() - then.keys()),
        changed=sum(now[key] != then[key] for key in now.keys() & then.keys()),
        gone=len(then.keys() - now.keys()),
    )


def _holds(path: Path, rows: Iterable[Mapping[str, object]]) -> bool:
    with path.open("rb") as held:
        return file_digest(held, "sha256").hexdigest() == _digest(rows)


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    with atomic.writing(path) as handle:
        handle.writelines(map(_line, rows))


def _line(row: Mapping[str, object]) -> bytes:
    return orjson.dumps(row) + b"\n"


def _digest(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the SHA-256 digest of the rows as JSON Lines."""
    digest = sha256()
    for line in map(_line, rows):
        digest.update(line)
    return digest.hexdigest()
