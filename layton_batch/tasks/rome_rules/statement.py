"""The part of a reply that states its answer: after a label, in a box, after "the answer is", or all of it. Plain text,
without LaTeX, Markdown and chat-template dressing. Linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice

from layton_batch.tasks.rome_rules.characters import lowered, spelled
from layton_batch.tasks.thoughts import without_thoughts

# ---- text without its LaTeX, Markdown and chat-template dressing, and what stands in its boxes ---------------------


_SYMBOLS = {
    "times": "×", "cdot": "×", "div": "/", "approx": "≈", "simeq": "≈", "sim": "~", "pm": "±", "pi": "π", "sqrt": "√",
    "infty": "∞", "circ": "°", "degree": "°", "to": "→", "rightarrow": "→", "longrightarrow": "→", "Rightarrow": "→",
    "implies": "→", "gt": ">", "lt": "<", "succ": ">", "prec": "<", "ldots": "...", "dots": "...", "frac": "\\frac",
    "dfrac": "\\frac", "tfrac": "\\frac", "cfrac": "\\frac", "quad": " ", "qquad": " ", "newline": "\n",
}  # fmt: skip
_DRESSING = frozenset(
    re.findall(
        "[A-Za-z]+",
        "text textbf textit textrm textsf texttt textsc textnormal emph mathrm mathbf mathit mathsf mathbb "
        "mathcal mathtt mbox hbox operatorname boxed fbox framebox underline left right big Big bigl bigr Bigl Bigr "
        "displaystyle textstyle bf it rm bm boldsymbol ensuremath",
    )
)
_TEX = re.compile(r"\\(?:([A-Za-z]+)|(.))", re.DOTALL)
_TAG = re.compile(
    r"</?(?:em|strong|sub|div|span|img|code|pre|li|ul|ol|answer|final_answer|small|big|center)\s?/?>"
    r"|\[/?INST\]|<\|[^|<>\n]{1,40}\|>",
    re.IGNORECASE,
)
_PAIRED = re.compile(r"<([bipu])>([^<>]{0,400})</\1>")  # alone, <b> may be how an option is written
_BREAK, _RAISED = re.compile(r"<br\s?/?>", re.IGNORECASE), re.compile(r"<sup>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
_POWER, _PRODUCT = re.compile(r"(?<=\d)\*\*(?=[\d(-])"), re.compile(r"(?<=\d) ?\*(?= ?\d)")
_BULLET, _HEADING = re.compile(r"^[ \t]*[*+•] ", re.MULTILINE), re.compile(r"^[ \t]*(?:#{1,6} |> )", re.MULTILINE)
_SLANTED = re.compile(r"(?<!\w)_(?=\w)|(?<=[^\W_])_(?![\w{])|__+")
_WORD = re.compile(r"\w")
_BRACE = re.compile(r"\\(?:boxed|fbox|framebox)\s?\{|\\.|[{}]", re.DOTALL)


def plain(text: str) -> str:
    """The words alone. Braces stay, as do ``\\frac`` and ``_`` inside words: they tell numbers apart."""
    if "<" in text or "[" in text:
        text = _PAIRED.sub(r"\2", _TAG.sub("", _RAISED.sub("^", _BREAK.sub("\n", text))))
    if "`" in text:
        text = _FENCE.sub("", text).replace("`", "")
    if "*" in text:
        text = _BULLET.sub("- ", _PRODUCT.sub("×", _POWER.sub("^", text))).replace("*", "")
    if "\\" in text:
        text = _TEX.sub(_undressed, text)
    if "#" in text or ">" in text:
        text = _HEADING.sub("", text)
    return (_SLANTED.sub("", text) if "_" in text else text).replace("$", " ")


def _undressed(match: re.Match[str]) -> str:
    name, sign = match.groups()
    if name is not None:
        return "" if name in _DRESSING else _SYMBOLS.get(name, name)
    if sign in "%&#_{}":
        return str(sign)
    return "\n" if sign == "\\" else " "  # spaces, and the brackets that mathematics stands in


def boxes(text: str) -> list[tuple[int, int]]:
    """Return the spans of the contents of the outermost ``\\boxed{…}`` and ``\\fbox{…}``; empty ones are left out."""
    if "boxed" not in text and "box{" not in text:
        return []
    outermost: list[tuple[int, int]] = []
    opened: list[int] = []  # where each open brace's content begins, or -1 for a brace that is no box
    for brace in _BRACE.finditer(text):
        sign = brace.group()
        if sign == "}" and opened:
            start = opened.pop()
            if start >= 0 and _WORD.search(text, start, brace.start()):
                while outermost and outermost[-1][0] > start:
                    outermost.pop()
                outermost.append((start, brace.start()))
        elif sign == "{":
            opened.append(-1)
        elif len(sign) > 2:
            opened.append(brace.end())
    return outermost


# ---- the statement -------------------------------------------------------------------------------------------------


_MARKS = r"[*_`\"')\]}]{0,6}"
# A label, from its word on:  Answer:  **Final Answer**:  answer (in km) =  答案:
_LABEL = re.compile(
    rf"(?:answers?|ans|答案|答)(?![A-Za-z]){_MARKS}[ \t]?(?:\([^()\n]{{1,40}}\))?[ \t]?{_MARKS}\s?[:=]|answer>",
    re.IGNORECASE,
)
# A heading, or a label on a line by itself.
_LINE = re.compile(
    r"[ \t#>*_]{0,12}(?:the[ ])?(?:(?:final|correct|最终|正确)[ ]?)?(?:answers?|答案)[ \t*_#]{0,8}", re.IGNORECASE
)
_CUE = re.compile(
    rf"(?:answers?{_MARKS}[ ](?:is|are|was|were|(?:would|should|must|will|can[ ]only)[ ]be)(?![A-Za-z])[ ]?:?"
    r"|(?<=final[ ])answer(?![A-Za-z:=]))"
    r"(?![ *_]{0,4}(?:not|(?:un)?clear|clearer|obvious|simple|straightforward|based|given|shown|hard|difficult|that|as)"
    r"(?![a-z]))"
    r"|(?:答案|选项)(?:应该|应当|应)?(?:是|为|选)(?!不)",
    re.IGNORECASE,
)
_WORDS = ("answer", "ans", "答", "选项")
_EMPTY_LINE = re.compile(r"\n[ \t]*\n")
_REMARK = re.compile(r"^[ \t]*\([^()\n]*\)[ \t.]*$", re.MULTILINE)
_MOST_WORDS = 1_000
_LONGEST_LINE, _LINE_TAIL = 60, 40


class Source(Enum):
    """Evidence that the statement is meant as the answer, the strongest first."""

    LABEL = "label"
    BOX = "box"
    CUE = "cue"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """``text`` is the answer as narrowly as the reply marks it; ``wide`` everything the mark may cover. Both are plain
    and in one spelling."""

    text: str
    wide: str
    source: Source

    @property
    def paragraph(self) -> str:
        """The first paragraph of the text, without lines that are only a remark in brackets."""
        return first_paragraph(self.text)


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def final_statement(reply: str) -> AnswerStatement:
    """The reply's answer, thoughts left out. The last label with something after it wins, then the last box."""
    text = spelled(without_thoughts(reply))
    label, cue = _label_and_cue(text)
    if label is not None:
        return _after(text[label:], Source.LABEL)
    boxed_spans = boxes(text)
    if boxed_spans:
        boxed = plain(_contents(text, boxed_spans))
        return AnswerStatement(boxed, boxed, Source.BOX)
    if cue is not None:
        return _after(text[cue:], Source.CUE)
    whole = plain(text)
    return AnswerStatement(whole, whole, Source.WHOLE)


