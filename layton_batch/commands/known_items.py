"""Knowledge of the sandbox's made-up models: the items with their references, or recorded answers to play again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import stream_rows
from layton_batch.records import Item, JsonValue
from layton_batch.sandbox import Answerer
from layton_batch.sandbox.answerers.known_items import KnownItem
from layton_batch.sandbox.answerers.replay import Recording, ReplayAnswerer
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.tasks import BUILT_IN, FIRST, load_task
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.text import without_surrogates

_SPLITS = ("llm", "vlm")
_ANSWER, _JUSTIFICATION = "is_answer_correct_", "is_justification_correct_"
_RECORDED = ("riddle_id", "model", "answer", "justification")


def bundled_answerer() -> Answerer:
    """Return made-up models that know the bundled items of every task."""
    return SimulateAnswerer(chain.from_iterable(known_items(_bundled(name), name) for name in BUILT_IN))


def _bundled(name: str) -> Iterator[Item]:
    for split in _SPLITS:
        try:
            task = load_task(name, TaskOptions(split))
            path = task.bundled(split)
        except (DataError, ManifestError):  # a task with texts only
            continue
        yield from task.items(list(stream_rows(path)))


def known_items(items: Iterable[Item], pool: str) -> list[KnownItem]:
    """Return the items whose reference says what is right. Wrong answers to them are answers to others of ``pool``."""
    return [known_item for item in items if (known_item := _known(item, pool)).right]


def _known(item: Item, pool: str) -> KnownItem:
    right, wrong, abstention = _replies(item)
    return KnownItem(
        item.id,
        item.question.strip(),
        right,
        reasons=item.justification or item.solution or "",
        hints=tuple(hint.strip() for hint in item.hints if hint),
        picarats=item.picarats,
        image=hashlib.sha256(base64.b64decode(item.images[0].base64)).hexdigest() if item.images else "",
        pool=pool,
        wrong=tuple(wrong),
        abstention=abstention,
        lettered=bool(wrong) and "options" in item.payload,
    )


def _replies(item: Item) -> tuple[str, Sequence[str], str]:
    """Return the right reply to the item, wrong ones, and that of not knowing: by its options, its grid or its
    evaluator, else by its reference."""
    match item.payload:
        case {"options": [*options], "gold": gold, **payload}:
            texts = dict(zip(ascii_uppercase, (str(option).strip() for option in options), strict=False))
            right = texts[str(gold)]
            # the option of not knowing comes last in the prompt, and is none of the item's own
            return right, sorted({*texts.values()} - {right}), f"Answer: {payload.get('idk_letter')}"
        case {"solution": solution}:
            right, *wrong = _grids(json.loads(solution) if isinstance(solution, str) else solution)
            return right, wrong, ""
        case {"evaluator": str(evaluator), **payload}:
            arguments = payload.get("evaluator_kwargs")
            replies = _by_evaluator(evaluator, arguments if isinstance(arguments, Mapping) else {})
            right, *wrong = [text and f"Final Answer: {text}" for text in replies]
            return right, wrong, ""
    return item.answer or item.solution or "", (), ""


def _grids(table: Any) -> Iterator[str]:
    """Yield the right grid, and grids with the values of one attribute exchanged between two houses."""
    _, *attributes = table["header"]

    def written(houses: Sequence[Sequence[str]]) -> str:
        grid = {f"House {number}": dict(zip(attributes, values, strict=True)) for number, *values in houses}
        return f"```json\n{json.dumps({'solution': grid}, ensure_ascii=False, indent=2)}\n```"

    yield written(table["rows"])
    for column in range(1, len(attributes) + 1):
        for other in range(1, len(table["rows"])):
            rows = [list(house) for house in table["rows"]]
            rows[0][column], rows[other][column] = rows[other][column], rows[0][column]
            yield written(rows)


def _by_evaluator(evaluator: str, arguments: Any) -> Sequence[str]:
    """Return a right answer to an item of ROME's evaluators, and wrong ones; empty where the annotation names none."""
    if evaluator == "choices_matching":
        letters = str(arguments.get("label", ""))
        return ", ".join(letters), *([letter for letter in "ABCD" if letter not in letters] or "Z")
    if evaluator == "number_matching":
        number = str(arguments.get("value_to_match", ""))
        return number, f"{number}9", f"1{number}"
    name = {"key_items_matching": "key_items", "ordered_list_matching": "order"}.get(evaluator, "location_fine_grained")
    entries = arguments.get(name) or [""]
    things = [str(entry[0] if isinstance(entry, list | tuple) else entry) for entry in entries]
    if evaluator == "ordered_list_matching":
        return ", ".join(things), ", ".join(reversed(things))
    are_all = evaluator == "key_items_matching" and not isinstance(entries[0], str)
    return ", ".join(things) if are_all else things[0], "nothing of the kind"


def replayed(files: Sequence[Path]) -> Answerer:
    """Return recordings of riddles and predictions with verdicts, in the form of layton-eval-ppi, to be played again.
    Raises DataError for a row that is neither."""
    riddles: list[Mapping[str, JsonValue]] = []
    recordings: list[Recording] = []
    for path in files:
        for number, row in enumerate(stream_rows(path), 1):
            if "description" in row:
                riddles.append(row)
            elif all(column in row for column in _RECORDED):
                recordings.append(_recording(row))
            else:
                kinds = f"a riddle (id, description) or a prediction ({', '.join(_RECORDED)})"
                raise DataError(f"{path}, row {number}: is not {kinds}")
    items = [item for split in _SPLITS for item in load_task(FIRST, TaskOptions(split)).items(riddles)]
    return ReplayAnswerer(known_items(items, FIRST), recordings)


def _recording(row: Mapping[str, JsonValue]) -> Recording:
    """A judge with a null for either part was not on the jury and is left out."""
    verdicts = {}
    for column, on_answer in row.items():
        judge = column.removeprefix(_ANSWER)
        on_justification = row.get(_JUSTIFICATION + judge)
        if column.startswith(_ANSWER) and on_answer is not None and on_justification is not None:
            verdicts[judge] = (bool(on_answer), bool(on_justification))
    answer, justification = (without_surrogates(str(row[name] or "")) for name in ("answer", "justification"))
    provider, hints = str(row.get("provider") or ""), int(str(row.get("n_hints") or 0))
    return Recording(str(row["riddle_id"]), provider, str(row["model"]), hints, answer, justification, verdicts)
