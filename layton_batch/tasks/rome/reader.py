"""The five evaluators as they were meant: they read the answer that a reply states, not whatever its text contains.

An item whose ``evaluator_kwargs`` cannot be graded by gets 0 and an error in words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.records import JsonValue
from layton_batch.tasks.rome.published import RomeGrade, Score
from layton_batch.tasks.thoughts import without_thoughts

Arguments = Mapping[str, JsonValue]

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
        return _PARAGRAPH.split(self.text.strip(), maxsplit=1)[0].strip()


def stated_answer(reply: str) -> Statement:
    """Find the statement of the answer in a reply."""
    text = _spelled(without_thoughts(reply)[-_MOST:]).rstrip()
    label = max((label.end() for label in _LABEL.finditer(text) if label.end() < len(text)), default=None)
    rest = text if label is None else text[label:]
    boxes = [box.group(1) for box in _BOX.finditer(rest)]
    rest = _DRESSING.sub("", _FRACTION.sub(r"\1/\2", boxes[-1] if boxes else rest)).replace("\\", "")
    return Statement(rest, label is not None or bool(boxes))


def _spelled(text: str) -> str:
    """Return the text in one spelling of widths, dashes, quotes and digits."""
    return unicodedata.normalize("NFKC", text.translate(_SPELLING)).translate(_SPELLING)


# ---- names: key items and locations --------------------------------------------------------------------------------

_DENIED = re.compile(
    r"(?:\b(?:not|never|no|neither|nor|without|isn't|wasn't|rather than|instead of|except)\b|不是|并非|不在)"
    r"[^.;:!?,\n]{0,30}$"
)
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff]")


def _folded(text: str) -> str:
    """Return the text as names are compared: one spelling, no accents, no case, one blank for many."""
    decomposed = unicodedata.normalize("NFD", _spelled(text).casefold())
    plain = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return " ".join(unicodedata.normalize("NFC", plain).split())


def _mentions(text: str, name: str) -> bool:
    """Return whether the folded text has the name as whole words, and somewhere without a denial before it.

    A name of several words may go on ("North America" in "North Americas").
    """
    wanted = _folded(name)
    for match in re.finditer(re.escape(wanted), text) if wanted else ():
        before, after = text[: match.start()], text[match.end() :]
        goes_on = _is_joined(wanted[-1], after[:1]) and " " not in wanted
        if not (_is_joined(before[-1:], wanted[0]) or goes_on or _DENIED.search(before[-60:])):
            return True
    return False


def _is_joined(before: str, after: str) -> bool:
    """Return whether two characters stand in one word. Scripts without blanks have no words."""
    return before.isalnum() and after.isalnum() and not (_UNSPACED.match(before) or _UNSPACED.match(after))


def _key_items(statement: Statement, arguments: Arguments) -> RomeGrade:
    items = arguments.get("key_items")
    if not isinstance(items, list) or not items:
        raise ValueError("key_items must be a list with something in it")
    groups = [items] if all(isinstance(item, str) for item in items) else items
    names = [_names(group, f"key_items[{place}]") for place, group in enumerate(groups)]
    text = _folded(statement.text)
    if arguments.get("remove_space") is True:
        text, names = text.replace(" ", ""), [[name.replace(" ", "") for name in group] for group in names]
    return RomeGrade(int(all(any(_mentions(text, name) for name in group) for group in names)), statement.text.strip())


def _names(value: JsonValue, where: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    names = [name for name in values if isinstance(name, str) and name.strip()] if isinstance(values, list) else []
    if not names:
        raise ValueError(f"{where} must be a list of texts")
    return names


def _location(statement: Statement, arguments: Arguments) -> RomeGrade:
    coarse = arguments.get("location_coarse_grained")
    places = (
        (_names(arguments.get("location_fine_grained"), "location_fine_grained"), "fine_grained_score", 1.0),
        (_names(coarse, "location_coarse_grained") if coarse else [], "coarse_grained_score", 0.5),
    )
    text = _folded(statement.text)
    for names, worth, default in places:
        score = _finite(arguments.get(worth, default), worth)
        if any(_mentions(text, name) for name in names):
            return RomeGrade(score, statement.text.strip())
    return RomeGrade(0, statement.text.strip())


def _finite(value: JsonValue, name: str) -> Score:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number")
    return value


# ---- letters of options --------------------------------------------------------------------------------------------

_LETTER = r"(?<![A-Za-z0-9'])[A-Z](?![A-Za-z0-9']|\s+(?!is\b|and\b|or\b|because\b)[a-z]+)"
_GROUP = (
    rf"[(\[{{<\"']?{_LETTER}[)\]}}>.\"']{{0,2}}"
    rf"(?:(?:\s?[,;/&+、|与和及]\s?(?:and\s|or\s)?|\s(?:and|or)?\s?|)[(\[]?{_LETTER}[)\].]{{0,2}})*"
)
_LEADING = re.compile(rf"\W*({_GROUP})")
_BETWEEN_LETTERS = re.compile(r"[\s,;/&+、|()\[\]<>.。:\"'与和及-]|\band\b")


def _choices(statement: Statement, arguments: Arguments) -> RomeGrade:
    label = arguments.get("label")
    wanted = set(_BETWEEN_LETTERS.sub("", label).upper()) if isinstance(label, str) else set()
    if not wanted:
        raise ValueError("label must be a text with at least one letter")
    letters = _letters(statement, len(wanted))
    return RomeGrade(int(set(letters) == wanted), letters)


def _letters(statement: Statement, count: int) -> str:
    """Return the letters that the answer commits to, without repeats; ``count`` small ones alone are letters, too."""
    text = statement.paragraph if statement.is_marked else statement.text.strip()
    bare = _BETWEEN_LETTERS.sub("", text)
    if re.fullmatch(f"[A-Z]{{1,26}}|[a-z]{{{count}}}", bare):
        return bare.upper() if len(set(bare)) == len(bare) else ""
    leading = _LEADING.match(text)
    groups = [leading[1]] if leading else re.findall(_GROUP, text)
    return "".join(dict.fromkeys(re.findall("[A-Z]", groups[-1]))) if groups else ""


# ---- lists in order ------------------------------------------------------------------------------------------------

_SEPARATORS = re.compile(r"[-=]>|[,;|/>→⇒、\n]+|\s-+\s|\b(?:and\s)?then\b|\band\b", re.IGNORECASE)


def _ordered_list(statement: Statement, arguments: Arguments) -> RomeGrade:
    order = arguments.get("order")
    if isinstance(order, list) and order and all(isinstance(thing, str | int | float) for thing in order):
        things = [_folded(str(thing)) for thing in order]
    elif isinstance(order, str):
        things = _parts(_folded(order))
        things = things if len(things) > 1 else list("".join(things))
    else:
        raise ValueError("order must be a text or a list of texts and numbers")
    if not things or not all(things):
        raise ValueError("order names nothing, or something blank")
    read = statement.paragraph
    return RomeGrade(int(_lists(read, things)), read)


def _parts(text: str) -> list[str]:
    parts = (part.strip(" .。()[]\"'") for part in _SEPARATORS.split(text))
    return [part for part in parts if part]


def _lists(text: str, things: Sequence[str]) -> bool:
    """Return whether a text lists just these things; things of one letter may stand without separators."""
    parts = [_folded(part) for part in _parts(text.casefold())]
    if parts == list(things):
        return True
    letters = re.sub(r"[\s.-]", "", "".join(parts))
    return all(len(thing) == 1 for thing in things) and letters == "".join(things) and len(parts) in (1, len(things))


# ---- numbers -------------------------------------------------------------------------------------------------------

_NUMERAL = re.compile(
    r"(?<![\w.^])(?P<sign>-|minus\s)?\s?(?P<digits>\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?!\d)"
    r"(?:\s?(?:x|×|\btimes\b|·)\s?10\^?(?P<power>[+-]?\d+)|e(?P<exponent>[+-]?\d+)|\^(?P<raised>\d+))?"
    r"(?:\s?/\s?(?P<below>\d+))?\s?(?P<scale>thousand|million|billion|hundred|万|亿)?",
    re.IGNORECASE,
)
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}
_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WORDS = {name: value for value, name in enumerate(_NAMES)}


def _number(statement: Statement, arguments: Arguments) -> RomeGrade:
    gold = _finite(arguments.get("value_to_match"), "value_to_match")
    read = statement.paragraph if statement.is_marked else statement.text.strip()
    numbers = list(_numbers(read.casefold()))
    allowed = abs(gold) * 0.1 if isinstance(gold, float) else 1e-3
    stated = math.nan if not numbers else numbers[0] if statement.is_marked else numbers[-1]
    return RomeGrade(int(stated == gold or abs(stated - gold) < allowed), read)


def _numbers(text: str) -> Iterator[float]:
    """Yield the numbers of a text; of a text without digits those that its words name."""
    numerals = list(_NUMERAL.finditer(text))
    yield from map(_value, numerals)
    if not numerals:
        words = re.findall("[a-z]+", text)
        yield from (float(_WORDS[word]) for word in words if word in _WORDS)


def _value(match: re.Match[str]) -> float:
    value = float(re.sub("[ ,]", "", match["digits"]))
    if match["raised"]:
        value **= min(int(match["raised"]), 30)
    if power := match["power"] or match["exponent"]:
        value *= 10.0 ** min(int(power), 300)
    if match["below"] and int(match["below"]):
        value /= int(match["below"])
    return (-value if match["sign"] else value) * _SCALES.get((match["scale"] or "").casefold(), 1.0)


# ---- the evaluators ------------------------------------------------------------------------------------------------

EVALUATORS: Mapping[str, tuple[Callable[[Statement, Arguments], RomeGrade], tuple[str, ...]]] = {
    "key_items_matching": (_key_items, ("key_items", "remove_space")),
    "choices_matching": (_choices, ("label",)),
    "ordered_list_matching": (_ordered_list, ("order",)),
    "number_matching": (_number, ("value_to_match",)),
    "location_matching": (
        _location,
        ("location_fine_grained", "location_coarse_grained", "fine_grained_score", "coarse_grained_score"),
    ),
}
"""The evaluators by the name an annotation gives them, and the arguments each takes."""


def grade(evaluator: str, arguments: Arguments, reply: str) -> RomeGrade:
    """Return the score of a reply by the evaluator of this name. Never raises."""
    rule = EVALUATORS.get(evaluator)
    if rule is None:
        return RomeGrade(0, reply, f"there is no evaluator {evaluator!r} (there are {', '.join(EVALUATORS)})")
    function, names = rule
    statement = stated_answer(reply)
    if unknown := sorted(set(arguments) - set(names)):
        error = f"{evaluator} takes no {', '.join(unknown)} (it takes {', '.join(names)})"
        return RomeGrade(0, statement.text.strip(), error)
    try:
        return function(statement, arguments)
    except ValueError as error:
        return RomeGrade(0, statement.text.strip(), str(error))
