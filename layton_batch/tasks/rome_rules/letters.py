"""The letters of the options an answer names: "D. Paris", "(a), (c)", "A and C", "CA", "so B", "选择D". Linear time.

Not letters of options: the article in "A dog", the pronoun in "I think", capitals of words, and letters ruled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layton_batch.tasks.rome_rules.mentions import is_ruled_out
from layton_batch.tasks.rome_rules.statement import AnswerStatement, Source

MOST_CHARACTERS = 8_000
"""What a reply says before its last so many characters, or after the first ones behind a label, is not read."""

_OPEN, _CLOSE = r"[(\[{<\"']", r"[)\]}>\"']"
_ONE = rf"(?:{_OPEN}\s?)?(?<![A-Za-z0-9])[A-Za-z](?![A-Za-z0-9]|'[a-z])(?:\s?{_CLOSE})?\.?"
_BETWEEN = (
    r"(?:\s?[,;/&+、|]\s?(?:(?:and|or)\s)?|\s(?:and|or|as well as|&)\s|\s?[与和及或跟]\s?"
    r"|(?<!\.)\s{1,3}|(?<=[)\]}>.]))"  # blanks, or nothing at all behind a bracket or full stop
)
_GROUP = re.compile(rf"(?:{_ONE})(?:{_BETWEEN}{_ONE}){{0,30}}|(?<![A-Za-z0-9])(?:[A-Z]{{2,26}})(?![A-Za-z0-9]|'[a-z])")
_LETTER = re.compile(rf"({_OPEN}\s?)?(?<![A-Za-z0-9])([A-Za-z])(?![A-Za-z0-9])(\s?{_CLOSE})?")
_WORD_AFTER = re.compile(r"[ \t]{1,3}([A-Za-z][A-Za-z']*)")
# After the article comes a noun; after an option's letter may come a word that ties sentences together.
_TIES = frozenset(
    re.findall(
        "[a-z]+",
        "is was are were am and or because since as due based but which if when would can should will "
        "has have only then so not for with in on it that this these those both by from while where "
        "however therefore thus being fits matches shows best seems appears must does answer correct",
    )
)
_LEAD = re.compile(
    r"[\s\W_]{0,20}(?:(?:"
    r"(?:the|my|final|correct|right|best|answers?|options?|choices?|letters?|is|are|was|would|be|should|must|it|it's|i|"
    r"i'd|i'll|we|choose|chose|select|selected|pick|picked|think|believe|say|go|going|with|that|therefore|so|thus|hence|"
    r"if|both|then|in|conclusion|to|chosen)(?![A-Za-z])"
    r"|正确|最终|答案|选项|选择|应该|应|该|选|是|为|故|因此|所以|我|认为|的)[\s\W_]{0,20}){0,24}?",
    re.IGNORECASE,
)
_STRONG_CUE = re.compile(
    r"(?:\b(?:answers?|options?|choices?)(?:\s(?:is|are|would be|should be|must be))?|\b(?:choose|select|pick|go with)|"
    r"故选|应选|选择|选项(?:为|是)?|答案(?:为|是)?|选)[\s:\"'(*]{0,6}$",
    re.IGNORECASE,
)
_WEAK_CUE = re.compile(
    r"(?:\b(?:so|therefore|thus|hence|is|are|be|with)|因此|所以|故|是|为)[\s,:\"'(*]{0,6}$", re.IGNORECASE
)
_NAMES_ONE = re.compile(
    r"(?:\b(?:option|choice|answer|letter)s?|选项|选择?|答案)[\s:]{0,3}(?:is\s|为|是)?[\"'(]?$", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)])[.!?](?=\s)|[。\n]")
_MARKED = re.compile(
    r"(?:^|[,;\n]|\band\b)\s{0,3}(?:and\s)?(?:\(([A-Z])\)|([A-Z])[.):](?=\s)|[Oo]ptions?\s\(?([A-Z])\b\)?)(?=([^,;\n]{0,200}))"
)
_SMALL_LISTED = re.compile(r"(?<![A-Za-z0-9(])\(?([a-z])\)[ \t]")
_DENIAL = re.compile(r"\b(?:not|wrong|incorrect|false|isn't|eliminated|ruled)\b|错|不", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*(?:[-•+]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_BLANKS = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Letters named together, in upper case and in order; ``end`` is behind the last one and its bracket."""

    letters: str
    start: int
    end: int


def label_letters(label: str) -> frozenset[str]:
    """The option letters of an annotation's label: "AC", "a, c", "B. Paris"; empty where it is no list of letters."""
    bare = re.sub(r"[\s,;/&+、|()\[\]]|\band\b", "", label)
    if re.fullmatch("[A-Za-z]{1,26}", bare):
        return frozenset(bare.upper())
    first = re.match(r"\s*\(?([A-Za-z])[.):]", label)
    return frozenset(first.group(1).upper()) if first else frozenset()


def chosen_letters(statement: AnswerStatement, wanted: int) -> str:
    """The letters the answer commits to, in order and without repeats; "" where there are none.

    ``wanted``: how many the label has. Only a run of exactly so many small letters ("ac") is read as letters.
    """
    if statement.source is Source.WHOLE:
        return _of_reply(_tidied(statement.text.strip()[-MOST_CHARACTERS:]), wanted)
    text = _tidied(statement.paragraph[:MOST_CHARACTERS])
    group = _leading(text, wanted)
    if group is not None:
        return _with_marked(text, group)
    group = _cued(text) or _last_group(text)
    return group.letters if group else ""


