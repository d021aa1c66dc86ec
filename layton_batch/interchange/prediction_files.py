"""Files of predictions and of verdicts, read and checked as a whole: every error names file, line and reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from string import ascii_uppercase

import orjson

from layton_batch.errors import DataError
from layton_batch.files.sheets import ENDINGS, WORKBOOK
from layton_batch.files.sources import Row, RowLocation, check_file, json_list, parse_each, read_rows, unknown_item
from layton_batch.providers.wire_json import text
from layton_batch.records import Item, JsonValue, ModelSpec, Response
from layton_batch.reports.label_sheet import is_sheet
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind, RequestOutcome
from layton_batch.tasks.offline import no_response, response
from layton_batch.tasks.protocol import Task
from layton_batch.text import first_of, plural, without_guard

ITEM = ("item_id", "riddle_id", "question_id", "sample_id", "custom_id", "id")
"""Columns that may hold the item's id. The first counts that names an item of the run: programs call other things so
too (``custom_id`` is the item in layton-eval's result files, and a request in others)."""
NO_ID = f"has no id of an item (a column called {', '.join(ITEM[:-1])} or {ITEM[-1]})"
TEXT = ("response", "raw_text", "output")
"""Columns of a prediction that hold the whole reply; the first that is there counts."""
_REFERENCES = ("reference", "expected", "target")
IMPORTED = "imported"
"""The provider of a model of whom no file says who served it."""

_JSON_STARTS = ("{", "```")
Answers = dict[str, Response]
"""Reply, or the record that there was none, by item. Its ``custom_id`` is empty."""


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A model, as it was asked (``spec``), and what it answered; ``verdicts``: what judges said of it, by the name that
    the files call them by."""

    spec: ModelSpec
    answers: Answers
    source: str
    verdicts: dict[str, Answers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers that was read: its rows, each with what errors call it."""

    path: Path
    rows: Sequence[tuple[str, Row]]


def models(
    file: AnswerFile,
    items: Collection[str],
    name: str | None = None,
    family: str | None = None,
    *,
    levels: Sequence[int] = (0,),
    json_replies: bool = True,
) -> list[ImportedModel]:
    """Return the models of a JSON, JSONL, Parquet or CSV file; each sample and each of the run's numbers of hints
    (``levels``) apart.

    A row has the item's id and the reply: the whole text, or ``answer`` and ``justification``, or all of the reply's
    JSON in ``answer``; null: no reply came. ``json_replies``: of a task whose replies are JSON, so that text in
    ``answer`` that is none is the answer by itself. A row may have ``sample``, ``n_hints`` and ``model``.

    ``name``: only that model; also what a file of one model is called by. ``family``: of every model, instead of the
    column. Raises DataError.
    """
    imported: list[ImportedModel] = []
    for model, rows in _rows_by_model(file, name).items():
        served = text(rows[0][1], "provider")
        spec = ModelSpec(model, served or IMPORTED, model, family or text(rows[0][1], "family") or served or model)
        rows_by_form: dict[tuple[int | None, int], list[tuple[str, Row]]] = {}
        for where, row in rows:
            hints, sample = (_whole(row, column, where) for column in ("n_hints", "sample"))
            rows_by_form.setdefault(asked_as(hints, sample, levels, where), []).append((where, row))
        for (n_hints, number), part in rows_by_form.items():
            replies = answers(part, items, json_replies=json_replies)
            imported.append(ImportedModel(replace(spec, hints=n_hints, sample=number), replies, str(file.path)))
    return imported


def _rows_by_model(file: AnswerFile, name: str | None) -> dict[str, list[tuple[str, Row]]]:
    """Return the rows of each model, or of the named one. A file without a column ``model`` is of one model, called as
    the file is; the only model of a file may be called otherwise."""
    has_names = any(row.get("model") is not None for _, row in file.rows)
    by_model: dict[str, list[tuple[str, Row]]] = {}
    for where, row in file.rows:
        model = row.get("model") if has_names else file.path.stem
        if not isinstance(model, str) or not model:
            raise DataError(f"{where}: column 'model' must be text, not {model!r:.60}")
        by_model.setdefault(model, []).append((where, row))
    if name is None:
        return by_model
    if len(by_model) > 1 and name not in by_model:
        listed = ", ".join(by_model)
        raise DataError(f"{file.path}: has no predictions of a model called {name!r} ({listed})")
    return {name: by_model.get(name) or next(iter(by_model.values()))}


def with_ids(file: AnswerFile) -> AnswerFile:
    """Return the file with a digest of its question as the id of each row, if none has an id and all have a question;
    else as it is."""
    questions = [text(row, "question") for _, row in file.rows]
    if not all(questions) or any(row.get(name) is not None for _, row in file.rows for name in ITEM):
        return file
    ids = {question: f"q{sha256(str(question).encode()).hexdigest()[:10]}" for question in questions}
    rows = zip(file.rows, questions, strict=True)
    return AnswerFile(file.path, [(where, {**row, "id": ids[question]}) for (where, row), question in rows])


def item_rows(file: AnswerFile) -> list[dict[str, JsonValue]]:
    """The items that the rows of predictions carry themselves, in ``question`` and ``reference``, each once.

    Raises DataError where a row has no id or no question, and where two rows ask something else under one id.
    """
    items: dict[str, dict[str, JsonValue]] = {}
    for where, row in file.rows:
        item_id = next((str(row[name]).strip() for name in ITEM if isinstance(row.get(name), str | int)), None)
        question = text(row, "question")
        reference = next(filter(None, (text(row, name) for name in _REFERENCES)), None)
        if item_id is None or question is None:
            lacks = NO_ID if item_id is None else "has no question"
            raise DataError(
                f"{where}: {lacks}; a row has an id, the same for the same question, and its question, unless --items "
                "FILE names the questions by their ids"
            )
        item: dict[str, JsonValue] = {"id": item_id, "question": question, "answer": reference}
        if items.setdefault(item_id, item) != item:
            raise DataError(
                f"{where}: item {item_id!r} has another question or reference in a row before; make the two the same, "
                "or give one another id"
            )
    return list(items.values())


def asked_as(n_hints: int | None, sample: int | None, levels: Sequence[int], where: str) -> tuple[int | None, int]:
    """Return the hints and the sample of a job's model. ``levels``: the run's numbers of hints. Raises DataError."""
    asks = " or ".join(map(str, levels))
    if n_hints is None and len(levels) > 1:
        raise DataError(f"{where}: 'n_hints' must say with how many hints the model was asked: {asks}")
    if n_hints is not None and n_hints not in levels:
        raise DataError(f"{where}: was asked with {n_hints} hints, the run asks with {asks}")
    return (n_hints if len(levels) > 1 else None), 1 if sample is None else sample


def _whole(row: Row, name: str, where: str) -> int | None:
    value = row.get(name)
    if isinstance(value, str) and value.isdecimal():  # a spreadsheet has no numbers
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < (name == "sample")):
        raise DataError(f"{where}: {name!r} must be a whole number")
    return value


