"""Recorded predictions and verdicts played again, found by what a request says and not by any id.

A recording is a set of JSONL files, recognised by their columns: riddles (`id`, `description`, hints, solution ...) and
predictions with verdicts in the form of layton-eval-ppi (`riddle_id`, `provider`, `model`, `n_hints`, `answer`,
`justification`, and for every judge `is_answer_correct_<judge>` and `is_justification_correct_<judge>`).

* A participant's request is the riddle whose description it contains; of that riddle's rows, the one recorded for the
  request's model and reasoning setting (see `recorded_names`) and for as many hints as the request shows.
* A judge's request is the riddle, then the row whose answer and justification it contains (the longest, where one
  contains another), then that row's verdict by the request's model.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.sandbox.answerers import questions as kinds
from layton_batch.sandbox.answerers import riddle_lookup as lookup
from layton_batch.sandbox.answerers.questions import Kind, ModelReply, Question, kind_of
from layton_batch.sandbox.answerers.reply_forms import counted
from layton_batch.sandbox.answerers.riddle_lookup import Passage, Riddle, RiddleIndex, UnreadableRows

_SEPARATORS = re.compile(r"[^0-9a-z.]+")
_DATE = re.compile(r"^(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{2}-\d{4}|\d{2}-\d{2})(?:-|$)")
_UNSAID = frozenset({"preview", "latest"})

_CONTROL = re.compile(r"\\(.)")
_NUMBERS = {letter: f"\\u{ord(character):04x}" for letter, character in zip("bfnrt", "\b\f\n\r\t", strict=True)}

Setting = str | int | None


class Ambiguous(LookupError):
    """More than one record fits equally well; the message names them."""


def _by_number(escape: re.Match[str]) -> str:
    """Write a control character by its number: a recorded tab before ``ext`` is no command of LaTeX."""
    return _NUMBERS.get(escape[1], escape[0])


def alike(name: str) -> str:
    """The name in lower case with hyphens for separators and without words that say nothing of the model."""
    return "-".join(part for part in _SEPARATORS.split(name.lower()) if part and part not in _UNSAID)


def settings_of(reasoning: Setting) -> tuple[str, ...]:
    """The endings that record this reasoning setting, best first; the empty one is a bare name."""
    if reasoning is None:
        return ("", "no-thinking", "none", "thinking")
    if isinstance(reasoning, int):
        return _budget_endings(reasoning)
    word = alike(reasoning)
    if word in {"none", "off", "disabled"}:
        return ("no-thinking", "none", "")
    if word in {"default", "enabled", "dynamic"}:
        return ("thinking", "reasoning", "")
    return (word, f"thinking-{word}", "thinking")


def _budget_endings(tokens: int) -> tuple[str, ...]:
    if tokens == 0:
        return ("no-thinking", "none", "")
    if tokens < 0:
        return ("thinking", "reasoning", "")
    rounded = [f"{tokens // size}k" for size in (1000, 1024) if tokens % size == 0]
    amounts = [*rounded, str(tokens)]
    return (*(f"thinking-{amount}" for amount in amounts), *amounts, "thinking")


def resolve(
    model: str, reasoning: Setting, recorded: Sequence[str], aliases: Mapping[str, str] | None = None
) -> str | None:
    """The recorded name meant, or None. Raises Ambiguous where several fit equally well."""
    names_by_alias = aliases or {}
    for key in (f"{model}@{reasoning}", model):
        if key in names_by_alias:
            return names_by_alias[key] if names_by_alias[key] in recorded else None
    endings = settings_of(reasoning)
    for name in (*(f"{model}-{ending}" for ending in endings if ending), model):
        if name in recorded:
            return name
    base, own = alike(model), alike(model.rpartition("/")[2])
    for wanted in dict.fromkeys((base, own)):
        recorded_name = _by_likeness(wanted, endings, recorded)
        if recorded_name is not None:
            return recorded_name
    return None


def _by_likeness(base: str, endings: Sequence[str], recorded: Sequence[str]) -> str | None:
    rests = {name: rest for name in recorded if base and (rest := _rest(base, alike(name))) is not None}
    for ending in endings:
        exact = [name for name, rest in rests.items() if rest == ending]
        dated = [name for name, rest in rests.items() if _DATE.sub("", rest) == ending]
        for fitting in (exact, dated):
            if fitting:
                return _only(fitting)
    return next((name for name, rest in rests.items() if rest == ""), None)


def _rest(base: str, name: str) -> str | None:
    """Return the part of the name after the base, or None if the name belongs to another model."""
    if name == base:
        return ""
    return name[len(base) + 1 :] if name.startswith(f"{base}-") else None


def _only(names: Iterable[str]) -> str:
    distinct = list(names)
    if len(distinct) > 1:
        raise Ambiguous(f"several records fit: {', '.join(sorted(distinct))}")
    return distinct[0]


_PREDICTION_COLUMNS = ("riddle_id", "model", "answer", "justification")
_ANSWER_PREFIX = f"{kinds.ANSWER_VERDICT}_"
_JUSTIFICATION_PREFIX = f"{kinds.JUSTIFICATION_VERDICT}_"
_UNQUOTED = 20
"""Characters that a field counts for less if it is in the text, but not as a JSON string: a `?` is in any text."""

_Verdict = tuple[bool, bool]


class UnknownRequestError(LookupError):
    """The recording has no answer to this question, or more than one; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One row. The squashed texts are what judges' requests are searched for."""

    provider: str
    model: str
    n_hints: int
    answer: str
    justification: str
    squashed_answer: str
    squashed_justification: str
    verdicts: Mapping[str, _Verdict]

    def weight(self, passage: Passage, reference: Sequence[str]) -> int | None:
        """Count the characters of the text that this row accounts for; None if the text shows the reference only."""
        total = 0
        for field in (self.squashed_justification, self.squashed_answer):
            if not _is_there(field, passage, reference):
                return None
            total += len(field) if passage.quotes(field) else len(field) - _UNQUOTED
        return total