def _label_and_cue(text: str) -> tuple[int | None, int | None]:
    """Find where the answer begins after the last label, else after the last cue. A word must follow."""
    cue = None
    low = lowered(text)
    # A bounded number: a reply of labels without end is no reason to look at each of them.
    for place in islice(_last_first(low), _MOST_WORDS):
        if (end := _label_end(text, place)) is not None and _WORD.search(text, end):
            return end, cue
        if (
            cue is None
            and (match := _CUE.match(text, place))
            and not _is_letter(text, place - 1)
            and _WORD.search(text, match.end())
        ):
            cue = match.end()
    return None, cue


def _last_first(low: str) -> Iterator[int]:
    """Yield the places of the words that a label may consist of, from the end."""
    ends = {word: low.rfind(word) for word in _WORDS}
    while (latest := max(ends.values())) >= 0:
        yield latest
        ends = {word: low.rfind(word, 0, latest) if end == latest else end for word, end in ends.items()}


def _label_end(text: str, place: int) -> int | None:
    label = _LABEL.match(text, place)
    if label is not None:
        if label.group().endswith(">"):
            return label.end() if text.endswith(("<", "<final_", "<final "), 0, place) else None
        return None if _is_letter(text, place - 1) else label.end()
    start = text.rfind("\n", max(0, place - _LONGEST_LINE), place) + 1
    line = _LINE.match(text, start if start or place < _LONGEST_LINE else place)
    return line.end() if line is not None and text[line.end() : line.end() + 1] == "\n" else None


def _is_letter(text: str, place: int) -> bool:
    return place >= 0 and text[place].isascii() and text[place].isalpha()


def first_paragraph(text: str) -> str:
    """Up to the first empty line, or the one after it where the paragraph ends in a colon and so only announces it."""
    text = text.strip()
    for gap in _EMPTY_LINE.finditer(text):
        if not text[max(0, gap.start() - _LINE_TAIL) : gap.start()].rstrip().endswith(":"):
            text = text[: gap.start()]
            break
    paragraph = _REMARK.sub("", text).strip() if "(" in text else text
    return paragraph or text


def paragraphs(text: str) -> list[str]:
    """All paragraphs that have a word in them."""
    return [part.strip() for part in _EMPTY_LINE.split(text) if _WORD.search(part)]


def _after(tail: str, source: Source) -> AnswerStatement:
    wide = plain(tail)
    spans = boxes(tail)
    return AnswerStatement(plain(_contents(tail, spans)) if spans else wide, wide, source)


def _contents(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The last box, with those before it on the same line: a list may box each of its members."""
    line_start = text.rfind("\n", 0, spans[-1][0]) + 1
    return ", ".join(text[start:end] for start, end in spans if start >= line_start)
