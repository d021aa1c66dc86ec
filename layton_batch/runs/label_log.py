"""What a person does in the labelling app, kept at once: a file for each annotator in the run's ``labels`` folder.

Lines are only ever appended, and have reached the disk before the app answers. A line that was cut off (the machine
lost its power) is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.errors import DataError, file_error
from layton_batch.files import atomic
from layton_batch.files.json_lines import append_json_line
from layton_batch.files.run_folder import RunFolder, slug
from layton_batch.files.sources import Place, Row
from layton_batch.scoring.annotations import Annotation, annotation_row, parse_annotation

LABEL, UNSURE, SKIP, UNDO, FLAG, UNFLAG = "label", "unsure", "skip", "undo", "flag", "unflag"
ON_ANSWERS = (LABEL, UNSURE, SKIP)
"""What the next undo takes back."""
_PREFIX = "annotate-"


@dataclass(frozen=True, slots=True)
class Deed:
    """One line: who did what, and when. ``answer``: item, provider, model and hint level; of a flag the item alone
    counts. ``label``: only of a label; ``adjudicated``: it, or what is undone, settles what others disagree on."""

    kind: str
    annotator: str
    time: str
    answer: tuple[str, str, str, int]
    label: Annotation | None = None
    note: str = ""
    adjudicated: bool = False


@dataclass(frozen=True, slots=True)
class Deeds:
    """All deeds, by annotator in the order they were done. ``damaged``: how many lines of a file could not be read.
    ``foreign``: why whole lines, which the app did not write, were passed over."""

    by_annotator: Mapping[str, Sequence[Deed]]
    damaged: Mapping[Path, int] = field(default_factory=dict)
    foreign: Sequence[str] = ()

    def standing(self, annotator: str) -> list[Deed]:
        """What an annotator did on answers and did not take back, in order."""
        stands: list[Deed] = []
        for deed in self.by_annotator.get(annotator, ()):
            if deed.kind in ON_ANSWERS:
                stands.append(deed)
            elif deed.kind == UNDO:
                about = (deed.answer, deed.adjudicated)
                at = next((i for i in reversed(range(len(stands))) if _about(stands[i]) == about), None)
                if at is not None:
                    del stands[at]
        return stands

    def labels(self) -> Iterator[Annotation]:
        """What stands as labels: a later `unsure` about an answer takes its label away."""
        for annotator in self.by_annotator:
            last: dict[tuple[tuple[str, str, str, int], bool], Deed] = {}
            for deed in self.standing(annotator):
                if deed.kind in (LABEL, UNSURE):
                    last[_about(deed)] = deed
            yield from (deed.label for deed in last.values() if deed.label is not None)

    def flags(self) -> dict[str, list[Deed]]:
        """By item, the flags that stand, one of each annotator at most."""
        found: dict[str, dict[str, Deed]] = defaultdict(dict)
        for annotator, deeds in self.by_annotator.items():
            for deed in deeds:
                if deed.kind == FLAG:
                    found[deed.answer[0]][annotator] = deed
                elif deed.kind == UNFLAG:
                    found[deed.answer[0]].pop(annotator, None)
        return {item: list(flags.values()) for item, flags in found.items() if flags}


def _about(deed: Deed) -> tuple[tuple[str, str, str, int], bool]:
    return deed.answer, deed.adjudicated


# ---- files -----------------------------------------------------------------------------------------------------------


def is_log(path: Path) -> bool:
    """Whether a file among the labels is the app's, which grows, not an import, which never changes."""
    return path.name.startswith(_PREFIX)


def log_paths(folder: RunFolder) -> list[Path]:
    """The files of all annotators."""
    return sorted(path for path in folder.labels.glob("*.jsonl") if is_log(path))


def append(folder: RunFolder, deed: Deed) -> None:
    """Keep a deed for good. Raises FileError where it cannot be written; then nothing counts as done."""
    path = folder.labels / f"{_PREFIX}{_file_name(deed.annotator)}.jsonl"
    try:
        atomic.make_folder(path.parent)
        append_json_line(path, _row(deed))
        atomic.has_grown(path)
    except OSError as error:
        raise file_error(f"cannot write {path}: {error.strerror or error}; the label is not kept", error) from error


