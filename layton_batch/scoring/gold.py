"""The gold set: a frame of predictions that people labelled, with the verdicts of every judge; and its file.

The file has layton-eval-ppi's form, read row by row and written. A row names ``riddle_id, provider, model, n_hints``
(no such column, as in the published visual set: 0) and holds, for every judge, ``is_answer_correct_<judge>`` and
``is_justification_correct_<judge>`` (null: did not sit), and the same from a person as ``human_answer_correct`` and
``human_justification_correct`` (null: not labelled). ``both_correct_<judge>`` and ``human_both_correct`` are taken
where the file has them and derived where it does not. Three more columns may be there, which our own exports have:
``kind``, what became of the reply, ``ranked``, false for an answer that brings a label only, and ``sample``, which
answer of the model to the item it is (of a label only: in which round it counts; none: in all). A row of a run whose
labels stand beside another jury's votes says so (``labels_of_another_jury``).

A file may say of its judges, in every row the same, ``judge_provider_<judge>``, ``judge_model_<judge>`` (the provider's
id of the model), ``judge_settings_<judge>`` (a JSON object) and ``judge_prompt_sha256_<judge>``. Published sets have
none of these; what is not there is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from itertools import chain, islice
from pathlib import Path

import polars as pl

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.sources import Row, RowLocation, placed_rows, with_text_id
from layton_batch.records import JsonValue, ModelSpec
from layton_batch.scoring.evidence import ANSWERED, ENTRANT, JUDGED, LABELS, PREDICTION, VOTES, content_key, rounds
from layton_batch.settings import Settings

VERDICT = {
    "answer_correct": "is_answer_correct_",
    "justification_correct": "is_justification_correct_",
    "both_correct": "both_correct_",
}
"""Beginning of a judge's column, by metric; the judge's name follows."""
HUMAN = {metric: f"human_{metric}" for metric in VERDICT}
"""The column of people's word, by metric."""
GOLD: Mapping[str, pl.DataType] = {
    **{name: VOTES[name] for name in PREDICTION},
    **dict.fromkeys(("answer", "justification", "kind"), pl.String()),
    **dict.fromkeys(("silent", "ranked"), pl.Boolean()),
    "sample": pl.Int64(),
}
"""Columns that are not about decisions. ``silent``: there is no answer; the texts are left out where only their digest
``content`` is kept."""

# ---- judges ----------------------------------------------------------------------------------------------------------


_PREFIX = "judge_"


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """A judge as a gold set knows it; None: unknown. ``settings`` is canonical JSON text."""

    provider: str | None = None
    model: str | None = None
    settings: str | None = None
    prompt_sha256: str | None = None

    @property
    def is_empty(self) -> bool:
        return not any(asdict(self).values())

    def differences(self, other: JudgeRecord) -> list[tuple[str, str, str]]:
        """Return the fields that both records have with different values: name, own value, other value."""
        pairs = [(name, value, asdict(other)[name]) for name, value in asdict(self).items()]
        return [
            (name, own, others_value)
            for name, own, others_value in pairs
            if None not in (own, others_value) and own != others_value
        ]


def judge_record(spec: ModelSpec, prompt_sha256: str | None) -> JudgeRecord:
    """All that is known of a judge of one of our own runs."""
    named: dict[str, JsonValue] = {
        "effort": spec.reasoning.effort,
        "budget_tokens": spec.reasoning.budget_tokens,
        "max_output_tokens": spec.max_output_tokens,
    }
    settings: dict[str, JsonValue] = {name: value for name, value in named.items() if value is not None}
    if spec.params:
        settings["params"] = dict(spec.params)
    return JudgeRecord(spec.provider, spec.model, _canonical(settings), prompt_sha256)


def record_columns(judges: Sequence[str]) -> list[tuple[str, str, str]]:
    """The columns that a file may have of these judges: the judge, the name of what is said, and the column."""
    names = [field.name for field in fields(JudgeRecord)]
    return [(judge, name, f"{_PREFIX}{name}_{judge}") for judge in judges for name in names]


