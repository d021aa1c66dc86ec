"""Grading of replies made elsewhere: rows in, marks out, one row at a time.

Predictions have ``item_id``, ``response`` (text; null is an empty reply; a list is several replies, of which the best
counts per metric) and, where no items are given, ``gold`` (a letter) and ``n_options`` (real options, default 4). Items
have ``item_id`` or ``id`` and the same two; an item without a gold letter but with its options is shown, and so graded,
in the order this package shuffles it to. A prediction may have ``finish_reason``: the corrected protocol reads no
answer out of a refusal, and minds that a reply was cut off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Item, JsonValue
from layton_batch.tasks.mcq_idk_rules.abstention import selective
from layton_batch.tasks.mcq_idk_rules.extraction import CORRECTED, ORIGINAL, PROTOCOLS, read_letters
from layton_batch.tasks.mcq_idk_rules.intervals import intervals
from layton_batch.tasks.mcq_idk_rules.item_rows import item_from
from layton_batch.tasks.mcq_idk_rules.letters import MAX_OPTIONS, MIN_OPTIONS, option_letters
from layton_batch.tasks.mcq_idk_rules.metrics import Marks, Tally, best_of, mark
from layton_batch.tasks.mcq_idk_rules.reading import NOTHING, Reading

DEFAULT_OPTIONS = 4
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "truncated"})
REFUSED = frozenset({"refusal", "content_filter", "safety"})
"""What the providers say of a reply that reached the output limit, and of one that was refused."""
Row = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Key:
    """What a reply to an item is held against: the right letters (several only for options of one text) and how many
    real options there are."""

    gold: str
    n_options: int


@dataclass(frozen=True, slots=True)
class GradedRow:
    """One prediction's letter (None: none could be read) and marks."""

    item_id: str
    letter: str | None
    marks: Marks
    key: Key

    def to_json(self) -> dict[str, JsonValue]:
        return {"item_id": self.item_id, "letter": self.letter, **self.marks.as_dict()}


@dataclass(frozen=True, slots=True)
class GradeReport:
    """The graded rows in the predictions' order (none where a sink took them), and their totals; ``marks``: how often
    each combination occurs."""

    protocol: str
    rows: tuple[GradedRow, ...]
    tally: Tally
    marks: Mapping[Marks, int]

    def to_json(self) -> dict[str, JsonValue]:
        """``metrics``, ``n`` and ``rows``; means and standard errors are fractions, null where undefined."""
        estimates = self.tally.estimates()
        return {
            "metrics": {name: {"mean": one.mean, "se": one.se} for name, one in estimates.items()},
            "n": self.tally.n,
            "rows": [row.to_json() for row in self.rows],
        }

    def abstention(self, *, level: float = 0.95, seed: int = 0) -> dict[str, JsonValue]:
        """The abstention-aware figures, and an interval of each and of every metric: beside what is published.

        The metrics' are bootstrapped, the figures' exact; ``upper`` is null where there is no bound.
        """
        view = selective(self.tally)
        spread = intervals(self.marks, level=level, seed=seed)
        bounds: dict[str, JsonValue] = {
            name: None if one is None else {"lower": one[0], "upper": one[1]}
            for name, one in view.bounds(level).items()
        }
        return {
            **view.to_json(),
            "level": level,
            "intervals": {
                **{name: {"lower": one.lower, "upper": one.upper} for name, one in spread.items()},
                **bounds,
            },
        }


def grade_rows(
    items: Iterable[Row] | None,
    predictions: Iterable[Row],
    protocol: str = CORRECTED,
    *,
    sink: Callable[[GradedRow], None] | None = None,
) -> GradeReport:
    """Grade all predictions. Raises ManifestError for an unknown protocol, DataError naming a row that is wrong.

    The replies are read one by one and not kept. ``sink`` gets every graded row in order, and then none is kept.
    """
    total, marks = Tally(), Counter[Marks]()
    rows: list[GradedRow] = []
    keep = rows.append if sink is None else sink
    for row in graded(items, predictions, protocol):
        total.add(row.marks)
        marks[row.marks] += 1
        keep(row)
    return GradeReport(protocol, tuple(rows), total, marks)


def graded(items: Iterable[Row] | None, predictions: Iterable[Row], protocol: str = CORRECTED) -> Iterator[GradedRow]:
    """The same as a stream, in the predictions' order."""
    check_protocol(protocol)
    keys = None if items is None else _keys(items, protocol)
    for number, row in enumerate(predictions, 1):
        yield _graded(row, number, keys, protocol)


