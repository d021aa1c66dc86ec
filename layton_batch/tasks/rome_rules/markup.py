"""Text without its LaTeX, Markdown and chat-template dressing, and what stands in its boxes. Linear time."""

from __future__ import annotations

import re

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


def _undressed(found: re.Match[str]) -> str:
    name, sign = found.groups()
    if name is not None:
        return "" if name in _DRESSING else _SYMBOLS.get(name, name)
    if sign in "%&#_{}":
        return str(sign)
    return "\n" if sign == "\\" else " "  # spaces, and the brackets that mathematics stands in


def boxes(text: str) -> list[tuple[int, int]]:
    """Where the contents of the outermost ``\\boxed{…}`` and ``\\fbox{…}`` stand; empty ones are left out."""
    if "boxed" not in text and "box{" not in text:
        return []
    found: list[tuple[int, int]] = []
    opened: list[int] = []  # where each open brace's content begins, or -1 for a brace that is no box
    for brace in _BRACE.finditer(text):
        sign = brace.group()
        if sign == "}" and opened:
            start = opened.pop()
            if start >= 0 and _WORD.search(text, start, brace.start()):
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, brace.start()))
        elif sign == "{":
            opened.append(-1)
        elif len(sign) > 2:
            opened.append(brace.end())
    return found
