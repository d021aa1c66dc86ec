"""Extraction that lets the requested form win, for any number of options.

``###X###`` outranks all, since nobody writes it by accident; then the last of "Answer: X" and boxed letters. Only a reply
without any of these is searched for other ways of saying it: a line with nothing but a letter, "the answer is X",
"option X", or the words "I don't know". A reply that names several letters as its answer has none: whoever hedges has
not answered. Every quantifier is bounded, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from layton_batch.tasks.mcq_idk_rules.letters import idk_letter, option_letters
from layton_batch.tasks.mcq_idk_rules.reading import NOTHING, Reading

SEVERAL = "names several letters"
_IDK = "?"  # stands for the letter of "I don't know" until the number of options is looked at
_TAIL_CHARS = 300
_SHORT_CHARS = 400

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms of the ASCII characters
_PLAIN = str.maketrans({**_WIDE, 0xA0: " ", 0x202F: " ", 0x2019: "'", 0x2018: "'", 0x201C: '"', 0x201D: '"'})

_COMMAND = r"\\(?:boxed|text|textbf|textit|textrm|mathrm|mathbf|mathsf|bf|rm)\s?\{"
_DRESS = rf"(?:[\s*_`\"'(\[<{{$]|{_COMMAND}){{0,12}}"
_WORD = r"(?:the\s)?(?:correct\s|final\s|best\s)?(?:(?:option|choice|letter|answer)\s(?:is\s)?)?"
_TOKEN = rf"{_DRESS}(?i:{_WORD}){_DRESS}(?P<letter>[A-Za-z])(?![\w'])"
_DONT_KNOW = r"(?i:i\s(?:don'?t|do\snot)\sknow)\b"

_HASH = re.compile(r"##\s?[*(]{0,3}([A-Za-z])[*)]{0,3}\s?##")
_COLON = re.compile(rf"\b(?i:answer)\s?[*_]{{0,3}}\s?(?:(?i:is)\s?)?:(?:{_TOKEN}|{_DRESS}(?P<idk>{_DONT_KNOW}))")
_BOXED = re.compile(rf"\bboxed\s?[{{(]{_TOKEN}")
_IS = re.compile(rf"\b(?i:answer|option|choice)\b[^\n]{{0,60}}?\b(?i:is)\b\s?:?{_TOKEN}")
_BARE_ANSWER = re.compile(rf"\b(?i:answer)\s?[-–—=>]{{0,2}}\s?{_TOKEN}")
_CHOICE = re.compile(rf"\b(?i:option|choice|choose|pick|select|go\swith)\b\s?:?{_TOKEN}")
_LONE = re.compile(r"[\W_]{0,12}([A-Za-z])[\W_]{0,12}")
_LISTED = re.compile(r"[\W_]{0,12}([A-Za-z])[*_]{0,3}[).:][*_]{0,3}\s[^\n]{1,1000}")
_WORDS = re.compile(rf"[\W_]{{0,12}}(?:(?i:answer)\W{{0,6}})?{_DONT_KNOW}[\W_]{{0,12}}")

_CLOSERS = "*_`\"')]}>$"
_CONNECTIVES = re.compile(r"(?:because|since|as|then|with|per|due)\b|[-–—(\[=→#]")
_SECOND = re.compile(r"\s{0,2}(?:,|/|&|(?i:and|or)\b)\s?(?:(?i:or|and|option|choice)\s){0,2}[*(_]{0,3}([A-Z])(?![\w'])")
_ARTICLES = frozenset("AI")
"""Letters that are words as well: "Answer: A company …" answers nothing."""

Found = tuple[int, str, str]  # where it ends, the letter ("" = several), the rule


def read_corrected(text: str, n_options: int, *, cut: bool = False) -> Reading:
    """The answer in a text whose thoughts are out already.

    ``cut``: the reply hit the output limit; only a requested form counts, for prose would be prose about the way there.
    """
    text = text.translate(_PLAIN)
    valid = option_letters(n_options) + idk_letter(n_options)
    for rule in _REQUESTED if cut else _REQUESTED + _OTHER:
        letter, name = "", ""
        for _, letter, name in rule(text, valid):
            break
        if name:
            return Reading((valid[-1] if letter == _IDK else letter,), name, "primary") if letter else _SEVERAL
    return NOTHING


_SEVERAL = Reading(note=SEVERAL)


# ---- the forms, each an iterator whose first element is the one that counts ---------------------------------------------


def _hash(text: str, valid: str) -> Iterator[Found]:
    matches = [match for match in _HASH.finditer(text) if match[1].upper() in valid] if "##" in text else []
    if matches:
        yield matches[-1].end(), matches[-1][1].upper(), "hash"


def _explicit(text: str, valid: str) -> Iterator[Found]:
    found = [*_all(_COLON, text, valid, "answer"), *_all(_BOXED, text, valid, "boxed")]
    if found:
        yield max(found)


def _lone_line(text: str, valid: str) -> Iterator[Found]:
    lines = text.strip().split("\n", 1)
    last = text.rstrip().rpartition("\n")[2]
    for line in (last, lines[0]):
        match = _LONE.fullmatch(line)
        if match and match[1] in valid:
            yield 0, match[1], "line"


def _is(text: str, valid: str) -> Iterator[Found]:
    yield from reversed(_all(_IS, text, valid, "answer is"))


def _bare_answer(text: str, valid: str) -> Iterator[Found]:
    yield from reversed(_all(_BARE_ANSWER, text, valid, "answer"))


def _choice(text: str, valid: str) -> Iterator[Found]:
    yield from reversed(_all(_CHOICE, text[-_TAIL_CHARS:], valid, "option"))


def _listed(text: str, valid: str) -> Iterator[Found]:
    """A reply of one line that is an option as it was listed: "B) nitrogen"."""
    match = _LISTED.fullmatch(text.strip())
    if match and match[1] in valid:
        yield 0, match[1], "line"


def _words(text: str, valid: str) -> Iterator[Found]:
    last = text.rstrip().rpartition("\n")[2]
    if len(last) <= _SHORT_CHARS and _WORDS.fullmatch(last):
        yield 0, _IDK, "words"


Rule = Callable[[str, str], Iterable[Found]]
_REQUESTED: tuple[Rule, ...] = (_hash, _explicit)
_OTHER: tuple[Rule, ...] = (_lone_line, _is, _bare_answer, _choice, _listed, _words)


def _all(pattern: re.Pattern[str], text: str, valid: str, rule: str) -> list[Found]:
    found: list[Found] = []
    for match in pattern.finditer(text):
        if match.groupdict().get("idk"):
            found.append((match.end(), _IDK, rule))
        elif (letter := _meant(match, text, valid)) is not None:
            found.append((match.end(), letter, rule))
    return found


def _meant(match: re.Match[str], text: str, valid: str) -> str | None:
    """The letter a match means; "" where it is the first of several; None where it is a word or no option."""
    letter, end = match["letter"], match.end("letter")
    if letter.upper() not in valid:
        return None
    rest = text[end : end + 80]
    bare = rest.lstrip(_CLOSERS)
    second = _SECOND.match(bare)
    if second and second[1] in valid and second[1] != letter.upper() and _stands_alone(bare[second.end() :]):
        return ""
    if _stands_alone(rest) or _CONNECTIVES.match(bare.lstrip()):
        return letter.upper()
    return letter if letter in valid and letter not in _ARTICLES else None


def _stands_alone(rest: str) -> bool:
    """Whether what follows a letter ends the thought: the line's end, closing marks, or punctuation before a blank."""
    bare = rest.lstrip(_CLOSERS)
    if not bare or bare[0] == "\n":
        return True
    if len(bare) < len(rest) and rest[0] in ")]":
        return True
    return bare[0] in ".,:;!?#\\" and not bare[1:2].isalnum()