def recorded_value(name: str, value: str, where: str) -> str:
    """A value of a column, as a record has it. Raises DataError for settings that are no JSON object."""
    if not value:
        raise DataError(f"{where} must be text or null, not {value!r:.60}")
    if name != "settings":
        return value
    with suppress(ValueError):
        if isinstance(settings := json.loads(value), dict):
            return _canonical(settings)
    raise DataError(f"{where} must be a JSON object, not {value!r:.60}")


def _canonical(settings: Mapping[str, JsonValue]) -> str:
    return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# ---- the set ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GoldSet:
    """A gold set. ``judges`` are the names in the file's column names, in column order; ``rows``: the columns of
    ``GOLD``, ``VERDICT`` by judge and ``HUMAN``; ``recorded``: what more the file says of judges, by name;
    ``other_jury``: whether it is a run's export whose labels stand beside another jury's votes."""

    judges: tuple[str, ...]
    rows: pl.DataFrame
    recorded: Mapping[str, JudgeRecord] = field(default_factory=dict)
    other_jury: bool = False

    @property
    def labelled(self) -> pl.DataFrame:
        """The rows with a person's word on any metric."""
        return self.rows.filter(pl.any_horizontal(pl.col(list(HUMAN.values())).is_not_null()))

    def has(self, metric: str) -> bool:
        """Return whether a judge or a person decided anything on a metric."""
        columns = [VERDICT[metric] + judge for judge in self.judges] + [HUMAN[metric]]
        return any(self.rows[column].count() for column in columns)

    def on(self, metric: str) -> pl.DataFrame:
        """The rows with ``yes`` and ``total`` of their judges and people's word, ``correct``, on a metric."""
        verdicts = pl.col([VERDICT[metric] + judge for judge in self.judges])
        return self.rows.with_columns(
            yes=pl.sum_horizontal(verdicts).cast(pl.Int64),
            total=pl.sum_horizontal(verdicts.is_not_null()).cast(pl.Int64),
            correct=HUMAN[metric],
        )


def rounds_of(gold: GoldSet, metric: str) -> tuple[list[tuple[pl.DataFrame, pl.DataFrame]], dict[str, int]]:
    """Return votes and labels by round, and how often each model was asked. A prediction without an answer counts as
    wrong."""
    rows = gold.on(metric).select(*LABELS, "kind", "silent", "ranked", "sample")
    rows = rows.with_columns(kind=_KIND, judges=pl.lit(None, pl.Int64))
    frames, samples = rounds(rows.filter("ranked").with_columns(pl.col("sample").fill_null(1)))
    unranked = rows.filter(~pl.col("ranked"))
    parts = []
    for number, votes in enumerate(frames, 1):
        labelled = [votes, unranked.filter(pl.col("sample").fill_null(number) == number)]
        labels = pl.concat(part.drop_nulls("correct").select(*LABELS) for part in labelled)
        parts.append((votes.select(*VOTES), labels))
    return parts, samples


_KIND = (
    pl.when(pl.col("kind").is_not_null())
    .then("kind")
    .when(pl.col("silent") & (pl.col("total") == 0))
    .then(pl.lit("missing"))
    .otherwise(pl.lit(ANSWERED))
)


def labels_of(gold: GoldSet, metric: str) -> pl.DataFrame:
    """The predictions a person judged on this metric, with their jury's votes; what several samples say is one."""
    labels, is_sample = gold.on(metric).drop_nulls("correct"), pl.col("sample").is_not_null()
    is_first = pl.struct(*PREDICTION, is_sample.alias("is_sample")).is_first_distinct()
    return labels.filter(~is_sample | is_first).select(*LABELS)


def judged_of(gold: GoldSet, metric: str) -> pl.DataFrame:
    """Every recorded prediction of the first round with each judge's verdict on this metric; the provider stands for
    the family."""
    verdicts = []
    for judge in gold.judges:
        verdict, never = pl.col(VERDICT[metric] + judge), pl.lit(None, pl.Boolean)
        decided = pl.struct(judge=pl.lit(judge), verdict=verdict, recorded=never)
        verdicts.append(pl.when(verdict.is_not_null()).then(decided))
    first = gold.rows.filter(pl.col("sample").fill_null(1) == 1)
    judged = first.with_columns(
        family="provider", human=HUMAN[metric], verdicts=pl.concat_list(verdicts).list.drop_nulls()
    )
    return judged.select(pl.col(name).cast(dtype) for name, dtype in JUDGED.items())


