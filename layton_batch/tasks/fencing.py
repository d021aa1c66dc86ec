"""Other people's words, made safe to stand in a prompt.

Two forms. :func:`fence` turns text into one JSON string: nothing in it can end the string, start a line, turn the
writing direction or hide. :func:`block` keeps text verbatim between two fence lines that no line of it equals. The
first is for participants, whose words are hostile; the second for the data set, whose words are shown as they are.
"""

from __future__ import annotations

import json
import re

from layton_batch.text import IGNORABLE

_INVISIBLE = re.compile(
    f"[{IGNORABLE}\x7f-\x9f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f]"
)
"""What is not seen, and the control, format, separator and surrogate characters beyond those JSON escapes by itself."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TILDES = re.compile("~+")
_SHORTEST_FENCE = 4


def fence(text: str) -> str:
    """The text as one JSON string on one line; decoding it gives the text back. Letters of any script stay readable."""
    return _INVISIBLE.sub(_escaped, json.dumps(text, ensure_ascii=False))


def block(text: str) -> str:
    """The text between two lines of tildes, longer than any run of tildes in it. Blanks at the ends are dropped."""
    clean = without_surrogates(text).strip()
    longest = max((len(run) for run in _TILDES.findall(clean)), default=0)
    line = "~" * max(_SHORTEST_FENCE, longest + 1)
    return f"{line}\n{clean}\n{line}"


def without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded and stored."""
    return _LONE_SURROGATE.sub("�", text)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]
