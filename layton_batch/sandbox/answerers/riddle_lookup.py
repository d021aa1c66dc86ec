"""Find a riddle by its words: the answerers know a question only by its text, never by an id.

Two texts are compared *squashed*: every blank, control and format character is taken out, because prompts re-wrap
lines and JSON escapes or drops such characters. A text is looked at twice, as it came and with one layer of JSON
escapes undone, so a passage is found whether the prompt quotes it raw, as a JSON string, or with every non-ASCII
character escaped.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Row = Mapping[str, object]

_WORD = re.compile(r"\w+")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
QUESTIONS = "questions"
"""The pool of questions that are no riddles."""
HINT_COLUMNS = ("first_hint", "second_hint", "third_hint", "special_hint")


class UnreadableRows(ValueError):
    """A file of riddles or recordings that cannot be used; the message names the file, the line and the reason."""


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The JSON objects of a JSONL file with their line numbers. Blank lines are skipped."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _row(path, number, line)
    except OSError as error:
        raise UnreadableRows(f"{path}: cannot be read ({error.strerror})") from error


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableRows(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableRows(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise UnreadableRows(f"{path}, line {number}: a JSON object was expected, not {type(row).__name__}")
    return row


def text_of(row: Row, column: str) -> str:
    """A column as text that can be encoded: null and absent are empty, a number is written as JSON writes it."""
    value = row.get(column)
    if value is None:
        return ""
    return _LONE_SURROGATE.sub("\ufffd", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def squash(text: str) -> str:
    """The text without blanks, control and format characters."""
    packed = "".join(text.split())
    return packed if packed.isprintable() else _LONE_SURROGATE.sub("", _UNSEEN.sub("", packed))


def unescape(text: str) -> str:
    """The text with one layer of JSON string escapes undone; a backslash that escapes nothing stays."""

    def plain(match: re.Match[str]) -> str:
        code, letter = match.groups()
        if code is not None:
            return chr(int(code, 16))
        return _SHORT_ESCAPES.get(letter, letter if letter in '"\\/' else match.group())

    undone = _ESCAPE.sub(plain, text)
    if _LONE_SURROGATE.search(undone):
        undone = undone.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return undone


class Passage:
    """A text prepared for looking things up in it: squashed, raw and unescaped, with its set of words."""

    __slots__ = ("forms", "plain", "words")

    def __init__(self, text: str) -> None:
        self.plain = unescape(text) if "\\" in text else text
        readings = (text,) if self.plain == text else (text, self.plain)
        self.forms = tuple(squash(reading) for reading in readings)
        self.words: frozenset[str] = frozenset().union(*(words_of(reading) for reading in readings))

    def holds(self, squashed: str) -> bool:
        return any(squashed in form for form in self.forms)

    def count(self, squashed: str) -> int:
        """Count the occurrences of a text, raw or escaped.

        The unescaped text has every occurrence once, unless undoing escapes damages the raw ones: text with backslashes
        of its own is in one reading where it stands raw and in the other where it stands escaped.
        """
        if len(self.forms) == 1 or unescape(squashed) == squashed:
            return self.forms[-1].count(squashed)
        return sum(form.count(squashed) for form in self.forms)

    def quotes(self, squashed: str) -> bool:
        """Return whether the text stands there as a whole JSON string, between double quotes."""
        return self.holds(f'"{squashed}"')


def words_of(text: str) -> list[str]:
    return _WORD.findall(text if text.isascii() else _UNSEEN.sub("", text))


@dataclass(frozen=True, slots=True)
class Riddle:
    """A riddle in the published columns. `answer` and `justification` may be empty; `image` is a digest of the
    bytes."""

    id: str
    category: str
    picarats: int | None
    description: str
    hints: tuple[str, ...]
    answer: str
    solution: str
    justification: str
    image: str
    pool: str = ""
    """Wrong answers to a riddle are answers to others of its pool."""

    @property
    def right_answer(self) -> str:
        return self.answer or self.solution


def riddle_from(row: Row) -> Riddle:
    picarats = row.get("picarats")
    return Riddle(
        id=text_of(row, "id"),
        category=text_of(row, "category"),
        picarats=picarats if isinstance(picarats, int) else None,
        description=text_of(row, "description"),
        hints=tuple(hint for column in HINT_COLUMNS if (hint := text_of(row, column).strip())),
        answer=text_of(row, "answer"),
        solution=text_of(row, "solution"),
        justification=text_of(row, "justification"),
        image=image_digest(text_of(row, "img")),
    )


def question_from(row: Row) -> Riddle:
    """A plain question with its reference, in columns of one's own."""
    context = text_of(row, "context").strip()
    question = text_of(row, "question")
    return Riddle(
        id=text_of(row, "id") or question,
        category=text_of(row, "category"),
        picarats=None,
        description=f"{question}\n\n{context}" if context else question,
        hints=(),
        answer=text_of(row, "answer"),
        solution="",
        justification="",
        image="",
        pool=QUESTIONS,
    )


