"""Whether a name is mentioned only to be ruled out: "not Tokyo", "Tokyo is wrong", "不是东京"."""

from __future__ import annotations

import re

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
    """Whether the words around ``text[start:end]`` deny it, within its clause."""
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
