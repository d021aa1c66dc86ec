"""Whether an answer lists given things in a given order, all of them and nothing else. Linear time.

The things are looked for one after another, each a whole word, with only separators (commas of any script, arrows,
bars, slashes, dashes, line ends, "then", "first", "1.") between them. ``<`` is none: it may turn the order round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layton_batch.tasks.rome_rules.characters import folded, is_unspaced, lowered
from layton_batch.tasks.rome_rules.statement import AnswerStatement, Source, paragraphs

MOST_CHARACTERS = 20_000
_MOST_CUES, _LONGEST_HEAD = 20, 200

_BARE = re.compile(r"[{}]")
_LINE_BLANKS = re.compile(r"[ \t\f\v]+")
_SEPARATOR = re.compile(
    r"[\s,;|/>→⇒➔➜⟶·•、*\"'`()\[\]~+&.:-]|=>"
    r"|(?:and|then|next|finally|lastly|last|followed by|before|after that|first|second|third|fourth|fifth|sixth|"
    r"firstly|secondly|thirdly|frame|image|picture|photo|figure|panel|option|item|step|to|is|comes|goes)(?![a-z0-9])"
    r"|第[一二三四五六七八九十\d]{1,3}(?:步|个|名|位|张)?|然后|接着|随后|最后|其次|首先|先|再|之后|和|与|到|是|图片?|选项"
)
_RUN = re.compile(r"[a-z0-9]+")
_ASIDE = re.compile(r"[ ]?\([^()\n]{1,60}\)")
_NUMBERING = re.compile(
    r"(?:^|(?<=[\s,;]))(?:[-•*]\s{1,20})?(?:(?:step|no\.?|rank)\s)?"
    r"(?:\((\d{1,3})\)|#?(\d{1,3})(?:\)|[.:、](?!\d)|(?:st|nd|rd|th)\b[:.]?))\s{0,20}"
)
_END = re.compile(
    r"[\s*\"'`)\]}.!。;,]*$"  # nothing more
    # a sentence ends, an aside begins, a paragraph ends, or the next line is prose
    r"|[*\"'`)\]}]*(?:[.!。](?=\s|$)|\s{0,20}\(|[ \t]*\n[ \t]*\n|[ \t]*\n(?=[^\n]{0,200}[ \t][^\n]{0,200}[a-z]{2}))"
    r"|[*\"'`)\]}]*\s{0,20}[,;-]?\s{0,20}(?:(?:because|since|as|based|so|which|where|in that order|in this order|"
    r"respectively|from|for|according|given|due|is the|are the|i|hope)(?![a-z])|因为|由于|这是|依次)"
)
_CUE = re.compile(
    r"(?:[:=]|\b(?:is|are|be|as|order|sequence|answer)(?![A-Za-z])|是|为)[\s\"'*(\[]{0,8}(?=[^\s\"'*(\[])",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[,;|/>→、\n]+")
_WEAK_PARTS = re.compile(r"[\s-]+")


def things_in_order(order: object) -> list[str]:
    """The things of an annotation's order. A text is split at its separators; one without any is a thing a character.

    Raises ValueError where there is nothing to look for.
    """
    if isinstance(order, str):
        things = _parts(folded(order))
    elif isinstance(order, Sequence):
        if any(isinstance(thing, bool) or not isinstance(thing, str | int | float) for thing in order):
            raise ValueError("order must be a text or a list of texts and numbers")
        things = [folded(str(thing)) for thing in order]
    else:
        raise ValueError("order must be a text or a list of texts and numbers")  # noqa: TRY004 - of one kind for callers
    if not things or not all(things):
        raise ValueError("order names nothing, or something blank")
    return things


def _parts(order: str) -> list[str]:
    for splitter in (_PARTS, _WEAK_PARTS):
        parts = [part.strip() for part in splitter.split(order) if part.strip()]
        if len(parts) > 1:
            return parts
    return list(order)


def is_in_order(statement: AnswerStatement, things: Sequence[str]) -> bool:
    """Return whether the statement gives this list at a place where a list may stand."""
    wanted = tuple(_Thing.of(thing) for thing in things)
    candidates = _candidates(statement, wanted)
    return any(_lists(version, wanted) for text in candidates for version in _versions(lowered(text)))


def _candidates(statement: AnswerStatement, wanted: Sequence[_Thing]) -> Iterator[str]:
    """Yield the texts that may hold the list: from the answer's start, after its last cue, else the last lines."""
    wide = _one_line_spelling(statement.text)
    text = _one_line_spelling(statement.paragraph)
    yield text
    yield from _behind_cues(text, wanted)
    if wide != text:
        yield wide  # a list of a line each, with empty lines between
    if statement.source is Source.WHOLE and wide:
        last = _one_line_spelling((paragraphs(statement.text[-MOST_CHARACTERS:]) or [""])[-1])
        yield last
        yield last.rpartition("\n")[2]
        yield from _behind_cues(last, wanted)


