"""The JSON object in a model's reply, however it is wrapped, and whether the reply contradicts itself. Never raises, in
time linear in the text.

Tried in this order: the text as it is, a code fence, the outermost braces, json-repair. A reply that was cut off is not
repaired: repairing it would turn half an answer into a whole one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from layton_batch.records import JsonValue, Response, ResponseSchema
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks.json_objects import Fields, objects
from layton_batch.tasks.templates import without_surrogates

MAX_REPAIR_CHARS = 200_000
"""json-repair takes about 4 µs a character, so this bounds it to about a second; no honest answer is longer."""
MAX_REPAIR_DEPTH = 64
"""json-repair takes quadratic time in the depth; an answer is an object of strings, one deep."""
_EXCERPT = 200
_BRACKET = re.compile(r"[\[\]{}]")
_FENCE = re.compile(r"```[^\n`]*\n?")
_THOUGHT, _THOUGHT_END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """Object of a reply. ``value`` is None without an object; ``note`` says why, or how it was repaired."""

    value: Mapping[str, JsonValue] | None
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


def ending(response: Response) -> FinishReason | None:
    """REFUSAL or LENGTH for a reply that was refused or cut off; None for one that came to its own end."""
    if response.refusal or response.finish_reason is FinishReason.REFUSAL:
        return FinishReason.REFUSAL
    return FinishReason.LENGTH if response.finish_reason is FinishReason.LENGTH else None


def read_reply(response: Response) -> ReplyObject:
    """The object in a reply that was paid for."""
    if response.refusal or response.finish_reason is FinishReason.REFUSAL:
        refusal = response.refusal or response.text or response.raw_finish_reason
        return ReplyObject(None, f"refused: {_excerpt(refusal)}" if refusal else "refused")
    cut = response.finish_reason is FinishReason.LENGTH
    text = response.text or ""
    if not text.strip():
        return ReplyObject(None, "truncated: no text before the output limit" if cut else "empty reply")
    reply_object = read_object(text, repair=not cut)
    return ReplyObject(None, "truncated") if cut and reply_object.value is None else reply_object


def read_object(text: str, *, repair: bool = True) -> ReplyObject:
    """The object in the text. Numbers come as the text they were written in."""
    strict = _strict(text)
    if strict is not None:
        return strict
    for candidate, note in _candidates(text):
        value = _loads(candidate)
        if isinstance(value, dict):
            return ReplyObject(value, note)
    return _repaired(text) if repair else ReplyObject(None, "not JSON")


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


def _strict(text: str) -> ReplyObject | None:
    value = _loads(text)
    if isinstance(value, dict):
        return ReplyObject(value)
    if isinstance(value, _Unreadable):
        return None
    return ReplyObject(None, f"not a JSON object but {_KINDS.get(type(value), 'a number')}")


class _Unreadable:
    """Stands for text that is not JSON, since None is a JSON value."""


_UNREADABLE = _Unreadable()
_KINDS: Mapping[type, str] = {list: "an array", str: "a string or number", bool: "true or false", type(None): "null"}


def _loads(text: str) -> JsonValue | _Unreadable:
    try:
        # Numbers stay text: 1.50 is an answer, and an integer of 5,000 digits is no reason to fail.
        return cast("JsonValue", json.loads(text, parse_int=str, parse_float=str, parse_constant=str))
    except (ValueError, RecursionError):
        return _UNREADABLE


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    """Parts of the text that may be the object, likeliest first, with a note on where they were."""
    body = text.rpartition(_THOUGHT_END)[2]
    if body is not text and len(body) < len(text):
        yield body, "after a thought"
    fences = [(match.start(), match.end()) for match in _FENCE.finditer(body)]
    if fences:
        first_end, last_start = fences[0][1], fences[-1][0]
        if len(fences) > 2:
            yield body[first_end:last_start], "in a code fence"
            yield body[fences[-2][1] : last_start], "in a code fence"
        yield body[first_end : fences[1][0] if len(fences) > 1 else len(body)], "in a code fence"
    start, end = body.find("{"), body.rfind("}")
    if 0 <= start < end:
        yield body[start : end + 1], "between other text"


def _repaired(text: str) -> ReplyObject:
    start = text.find("{")
    if start < 0:
        return ReplyObject(None, "not JSON")
    part = text[start:]
    if len(part) > MAX_REPAIR_CHARS:
        return ReplyObject(None, f"not JSON, and too long to repair ({len(part):,} characters)")
    if _depth(part) > MAX_REPAIR_DEPTH:
        return ReplyObject(None, "not JSON, and nested too deep to repair")
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


def contradiction(text: str, fields: Iterable[Sequence[str]]) -> str | None:
    """Why the reply cannot be believed; None where nothing in it contradicts itself. ``fields``: for each mark, the
    names it goes by.

    Every object in the text counts, at any depth, and every ``name: value`` between them. What the text of a JSON
    string says does not: whose string it is in is plain.
    """
    fields_of_objects, rest = _fields_and_rest(without_thought(text))
    for names in fields:
        marks = {as_bool(value) for name, value in fields_of_objects if name in names}
        marks |= {as_bool(value) for value in _bare(rest, names)}
        if {True, False} <= marks:
            return f"contradicts itself: {names[0]} is said to be true and to be false"
    return None


def without_thought(text: str) -> str:
    """Remove the thought that a reply begins with. The thought ends at the first possible end: a later quoted end hides
    nothing."""
    return text.partition(_THOUGHT_END)[2] if text.lstrip().startswith(_THOUGHT) and _THOUGHT_END in text else text


def _fields_and_rest(text: str) -> tuple[Fields, str]:
    """The fields of every JSON object in the text, repeated fields too, and the text without the objects."""
    fields: Fields = []
    rest: list[str] = []
    position = 0
    for text_object in objects(text, fields.extend):
        rest.append(text[position : text_object.start])
        position = text_object.end
    return fields, " ".join([*rest, text[position:]])


def _bare(text: str, names: Sequence[str]) -> Iterator[str]:
    any_name = "|".join(map(re.escape, names))
    field = rf"(?<![a-z_])(?:{any_name}){_AROUND}[:=]{_AROUND}(true|false|[01])(?![a-z0-9_.]*[a-z0-9_])"
    return (match.group(1) for match in re.finditer(field, text, re.IGNORECASE))
