"""Names in a text: whole words in any spelling, and not merely ruled out. For key items and locations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from layton_batch.tasks.rome_rules.characters import folded, is_unspaced, lowered

_FRACTION = re.compile(r"\\frac ?\{([^{}]{1,60})\} ?\{([^{}]{1,60})\}")
_BRACES = re.compile(r"[{}]|_(?=[\d{])")
_PLURAL = re.compile(r"(?:'?s|es)(?![a-z0-9])")
_LONG_NAME = re.compile(r"\w[ ][^\W\d_]{4,}$")  # of several words, the last of four letters: no word by chance
_POINT = re.compile(r"(?<=[A-Za-z])\.(?=[A-Za-z ]|$)")
_INITIALS = re.compile(r"(?<![A-Za-z.])[A-Z]{2,3}(?![A-Za-z.])")
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{3,17}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,5}")
_SHORTEST_PLURAL = 3
_MOST_PLACES = 1_000


class Mentions:
    """A text in which names are looked for. ``squeezed``: blanks do not count, in the text nor in the names."""

    def __init__(self, text: str, squeezed: bool = False) -> None:
        self._cased = folded(_BRACES.sub("", _FRACTION.sub(r"\1/\2", text)))
        self._lower = lowered(self._cased)
        self._squeezed = squeezed
        self._places = [place for place, sign in enumerate(self._lower) if sign != " "] if squeezed else []
        self._searched = self._lower.replace(" ", "") if squeezed else self._lower

    def name(self, name: str) -> bool:
        """Return whether the text mentions the name somewhere without denying it. A blank name is never mentioned."""
        return any(
            self._is_whole(start, end, wanted) and not is_ruled_out(self._lower, start, end)
            for spelling in _spellings(folded(name))
            for wanted in [lowered(spelling.replace(" ", "") if self._squeezed else spelling)]
            for start, end in self._found(wanted)
        )

    def any_of(self, names: Iterable[str]) -> bool:
        """Return whether the text mentions one of the names."""
        return any(self.name(name) for name in names)

    def _found(self, wanted: str) -> Iterator[tuple[int, int]]:
        place = self._searched.find(wanted) if wanted else -1
        # The bound keeps a text that is one name over and over from taking long; an honest one says it a few times.
        for _ in range(_MOST_PLACES):
            if place < 0:
                return
            end = place + len(wanted)
            yield (self._places[place], self._places[end - 1] + 1) if self._squeezed else (place, end)
            place = self._searched.find(wanted, place + 1)

    def _is_whole(self, start: int, end: int, wanted: str) -> bool:
        text = self._cased
        if start and _joined(text[start - 1], text[start]):
            return False
        if wanted[0].isdigit() and _runs_on_before(self._lower, start):
            return False
        if (
            wanted[-1].isdigit()
            and self._lower[end : end + 1] in {".", ","}
            and self._lower[end + 1 : end + 2].isdigit()
        ):
            return False
        if wanted[-1].isalnum() and text.startswith(("#", "++"), end):
            return False  # C is not C++
        if end == len(text) or not _joined(text[end - 1], text[end]):
            return True
        if wanted.isdigit():
            return text[end].isalpha()  # a unit: 10km
        if _LONG_NAME.search(wanted):
            return text[end].isalpha()  # a compound: Tokyo Disneyland
        return len(wanted) >= _SHORTEST_PLURAL and wanted.isalpha() and _PLURAL.match(self._lower, end) is not None


def _spellings(name: str) -> Iterator[str]:
    """The name, and how else it is written: St. Louis without the point, DC with points, 12000 with a comma or not."""
    yield name
    if (bare := _POINT.sub("", name)) != name:
        yield bare
    elif (pointed := _INITIALS.sub(lambda match: ".".join(match.group()) + ".", name)) != name:
        yield pointed
    if _WHOLE_NUMBER.fullmatch(name):
        yield f"{int(name):,}" if name.isdigit() else name.replace(",", "")


def _joined(before: str, after: str) -> bool:
    """Return whether two neighbouring characters belong to one word; DisneySea is two words."""
    if not (before.isalnum() and after.isalnum()) or is_unspaced(before) or is_unspaced(after):
        return False
    return not (before.islower() and after.isupper())


def _runs_on_before(text: str, start: int) -> bool:
    """Return whether a number continues to the left: 3.14 before 14, 1,234 before 234, -7 before 7."""
    sign, before = text[start - 1 : start], text[start - 2 : start - 1] if start > 1 else ""
    if sign in {".", ","}:
        return before.isdigit()
    return sign == "-" and not (before.isalnum() or before in {")", "]"})


# ---- ruled out -----------------------------------------------------------------------------------------------------


_BEFORE, _AFTER = 100, 60
_CLAUSE = re.compile(r"[.;:!?,\n()\[\]。、]|\s-\s|\bbut\b|\bhowever\b|\byet\b|而是|但是?|却", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:\bnot\b|n't\b|\b(?:never|cannot|neither|nor|unlike|excluding|ruled? out|ruling out|rejected?|rejecting|"
    r"rather than|instead of|as opposed to|except(?: for)?|other than|no longer)\b)"
    r"(?P<words>(?:[ ]+[^\s]{1,30}){0,6})[ \"'(*]{0,4}$",
    re.IGNORECASE,
)
# A verb after the denial ends its reach: in "the team that does not travel is X" nothing is said against X.
_ENDS_REACH = re.compile(
    r"\b(?:is|are|was|were|because|so|which|who|that|has|have|had|will|can|only|just|merely|simply|sure|certain|doubt|"
    r"far|until|without|and|therefore|hence|thus)\b",
    re.IGNORECASE,
)
_NO = re.compile(r"\bno[ ]$", re.IGNORECASE)
_DENIED_CHINESE = re.compile(r"(?:不是|并非|而非|绝非|不在|不为|不属于|不包括|排除|除了|没有)[^\s,。]{0,4}$")
_REFUTED = re.compile(
    r"['\"*)\]]{0,3}\s(?:is|was|are|were|seems?|would be|can be|could be|must be)(?:n't| not)?\s(?:\w{1,12}ly\s)?"
    r"(?:(?:wrong|incorrect|false|ruled out|excluded|eliminated|impossible|the wrong|an incorrect)\b"
    r"|(?<=not\s)(?:the\s|a\s)?(?:correct|right|true|answer|one|case|location|place|order|possible|it)\b"
    r"|(?<=n't\s)(?:the\s|a\s)?(?:correct|right|true|answer|one|case|location|place|order|possible|it)\b)"
    r"|['\"*)\]]{0,3}\s?(?:这个选项|选项)?(?:是错|错误|不对|不正确|不是正确|不成立|被排除|可以排除)",
    re.IGNORECASE,
)


def is_ruled_out(text: str, start: int, end: int) -> bool:
    """Return whether words around ``text[start:end]`` deny it within its clause: "not Tokyo", "Tokyo is wrong"."""
    before = text[max(0, start - _BEFORE) : start]
    clause_start = 0
    for stop in _CLAUSE.finditer(before):
        clause_start = stop.end()
    clause = before[clause_start:]
    if denied := _DENIED.search(clause):
        if not _ENDS_REACH.search(denied.group("words")):
            return True
    elif _NO.search(clause) or _DENIED_CHINESE.search(clause):
        return True
    return _REFUTED.match(text, end, end + _AFTER) is not None