# ---- the file --------------------------------------------------------------------------------------------------------


BUNDLED = "bundled"
ITEM, ANSWER, JUSTIFICATION = "riddle_id", "answer", "justification"
_ANSWER, _JUSTIFICATION = VERDICT["answer_correct"], VERDICT["justification_correct"]
_OTHER_JURY = "labels_of_another_jury"
_SCORES_FORM = "; for `leaderboard`, a table of scores has the columns model, item_id and score"
_NEEDED = (ITEM, "provider", "model", HUMAN["answer_correct"], HUMAN["justification_correct"])
_IDENTIFYING = (ITEM, HUMAN["answer_correct"], HUMAN["justification_correct"])
"""Columns that only a gold set has. A file without any of them was meant for something else."""
_SHOWN_COLUMNS = 12
_SAMPLES = 10_000
_FRAME_ROWS = 5_000
_FIELDS: Mapping[str, type] = {
    **dict.fromkeys((ITEM, "provider", "model"), str),
    "n_hints": int,
    **dict.fromkeys((ANSWER, JUSTIFICATION, "kind"), str),
    "ranked": bool,
    "sample": int,
}
"""Columns that are not about decisions and judges, and the type of their values, which may be null."""
_DTYPES: Mapping[type, pl.DataType] = {str: pl.String(), bool: pl.Boolean(), int: pl.Int128()}
_CHECKS: Mapping[str, tuple[Callable[[pl.Series], pl.Series], str]] = {
    **dict.fromkeys((ITEM, "provider", "model"), (lambda values: values.fill_null("") != "", "text")),
    "n_hints": (lambda values: values.fill_null(-1).is_between(0, 2**63 - 1), "a whole number"),
    "sample": (
        lambda values: values.fill_null(1).is_between(1, _SAMPLES),
        f"a whole number from 1 to {_SAMPLES:,}",
    ),
}
"""Columns whose values have more than a type: the check, and the values in words."""
_WORDS = {str: "text or null", bool: "true, false or null"}


def read_gold(
    source: str,
    base: Path,
    settings: Settings,
    clock: Clock | None = None,
    bundled_items: Path | None = None,
    *,
    keep_texts: bool = True,
) -> GoldSet:
    """Read the gold set of a source as ``sources.read_rows`` takes it; ``bundled`` is the one beside ``bundled_items``.

    Without ``keep_texts`` the texts of answers are left out, as for a board: it has no ``rows`` then. Raises DataError
    with file, line, column and reason.
    """
    if source == BUNDLED:
        source = bundled_gold(bundled_items)
    return parse_gold(placed_rows(source, base, settings, clock), keep_texts=keep_texts)


def bundled_gold(bundled_items: Path | None) -> str:
    """Return the gold set's path of bundled items: ``gold_<split>.jsonl`` beside ``riddles_<split>.jsonl``.

    Raises DataError where there is none.
    """
    path = bundled_items and bundled_items.with_name("gold_" + bundled_items.name.partition("_")[2])
    if path is None or not path.is_file():
        raise DataError(
            "[gold] source 'bundled': this task and split have no bundled gold set: name a file, or leave it out"
        )
    return str(path)


