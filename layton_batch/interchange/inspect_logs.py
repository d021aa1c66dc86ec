"""inspect_ai's logs: ``.eval``, a zip of JSON documents, and ``.json``, one document with everything.

Of a zip only the header and the summaries of the samples are read, not the transcripts; its members are packed with
deflate, or with zstd (method 93), which Python's zipfile does not know before 3.14.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from lzma import LZMAError
from math import comb
from pathlib import Path
from statistics import mean, median, mode

from zstandard import ZstdDecompressor, ZstdError

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.interchange.score_file import (
    LARGEST_JSON,
    ItemOutcome,
    Object,
    ScoreFile,
    fingerprint,
    number_of,
    object_at,
    object_of,
    text_at,
)
from layton_batch.providers.wire_json import at, objects, text
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind
from layton_batch.text import plural

_ZSTD = 93
_DIGITS = 4
"""A number in a reducer's name has fewer."""
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Scores that inspect writes as words: correct, partly correct, incorrect, no answer."""

Samples = Sequence[tuple[str, Object]]


def is_log(document: Object) -> bool:
    """Return whether a JSON document is a log of inspect."""
    return {"version", "eval", "status"} <= document.keys()


def read_zip(path: Path) -> list[ScoreFile]:
    """The marks of an ``.eval`` file. Raises DataError with file, member and reason."""
    limits.check_is_file(path, str(path))
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            limits.LIMITS.check("members", len(names), str(path), "the archive has")
            header, parts = "header.json" if "header.json" in names else "_journal/start.json", _parts(names)
            size = sum(info.file_size for info in archive.infolist() if info.filename in (header, *parts))
            limits.LIMITS.check("unpacked_mib", size, str(path), "unpacked, its documents have")
            about = object_of(member(path, archive, header), f"{path}, {header}")
            samples = [sample for name in parts for sample in _samples(f"{path}, {name}", member(path, archive, name))]
    except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path}: not a readable inspect log ({str(error)[:200]})") from error
    return [_scored(path, about, samples)]


def read_document(path: Path, document: Object) -> list[ScoreFile]:
    """The marks of a ``.json`` log."""
    return [_scored(path, document, _numbered(document.get("samples"), f"{path}, sample"))]


def _parts(names: set[str]) -> list[str]:
    """Return the members with the summaries, of a log that was cut short those in its journal, else the samples."""
    if "summaries.json" in names:
        return ["summaries.json"]
    return sorted(name for name in names if name.startswith("_journal/summaries/")) or sorted(
        name for name in names
        if name.startswith("samples/") and (name.endswith("/sample.json") or "_epoch_" in name.rpartition("/")[2])
    )  # fmt: skip


def _samples(place: str, content: bytes) -> Samples:
    """Read the samples of a member: a list of summaries, or one sample."""
    if content.lstrip()[:1] == b"[":
        return _numbered(object_of(b'{"samples":' + content + b"}", place)["samples"], f"{place}, sample")
    return [(place, object_of(content, place))]


def _numbered(entries: JsonValue, place: str) -> Samples:
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{place.removesuffix(', sample')}: there are no samples in it")
    samples = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping):
            raise DataError(f"{place} {number}: an object is expected")
        samples.append((f"{place} {number}", entry))
    return samples


# ---- marks ---------------------------------------------------------------------------------------------------------


def _scored(path: Path, about: Object, samples: Samples) -> ScoreFile:
    spec = object_at(about, "eval", str(path))
    file = ScoreFile(str(path), text_at(spec, "model", f"{path}, eval"), text_at(spec, "task", f"{path}, eval"))
    marks: dict[str, dict[str, list[float | None]]] = {name: defaultdict(list) for name in _headline(about)}
    seen: set[tuple[str, int]] = set()
    unread: dict[str, JsonValue] = {}
    valid = [(place, sample) for place, sample in samples if not sample.get("invalidation")]
    for place, sample in valid:
        item, epoch = _identity(sample, place)
        if (item, epoch) in seen:
            raise DataError(f"{place}: sample {item!r} (epoch {epoch}) is there twice")
        seen.add((item, epoch))
        file.questions[item] = ("target", fingerprint(sample.get("target")))
        for name, value in _values(sample, place):
            mark = _number(value)
            if mark is None and value is not None and not isinstance(value, float):
                unread.setdefault(name, value)
                mark = 0.0
            marks.setdefault(name, defaultdict(list))[item].append(mark)
    _fill(file, marks, [item for item, _ in seen], about)
    if not any(file.metrics.values()):
        raise DataError(f"{path}: no sample has a score")
    for name, value in unread.items():
        file.notes.append(f"{path}: {name} has values such as {value!r:.60}, which count as 0, as in inspect's means")
    if invalid := len(samples) - len(valid):
        file.notes.append(f"{path}: {plural(invalid, 'sample is', 'samples are')} left out: the log calls them invalid")
    status = about.get("status", "started")
    if status != "success":
        file.notes.append(f"{path}: the log says {str(status)[:20]!r}: it may lack samples")
    file.evaluation, file.is_cut = text(spec, "task_id") or "", status != "success"
    return file


def _fill(
    file: ScoreFile, marks: Mapping[str, Mapping[str, list[float | None]]], items: Sequence[str], about: Object
) -> None:
    """Bring the epochs of a sample together as the log does; a sample without a score is outside it."""
    for name, by_item in marks.items():
        if not by_item:
            continue
        how = _reducer(about, name)
        if (reduce := _reduction(how)) is None:
            file.notes.append(f"{file.where}: epochs count as their mean here; the log brings them together by {how!r}")
            reduce = mean
        file.metrics[name] = {}
        for item in sorted(set(items)):
            given = [mark for mark in by_item.get(item, ()) if mark is not None]
            kind = PredictionKind.ANSWERED if given else PredictionKind.MISSING
            file.metrics[name][item] = ItemOutcome(reduce(given) if given else None, str(kind), None)


def _reducer(about: Object, name: str) -> str:
    """Return how the log brings the epochs of a score together."""
    scores = objects(at(about, "results"), "scores")
    own = next((score.get("reducer") for score in scores if score.get("name") == name.partition(".")[0]), None)
    first = at(at(about, "eval"), "config").get("epochs_reducer")
    return str(own or (first[0] if isinstance(first, list) and first else "mean"))


_REDUCTIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": mean, "median": median, "mode": mode, "max": max,
}  # fmt: skip


def _reduction(name: str) -> Callable[[Sequence[float]], float] | None:
    """Return a reducer of inspect; None for one of somebody's own."""
    kind, _, number = name.rpartition("_")
    is_number = number.isdecimal() and len(number) < _DIGITS
    if is_number and kind == "at_least":
        return lambda marks: float(sum(mark >= 1 for mark in marks) >= int(number))
    if is_number and kind == "pass_at":
        return lambda marks: _pass_at(int(number), len(marks), sum(mark >= 1 for mark in marks))
    return _REDUCTIONS.get(name)


