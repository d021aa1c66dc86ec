"""Extraction that lets the requested form win, for any number of options.

``###X###`` outranks all, since nobody writes it by accident; then the last of "Answer: X" and boxed letters. Only a
reply without any of these is searched for other ways of saying it: a line with nothing but a letter, "the answer is
X", "option X", or the words "I don't know". A reply that names several letters as its answer has none: whoever hedges
has not answered. Every quantifier is bounded, and patterns are tried only where their anchor word stands, from the
last one backwards, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from layton_batch.tasks.mcq_idk_rules.letter_reading import NOTHING, LetterReading
from layton_batch.tasks.mcq_idk_rules.mcq_items import idk_letter, option_letters

SEVERAL = LetterReading(note="names several letters")

_TAIL_CHARS = 300
_SHORT_CHARS = 400

_PLAIN = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms of the ASCII characters
_PLAIN |= {"\xa0": " ", "\u202f": " ", "‘": "'", "’": "'", "“": '"', "”": '"'}
_ODD = re.compile(f"[{''.join(map(re.escape, _PLAIN))}]")

_COMMAND = r"\\(?:boxed|text|textbf|textit|textrm|mathrm|mathbf|mathsf|bf|rm)\s?\{"
_TAG = r"<(?:b|i|u|em|strong|code)>"
_DRESS = rf"(?:{_TAG}|[\s*_`\"'(\[<{{$]|\\[(\[]|{_COMMAND}){{0,12}}+"
_PHRASE = r"(?i:the\s)?(?i:(?:correct|final|best)\s)?(?i:(?:options?|choice|letter|answer)\s(?:is\s)?)?"
_TOKEN = rf"{_DRESS}{_PHRASE}{_DRESS}(?P<letter>[A-Za-z])(?!\w|'\w)"
_DONT_KNOW = r"(?i:i\s(?:don'?t|do\snot)\sknow)\b"

_HASH = re.compile(r"##[ ]?[*(]{0,3}([A-Za-z])[*)]{0,3}[ ]?##")
_COLON = re.compile(rf"\b(?i:answers?)\s?[*_\"']{{0,3}}\s?(?:(?i:is)\s?)?:(?:{_TOKEN}|{_DRESS}(?P<idk>{_DONT_KNOW}))")
_BOXED = re.compile(rf"\b(?i:boxed)\s?[{{(]{_TOKEN}")
_BEING = r"is|(?:would|must|should|will|has\sto)\sbe"
_IS = re.compile(rf"\b(?i:answer|option|choice)\b[^\n]{{0,60}}?\b(?i:{_BEING})\b\s?:?{_TOKEN}")
_BARE_ANSWER = re.compile(rf"\b(?i:answer)\s?[-–—=>]{{0,2}}\s?{_TOKEN}")
_CHOICE = re.compile(rf"\b(?i:options?|choice|choose|pick|select|go\swith)\b\s?:?{_TOKEN}")

_MARKS = r"[\s*_`\"'()\[\]{}<>$.,:;!#\\-]{0,12}"
_LONE = re.compile(rf"{_MARKS}([A-Za-z]){_MARKS}")
_LISTED = re.compile(r"^[*_(\[#>\- ]{0,6}([A-Z])[*_]{0,3}[).:][*_]{0,3}[ ]", re.MULTILINE)
_WORDS = re.compile(rf"{_MARKS}(?:(?i:answer){_MARKS})?{_DONT_KNOW}{_MARKS}")

_CLOSERS = "*_`\"')]}>$"
_CONNECTIVES = re.compile(r"\s?(?:(?:because|since|as|then|with|per|due)\b|[-–—(\[=→#])")
_SECOND = re.compile(
    r"\s{0,2}(?:,|/|&|(?i:and|or)\b)\s?(?:(?i:or|and|options?|choice)\s){0,2}[*(_]{0,3}([A-Z])(?!\w|'\w)"
)
_VERB = re.compile(r"\s(?:is|seems|appears|fits|matches)\b")
_DENIED = re.compile(
    r"\s(?:is|are|was|seems|looks)\s(?:also\s|clearly\s)?(?:not|wrong|incorrect|false|invalid|unlikely)\b"
)


def read_corrected(text: str, n_options: int, *, cut: bool = False) -> LetterReading:
    """The answer in a text whose thoughts are out already.

    ``cut``: the reply hit the output limit; only a requested form counts, for prose would be prose about the way there.
    """
    if not text.isascii():
        text = _ODD.sub(lambda match: _PLAIN[match.group()], text)
    valid = option_letters(n_options) + idk_letter(n_options)
    for form in _REQUESTED if cut else _REQUESTED + _OTHER:
        if (reading := form(text, valid)) is not None:
            return reading
    return NOTHING


# ---- the forms: the reading, or None where the reply has nothing of that form --------------------------------------


def _hash(text: str, valid: str) -> LetterReading | None:
    letters = [letter.upper() for letter in _HASH.findall(text)] if "##" in text else []
    return next((_found(letter, "hash") for letter in reversed(letters) if letter in valid), None)


def _explicit(text: str, valid: str) -> LetterReading | None:
    return _last(text, valid, _ANSWER_OR_BOXED, ((_COLON, "answer"), (_BOXED, "boxed")), articles="AI")


def _lone_line(text: str, valid: str) -> LetterReading | None:
    whole = text.strip()
    for line in (whole.rpartition("\n")[2], whole.partition("\n")[0]):
        if match := _LONE.fullmatch(line):
            letter = match[1].upper() if line == whole else match[1]
            if letter in valid:
                return _found(letter, "line")
    return None


def _is(text: str, valid: str) -> LetterReading | None:
    return _last(text, valid, _ANSWER_OR_OPTION, ((_IS, "answer is"),))


def _bare_answer(text: str, valid: str) -> LetterReading | None:
    return _last(text, valid, _ANSWER_OR_BOXED, ((_BARE_ANSWER, "answer"),))


def _choice(text: str, valid: str) -> LetterReading | None:
    return _last(text[-_TAIL_CHARS:], valid, _CHOOSING, ((_CHOICE, "option"),))


def _listed(text: str, valid: str) -> LetterReading | None:
    """The last line is an option as it was listed ("B) nitrogen"), and no other option is listed in the reply."""
    letters = set(_LISTED.findall(text))
    last = _LISTED.match(text.rstrip().rpartition("\n")[2])
    return _found(last[1], "line") if last and letters == {last[1]} and last[1] in valid else None


def _words(text: str, valid: str) -> LetterReading | None:
    last = text.rstrip().rpartition("\n")[2]
    return _found(valid[-1], "words") if len(last) <= _SHORT_CHARS and _WORDS.fullmatch(last) else None


Form = Callable[[str, str], LetterReading | None]
_REQUESTED: tuple[Form, ...] = (_hash, _explicit)
_OTHER: tuple[Form, ...] = (_lone_line, _is, _bare_answer, _choice, _listed, _words)

_ANSWER_OR_BOXED = re.compile("answer|boxed", re.IGNORECASE)
_ANSWER_OR_OPTION = re.compile("answer|option|choice", re.IGNORECASE)
_CHOOSING = re.compile("option|choice|choose|pick|select|go", re.IGNORECASE)


def _found(letter: str, rule: str) -> LetterReading:
    return LetterReading(letter, rule, "primary")


# ---- a letter after an anchor word ---------------------------------------------------------------------------------


def _last(
    text: str,
    valid: str,
    anchor: re.Pattern[str],
    patterns: tuple[tuple[re.Pattern[str], str], ...],
    articles: str = "I",
) -> LetterReading | None:
    """Read the answer after the last anchor word that an answer follows.

    ``articles``: letters that are words as well, where the anchor comes before a sentence: "Answer: A company …".
    """
    for start in reversed([match.start() for match in anchor.finditer(text)]):
        for pattern, rule in patterns:
            match = pattern.match(text, start)
            reading = _meant(match, text, valid, rule, articles) if match else None
            if reading is not None:
                return reading
    return None


def _meant(match: re.Match[str], text: str, valid: str, rule: str, articles: str) -> LetterReading | None:
    """The reading of a match; None where its letter is a word, no option, or said to be wrong."""
    if match.groupdict().get("idk"):
        return _found(valid[-1], rule)
    letter, end = match["letter"], match.end("letter")
    if letter.upper() not in valid:
        return None
    rest = text[end : end + 80]
    bare = rest.lstrip(_CLOSERS)
    second = _SECOND.match(bare)
    if second and second[1] in valid and second[1] != letter.upper() and _ends(bare[second.end() :]):
        return SEVERAL
    if _ends(rest) or _CONNECTIVES.match(bare):
        return _found(letter.upper(), rule)
    if letter not in valid or _DENIED.match(bare):
        return None
    # No verb follows an article, nor this form of one the pronoun.
    return _found(letter, rule) if letter not in articles or _VERB.match(bare) else None


def _ends(rest: str) -> bool:
    """Return whether a letter ends here: at a line end, a closing bracket, or punctuation without a word after it."""
    if rest.startswith((")", "]", "</")):
        return True
    bare = rest.lstrip(_CLOSERS)
    following = bare.lstrip(" \t\r")
    if not following or following[0] == "\n":
        return True
    return bare[0] in ".,:;!?#\\" and not bare[1:2].isalnum()