def parse_gold(placed: Iterable[tuple[RowLocation, Row]], *, keep_texts: bool = True) -> GoldSet:
    """Make a gold set of rows. Raises DataError naming file, line and column; a fault in a row is raised after what is
    wrong with the columns of all rows."""
    names: dict[str, None] = {}
    frames: list[pl.DataFrame] = []
    fault, file, remaining = None, "", iter(placed)
    while portion := list(islice(remaining, _FRAME_ROWS)):
        file = file or portion[0][0].file
        names |= dict.fromkeys(chain.from_iterable(row for _, row in portion))
        try:
            frames += [_frame(portion, names, keep_texts=keep_texts)] if fault is None else []
        except DataError as error:
            fault = error
    _check_columns(names, file)
    judges = _judges(list(names), file)
    if fault is not None:
        raise fault
    graders = [[prefix + judge for prefix in VERDICT.values()] for judge in judges] + [list(HUMAN.values())]
    rows = pl.concat(frames, how="diagonal")
    frames.clear()
    recorded = _recorded(rows, judges)
    _check_unique(rows)
    other_jury = _OTHER_JURY in rows.columns and bool(rows[_OTHER_JURY].any())
    rows = rows.select(*(name for name in GOLD if name in rows.columns), *chain.from_iterable(graders))
    rows = rows.with_columns(
        pl.when(pl.col("kind") != "").then("kind").alias("kind"),
        pl.col("ranked").fill_null(value=True),
        *(_both(*columns) for columns in graders),
    )
    return GoldSet(judges, rows, recorded, other_jury)


def _frame(portion: Sequence[tuple[RowLocation, Row]], names: Mapping[str, None], *, keep_texts: bool) -> pl.DataFrame:
    """Return the columns of some rows that a gold set is made of, with their locations. Raises DataError for the first
    value that does not belong in its column."""
    judges = dict.fromkeys(
        name.removeprefix(prefix) for name in names for prefix in VERDICT.values() if name.startswith(prefix)
    )
    of_jury = {column for _, _, column in record_columns(list(judges))} & names.keys()
    decisions = [prefix + judge for judge in judges for prefix in VERDICT.values()] + list(HUMAN.values())
    types: dict[str, type] = dict(_FIELDS)
    types |= dict.fromkeys((*decisions, *({_OTHER_JURY} & names.keys())), bool) | dict.fromkeys(of_jury, str)
    rows = [with_text_id(row, ITEM) for _, row in portion]
    columns = {name: [row.get(name, 0 if name == "n_hints" else None) for row in rows] for name in types}
    wrong = [(at, name) for name, kind in types.items() if (at := _first_wrong(name, columns[name], kind)) is not None]
    if wrong:
        at, name = min(wrong, key=lambda cell: cell[0])
        words = _CHECKS[name][1] if name in _CHECKS else _WORDS[types[name]]
        raise DataError(f"{portion[at][0]}: column {name!r} must be {words}, not {rows[at].get(name)!r:.60}")
    frame = pl.DataFrame(columns, schema={name: _DTYPES[kind] for name, kind in types.items()})
    frame = frame.rename({ITEM: "item_id"}).with_columns(
        pl.col("n_hints", "sample").cast(pl.Int64),
        content=pl.Series([*map(content_key, frame[ANSWER], frame[JUSTIFICATION])], dtype=pl.Int64),
        silent=pl.col(ANSWER).is_null(),
        file=pl.Series([location.file for location, _ in portion], dtype=pl.Categorical()),
        line=pl.Series([location.line for location, _ in portion], dtype=pl.UInt32()),
    )
    return frame if keep_texts else frame.drop(ANSWER, JUSTIFICATION)


def _first_wrong(name: str, values: Sequence[object], kind: type) -> int | None:
    """Return the place of the first value that does not belong in a column; None: there is none."""
    if odd := set(map(type, values)) - {kind, type(None)}:
        return next(at for at, value in enumerate(values) if type(value) in odd)
    if name not in _CHECKS:
        return None
    is_right = _CHECKS[name][0](pl.Series(values, dtype=_DTYPES[kind]))
    return None if is_right.all() else is_right.arg_min()


def _check_columns(names: Mapping[str, None], file: str) -> None:
    """Raises DataError for columns that are not those of a gold set."""
    missing = [column for column in _NEEDED if column not in names]
    if not missing:
        return
    if not set(_IDENTIFYING) <= set(missing):
        raise DataError(f"{file}: not a gold set, it has no column {', '.join(missing)}{_SCORES_FORM}")
    if "answer_correct" in names:
        raise DataError(
            f"{file}: is a file of labels, and belongs to a run: `layton-batch label import RUN {file}`, "
            "then `layton-batch leaderboard RUN`; in a manifest: [gold] annotations"
        )
    questions = f"; `layton-batch run {file} --model PROVIDER:ID` asks questions" if "question" in names else ""
    raise DataError(
        f"{file}: not a gold set and no table of scores; its columns are {', '.join(islice(names, _SHOWN_COLUMNS))}; a "
        "table of scores has the columns model, item_id and score, and a row for each model and item; a gold set has "
        f"the columns {', '.join(_NEEDED)}{questions}"
    )