def check_protocol(protocol: str) -> None:
    """Raises ManifestError for a protocol this task has not."""
    if protocol not in PROTOCOLS:
        raise ManifestError(f"protocol {protocol!r}: mcq_idk has {' and '.join(PROTOCOLS)}")


def item_key(item: Item, protocol: str) -> Key:
    """The key of an item of this task. Raises DataError where its payload is not what the task made it.

    The original looks for the right option by its text, so that of two equal options the first is right and the other
    wrong; corrected, both are.
    """
    options, gold = item.payload.get("options"), item.payload.get("gold")
    if not isinstance(options, list) or not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise DataError(f"item {item.id!r}: its payload has no list of options")
    if not isinstance(gold, str) or len(gold) != 1 or gold not in option_letters(len(options)):
        raise DataError(f"item {item.id!r}: its payload has no gold letter")
    return Key(_of_one_text(options, gold, protocol), len(options))


def _of_one_text(options: Sequence[JsonValue], gold: str, protocol: str) -> str:
    letters = option_letters(len(options))
    right = options[letters.index(gold)]
    same = "".join(letter for letter, option in zip(letters, options, strict=True) if option == right)
    return same[0] if protocol == ORIGINAL else same


# ---- rows ----------------------------------------------------------------------------------------------------------


def _graded(row: Row, number: int, keys: Mapping[str, Key] | None, protocol: str) -> GradedRow:
    item_id = _item_id(row, f"prediction {number}", ("item_id", "id", "sample_id"))
    where = f"prediction {number} (item {item_id!r})"
    if keys is None:
        key = _key(row, where, protocol)
    elif item_id in keys:
        key = keys[item_id]
    else:
        raise DataError(f"{where}: there is no such item")
    if "response" not in row:
        raise DataError(f"{where}: no column 'response'")
    said = row["response"]
    replies = [_reply(part, where) for part in said] if isinstance(said, list) else [_reply(said, where)]
    ending = row.get("finish_reason")
    readings = [_read(reply, protocol, key, ending).letters for reply in replies] or [()]
    marks = best_of([mark(letters, key.gold, key.n_options) for letters in readings])
    said_letters = dict.fromkeys(letter for letters in readings for letter in letters)
    return GradedRow(item_id, ",".join(said_letters) or None, marks, key)


def _read(reply: str, protocol: str, key: Key, ending: JsonValue) -> Reading:
    """The published protocol scores whatever text there is."""
    said = ending.strip().lower() if isinstance(ending, str) else ""
    if protocol == CORRECTED and said in REFUSED:
        return NOTHING
    return read_letters(reply, protocol, key.n_options, cut=said in CUT)


def _reply(value: JsonValue, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: column 'response' must be text or null, not {type(value).__name__}")
    return value


def _item_id(row: Row, where: str, names: tuple[str, ...]) -> str:
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{where}: column {names[0]!r} must be text or a whole number")
    return str(value)


def _keys(items: Iterable[Row], protocol: str) -> dict[str, Key]:
    keys: dict[str, Key] = {}
    for number, row in enumerate(items, 1):
        if row.get("gold") is None and ("options" in row or "choices" in row or "Correct Answer" in row):
            item = item_from(row, number, split="", seed=0)
            item_id, key = item.id, item_key(item, protocol)
        else:
            item_id = _item_id(row, f"item row {number}", ("item_id", "id", "sample_id"))
            key = _key(row, f"item row {number} (item {item_id!r})", protocol)
        if keys.setdefault(item_id, key) != key:
            raise DataError(f"item row {number}: item {item_id!r} is there twice, with different gold")
    return keys


def _key(row: Row, where: str, protocol: str) -> Key:
    listed = row.get("options")
    n_options = row.get("n_options")
    if n_options is None:
        n_options = len(listed) if isinstance(listed, list) else DEFAULT_OPTIONS
    if isinstance(n_options, float) and n_options.is_integer():
        n_options = int(n_options)
    if isinstance(n_options, bool) or not isinstance(n_options, int) or not MIN_OPTIONS <= n_options <= MAX_OPTIONS:
        raise DataError(f"{where}: n_options is {n_options!r}; it must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    gold = row.get("gold")
    letter = gold.strip().upper() if isinstance(gold, str) else ""
    if len(letter) != 1 or letter not in ascii_uppercase[:n_options]:
        last = ascii_uppercase[n_options - 1]
        raise DataError(f"{where}: gold is {str(gold)[:80]!r}; it must be a letter from A to {last}")
    if isinstance(listed, list) and len(listed) == n_options:
        return Key(_of_one_text(listed, letter, protocol), n_options)
    return Key(letter, n_options)
