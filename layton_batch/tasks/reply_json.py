"""The JSON object in a model's reply, however it is wrapped, and whether the reply contradicts itself. Never raises, in
time linear in the text.

Nothing within a thought counts. A reply that was cut counts only if what is left is one whole object, and a reply is
repaired only if the model ended by itself: repair would turn half an answer into a whole one. Two different objects
with an answer are no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from layton_batch.records import Item, JsonValue, Prediction, Response, ResponseSchema
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.text import without_surrogates

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


JsonObject = Mapping[str, JsonValue]
Fields = list[tuple[str, JsonValue]]
"""Names and values of an object in their order; a name may be repeated."""
MAX_REPAIR_CHARS = 200_000
"""json-repair takes about 4 µs a character, so this bounds it to about a second; no honest answer is longer."""
MAX_REPAIR_DEPTH = 64
"""json-repair takes quadratic time in the depth; an answer is an object of strings, one deep."""
MOST_FAULTS = 100
"""Braces that begin no whole object, before the search for objects ends: a fault costs time in the text's length."""
_EXCERPT = 200
_BRACKET = re.compile(r"[\[\]{}]")
_FENCE = re.compile(r"\s*```[^\n`]*\n(?P<inside>.*?)(?:```\s*)?", re.DOTALL)
_BEGIN = re.compile(r'\{\s*(?:\}|"(?:[^"\\]|\\.){0,200}"\s*:)')
"""Beginning of an object: empty, or with a key (of at most 200 characters) and a colon. Spares most braces of prose."""
_LATEX = r"""
    n(?:abla|eq|ot(?:in)?)(?![A-Za-z]) | r(?:ho|ight[a-z]*|angle|ceil|floor)(?![A-Za-z])
    | t(?:heta|imes|ext[a-z]*|au|riangle|frac|ilde)(?![A-Za-z])
"""
"""Commands that begin as an escape of JSON does and are no ordinary text behind a line break or a tab."""
_ESCAPE = re.compile(rf'\\(?:(?P<whole>["\\/]|u[0-9a-fA-F]{{4}}|[bf](?![A-Za-z])|(?!{_LATEX})[nrt])|)', re.VERBOSE)


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """Object of a reply. ``value`` is None without an object; ``note`` says why, or how it was repaired."""

    value: JsonObject | None
    note: str | None = None


def object_schema(name: str, fields: Mapping[str, str]) -> ResponseSchema:
    """The schema of a flat object with exactly these fields, in this order; each with its JSON type."""
    properties: JsonValue = {field: {"type": kind} for field, kind in fields.items()}
    required: JsonValue = list(fields)
    return ResponseSchema(
        name,
        {"type": "object", "properties": properties, "required": required, "additionalProperties": False},
    )


def joined(*notes: str | None) -> str | None:
    """Several notes as one."""
    return "; ".join(note for note in notes if note) or None


def failure(response: Response) -> str | None:
    """Why there is no reply to read; None where there is one."""
    if response.outcome is RequestOutcome.SUCCEEDED:
        return None
    reason = response.error_message or response.error_code
    return f"{response.outcome.value}: {_excerpt(reason)}" if reason else response.outcome.value


def unread(item: Item, model: str, response: Response) -> Prediction:
    """Return the prediction of a reply whose answer is still to be read: unparsed, or missing with the reason."""
    text = None if response.text is None else without_surrogates(response.text)
    note = failure(response)
    if note is not None:
        return Prediction(item.id, model, PredictionKind.MISSING, raw_text=text, note=note)
    ended = ending(response)
    note = f"refused: {_excerpt(response.refusal)}" if response.refusal else ENDINGS.get(ended)
    return Prediction(item.id, model, PredictionKind.UNPARSED, raw_text=text, note=note, ending=ended)


def ending(response: Response) -> FinishReason | None:
    """REFUSAL or LENGTH for a reply that was refused or cut off; None for one that came to its own end."""
    if response.refusal or response.finish_reason is FinishReason.REFUSAL:
        return FinishReason.REFUSAL
    return FinishReason.LENGTH if response.finish_reason is FinishReason.LENGTH else None


