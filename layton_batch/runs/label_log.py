"""The actions of people in the labelling app: a file for each annotator in the run's ``labels`` folder.

Lines are only appended, and are on the disk before the app answers. A line that was cut off (by a power failure) is
passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.errors import DataError, file_error
from layton_batch.files import atomic
from layton_batch.files.json_lines import append_json_line
from layton_batch.files.run_folder import RunFolder, slug
from layton_batch.files.sources import Row, RowLocation
from layton_batch.scoring.annotations import Annotation, annotation_row, parse_annotation

LABEL, UNSURE, SKIP, UNDO, FLAG, UNFLAG = "label", "unsure", "skip", "undo", "flag", "unflag"
ON_ANSWERS = (LABEL, UNSURE, SKIP)
"""Kinds of actions that an undo can take back."""
_PREFIX = "annotate-"


@dataclass(frozen=True, slots=True)
class LabelAction:
    """Action of an annotator: one line of the log. ``answer``: item, provider, model and hint level; a flag uses the
    item only. ``label``: set if ``kind`` is "label". ``adjudicated``: the label settles a dispute between annotators.
    ``item_digest``: digest of what the annotator saw of the item.
    """

    kind: str
    annotator: str
    time: str
    answer: tuple[str, str, str, int]
    label: Annotation | None = None
    note: str = ""
    adjudicated: bool = False
    item_digest: str | None = None


@dataclass(frozen=True, slots=True)
class LabelActions:
    """All actions of each annotator, in order. ``damaged``: the number of unreadable lines of each file.

    ``foreign``: the reasons why lines that the app did not write were passed over.
    """

    by_annotator: Mapping[str, Sequence[LabelAction]]
    damaged: Mapping[Path, int] = field(default_factory=dict)
    foreign: Sequence[str] = ()

    def on_present_answers(
        self, item_digest: Callable[[str], str | None], model_ids: Mapping[str, str]
    ) -> LabelActions:
        """Leave out what was done with answers to an earlier form of an item, or of another model of the same name.

        ``item_digest``: an item's digest today; ``model_ids``: by name, as their providers name them today.
        """

        def is_present(action: LabelAction) -> bool:
            item_id, _, model, _ = action.answer
            labelled_model = None if action.label is None else action.label.model_id
            is_same_model = labelled_model in (None, model_ids.get(model))
            return action.kind in (FLAG, UNFLAG) or (
                is_same_model and action.item_digest in (None, item_digest(item_id))
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

    def labels(self) -> Iterator[Annotation]:
        """Yield the labels that count. A later `unsure` on an answer removes its label."""
        for annotator in self.by_annotator:
            last: dict[tuple[tuple[str, str, str, int], bool], LabelAction] = {}
            for action in self.active(annotator):
                if action.kind in (LABEL, UNSURE):
                    last[_about(action)] = action
            yield from (action.label for action in last.values() if action.label is not None)

    def flags(self) -> dict[str, list[LabelAction]]:
        """Return the flags of each item that were not removed, at most one of each annotator."""
        flags_by_item: dict[str, dict[str, LabelAction]] = defaultdict(dict)
        for annotator, actions in self.by_annotator.items():
            for action in actions:
                if action.kind == FLAG:
                    flags_by_item[action.answer[0]][annotator] = action
                elif action.kind == UNFLAG:
                    flags_by_item[action.answer[0]].pop(annotator, None)
        return {item: list(flags.values()) for item, flags in flags_by_item.items() if flags}


def _about(action: LabelAction) -> tuple[tuple[str, str, str, int], bool]:
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
    """Read the actions of all annotators. Raises DataError for a file that cannot be read."""
    return LogReader(folder).read()


@dataclass(eq=False)
class LogReader:
    """Reader of the logs that remembers how far it read each file, and reads only appended lines."""

    folder: RunFolder
    _at: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """How far each file was read, in bytes and in lines."""
    _actions: dict[str, list[LabelAction]] = field(default_factory=dict)
    _damaged: dict[Path, int] = field(default_factory=dict)
    _foreign: list[str] = field(default_factory=list)
    _cut: set[Path] = field(default_factory=set)
    _whole: LabelActions | None = None

    def read(self) -> LabelActions:
        """Read the actions of all annotators so far. Raises as :func:`read_label_actions`."""
        has_news = [self._read(path) for path in log_paths(self.folder)]
        if any(has_news) or self._whole is None:
            damaged = {path: self._damaged.get(path, 0) + (path in self._cut) for path in (*self._damaged, *self._cut)}
            by_annotator = {name: tuple(actions) for name, actions in self._actions.items()}
            self._whole = LabelActions(by_annotator, damaged, tuple(self._foreign))
        return self._whole

    def _read(self, path: Path) -> bool:
        done, before = self._at.get(path, (0, 0))
        try:
            with path.open("rb") as handle:
                handle.seek(done)
                content = handle.read()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
        *lines, rest = content.split(b"\n")
        if _decoded(rest) is not None:
            lines, rest = [*lines, rest], b""
        for number, line in enumerate(lines, before + 1):
            self._take(line, RowLocation(str(path), number), path)
        # an incomplete line was cut off, or is being written and will be complete at the next reading
        (self._cut.add if rest.strip() else self._cut.discard)(path)
        self._at[path] = (done + len(content) - len(rest), before + len(lines))
        return bool(content)

    def _take(self, line: bytes, location: RowLocation, path: Path) -> None:
        row = _decoded(line)
        if row is not None:
            try:
                action = _parse_action(row, location)
            except DataError as error:  # a foreign line costs that line, not the labels of all
                self._foreign.append(str(error))
                return
            self._actions.setdefault(action.annotator, []).append(action)
        elif line.strip():
            self._damaged[path] = self._damaged.get(path, 0) + 1


def _decoded(line: bytes) -> Row | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _row(action: LabelAction) -> dict[str, object]:
    item_id, provider, model, n_hints = action.answer
    about = {"item_id": item_id, "provider": provider, "model": model, "n_hints": n_hints}
    row: dict[str, object] = {"kind": action.kind, **(annotation_row(action.label) if action.label else about)}
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


def _parse_action(row: Row, location: RowLocation) -> LabelAction:
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
        (item_id, provider, model, hints),
        parse_annotation(row, location) if kind == LABEL else None,
        note if isinstance(note, str) else "",
        row.get("adjudicated") is True,
        item_digest if isinstance(item_digest, str) else None,
    )