def _location(rows: pl.DataFrame, number: int) -> RowLocation:
    return RowLocation(rows["file"][number], rows["line"][number])


def _recorded(rows: pl.DataFrame, judges: Sequence[str]) -> dict[str, JudgeRecord]:
    """Read the judges' records from the rows, which must agree. Judges without a record are left out."""
    records: dict[str, dict[str, str]] = {judge: {} for judge in judges}
    for judge, name, column in record_columns(judges):
        values = rows[column].drop_nulls().unique(maintain_order=True).to_list() if column in rows.columns else []
        if len(values) > 1:
            location = _location(rows, rows[column].index_of(values[1]) or 0)
            raise DataError(
                f"{location}: column {column!r} is not what it is in rows before; one gold set has one jury"
            )
        if len(values):
            location = _location(rows, rows[column].is_not_null().arg_max() or 0)
            records[judge][name] = recorded_value(name, values[0], f"{location}: column {column!r}")
    return {judge: JudgeRecord(**record) for judge, record in records.items() if record}


def _check_unique(rows: pl.DataFrame) -> None:
    key = rows.select(*ENTRANT, "item_id", pl.col("ranked").fill_null(value=True), pl.col("sample").fill_null(0))
    if key.n_unique() == key.height:
        return
    again = key.select(pl.struct(pl.all()).is_first_distinct().arg_min()).item()
    same = pl.all_horizontal(pl.col(name) == value for name, value in key.row(again, named=True).items())
    first = key.select(same.arg_max()).item()
    item, model = key["item_id"][again], key["model"][again]
    raise DataError(
        f"{_location(rows, again)}: item {item!r} of model {model!r} stands already in {_location(rows, first)}"
    )


def _both(answer: str, justification: str, both: str) -> pl.Expr:
    """The decision on both, derived from its parts where only these are known."""
    parts = pl.col(answer), pl.col(justification)
    derived = pl.when(parts[0].is_not_null() & parts[1].is_not_null()).then(parts[0] & parts[1])
    return pl.coalesce(both, derived).alias(both)


def _judges(columns: Sequence[str], file: str) -> tuple[str, ...]:
    judges = tuple(column.removeprefix(_ANSWER) for column in columns if column.startswith(_ANSWER))
    if not judges:
        raise DataError(f"{file}: not a gold set, it has no column {_ANSWER}<judge>")
    justification_judges = {
        column.removeprefix(_JUSTIFICATION) for column in columns if column.startswith(_JUSTIFICATION)
    }
    if lone := sorted(set(judges) ^ justification_judges):
        raise DataError(f"{file}: judge {lone[0]!r} has only one of the columns {_ANSWER}… and {_JUSTIFICATION}…")
    return judges


def gold_rows(gold: GoldSet) -> Iterator[dict[str, object]]:
    """Write the rows of a gold set in the form it was read in, layton-eval-ppi's, with the judges' records."""
    jury_columns: dict[str, object] = {_OTHER_JURY: True} if gold.other_jury else {}
    jury_columns |= {
        column: value
        for judge, name, column in record_columns(list(gold.recorded))
        if (value := getattr(gold.recorded[judge], name)) is not None
    }
    decisions = [prefix + judge for judge in gold.judges for prefix in VERDICT.values()] + list(HUMAN.values())
    names = ("item_id", "provider", "model", "n_hints", ANSWER, JUSTIFICATION, *decisions)
    for row in gold.rows.iter_rows(named=True):
        plain: dict[str, object] = {ITEM if name == "item_id" else name: row[name] for name in names}
        kind = {"kind": row["kind"]} if row["kind"] else {}
        counts = {} if row["ranked"] else {"ranked": False}
        sample = {} if row["sample"] is None else {"sample": row["sample"]}
        yield plain | kind | counts | sample | jury_columns