def _tidied(text: str) -> str:
    return _BLANKS.sub(" ", _BULLET.sub("", text.replace("{", " ").replace("}", " "))).strip()


def _of_reply(text: str, wanted: int) -> str:
    """Read a reply that does not mark its answer: try a line of letters alone, a cue, the opening, the end."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    for line in ("\n".join(lines), lines[-1], lines[0]):
        group = _leading(line, wanted)
        if group is not None and not re.search(r"\w", line[group.end :]):
            return group.letters
    if all((option := _MARKED.match(line)) and not _DENIAL.search(option[4]) for line in lines):
        return _with_marked("\n".join(lines), Group("", 0, 0))
    likely = _cued(text) or _leading(lines[0], wanted) or _leading(lines[-1], wanted) or _last_group(text)
    return likely.letters if likely else ""


def _with_marked(text: str, first: Group) -> str:
    """The letters of a list whose members come with their texts: "(A) Paris, (C) Rome"; "option A and option C"."""
    marked = list(_MARKED.finditer(text))
    if not marked or marked[0].start() > first.start:
        return first.letters
    options = [option for option in marked if not _DENIAL.search(option.group(4))]
    return "".join(dict.fromkeys(first.letters + "".join(option[1] or option[2] or option[3] for option in options)))


def _leading(text: str, wanted: int) -> Group | None:
    """The group a text opens with, but for words that only announce it."""
    small = re.fullmatch(r"\W{0,6}([a-z]{1,26})\W{0,6}", text)
    if small and len(small.group(1)) == wanted == len(set(small.group(1))):
        return Group(small.group(1).upper(), small.start(1), small.end(1))
    listed = _SMALL_LISTED.match(text) if wanted == 1 else None
    if listed and not _SMALL_LISTED.search(text, listed.end()):
        return Group(listed.group(1).upper(), listed.start(1), listed.end(1) + 1)
    alone = re.fullmatch(rf"\W{{0,6}}{_ONE}(?:{_BETWEEN}{_ONE}){{0,30}}\W{{0,6}}", text) is not None
    for group in _groups(text, small_too=alone):
        before = text[max(0, group.start - 200) : group.start]
        if len(before) == group.start and _LEAD.fullmatch(before) and not is_ruled_out(text, group.start, group.end):
            return group
        return None
    return None


def _cued(text: str) -> Group | None:
    """The last group that stands behind "option", "answer is", "选", else behind "so", "is"."""
    weak = strong = None
    for group in _groups(text):
        before = text[max(0, group.start - 32) : group.start]
        if is_ruled_out(text, group.start, group.end):
            continue
        if _STRONG_CUE.search(before):
            strong = group
        elif _WEAK_CUE.search(before):
            weak = group
    return strong or weak


def _last_group(text: str) -> Group | None:
    """The last group that is not ruled out, in the last sentence that has one; two different ones are no answer."""
    allowed = [group for group in _groups(text) if not is_ruled_out(text, group.start, group.end)]
    if not allowed:
        return None
    start = max((stop.end() for stop in _SENTENCE_END.finditer(text, 0, allowed[-1].start)), default=0)
    inside = {group.letters for group in allowed if group.start >= start}
    return allowed[-1] if len(inside) == 1 else None


def _groups(text: str, small_too: bool = False) -> Iterator[Group]:
    """Every group of letters that are not words, articles or pronouns."""
    for match in _GROUP.finditer(text):
        run = match.group()
        if run.isascii() and run.isalpha() and len(run) > 1:
            if len(set(run)) == len(run):
                yield Group(run, match.start(), match.end())
            continue
        letters = list(_kept(text, match, small_too))
        yield from _together(letters)


def _kept(text: str, match: re.Match[str], small_too: bool) -> Iterator[re.Match[str]]:
    for letter in _LETTER.finditer(text, match.start(), match.end()):
        bracketed = letter.group(1) is not None and letter.group(3) is not None
        sign = letter.group(2)
        if bracketed:
            yield letter
        elif sign.islower():
            if small_too or _NAMES_ONE.search(text[max(0, letter.start() - 24) : letter.start()]):
                yield letter
        elif not _is_word(text, letter, sign):
            yield letter


def _is_word(text: str, letter: re.Match[str], sign: str) -> bool:
    """Return whether a lone A is the article, or a lone I the pronoun: a plain word follows."""
    if sign not in "AI":
        return False
    after = _WORD_AFTER.match(text, letter.end(2))
    if after is None or len(after.group(1)) == 1 or after.group(1).isupper():
        return False
    word = after.group(1)
    if sign == "I":
        return word.islower() and word not in {"is", "and", "or", "because", "since"}
    return word.islower() and word not in _TIES


def _together(letters: Sequence[re.Match[str]]) -> Iterator[Group]:
    """The letters of one match of the group pattern; where a word dropped out between, the group ends."""
    run: list[re.Match[str]] = []
    for letter in letters:
        if run and letter.start() - run[-1].end() > 16:
            yield _group(run)
            run = []
        run.append(letter)
    if run:
        yield _group(run)


def _group(run: Sequence[re.Match[str]]) -> Group:
    letters = "".join(dict.fromkeys(letter.group(2).upper() for letter in run))
    return Group(letters, run[0].start(2), run[-1].end())
