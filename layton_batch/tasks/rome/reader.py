"""The five evaluators as they were meant: they read the answer that a reply states, not whatever its text contains.

An item whose ``evaluator_kwargs`` cannot be graded by gets 0 and an error in words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import without_thoughts
from layton_batch.tasks.rome.published import RomeGrade

# ---- one spelling, and the part of a reply that states its answer --------------------------------------------------

_SPELLING = str.maketrans(
    dict.fromkeys("‐‑‒–—―−", "-") | dict.fromkeys("‘’′ʼ", "'") | dict.fromkeys("“”", '"')
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff") | {"\u2044": "/", "⋅": "·", "・": "·"}
)  # fmt: skip
_BOX = re.compile(r"\\f?box(?:ed)?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,50}\}){0,50}\})+)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s?\{([^{}]{1,60})\}\s?\{([^{}]{1,60})\}")
_DRESSING = re.compile(
    r"\\(?:text|math|f?box)[a-z]*|\\[,;! (\[\])]|```\w{0,10}|[*`$#{}]"
    r"|</?[a-z_]{1,12}\s?/?>|\[/?INST\]"
)
_LABEL = re.compile(
    r"(?:\banswers?\b|答案)[^\w\n:=(]{0,4}(?:[:=]|\b(?:is|are)\b:?|[是为][:]?|\n)|<answer>",
    re.IGNORECASE,
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n|\n\s*\([^()\n]*\)\s*$")
_MOST = 20_000  # characters at the end of a reply that are read


@dataclass(frozen=True, slots=True)
class Statement:
    """The stated answer: everything behind the last label, or in the last box (``is_marked``), else the whole reply."""

    text: str
    is_marked: bool

    @property
    def paragraph(self) -> str:
        """The first paragraph, without a remark in brackets below it."""
        return _PARAGRAPH.split(self.text, maxsplit=1)[0].strip()

    @property
    def answer(self) -> str:
        """The first paragraph of a marked answer, else the whole text."""
        return self.paragraph if self.is_marked else self.text


def stated_answer(reply: str) -> Statement:
    """Find the statement of the answer in a reply."""
    text = _spelled(without_thoughts(reply)[-_MOST:]).rstrip()
    label = max((label.end() for label in _LABEL.finditer(text) if label.end() < len(text)), default=None)
    rest = text if label is None else text[label:]
    boxes = _BOX.findall(rest)
    rest = _DRESSING.sub("", _FRACTION.sub(r"\1/\2", boxes[-1] if boxes else rest)).replace("\\", "")
    return Statement(rest.strip(), label is not None or bool(boxes))


def _spelled(text: str) -> str:
    """Return the text in one spelling of widths, dashes, quotes and digits."""
    return unicodedata.normalize("NFKC", text.translate(_SPELLING)).translate(_SPELLING)


# ---- the evaluators ------------------------------------------------------------------------------------------------

_Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
_Names = Annotated[_Texts, Field(min_length=1)]
_Number = Annotated[int | float, Field(allow_inf_nan=False)]


class _Evaluator(BaseModel):
    """The arguments of an evaluator, as annotations have them, and its rule."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @abstractmethod
    def mark(self, statement: Statement) -> RomeGrade:
        """Return the score of a stated answer. Raises ValueError for arguments that nothing can be graded by."""


# ---- names: key items and locations

_DENIED = re.compile(
    r"(?:\b(?:not|never|no|neither|nor|without|isn't|wasn't|rather than|instead of|except)\b|不是|并非|不在)"
    r"[^.;:!?,\n]{0,30}$"
)
_SPACED = r"[^\W_\u0e00-\u0eff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff]"
"""A letter or digit of a script that has blanks between words."""


def _folded(text: str) -> str:
    """Return the text as names are compared: one spelling, no accents, no case, one blank for many."""
    decomposed = unicodedata.normalize("NFD", _spelled(text).casefold())
    plain = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return " ".join(unicodedata.normalize("NFC", plain).split())


