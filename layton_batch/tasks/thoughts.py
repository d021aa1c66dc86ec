"""Thoughts that a model writes into its reply: they are no part of what it answers."""

from __future__ import annotations

import re

_TAG = re.compile(
    r"(?P<open><think(?:ing)?>|<\|channel\|>analysis<\|message\|>)"
    r"|(?P<close></think(?:ing)?>|<\|channel\|>final<\|message\|>)",
    re.IGNORECASE,
)


def without_thoughts(text: str) -> str:
    """Remove the thoughts of a reply: closed ones; all before a closing tag without an opening one, which the template
    of the chat wrote (unless an object or a code fence stands there: then the tag is quoted); and all behind an opening
    tag that is not closed, for a cut thought says nothing."""
    passages: list[str] = []
    begin, is_open = 0, False
    for number, tag in enumerate(_TAG.finditer(text)):
        if tag["close"] and (is_open or (number == 0 and text.lstrip()[:1] not in "{`")):
            begin, is_open = tag.end(), False
        elif tag["open"] and not is_open:
            passages.append(text[begin : tag.start()])
            is_open = True
    return "".join([*passages, "" if is_open else text[begin:]])