def _one_line_spelling(text: str) -> str:
    lines = _LINE_BLANKS.sub(" ", _BARE.sub("", text[-MOST_CHARACTERS:] if len(text) > MOST_CHARACTERS else text))
    return "\n".join(folded(line) for line in lines.strip().split("\n"))


def _behind_cues(text: str, wanted: Sequence[_Thing]) -> Iterator[str]:
    """Yield the text after the last cue that a thing follows, or after the last cue.

    One is tried, as earlier ones may be taken back; "because" and "as shown" come after a list and begin none.
    """
    cues = [cue.end() for cue in _CUE.finditer(text[:MOST_CHARACTERS])][-_MOST_CUES:]
    heads = {cue: lowered(text[cue : cue + _LONGEST_HEAD]) for cue in reversed(cues)}
    begun = (cue for cue, head in heads.items() if _begins(head, wanted))
    if cues:
        yield text[next(begun, cues[-1]) :]


def _versions(text: str) -> Iterator[str]:
    """The text, and the text without the numbers of its lines."""
    yield text
    numbers = [int(inner or outer) for inner, outer in _NUMBERING.findall(text)]
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        yield _NUMBERING.sub("", text)


@dataclass(frozen=True, slots=True)
class _Thing:
    """One thing to find: its pattern, and its character where it is only one, which may stand beside the next."""

    pattern: re.Pattern[str]
    single: str | None

    @classmethod
    def of(cls, thing: str) -> _Thing:
        signs = [sign for sign in lowered(thing) if sign != " "]
        return cls(re.compile("[ ]?".join(map(re.escape, signs))), signs[0] if len(signs) == 1 else None)


def _begins(head: str, wanted: Sequence[_Thing]) -> bool:
    """Return whether the text begins with a thing, or with things of one character side by side."""
    run = _RUN.match(head)
    singles = {thing.single for thing in wanted}
    if run and len(run.group()) > 1 and set(run.group()) <= singles:
        return True
    return any(
        match.end() == len(head) or not _joined(head[match.end() - 1], head[match.end()])
        for thing in wanted
        if (match := thing.pattern.match(head))
    )


def _lists(text: str, wanted: Sequence[_Thing]) -> bool:
    place = number = 0
    end = 0
    while number < len(wanted):
        taken = _taken(text, place, wanted[number:])
        if taken is not None:
            count, end = taken
            number, place = number + count, end
            if number < len(wanted) and (aside := _ASIDE.match(text, end)):
                place = aside.end()
        elif (separator := _SEPARATOR.match(text, place)) is not None:
            place = separator.end()
        else:
            return False
    return _ends(text, end)


def _taken(text: str, place: int, wanted: Sequence[_Thing]) -> tuple[int, int] | None:
    """Count the wanted things that stand right here, and where they end: one, or several characters as in CDAB."""
    if place and place < len(text) and _joined(text[place - 1], text[place]):
        return None
    match = wanted[0].pattern.match(text, place)
    if match is None:
        return None
    end = match.end()
    if end == len(text) or not _joined(text[end - 1], text[end]):
        return 1, end
    run = _RUN.match(text, place)
    side_by_side = "".join(thing.single or "\0" for thing in wanted[: len(run.group()) if run else 0])
    return (len(side_by_side), run.end()) if run and run.group() == side_by_side else None


def _joined(before: str, after: str) -> bool:
    return before.isalnum() and after.isalnum() and not is_unspaced(before) and not is_unspaced(after)


def _ends(text: str, end: int) -> bool:
    """Return whether the list stops there, without a further element."""
    if _END.match(text, end):
        return True
    # Words after a blank alone are prose ("C, D, A, B by size"); after a separator they are one thing more.
    return "," in text[:end] and re.match(r"[ ][a-z]{2,}", text[end : end + 40]) is not None
