"""Items that the caller tells made-up models of, and the one that a prompt is about.

An item is known by its question, which stands in each prompt about it word for word.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layton_batch.sandbox.answerers.questions import ANSWER, JUSTIFICATION

_BEGIN = 12
"""Most characters of a question by which the others are ruled out."""
_MOST_OBJECTS = 20


@dataclass(frozen=True, slots=True)
class KnownItem:
    """``reasons``: why the right answer is right. ``picarats``: how hard the item is said to be. ``image``: SHA-256 of
    its picture's bytes, in hex. Wrong answers to it are answers to others of its ``pool``.

    With ``wrong`` replies an item is graded by rule: a reply ends with ``right``, with one of ``wrong``, or with
    ``abstention`` where there is one. ``lettered``: these are texts of options, and the reply names the letter that the
    prompt gives them."""

    id: str
    question: str
    right: str
    reasons: str = ""
    hints: tuple[str, ...] = ()
    picarats: int | None = None
    image: str = ""
    pool: str = ""
    wrong: tuple[str, ...] = ()
    abstention: str = ""
    lettered: bool = False


class KnownItems:
    """Items by the begin of their question: a look-up costs the length of the text, whatever the number of items."""

    def __init__(self, items: Iterable[KnownItem]) -> None:
        self.items = tuple(items)
        with_question = [item for item in self.items if item.question]
        self._length = min([_BEGIN, *(len(item.question) for item in with_question)])
        self._by_begin: dict[str, list[KnownItem]] = {}
        for item in with_question:
            self._by_begin.setdefault(item.question[: self._length], []).append(item)

    def find(self, text: str, images: Sequence[bytes] = ()) -> KnownItem | None:
        """The item with the longest question in the text; of several, the one with the picture that is shown, and then
        the one of which the text shows most."""
        matching = [
            item
            for place in range(len(text) - self._length + 1)
            for item in self._by_begin.get(text[place : place + self._length], ())
            if text.startswith(item.question, place)
        ]
        shown = {hashlib.sha256(image).hexdigest() for image in images}

        def fit(item: KnownItem) -> tuple[int, bool, int]:
            parts_in_text = sum(bool(part) and part in text for part in (*item.hints, item.right, item.reasons))
            return len(item.question), item.image in shown, parts_in_text

        return max(matching, key=fit, default=None)


def submission(text: str) -> tuple[str, str] | None:
    """(answer, justification) of the last JSON object in the text that has them as strings; None without one. An object
    without a justification has an empty one."""
    starts = [match.start() for match in re.finditer(r'\{\s*"', text)][-_MOST_OBJECTS:]
    for start in reversed(starts):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        answer, justification = value.get(ANSWER), value.get(JUSTIFICATION, "")
        if isinstance(answer, str) and isinstance(justification, str):
            return answer, justification
    return None
