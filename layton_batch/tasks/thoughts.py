"""Thoughts that a model writes into its reply: they are no part of what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN = r"<think(?:ing)?>|<thought>|◁think▷|<\|channel\|>(?:analysis|commentary)<\|message\|>"
_CLOSE = r"</think(?:ing)?>|</thought>|◁/think▷|<\|channel\|>final<\|message\|>"
_TAG = re.compile(f"(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Remove the thoughts of a reply: closed ones; all before a closing tag without an opening one, which the template
    of the chat wrote (unless an object or a code fence stands there: then the tag is quoted); and all behind an opening
    tag that is not closed, for a cut thought says nothing."""
    return next(reversed(list(stages(text))))


def stages(text: str) -> Iterator[str]:
    """Yield what is left of a reply as its thoughts are taken out: the text as it is, without the thought that it
    begins with, and without any. A tag may stand in the words of an answer, so each may be the answer whole."""
    yield text
    tags = list(_TAG.finditer(text)) if "<" in text or "◁" in text else []
    if not tags:
        return
    if tags[0]["open"] and not text[: tags[0].start()].strip():
        first_close = next((tag for tag in tags if tag["close"]), None)
        yield text[first_close.end() :] if first_close else ""
    passages: list[str] = []
    begin, is_open = 0, False
    for tag in tags:
        if tag["close"] and (is_open or (tag is tags[0] and text.lstrip()[:1] not in "{`")):
            begin, is_open = tag.end(), False
        elif tag["open"] and not is_open:
            passages.append(text[begin : tag.start()])
            is_open = True
    yield "".join([*passages, "" if is_open else text[begin:]])
