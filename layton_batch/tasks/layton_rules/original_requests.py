"""The published form of layton's requests: which fields stand in which order, under which names.

The instructions are the system text, word for word, and stand in files of the benchmark's authors that are not part of
this package: a manifest names them. The user's message is a part a field. Participants get the question, the picture
and as many hints as the run gives. Judges get the question, the picture, every hint, the reference's answer, solution
and justification, then the participant's answer and justification. (Source: the requests that the code of layton-eval
makes; the names of the fields are part of the protocol.) Nothing is fenced. A reference that the row lacks
reads ``None``; a hint that it lacks is left out.

What differs from the published requests: a provider of OpenAI's form gets a message without a picture as one text with
blank lines between the fields; a picture is announced as the type that it is, not always as JPEG; the schemas of the
replies have no descriptions; what cannot be encoded in a text is replaced. Not known: the output limits that the paper
set, model by model, and how its judges were asked about a reply without an answer (here, as about a blank one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from layton_batch.errors import ManifestError
from layton_batch.records import Image, Item, JsonValue, Prediction
from layton_batch.tasks.templates import without_surrogates

CORRECTED, ORIGINAL = "corrected", "original"
PROTOCOLS = (CORRECTED, ORIGINAL)
INSTRUCTIONS = ("participant_system", "judge_system")
"""The templates that this protocol has."""
_HINTS = ("First hint", "Second hint", "Third hint", "Special hint")
_REFERENCES = {"answer": "Riddle answer", "solution": "Riddle solution", "justification": "Suggested justification"}


def check_prompts(protocol: object, fence: object, prompts: Mapping[str, object]) -> None:
    """Raises ManifestError where protocol, fence and the manifest's own prompts do not go together."""
    if protocol not in PROTOCOLS:
        raise ManifestError(f"task_options.protocol {protocol!r}: the layton task has {' and '.join(PROTOCOLS)}")
    if protocol == CORRECTED:
        return
    if fence is True:
        raise ManifestError("task_options.fence = true: the original protocol fences nothing; take it out")
    if other := [name for name in prompts if name not in INSTRUCTIONS]:
        raise ManifestError(f"prompts.{other[0]}: the original protocol has only {' and '.join(INSTRUCTIONS)}")
    if missing := [name for name in INSTRUCTIONS if name not in prompts]:
        raise ManifestError(
            f"the original protocol asks by the published prompt files, which are not part of layton-batch: name "
            f"{' and '.join(missing)} under [prompts], each a file or an address"
        )


def with_references(item: Item, row: Mapping[str, JsonValue]) -> Item:
    """The item with its row's references as they are: without the values that stand in for missing ones."""
    return replace(item, payload={name: row.get(name) for name in _REFERENCES})


def asked(item: Item, hints: Sequence[str | None]) -> tuple[str | Image, ...]:
    """Return the parts of a participant's prompt."""
    return tuple(_riddle(item, hints))


def judged(item: Item, prediction: Prediction) -> tuple[str | Image, ...]:
    """Return the parts of a judge's prompt."""
    return (
        *_riddle(item, item.hints),
        *(_field(label, item.payload.get(name)) for name, label in _REFERENCES.items()),
        _field("Participant answer", prediction.answer or ""),
        _field("Participant justification", prediction.justification or ""),
    )


def _riddle(item: Item, hints: Sequence[str | None]) -> Iterator[str | Image]:
    yield _field("Riddle question", item.question)
    yield from item.images
    yield from (_field(label, hint) for label, hint in zip(_HINTS, hints, strict=False) if hint)


def _field(label: str, value: JsonValue) -> str:
    return f"{label}: {without_surrogates(str(value))}"