def answers(rows: Iterable[tuple[str, Row]], items: Collection[str], *, json_replies: bool = False) -> Answers:
    """The replies of rows, each with what errors call it, by item. ``json_replies`` and errors: see ``models``."""
    lines: dict[str, str] = {}

    def reply_of(placed: tuple[str, Row]) -> tuple[str, Response]:
        where, row = placed
        item = _item(row, where, items)
        if lines.setdefault(item, where) != where:
            raise DataError(f"{where}: item {item!r} is there twice (first in {lines[item]})")
        return item, _reply(row, where, json_replies=json_replies)

    return dict(parse_each(rows, reply_of))


def has_json_replies(task: Task, items: Sequence[Item]) -> bool:
    """Return whether the task asks its participants for JSON."""
    return bool(items) and task.prompt(items[0]).response_schema is not None


def check_replies(task: Task, items: Sequence[Item], imported: Sequence[ImportedModel], source: str) -> str | None:
    """Return a sentence on the replies that the task cannot read; None where it can read all of them.

    Raises DataError where it can read none: a jury would be asked nothing.
    """
    replies = [(item, model) for model in imported for item in items if item.id in model.answers]
    kinds = [task.parse(item, model.spec.name, model.answers[item.id]).kind for item, model in replies]
    given, unread = len(kinds) - kinds.count(PredictionKind.MISSING), kinds.count(PredictionKind.UNPARSED)
    if not unread:
        return None
    form = (
        f"must hold the JSON or text that the prompt of {task.name} asks for; plain answers belong in a column "
        "'answer', and what is right in 'reference'"
    )
    if unread == given:
        raise DataError(f"{source}: no reply can be read: column 'response' {form}")
    replies_text = plural(given, "reply", "replies")
    return f"{source}: {unread} of {replies_text} cannot be read and count as wrong: column 'response' {form}"


def blank_rows(file: AnswerFile, imported: Sequence[ImportedModel], items: Collection[str]) -> str | None:
    """Return a sentence on the rows of these models that have no answer; None where all have one."""
    places = [
        f"{where} (item {_item(row, where, items)})"
        for name in dict.fromkeys(model.spec.name for model in imported)
        for where, row in _rows_by_model(file, name)[name]
        if _reply(row, where, json_replies=False).outcome is not RequestOutcome.SUCCEEDED
    ]
    if not places:
        return None
    count = "" if len(places) == 1 else f"{len(places)} rows, such as "
    return f"{count}{places[0]}: no answer, which counts as wrong; fill it in and give the command again"