def _pass_at(count: int, epochs: int, right: int) -> float:
    """Estimate the probability that one of so many answers is right (Chen et al. 2021, arXiv:2107.03374)."""
    if epochs < count:  # a log that was cut short
        return float(right > 0)
    return 1.0 - comb(epochs - right, count) / comb(epochs, count)


def _headline(about: Object) -> list[str]:
    """The names of the scores, the one that the log puts first before all."""
    results = at(about, "results")
    names = [text(at(results, "headline"), "score"), *(text(score, "name") for score in objects(results, "scores"))]
    return list(dict.fromkeys(filter(None, names)))


def _identity(sample: Object, place: str) -> tuple[str, int]:
    name, epoch = sample.get("id"), sample.get("epoch", 1)
    if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(epoch, int):
        raise DataError(f"{place}: 'id' must be a text or a number, and 'epoch' a number")
    return str(name), epoch


def _values(sample: Object, place: str) -> Iterator[tuple[str, JsonValue]]:
    for name, score in at(sample, "scores").items():
        if not isinstance(score, Mapping) or "value" not in score:
            raise DataError(f"{place}: score {name!r} has no 'value'")
        value = score["value"]
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", part_value) for part, part_value in value.items())
        else:
            yield name, value


def _number(value: JsonValue) -> float | None:
    """Convert a score to a number as inspect does; None for NaN and for what it cannot convert."""
    if not isinstance(value, str):
        return number_of(value)
    word = _WORDS.get(value, _WORDS.get(value.lower()))
    if word is not None:
        return word
    try:
        return number_of(float(value))
    except ValueError:
        return None


# ---- the zip -------------------------------------------------------------------------------------------------------


def member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of a member. Raises DataError for one that is not there, or larger than ``LARGEST_JSON`` or
    than the archive says."""
    place = f"{path}, {name}"
    try:
        info = copy(archive.getinfo(name))
    except KeyError as error:
        raise DataError(f"{path}: there is no {name} in it: it is not an inspect log, or was cut off") from error
    size, checksum, is_zstd = info.file_size, info.CRC, info.compress_type == _ZSTD
    if size > LARGEST_JSON:
        raise DataError(f"{place}: is larger than {LARGEST_JSON >> 20} MiB")
    if is_zstd:  # taken out as it is: zipfile does not know the method
        info.compress_type, info.file_size, info.CRC = zipfile.ZIP_STORED, info.compress_size, None  # type: ignore[assignment]
    try:
        with archive.open(info) as packed:
            unpacked = ZstdDecompressor().stream_reader(packed, read_across_frames=True) if is_zstd else packed
            content = unpacked.read(size + 1)
    except ZstdError as error:
        raise DataError(f"{place}: cannot be unpacked ({error})") from error
    if len(content) != size or zlib.crc32(content) != checksum:
        raise DataError(f"{place}: is damaged (its size or checksum differs)")
    return content
