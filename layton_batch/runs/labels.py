"""The labels of a run: its gold set and annotations as they are now, each time it is scored.

The run keeps a copy of both as they were when it began: what is judged again is made from the gold set's, and what
became of the labels since is counted from them. A source that cannot be read gives way to the newest copy, and that
is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from itertools import chain, zip_longest
from pathlib import Path

import orjson

from layton_batch.clock import Clock, utc
from layton_batch.errors import DataError, FileError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address, shown
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import Rows, placed_rows, read_rows
from layton_batch.manifest.asked import is_missing
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.label_log import is_log, log_paths, read_label_actions
from layton_batch.runs.rejudging import frozen_gold
from layton_batch.scoring.annotations import Annotation, annotation_row, latest, parse_annotations
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.gold import HUMAN, GoldSet
from layton_batch.scoring.gold_file import BUNDLED, bundled_gold, gold_rows, parse_gold
from layton_batch.settings import Settings
from layton_batch.text import plural


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
    could not be read, and the copies used instead.
    """

    gold: GoldSet | None = None
    annotations: tuple[Annotation, ...] = ()
    change: LabelChange = field(default_factory=LabelChange)
    notes: tuple[str, ...] = ()
    digest: str = ""


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

    def check(self) -> None:
        """Check the annotations before the run begins. Raises DataError naming file and line for rows that are none."""
        table = self.manifest.gold
        if table is not None and table.annotations and not self.folder.annotations(table.annotations).exists():
            check_annotations(self.manifest, self.settings, self.clock)

    def keep_first(self, gold: GoldSet | None) -> None:
        """Copy the labels at the run's beginning, unless there is a copy. A source named later is copied as empty."""
        table = self.manifest.gold
        if table is None:
            return
        if gold is not None and table.source is not None and not self.folder.gold(table.source).exists():
            _write(self.folder.gold(table.source), gold_rows(frozen_gold(self.manifest, gold)))
        if table.annotations is not None and not (copy := self.folder.annotations(table.annotations)).exists():
            has_begun = self.folder.part("items", "items").exists()
            with suppress(FileError):
                _write(copy, () if has_begun else map(annotation_row, self._annotations([], keep=False)))

    # ---- one reading -------------------------------------------------------------------------------------------------

    def _fingerprint(self) -> str | None:
        """Return the digest of all sources, without parsing them. None: a source has to be read for it."""
        parts = [str(path) for path in self._imported()]
        parts += [f"{path} {path.stat().st_size}" for path in log_paths(self.folder)]
        table = self.manifest.gold
        for source in (table.source, table.annotations) if table and not self.only_copies else ():
            if source is None or source == BUNDLED or is_address(source):
                continue
            path = self.manifest.folder / Path(source).expanduser()
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
        annotations = [*self._annotations(notes, keep=True), *self.imported(), *self._made_in_app(notes)]
        return Labels(
            gold=gold,
            annotations=tuple(annotations),
            change=_changed(self._first(), _marks(gold, annotations)),
            notes=tuple(notes),
            digest=_digest(chain(gold_rows(gold) if gold else (), map(annotation_row, annotations))),
        )

    def _gold(self, notes: list[str]) -> GoldSet | None:
        table = self.manifest.gold
        if table is None or table.source is None:
            return None
        source = table.source
        first, newest = self.folder.gold(source), _newest(self.folder.gold(source))
        if self.only_copies and (copy := _first_there(newest, first)):
            return parse_gold(placed_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        try:
            gold = parse_gold(self._rows(source).placed())
        except DataError as error:
            copy = _first_there(newest, first)
            if copy is None or not self._may_use_copy(source):
                raise
            notes.append(_copy_used(error, copy))
            return parse_gold(placed_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        _keep(lambda: gold_rows(gold), newest, first)
        return gold

    def _annotations(self, notes: list[str], *, keep: bool) -> list[Annotation]:
        table = self.manifest.gold
        if table is None or table.annotations is None:
            return []
        source = table.annotations
        first, newest = self.folder.annotations(source), _newest(self.folder.annotations(source))
        if self.only_copies:
            copy = _first_there(newest, first)
            if copy is None or not copy.stat().st_size:
                return []
            return parse_annotations(read_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        try:
            annotations = parse_annotations(self._rows(source))
        except DataError as error:
            if not self._may_use_copy(source):
                raise
            copy = _first_there(newest, first)
            if copy is None or not copy.stat().st_size:
                notes.append(f"{error}; no labels are taken from there")
                return []
            notes.append(_copy_used(error, copy))
            return parse_annotations(read_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        if keep:
            _keep(lambda: map(annotation_row, annotations), newest, first)
        return annotations

    def _rows(self, source: str) -> Rows:
        """Read the rows of a source. An address is fetched once and with few retries, because there is a copy."""
        if source == BUNDLED:
            if self.bundled_items is None:
                raise DataError("gold source 'bundled': this task has no bundled gold set")
            source = str(bundled_gold(self.bundled_items))
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
                annotations += parse_annotations(read_rows(str(path.resolve()), path.parent, self.settings, self.clock))
            except DataError as error:
                raise DataError(
                    f"{error}. Put the file back from a copy; or move it away and import its labels again: "
                    f"`layton-batch import {self.folder.root.name} --labels FILE`"
                ) from error
        return annotations

    def _made_in_app(self, notes: list[str]) -> list[Annotation]:
        actions = read_label_actions(self.folder)
        for path, count in actions.damaged.items():
            notes.append(f"{path}: {plural(count, 'line')} cut off and passed over: the machine stopped in between")
        notes += [f"{reason}; the line is passed over" for reason in actions.foreign[:_MOST_NOTED]]
        if (more := len(actions.foreign) - _MOST_NOTED) > 0:
            notes.append(f"{plural(more, 'more line')} of the labelling app's files passed over")
        return list(actions.labels())

    def _first(self) -> Mapping[tuple[object, ...], object]:
        """Read the labels of the run's beginning, by subject."""
        table = self.manifest.gold
        gold, annotations = None, list[Annotation]()
        if table is not None and table.source is not None and (copy := self.folder.gold(table.source)).exists():
            gold = parse_gold(placed_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        if table is not None and table.annotations is not None:
            copy = self.folder.annotations(table.annotations)
            if copy.exists() and copy.stat().st_size:
                annotations = parse_annotations(read_rows(str(copy.resolve()), copy.parent, self.settings, self.clock))
        return _marks(gold, annotations)


def check_annotations(manifest: Manifest, settings: Settings, clock: Clock) -> None:
    """Check the manifest's annotations. A missing file is no fault. Raises DataError naming file and line for rows that
    are no labels.
    """
    source = manifest.gold.annotations if manifest.gold is not None else None
    if source is not None and not is_missing(source, manifest, settings):
        parse_annotations(read_rows(source, manifest.folder, settings, clock))


def _marks(gold: GoldSet | None, annotations: Sequence[Annotation]) -> dict[tuple[object, ...], object]:
    """Return every label by its subject."""
    marks: dict[tuple[object, ...], object] = {}
    if gold:
        labels = gold.labelled.select(*PREDICTION, *HUMAN.values()).iter_rows()
        marks = {("gold", *label[: len(PREDICTION)]): label[len(PREDICTION) :] for label in labels}
    for about, annotation in latest(annotations).items():
        marks[("annotation", *about)] = (
            annotation.answer_correct,
            annotation.justification_correct,
            annotation.both_correct,
        )
    return marks


def _changed(then: Mapping[tuple[object, ...], object], now: Mapping[tuple[object, ...], object]) -> LabelChange:
    return LabelChange(
        added=len(now.keys() - then.keys()),
        changed=sum(now[key] != then[key] for key in now.keys() & then.keys()),
        gone=len(then.keys() - now.keys()),
    )


def _newest(first: Path) -> Path:
    return first.with_name(f"{first.stem}.newest.jsonl")


def _first_there(*paths: Path) -> Path | None:
    return next((path for path in paths if path.exists()), None)


def _copy_used(error: DataError, copy: Path) -> str:
    day = utc(copy.stat().st_mtime).date()
    return f"{shown(str(error))}; the run's copy of {day} is used"


def _keep(rows: Callable[[], Iterable[Mapping[str, object]]], newest: Path, first: Path) -> None:
    """Copy the rows, in case their source cannot be read later. Keep the old copy if the folder cannot be written."""
    held = _first_there(newest, first)
    if held is not None and not _holds(held, rows()):
        with suppress(FileError):
            _write(newest, rows())


def _holds(path: Path, rows: Iterable[Mapping[str, object]]) -> bool:
    with path.open("rb") as held:
        return all(line == wanted for line, wanted in zip_longest(held, map(_line, rows)))


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    with atomic.writing(path) as handle:
        handle.writelines(map(_line, rows))


def _line(row: Mapping[str, object]) -> bytes:
    return orjson.dumps(row) + b"\n"


def _digest(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the SHA-256 digest of the rows as JSON Lines without a last line end; empty if there are no rows."""
    digest, last = sha256(), None
    for line in map(_line, rows):
        digest.update(last or b"")
        last = line
    digest.update((last or b"").removesuffix(b"\n"))
    return digest.hexdigest() if last else ""