def _is_there(field: str, passage: Passage, reference: Sequence[str]) -> bool:
    """Return whether the text holds the field once more than its own reference columns do.

    A gold justification may well be some model's, word for word: then it is in every judge's text of that riddle.
    """
    if len(field) <= _UNQUOTED or not passage.holds(field):
        return passage.holds(field)
    expected = sum(column.count(field) for column in reference if field in column and passage.holds(column))
    return passage.count(field) > expected


class ReplayAnswerer:
    """Answers from recorded files; raises NotRecorded for everything else.

    `aliases` maps a request's `model@reasoning` or `model` to the recorded name, where the rule of `recorded_names`
    does not find it. Raises UnreadableRows for a file that is neither riddles nor predictions.
    """

    def __init__(self, files: Iterable[Path], aliases: Mapping[str, str] | None = None) -> None:
        self._aliases = dict(aliases or {})
        self._rows: dict[str, list[_Recorded]] = {}
        self._judges: dict[str, None] = {}
        riddles: list[Riddle] = []
        for path in files:
            for number, row in lookup.read_rows(path):
                self._take(path, number, row, riddles)
        self._index = RiddleIndex(riddles)
        recorded = {(row.provider, row.model): None for rows in self._rows.values() for row in rows}
        self._names = tuple(recorded)

    def _take(self, path: Path, number: int, row: lookup.Row, riddles: list[Riddle]) -> None:
        if lookup.is_riddle(row):
            riddles.append(lookup.riddle_from(row))
        elif all(column in row for column in _PREDICTION_COLUMNS):
            recorded = _recorded(row, f"{path}, line {number}")
            self._rows.setdefault(lookup.text_of(row, "riddle_id"), []).append(recorded)
            self._judges.update(dict.fromkeys(recorded.verdicts))
        else:
            needed = ", ".join(_PREDICTION_COLUMNS)
            raise UnreadableRows(
                f"{path}, line {number}: neither a riddle (id, description) nor a prediction ({needed})"
            )

    def answer(self, question: Question) -> ModelReply:
        kind = kind_of(question)
        if kind is Kind.OTHER:
            raise UnknownRequestError(
                "the request asks neither for an answer and its justification nor for a verdict on them"
            )
        passage = Passage(question.text)
        riddle = self._riddle(question, passage)
        if kind is Kind.JUDGE:
            return self._verdict(question, passage, riddle)
        row = self._prediction(question, passage, riddle)
        values = {kinds.JUSTIFICATION: row.justification, kinds.ANSWER: row.answer}
        return counted(question, _CONTROL.sub(_by_number, kinds.as_json(question, values)))

    def _riddle(self, question: Question, passage: Passage) -> Riddle:
        riddles = self._index.find(passage, question.images)
        if not riddles:
            raise UnknownRequestError(
                f"no recorded riddle's description is in the text, which begins {question.text[:80]!r}"
            )
        if len({riddle.id for riddle in riddles}) > 1:
            ids = ", ".join(riddle.id for riddle in riddles)
            raise UnknownRequestError(
                f"riddles {ids} have the same description and nothing in the request tells them apart"
            )
        return riddles[0]

    def _prediction(self, question: Question, passage: Passage, riddle: Riddle) -> _Recorded:
        name = self._participant(question)
        rows = [row for row in self._rows.get(riddle.id, []) if row.model == name]
        rows = [row for row in rows if row.provider == question.provider] or rows
        if not rows:
            raise UnknownRequestError(f"riddle {riddle.id} has no recorded answer of {name}")
        if len(rows) == 1:
            return rows[0]
        shown = lookup.hints_shown(riddle, passage)
        return min(rows, key=lambda row: abs(row.n_hints - shown))

    def _participant(self, question: Question) -> str:
        """The recorded model; one of the request's provider before one of another."""
        request = f"{question.provider} model {question.model!r}, reasoning {question.reasoning!r}"
        own = [model for provider, model in self._names if provider == question.provider]
        every = list(dict.fromkeys(model for _, model in self._names))
        try:
            for names in (own, every):
                name_recorded = resolve(question.model, question.reasoning, names, self._aliases)
                if name_recorded is not None:
                    return name_recorded
        except Ambiguous as error:
            raise UnknownRequestError(f"{request}: {error}") from error
        raise UnknownRequestError(f"{request}: none of the recorded models ({', '.join(every) or 'there are none'})")

    def _verdict(self, question: Question, passage: Passage, riddle: Riddle) -> ModelReply:
        judge = self._judge(question)
        rows = _best(self._rows.get(riddle.id, []), passage, riddle)
        if not rows:
            raise UnknownRequestError(
                f"riddle {riddle.id}: no recorded answer with its justification is in the judge's text"
            )
        verdicts = {row.verdicts[judge] for row in rows if judge in row.verdicts}
        whose = ", ".join(row.model for row in rows)
        if not verdicts:
            raise UnknownRequestError(f"riddle {riddle.id}: {judge} gave no verdict on the answer of {whose}")
        if len(verdicts) > 1:
            raise UnknownRequestError(f"riddle {riddle.id}: {judge} judged the same answer of {whose} differently")
        on_answer, on_justification = verdicts.pop()
        values = {kinds.ANSWER_VERDICT: on_answer, kinds.JUSTIFICATION_VERDICT: on_justification}
        return counted(question, kinds.as_json(question, values))

    def _judge(self, question: Question) -> str:
        judges = list(self._judges)
        if question.model in self._judges:
            return question.model
        try:
            # Judges are recorded under their bare names as a rule, whatever reasoning setting they ran with.
            judge = resolve(question.model, question.reasoning, judges, self._aliases)
            judge = judge or resolve(question.model, None, judges, self._aliases)
        except Ambiguous as error:
            raise UnknownRequestError(f"judge {question.model!r}: {error}") from error
        if judge is None:
            raise UnknownRequestError(
                f"judge {question.model!r}: none of the recorded judges ({', '.join(judges) or 'none'})"
            )
        return judge