ENDINGS: Mapping[FinishReason | None, str] = {FinishReason.LENGTH: "truncated", FinishReason.REFUSAL: "refused"}
"""Words for an abnormal end, in notes of a prediction and as tags of a grade."""


def read_reply(response: Response, fields: Sequence[str]) -> ReplyObject:
    """Find the one object with an answer in a reply that was paid for. Numbers come as the text they were written in.

    ``fields``: an object with one of them may be the answer.
    """
    if response.refusal or response.finish_reason is FinishReason.REFUSAL:
        refusal = response.refusal or response.text or response.raw_finish_reason
        return ReplyObject(None, f"refused: {_excerpt(refusal)}" if refusal else "refused")
    is_cut, text = response.finish_reason is FinishReason.LENGTH, response.text or ""
    if not text.strip():
        return ReplyObject(None, "truncated: no text before the output limit" if is_cut else "empty reply")
    if (whole := _whole(text)) is not None:
        return whole
    if is_cut:
        return ReplyObject(None, "truncated")
    body = with_latex(without_thoughts(text))
    answers = [value for value, *_ in objects(body) if any(field in value for field in fields)]
    if any(answer != answers[0] for answer in answers):
        return ReplyObject(None, f"gives {len(answers)} objects with {fields[0]}, which differ")
    if answers:
        return ReplyObject(answers[0], "between other text" if body == with_latex(text) else "after a thought")
    return _repaired(body, fields) if response.finish_reason is FinishReason.STOP else ReplyObject(None, "not JSON")


def is_whole_object(text: str) -> bool:
    """Return whether the text is one JSON object and nothing else, perhaps in a code fence and after a thought."""
    whole = _whole(text)
    return whole is not None and whole.value is not None


def as_text(value: JsonValue) -> str | None:
    """A field as text: strings, numbers, booleans and flat lists of them; None for anything else."""
    match value:
        case str():
            return without_surrogates(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case list():
            parts = [as_text(part) if not isinstance(part, list) else None for part in value]
            return ", ".join(part for part in parts if part is not None) if parts and None not in parts else None
    return None


def as_bool(value: JsonValue) -> bool | None:
    """A field as true or false: JSON booleans, 0 and 1, and the words in any case; None for anything else."""
    if isinstance(value, str | int | float):
        return {"true": True, "1": True, "false": False, "0": False}.get(str(value).strip().lower())
    return None


def _whole(text: str) -> ReplyObject | None:
    """Read a text that is JSON and nothing else, perhaps in a code fence and after a thought; None for another text."""
    for is_stripped in (False, True):  # most replies have no thought
        stage = without_thoughts(text) if is_stripped else text
        fence = _FENCE.fullmatch(stage)
        try:
            # Numbers stay text: 1.50 is an answer, and an integer of 5,000 digits is no reason to fail.
            value = json.loads(with_latex(fence["inside"] if fence else stage), **_NUMBERS)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return ReplyObject(value, "after a thought" if is_stripped else "in a code fence" if fence else None)
        return ReplyObject(None, f"not a JSON object but {_KINDS.get(type(value), 'a number')}")
    return None


_NUMBERS: dict[str, Any] = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), str)
_KINDS: Mapping[type, str] = {list: "an array", str: "a string or number", bool: "true or false", type(None): "null"}


def with_latex(text: str) -> str:
    r"""Escape the backslashes that begin a command of LaTeX, as ``\frac`` and ``\theta`` do, and all that JSON lacks.

    A form feed or a backspace before a letter is in no answer; a tab before ``heta`` is not either.
    """
    return _ESCAPE.sub(lambda escape: escape.group() if escape["whole"] else r"\\", text) if "\\" in text else text