def _file_name(annotator: str) -> str:
    name = slug(annotator)
    # names that differ only in case are two files also where the file system knows no case
    return name if name == name.lower() else f"{name.lower()}-{sha256(annotator.encode()).hexdigest()[:6]}"


def read_deeds(folder: RunFolder) -> Deeds:
    """The deeds of all annotators. Raises DataError for a file that cannot be read."""
    return LogReader(folder).read()


@dataclass(eq=False)
class LogReader:
    """Reads what was appended since it read before, for whoever has to know at every step."""

    folder: RunFolder
    _at: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """By file: how far it was read, in bytes and in lines."""
    _deeds: dict[str, list[Deed]] = field(default_factory=dict)
    _damaged: dict[Path, int] = field(default_factory=dict)
    _foreign: list[str] = field(default_factory=list)
    _cut: set[Path] = field(default_factory=set)
    _whole: Deeds | None = None

    def read(self) -> Deeds:
        """What all annotators did so far. Raises as :func:`read_deeds`."""
        has_news = [self._read(path) for path in log_paths(self.folder)]
        if any(has_news) or self._whole is None:
            damaged = {path: self._damaged.get(path, 0) + (path in self._cut) for path in (*self._damaged, *self._cut)}
            by_annotator = {name: tuple(deeds) for name, deeds in self._deeds.items()}
            self._whole = Deeds(by_annotator, damaged, tuple(self._foreign))
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
            self._take(line, Place(str(path), number), path)
        # what is no line yet was cut off, or is being written and comes with the next reading
        (self._cut.add if rest.strip() else self._cut.discard)(path)
        self._at[path] = (done + len(content) - len(rest), before + len(lines))
        return bool(content)

    def _take(self, line: bytes, place: Place, path: Path) -> None:
        row = _decoded(line)
        if row is not None:
            try:
                deed = _deed(row, place)
            except DataError as error:  # a line that somebody else wrote costs that line, not the labels of all
                self._foreign.append(str(error))
                return
            self._deeds.setdefault(deed.annotator, []).append(deed)
        elif line.strip():
            self._damaged[path] = self._damaged.get(path, 0) + 1


def _decoded(line: bytes) -> Row | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _row(deed: Deed) -> dict[str, object]:
    item_id, provider, model, n_hints = deed.answer
    about = {"item_id": item_id, "provider": provider, "model": model, "n_hints": n_hints}
    row: dict[str, object] = {"kind": deed.kind, **(annotation_row(deed.label) if deed.label else about)}
    row |= {"annotator": deed.annotator, "time": deed.time}
    if deed.note:
        row["note"] = deed.note
    if deed.adjudicated:
        row["adjudicated"] = True
    return {**row, _CHECK: _check_of(row)}


_CHECK = "check"
"""The field that holds the digest of a line's other fields. A line that somebody else wrote may do without."""


def _check_of(row: Mapping[str, object]) -> str:
    return sha256(orjson.dumps(row)).hexdigest()[:16]


def _deed(row: Row, place: Place) -> Deed:
    kind, names = row.get("kind"), ("item_id", "provider", "model", "annotator", "time")
    texts = [value for name in names if isinstance(value := row.get(name), str)]
    hints, note = row.get("n_hints"), row.get("note")
    if _CHECK in row and row[_CHECK] != _check_of({name: value for name, value in row.items() if name != _CHECK}):
        raise DataError(f"{place}: was changed since the labelling app wrote it")
    if kind not in (*ON_ANSWERS, UNDO, FLAG, UNFLAG) or len(texts) < len(names) or not isinstance(hints, int):
        raise DataError(f"{place}: is no line of the labelling app; `import --annotations` takes labels from elsewhere")
    item_id, provider, model, annotator, time = texts
    return Deed(
        str(kind),
        annotator,
        time,
        (item_id, provider, model, hints),
        parse_annotation(row, place) if kind == LABEL else None,
        note if isinstance(note, str) else "",
        row.get("adjudicated") is True,
    )
