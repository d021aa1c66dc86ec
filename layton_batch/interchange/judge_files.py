"""layton-eval's judge files: a board of the models that they judge, without the answers, or verdicts for a run.

A line is ``custom_id`` (the item), ``answer`` (the judge's reply, JSON with ``is_answer_correct`` and
``is_justification_correct``) and ``model`` (the judge). No line names the judged model: the file's name does as
layton-eval gives it (``judge_PROVIDER_MODEL_SPLIT….jsonl``, and ``thinking_32k`` for a model that thinks), or
``NAME=FILE``, or ``PROVIDER/NAME=FILE``. Files of one name are the jury of one model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import Row, RowLocation, read_rows, stream_rows, unknown_item
from layton_batch.records import JsonValue, Response
from layton_batch.scoring.evidence import ANSWERED
from layton_batch.scoring.gold import HUMAN, ITEM, VERDICT, GoldSet, parse_gold
from layton_batch.settings import Settings
from layton_batch.tasks import FIRST, load_task
from layton_batch.tasks.offline import response
from layton_batch.tasks.protocol import TaskOptions, juried

UNNAMED = "model"
"""Name of a judged model that nobody names."""
_THINKING = "_thinking_32k"
_FILE_NAME = re.compile(r"judges?_(?P<provider>[^_]+)_(?P<model>.+?)_(?:llm|vlm)[_.]")
_COLUMNS = {"custom_id", "answer", "model"}


def is_judge_file(source: str) -> bool:
    """Return whether a source, ``FILE`` or ``NAME=FILE``, is a judge's file by its first line."""
    path = Path(_split(source)[-1])
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    try:
        first = next(iter(stream_rows(path)))
    except DataError:
        return False  # whoever reads it says what is wrong
    text = first.get("answer")
    return first.keys() >= _COLUMNS and isinstance(text, str) and "is_answer_correct" in text


def read_judge_files(sources: Sequence[str], settings: Settings) -> GoldSet:
    """Read verdicts as a gold set without labels and answers, which a board takes. A verdict that cannot be read counts
    as none. Raises DataError with file, line and reason; ManifestError for two verdicts of a judge on an item."""
    task = juried(load_task(FIRST, TaskOptions("llm")))
    rows: dict[tuple[str, str, str], dict[str, JsonValue]] = {}
    places: dict[tuple[str, str, str], RowLocation] = {}
    for source in sources:
        provider, name, path = _split(source)
        for place, item, judge, text in _lines(path, settings):
            key = (provider, name, item)
            merged = rows.setdefault(key, {ITEM: item, "provider": provider, "model": name})
            places.setdefault(key, place)
            columns = [VERDICT[part] + judge for part in ("answer_correct", "justification_correct")]
            if columns[0] in merged:
                raise ManifestError(
                    f"{place}: judge {judge!r} has a verdict on item {item!r} of {name!r} already; give the "
                    "files of each model the model's name: NAME=FILE"
                )
            verdict = task.parse_verdict(item, name, judge, response(text, {}))
            merged |= dict(zip(columns, (verdict.is_answer_correct, verdict.is_justification_correct), strict=True))
    same: dict[str, JsonValue] = {name: None for part, name in HUMAN.items() if part != "both_correct"}
    same["kind"] = ANSWERED  # whatever the verdicts: the judges had an answer before them
    return parse_gold((places[key], {**row, **same}) for key, row in rows.items())


def verdicts(paths: Sequence[Path], items: Collection[str], settings: Settings) -> dict[str, dict[str, Response]]:
    """Return the replies of judges to be entered into a run, by judge and item. Raises DataError."""
    replies: dict[str, dict[str, Response]] = {}
    for path in paths:
        for place, item, judge, text in _lines(str(path), settings):
            if item not in items:
                raise DataError(f"{place}: {unknown_item(item, items)}")
            if item in replies.setdefault(judge, {}):
                raise DataError(f"{place}: judge {judge!r} has a verdict on item {item!r} already")
            replies[judge][item] = response(text, {})
    return replies


def _lines(path: str, settings: Settings) -> Iterator[tuple[RowLocation, str, str, str]]:
    """Yield each line's place, item, judge and reply."""
    for place, row in read_rows(path, settings.cwd, settings).placed():
        item, judge, text = (_text(row, name, place) for name in ("custom_id", "model", "answer"))
        yield place, item, judge, text


def _split(source: str) -> tuple[str, str, str]:
    """Return provider and name of the judged model, and the path: ``NAME=FILE``, ``PROVIDER/NAME=FILE``, or a name that
    layton-eval gives a file."""
    name, sign, path = source.partition("=")
    if not sign or Path(source).is_file():
        return *_named_by(Path(source).name), source
    provider, slash, model = name.strip().partition("/")
    return (provider, model, path) if slash and provider and model else (name, name.strip(), path)


def _named_by(file_name: str) -> tuple[str, str]:
    """Return provider and name of the judged model by the name that layton-eval gives the file."""
    if (named := _FILE_NAME.match(file_name)) is None:
        return UNNAMED, UNNAMED
    return named["provider"], named["model"] + (_THINKING if _THINKING in file_name else "")


def _text(row: Row, name: str, place: RowLocation) -> str:
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise DataError(f"{place}: column {name!r} must be text, not {value!r:.60}")
    return value