def objects(text: str, on_fields: Callable[[Fields], None] | None = None) -> Iterator[tuple[JsonObject, int, int]]:
    """Yield the outermost whole objects of the text, in order, and where each begins and ends; those within a broken
    one, too.

    ``on_fields``: gets the fields of every whole object at any depth, perhaps several times.
    """

    def with_fields(fields: Fields) -> dict[str, JsonValue]:
        if on_fields is not None:
            on_fields(fields)
        return dict(fields)

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=with_fields, **_NUMBERS)
    position = faults = 0
    while faults < MOST_FAULTS and (begin := _BEGIN.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            position, faults = begin.start() + 1, faults + 1
        else:
            yield cast("JsonObject", value), begin.start(), position


def _repaired(text: str, fields: Sequence[str]) -> ReplyObject:
    start = text.find("{")
    if start < 0:
        return ReplyObject(None, "not JSON")
    part = text[start:]
    if len(part) > MAX_REPAIR_CHARS or _depth(part) > MAX_REPAIR_DEPTH:
        return ReplyObject(None, "not JSON, and too long or nested too deep to repair")
    if any(len(re.findall(rf"[\"'“]{field}[\"'”]\s*:", part)) > 1 for field in fields):
        return ReplyObject(None, "not one JSON object")
    from json_repair import repair_json

    try:
        value = repair_json(part, return_objects=True, skip_json_loads=True)
    except Exception as error:  # a third-party parser on hostile text: whatever it trips over, the reply is unreadable
        return ReplyObject(None, f"not JSON, and cannot be repaired ({type(error).__name__})")
    if isinstance(value, dict):
        return ReplyObject(cast("dict[str, JsonValue]", value), "repaired")
    return ReplyObject(None, "not one JSON object")


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        depth = depth + 1 if match.group() in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _excerpt(text: str) -> str:
    line = " ".join(without_surrogates(text[: 4 * _EXCERPT]).split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


# ---- replies that contradict themselves ----------------------------------------------------------------------------


_AROUND = r"[\s\\\"'*`]{0,8}"


def read_verdict(response: Response, fields: Sequence[str]) -> ReplyObject:
    """Find the object of a judge's reply; none in a reply that contradicts itself. The note names the fields that are
    not true or false."""
    note = failure(response) or _contradiction(response.text or "", fields)
    reply = ReplyObject(None, note) if note is not None else read_reply(response, fields)
    if reply.value is None:
        return reply
    unread = (f"{name} is not true or false" for name in fields if as_bool(reply.value.get(name)) is None)
    return ReplyObject(reply.value, joined(reply.note, *unread))


def _contradiction(text: str, fields: Sequence[str]) -> str | None:
    """Say why the reply cannot be believed; None where nothing in it contradicts itself.

    Every object in the text counts, at any depth, and every ``name: value`` between them. What the text of a JSON
    string says does not: whose string it is in is plain.
    """
    shown = text if text.lstrip()[:1] == "{" and is_whole_object(text) else without_thoughts(text)
    fields_of_objects, rest = _fields_and_rest(shown)
    for field in fields:
        marks = {as_bool(value) for name, value in fields_of_objects if name == field}
        marks |= {as_bool(value) for value in _bare(rest, field)}
        if {True, False} <= marks:
            return f"contradicts itself: {field} is said to be true and to be false"
    return None


def _fields_and_rest(text: str) -> tuple[Fields, str]:
    """The fields of every JSON object in the text, repeated fields too, and the text without the objects."""
    fields: Fields = []
    rest: list[str] = []
    position = 0
    for _, start, end in objects(text, fields.extend):
        rest.append(text[position:start])
        position = end
    return fields, " ".join([*rest, text[position:]])


def _bare(text: str, name: str) -> Iterator[str]:
    field = rf"(?<![a-z_]){re.escape(name)}{_AROUND}[:=]{_AROUND}(true|false|[01])(?![a-z0-9_.]*[a-z0-9_])"
    return (match.group(1) for match in re.finditer(field, text, re.IGNORECASE))
