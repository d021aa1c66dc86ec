"""What a judge is asked to say, and what its reply says: in the asked form, in words, and as published."""

from __future__ import annotations

import re

from layton_batch.records import Response
from layton_batch.states import FinishReason
from layton_batch.tasks.reply_json import as_bool, contradiction, object_schema, read_reply
from layton_batch.tasks.rome_rules.corrected_evaluators import spelled
from layton_batch.tasks.thoughts import stages, without_thoughts

# The reasoning comes first, so that a judge writes it before it commits to a verdict.
VERDICT_SCHEMA = object_schema("answer_verdict", {"reasoning": "string", "is_answer_correct": "boolean"})
_VERDICT_NAMES = ("is_answer_correct", "judgement")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MARKS = r"[\s*_`\"'()\[\]{}$]{0,8}"
_LABELLED = re.compile(
    rf"(?:judge?ments?|verdict|score|grade|rating|判断|判定|评判|结论|评分|得分|打分){_MARKS}(?::|=|\bis\b|为|是){_MARKS}"
    r"(?:\\boxed\{)?(?P<value>[+-]?\d*\.?\d+|(?:true|false|yes|no|correct|incorrect)(?![a-z]))",
    re.IGNORECASE,
)
_WORDS = {"true": True, "yes": True, "correct": True, "false": False, "no": False, "incorrect": False}
_LONGEST_BARE = 40


def verdict_of(response: Response) -> tuple[bool | None, str | None]:
    """The verdict of a reply in the asked form; of one in words, what it plainly says."""
    note = contradiction(response.text or "", [_VERDICT_NAMES])
    if note is not None:
        return None, note
    reply = read_reply(response, _VERDICT_NAMES)
    if reply.value is not None:
        value = as_bool(next((reply.value[name] for name in _VERDICT_NAMES if name in reply.value), None))
        return value, reply.note if value is not None else "is_answer_correct is not true or false"
    if response.refusal or response.finish_reason is not FinishReason.STOP:
        return None, reply.note
    value = judgement(response.text or "")
    return (value, "in words") if value is not None else (None, reply.note)


def published_judgement(reply: str) -> int:
    """1 where the first number of the last paragraph is above one half; 0 otherwise, also where there is none."""
    text = reply.replace("Judgement:", "").strip()
    number = _NUMBER.search(text.rpartition("\n\n")[2])
    return int(number is not None and float(number.group()) > 0.5)


def judgement(reply: str) -> bool | None:
    """Read the last line labelled as the judgement, else the whole reply or its last line; None where nothing
    says 0 or 1, no or yes (a half, a ten or a minus one is no judgement), or where two labelled ones disagree."""
    # all but a thought that the reply begins with: behind another closing tag may stand what a participant wrote
    shown = list(stages(reply))[-2:][0]
    whole = [_value(match.group("value")) for match in _LABELLED.finditer(spelled(shown))]
    if True in whole and False in whole:
        return None  # one of them may be quoted
    text = spelled(without_thoughts(reply))
    read = [_value(match.group("value")) for match in _LABELLED.finditer(text)]
    if read:
        return read[-1]
    lines = [line.strip(" \t*_`\"'()[]{}$.!#") for line in text.split("\n")[-_LONGEST_BARE:]]
    lines = [line for line in lines if line]
    return _value(lines[-1]) if lines and len(lines[-1]) <= _LONGEST_BARE else None


def _value(text: str) -> bool | None:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return {"0": False, "1": True, "0.0": False, "1.0": True}.get(text)