def _best(rows: Sequence[_Recorded], passage: Passage, riddle: Riddle) -> list[_Recorded]:
    columns = (riddle.description, *riddle.hints, riddle.solution, riddle.justification)
    reference = [squashed for column in columns if (squashed := lookup.squash(column))]
    # A prompt may leave the reference out; then what looks like the reference is the participant's.
    for columns_shown in (reference, ()):
        weighed = [(weight, row) for row in rows if (weight := row.weight(passage, columns_shown)) is not None]
        if weighed:
            heaviest = max(weight for weight, _ in weighed)
            return [row for weight, row in weighed if weight == heaviest]
    return []


def _recorded(row: lookup.Row, place: str) -> _Recorded:
    n_hints = row.get("n_hints") or 0
    if not isinstance(n_hints, int):
        raise UnreadableRows(f"{place}: n_hints is {n_hints!r}, not a number of hints")
    answer, justification = lookup.text_of(row, "answer"), lookup.text_of(row, "justification")
    return _Recorded(
        provider=sys.intern(lookup.text_of(row, "provider")),
        model=sys.intern(lookup.text_of(row, "model")),
        n_hints=n_hints,
        answer=answer,
        justification=justification,
        squashed_answer=lookup.squash(answer),
        squashed_justification=lookup.squash(justification),
        verdicts=_verdicts(row, place),
    )


def _verdicts(row: lookup.Row, place: str) -> dict[str, _Verdict]:
    """Return verdicts by judge. A judge with a null for either part was not on the jury and is left out."""
    verdicts: dict[str, _Verdict] = {}
    for column, on_answer in row.items():
        if not column.startswith(_ANSWER_PREFIX):
            continue
        judge = column.removeprefix(_ANSWER_PREFIX)
        on_justification = row.get(f"{_JUSTIFICATION_PREFIX}{judge}")
        if on_answer is None or on_justification is None:
            continue
        if not isinstance(on_answer, bool) or not isinstance(on_justification, bool):
            raise UnreadableRows(f"{place}: the verdict of {judge} is not true or false")
        verdicts[sys.intern(judge)] = (on_answer, on_justification)
    return verdicts