def _mentions(text: str, names: Sequence[str]) -> bool:
    """Return whether the folded text has one of the folded names as whole words, and somewhere without a denial before.

    A name of several words may go on ("North America" in "North Americas").
    """
    return any(
        not _DENIED.search(text[max(0, match.start() - 60) : match.start()])
        for name in filter(None, names)
        for match in re.finditer(_whole(name), text)
    )


def _whole(name: str) -> str:
    """Return the pattern of a name: at an end that is a letter or digit no other one follows."""
    begins = f"(?<!{_SPACED})" if re.match(_SPACED, name) else ""
    ends = f"(?!{_SPACED})" if " " not in name and re.match(_SPACED, name[-1]) else ""
    return f"{begins}{re.escape(name)}{ends}"


class _KeyItems(_Evaluator):
    """Every inner list has a name in the answer, or any one of a plain list."""

    key_items: Annotated[_Names | Annotated[list[_Names], Field(min_length=1)], Field(union_mode="left_to_right")]
    remove_space: bool = False

    def mark(self, statement: Statement) -> RomeGrade:
        groups = [self.key_items] if isinstance(self.key_items[0], str) else self.key_items
        blank = "" if self.remove_space else " "
        text = _folded(statement.text).replace(" ", blank)
        folded = ([_folded(name).replace(" ", blank) for name in group] for group in groups)
        return RomeGrade(int(all(_mentions(text, names) for names in folded)), statement.text)


class _Location(_Evaluator):
    """The answer is worth what the first list is that has a name in it."""

    location_fine_grained: _Names
    location_coarse_grained: _Texts = []
    fine_grained_score: _Number = 1.0
    coarse_grained_score: _Number = 0.5

    def mark(self, statement: Statement) -> RomeGrade:
        text = _folded(statement.text)
        lists = (
            (self.location_fine_grained, self.fine_grained_score),
            (self.location_coarse_grained, self.coarse_grained_score),
        )
        scores = (score for names, score in lists if _mentions(text, [_folded(name) for name in names]))
        return RomeGrade(next(scores, 0), statement.text)


# ---- letters of options

_LETTER = r"(?<![A-Za-z0-9'])[A-Z](?![A-Za-z0-9']|\s+(?!is\b|and\b|or\b|because\b)[a-z]+)"
_GROUP = (
    rf"[(\[{{<\"']?{_LETTER}[)\]}}>.\"']{{0,2}}"
    rf"(?:(?:\s?[,;/&+、|与和及]\s?(?:and\s|or\s)?|\s(?:and|or)?\s?|)[(\[]?{_LETTER}[)\].]{{0,2}})*"
)
_LEADING = re.compile(rf"\W*({_GROUP})")
_BETWEEN_LETTERS = re.compile(r"[\s,;/&+、|()\[\]<>.。:\"'与和及-]|\band\b")


class _Choices(_Evaluator):
    """The answer commits to the label's letters; small ones alone are letters if there are as many."""

    label: Annotated[str, Field(min_length=1)]

    def mark(self, statement: Statement) -> RomeGrade:
        wanted, text = set(_BETWEEN_LETTERS.sub("", self.label).upper()), statement.answer
        if not wanted:
            raise ValueError("label names no letter")
        bare = _BETWEEN_LETTERS.sub("", text)
        if re.fullmatch(f"[A-Z]{{1,26}}|[a-z]{{{len(wanted)}}}", bare):
            letters = bare.upper() if len(set(bare)) == len(bare) else ""
        else:
            leading = _LEADING.match(text)
            groups = [leading[1]] if leading else re.findall(_GROUP, text)
            letters = "".join(dict.fromkeys(re.findall("[A-Z]", groups[-1]))) if groups else ""
        return RomeGrade(int(set(letters) == wanted), letters)


# ---- lists in order

_SEPARATORS = re.compile(r"[-=]>|[,;|/>→⇒、\n]+|\s-+\s|\b(?:and\s)?then\b|\band\b")