def image_digest(encoded: str) -> str:
    """Digest a decoded image, to compare it with a request's image. Empty without a readable image."""
    try:
        image = base64.b64decode(encoded.partition("base64,")[2] or encoded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return digest(image) if image else ""


def digest(image: bytes) -> str:
    return hashlib.sha256(image).hexdigest()


def is_riddle(row: Row) -> bool:
    return "id" in row and "description" in row


def is_question(row: Row) -> bool:
    return bool(text_of(row, "question").strip())


class RiddleIndex:
    """Riddles by their description.

    Every riddle is filed under the rarest word of its description, so a text is compared with the few riddles whose
    word it holds: a look-up costs the length of the text, whatever the number of riddles.
    """

    def __init__(self, riddles: Sequence[Riddle]) -> None:
        self.riddles = tuple(riddles)
        self._squashed = [squash(riddle.description) for riddle in self.riddles]
        self._by_word: dict[str, list[int]] = {}
        self._wordless: list[int] = []
        spread = Counter(word for riddle in self.riddles for word in set(words_of(riddle.description)))
        for position, riddle in enumerate(self.riddles):
            self._file(position, riddle, spread)

    def _file(self, position: int, riddle: Riddle, spread: Counter[str]) -> None:
        if not self._squashed[position]:
            return
        words = set(words_of(riddle.description))
        if not words:
            self._wordless.append(position)
            return
        rarest = min(words, key=lambda word: (spread[word], -len(word), word))
        self._by_word.setdefault(rarest, []).append(position)

    def find(self, passage: Passage, images: Sequence[bytes] = ()) -> tuple[Riddle, ...]:
        """The riddle the text is about: the one with the longest description in it.

        Of riddles with the same description, those win whose image is among the images and most of whose other
        columns are in the text. More than one is returned only where nothing tells them apart, none where no
        description is there.
        """
        here = [p for word in passage.words & self._by_word.keys() for p in self._by_word[word]] + self._wordless
        here = [position for position in here if passage.holds(self._squashed[position])]
        if not here:
            return ()
        longest = max(len(self._squashed[position]) for position in here)
        same = [self.riddles[p] for p in sorted(here) if len(self._squashed[p]) == longest]
        if len(same) == 1:
            return (same[0],)
        shown = {digest(image) for image in images}
        marks = [_marks(riddle, passage, shown) for riddle in same]
        return tuple(riddle for riddle, mark in zip(same, marks, strict=True) if mark == max(marks))


def _marks(riddle: Riddle, passage: Passage, shown: set[str]) -> tuple[bool, int]:
    columns = (*riddle.hints, riddle.answer, riddle.solution, riddle.justification)
    return riddle.image in shown, sum(bool(column) and passage.holds(squash(column)) for column in columns)


def hints_shown(riddle: Riddle, passage: Passage) -> int:
    """Count the riddle's hints that the text shows."""
    return sum(passage.holds(squash(hint)) for hint in riddle.hints)