def check_options(file: AnswerFile, task: Task, items: Sequence[Item]) -> None:
    """Raise DataError where a row of a multiple-choice file shows its options, or the right letter, in another order
    than the item has: its letters would mean other options."""
    by_id = {item.id: item for item in items if isinstance(item.payload.get("gold"), str)}
    for where, row in file.rows:
        item = by_id.get(next((str(row[name]) for name in ITEM if str(row.get(name)) in by_id), ""))
        difference = None if item is None else _other_order(row, item.payload)
        if item is not None and difference is not None:
            raise DataError(
                f"{where}: the model saw the options of item {item.id!r} in another order than the run has them: "
                f"{difference}. Its letters would mean other options, and nothing was imported; `layton-batch grade "
                f"{task.name} {file.path} --items FILE` reads each row in its own order"
            )


def _other_order(row: Row, payload: Mapping[str, JsonValue]) -> str | None:
    """Return how the order of options differs that a row shows; None where it shows none, or the same."""
    shown, own, gold = row.get("options"), payload.get("options"), row.get("gold")
    if isinstance(shown, str):
        with suppress(orjson.JSONDecodeError):
            shown = orjson.loads(shown)
    if isinstance(shown, list) and isinstance(own, list):
        pairs = zip(ascii_uppercase, (str(option).strip() for option in shown), map(str, own), strict=False)
        return next(
            (f"{letter} is {given!r} here and {ours!r} there" for letter, given, ours in pairs if given != ours), None
        )
    if isinstance(gold, str) and len(gold.strip()) == 1 and gold.strip().upper() != payload.get("gold"):
        return f"the right letter is {gold.strip().upper()} here and {payload.get('gold')} there"
    return None


# ---- rows ----------------------------------------------------------------------------------------------------------


def read_answers(path: Path, settings: Settings) -> AnswerFile:
    """Read a file of answers. Raises DataError."""
    full = settings.cwd / path
    check_file(full, path)
    listed = json_list(full)
    if listed is not None:
        return AnswerFile(path, [(f"{path}, element {number}", row) for number, row in enumerate(listed, 1)])
    rows = read_rows(str(full), settings.cwd, settings)
    if is_sheet(rows):
        raise DataError(f"{path}: is a sheet of labels: `layton-batch label import RUN {path}` takes it in")
    is_table = full.suffix.lower() in (*ENDINGS, WORKBOOK)
    placed = [(str(RowLocation(str(path), location.line)), row) for location, row in rows.placed()]
    return AnswerFile(path, [(place, _texts(row, place) if is_table else row) for place, row in placed])


def _texts(row: Row, place: str) -> Row:
    """A row of a spreadsheet as it was before it was written, but for characters that no cell can hold: replies are
    texts, also those in JSON and numbers. Columns are found whatever their case. Raises DataError naming ``place`` for
    two columns that differ in it alone."""
    texts: dict[str, JsonValue] = {}
    for name, value in row.items():
        if name.casefold() in texts:
            raise DataError(f"{place}: two columns are called {name!r}, but for their letters' case: rename one")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = orjson.dumps(value).decode() if isinstance(value, list | Mapping) or is_number else value
        texts[name.casefold()] = without_guard(text) if isinstance(text, str) else text
    return texts


def _item(row: Row, where: str, items: Collection[str]) -> str:
    values = [row[name] for name in ITEM if row.get(name) is not None]
    values = [value.strip() if isinstance(value, str) and value not in items else value for value in values]
    if not values:
        raise DataError(f"{where}: {NO_ID}; add one; the items are {first_of(sorted(items))}")
    value = next((value for value in values if str(value) in items), values[0])
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{where}: {ITEM[0]!r} must be text or a whole number")
    if str(value) not in items:
        raise DataError(f"{where}: {unknown_item(str(value), items)}")
    return str(value)


def _reply(row: Row, where: str, *, json_replies: bool) -> Response:
    column = next((name for name in TEXT if name in row), None)
    if column is None:
        return _parts(row, where, json_replies=json_replies)
    text = row[column]
    if text is None:
        error = row.get("error", row.get("note"))
        if row.get("kind") not in (None, str(PredictionKind.MISSING)):  # a reply without words, such as a refusal
            return response("", row)
        return no_response(error if isinstance(error, str) else "no reply")
    if not isinstance(text, str):
        raise DataError(f"{where}: {column!r} must be text or null")
    return response(text, row)


def _parts(row: Row, where: str, *, json_replies: bool) -> Response:
    if "answer" not in row:
        raise DataError(f"{where}: there is no reply: {', '.join(TEXT)}, or 'answer' (and 'justification')")
    answer, why = row["answer"], row.get("justification")
    if isinstance(answer, Mapping):  # the JSON that was asked for, parsed by the program that wrote the file
        return response(orjson.dumps(answer).decode(), row)
    if not isinstance(answer, str | None) or not isinstance(why, str | None):
        raise DataError(f"{where}: 'answer' and 'justification' must be text or null")
    if answer is None:
        return no_response("no reply")
    if "justification" in row:
        return response(orjson.dumps({"answer": answer, "justification": why or ""}).decode(), row)
    is_reply = not json_replies or answer.lstrip().startswith(_JSON_STARTS)
    return response(answer if is_reply else orjson.dumps({"answer": answer}).decode(), row)