class _OrderedList(_Evaluator):
    """The answer lists just these things in this order; things of one letter may stand without separators."""

    order: str | Annotated[list[str | int | float], Field(min_length=1)]

    def mark(self, statement: Statement) -> RomeGrade:
        if isinstance(self.order, str):
            things = _parts(_spelled(self.order))
            things = things if len(things) > 1 else list("".join(things))
        else:
            things = [_folded(str(thing)) for thing in self.order]
        if not things or not all(things):
            raise ValueError("order names nothing, or something blank")
        parts = _parts(statement.paragraph)
        letters = re.sub(r"[\s.-]", "", "".join(parts))
        are_letters = len(parts) in (1, len(things)) and all(len(thing) == 1 for thing in things)
        is_right = parts == things or (are_letters and letters == "".join(things))
        return RomeGrade(int(is_right), statement.paragraph)


def _parts(text: str) -> list[str]:
    parts = (_folded(part.strip(" .。()[]\"'")) for part in _SEPARATORS.split(text.casefold()))
    return [part for part in parts if part]


# ---- numbers

_NUMERAL = re.compile(
    r"(?<![\w.^])(?P<sign>-|minus\s)?\s?(?P<digits>\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?!\d)"
    r"(?:(?:\s?(?:x|×|\btimes\b|·)\s?1[0e]|e)(?P<power>[+-]?\d+))?"
    r"(?:\s?/\s?(?P<below>\d+))?\s?(?P<scale>thousand|million|billion|万|亿)?"
)
"""A number; powers of ten are written 1e6."""
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class _NumberMatching(_Evaluator):
    """The first number of a marked answer, or the last one of another, is within a tenth of a ``float``, or within a
    thousandth of an ``int``."""

    value_to_match: _Number

    def mark(self, statement: Statement) -> RomeGrade:
        gold, numbers = self.value_to_match, list(_numbers(statement.answer.casefold()))
        allowed = abs(gold) * 0.1 if isinstance(gold, float) else 1e-3
        stated = math.nan if not numbers else numbers[0] if statement.is_marked else numbers[-1]
        return RomeGrade(int(stated == gold or abs(stated - gold) < allowed), statement.answer)


def _numbers(text: str) -> Iterator[float]:
    """Yield the numbers of a text; of a text without digits those that its words name."""
    numerals = list(_NUMERAL.finditer(text.replace("10^", "1e")))
    yield from map(_value, numerals)
    if not numerals:
        yield from (float(_WORDS.index(word)) for word in re.findall("[a-z]+", text) if word in _WORDS)


def _value(match: re.Match[str]) -> float:
    value = float(f"{re.sub('[ ,]', '', match['digits'])}e{match['power'] or 0}") / (float(match["below"] or 1) or 1)
    return (-value if match["sign"] else value) * _SCALES.get(match["scale"], 1.0)


EVALUATORS: Mapping[str, type[_Evaluator]] = {
    "key_items_matching": _KeyItems,
    "choices_matching": _Choices,
    "ordered_list_matching": _OrderedList,
    "number_matching": _NumberMatching,
    "location_matching": _Location,
}
"""The evaluators by the name an annotation gives them."""


def grade(evaluator: str, arguments: Mapping[str, JsonValue], reply: str) -> RomeGrade:
    """Return the score of a reply by the evaluator of this name. Never raises."""
    rule, statement = EVALUATORS.get(evaluator), stated_answer(reply)
    if rule is None:
        return RomeGrade(0, reply, f"there is no evaluator {evaluator!r} (there are {', '.join(EVALUATORS)})")
    try:
        return rule.model_validate(dict(arguments)).mark(statement)
    except ValidationError as error:
        fault = error.errors()[0]
        reason = f"{fault['loc'][0]}: {fault['msg']} ({evaluator} takes {', '.join(rule.model_fields)})"
    except (ValueError, OverflowError) as error:
        reason = str(error)
    return RomeGrade(0, statement.text, reason)
