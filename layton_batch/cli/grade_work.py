"""`grade` from what was asked to what is printed and written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.cli.grade_files import Asked, picture, updating
from layton_batch.cli.grade_report import print_board_of, print_one, print_rounds, report_text
from layton_batch.cli.terminal import print_json
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.grading import board as boards
from layton_batch.grading.graded import GradeConfig, Graded, averaged, by_model
from layton_batch.grading.graders import grade
from layton_batch.grading.one_file import Row, chosen_metric, chosen_protocol, item_rows
from layton_batch.grading.submissions import Desk, Submission, submissions
from layton_batch.records import JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks.mcq_idk_rules.table import BoardRow
from layton_batch.tasks.rome_rules.rounds import Rounds

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was graded. ``rounds``: by model, every file of it; ``models``: one each."""

    asked: Asked
    config: GradeConfig
    rounds: Mapping[str, Sequence[Graded]]
    models: Sequence[Graded]
    ensembles: Sequence[BoardRow] = field(default=())


def run_grade(asked: Asked) -> None:
    """Grade, write what is to be written, and print the rest. Raises ManifestError, DataError, FileError.

    All files are made before the first is written: what cannot be drawn leaves nothing behind.
    """
    with updating(asked.updated) as add:
        result = _graded(asked, add)
        board = boards.ranked(result.models, result.config.metric) if result.config.board else None
        document = _document(result, board)
        table = _table(result)
        files = list(_files(result, document, table))
    for path, content in files:
        atomic.write_bytes(path, content)
    _print(result, board, document, table)


def _print(result: Result, board: boards.Board | None, document: Mapping[str, JsonValue], table: str) -> None:
    asked = result.asked
    if asked.as_json:
        print_json(_printable(document))
    elif asked.table == "-":
        sys.stdout.write(table)
    elif asked.output is not None and asked.updated is not None:
        return
    elif board is None:
        print_one(asked.task, result.models[0], document, result.ensembles)
    else:
        print_board_of(asked.task, result.config.protocol, board, result.models, result.ensembles)
        if asked.rounds:
            print_rounds(_over_rounds(result))


def _graded(asked: Asked, add: Callable[[Row], None] | None) -> Result:
    settings = Settings.from_process()
    desk = Desk(asked.task, asked.runs, settings, asked.benchmark, asked.rounds)
    found = submissions(asked.predictions, desk)
    if asked.updated is not None and len(found) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(found)}")
    gold = None if asked.items is None else item_rows(asked.task, asked.items, settings)
    config = GradeConfig(
        asked.task,
        chosen_protocol(asked.task, asked.protocol),
        chosen_metric(asked.task, asked.metric),
        asked.samples,
        rows=asked.as_json or asked.output is not None or asked.ensembles,
        board=not _is_one_file(found) or asked.rounds,
    )
    graded = [grade(config, one, gold, add) for one in found]
    rounds = by_model(graded)
    models = [averaged(mine) for mine in rounds.values()] if asked.rounds else graded
    return Result(asked, config, rounds, models, _ensembles(asked, models, config.protocol))


def _is_one_file(found: Sequence[Submission]) -> bool:
    return len(found) == 1 and found[0].is_file


def _ensembles(asked: Asked, models: Sequence[Graded], protocol: str | None) -> Sequence[BoardRow]:
    if not asked.ensembles:
        return ()
    from layton_batch.grading.mcq_views import ensembles

    return ensembles(models, protocol or "")


# ---- documents -----------------------------------------------------------------------------------------------------


def _document(result: Result, board: boards.Board | None) -> Mapping[str, JsonValue]:
    """One file: its report as it always was. Several: the models in the order given, and what the board says."""
    if board is None:
        only = result.models[0].document or {}
        return only if not result.ensembles else {**only, "ensembles": _ensemble_rows(result)}
    over = _over_rounds(result) if result.asked.rounds else {}
    return {
        "task": result.asked.task,
        "protocol": result.config.protocol,
        "metric": result.config.metric,
        **({} if result.config.samples is None else {"samples": result.config.samples}),
        "n_items": board.n_items,
        "notes": list(board.notes),
        "models": [
            {
                "name": one.name,
                "source": one.where,
                **boards.to_json(board, one),
                **_rounds_json(result, one, over.get(one.name)),
            }
            for one in result.models
        ],
        **({"ensembles": _ensemble_rows(result)} if result.ensembles else {}),
    }


def _rounds_json(result: Result, one: Graded, over: Mapping[str, Rounds] | None) -> dict[str, JsonValue]:
    if over is None:
        return {"report": one.document}
    fields: dict[str, JsonValue] = {
        name: {"mean": found.mean, "std": found.std, "values": list(found.values)} for name, found in over.items()
    }
    return {"reports": [round_.document for round_ in result.rounds[one.name]], "rounds": fields}


def _ensemble_rows(result: Result) -> JsonValue:
    return [
        {
            "name": row.name,
            "metrics": {name: {"mean": value.mean, "se": value.se} for name, value in row.estimates.items()},
        }
        for row in result.ensembles
    ]


def _over_rounds(result: Result) -> dict[str, dict[str, Rounds]]:
    from layton_batch.tasks.rome_rules.rounds import over_rounds

    return {
        name: over_rounds([round_.document for round_ in mine if round_.document is not None])
        for name, mine in result.rounds.items()
    }


def _printable(value: JsonValue) -> JsonValue:
    """The same with lone surrogates, which JSON in UTF-8 has no way to write, replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_printable(name)): _printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    return value


# ---- files ---------------------------------------------------------------------------------------------------------


def _files(result: Result, document: Mapping[str, JsonValue], table: str) -> Iterator[tuple[Path, bytes]]:
    """What is to be written where. Raises DataError for a picture there is nothing to draw in."""
    asked = result.asked
    if asked.output is not None:
        text = report_text("board" if result.config.board else asked.task, _printable(document))
        yield asked.output, text.encode("utf-8", "replace")
    if asked.table not in (None, "-"):
        yield Path(asked.table or ""), table.encode("utf-8", "replace")
    if asked.chart is not None:
        yield asked.chart, picture(asked.chart, _bars(result) if asked.task == "mcq_idk" else _scatter(result))
    if asked.risk_chart is not None:
        yield asked.risk_chart, picture(asked.risk_chart, _risks(result))


def _table(result: Result) -> str:
    from layton_batch.grading.mcq_views import table_rows
    from layton_batch.tasks.mcq_idk_rules.table import markdown

    return "" if result.asked.table is None else markdown(table_rows(result.models, result.ensembles)) + "\n"


def _bars(result: Result) -> alt.LayerChart:
    from layton_batch.grading.mcq_views import table_rows
    from layton_batch.tasks.mcq_idk_rules.chart import bar_chart

    rows = table_rows(result.models, result.ensembles)
    return bar_chart(rows, _benchmark(result), clip_negative=result.config.protocol == "original")


def _risks(result: Result) -> alt.LayerChart:
    from layton_batch.grading.mcq_views import views
    from layton_batch.tasks.mcq_idk_rules.risk_chart import risk_chart

    seen = views(result.models)
    if not any(view.answered for view in seen.values()):
        raise DataError("grade: --risk-chart: there is no reply that answers anything, so there is no risk to draw")
    return risk_chart(list(seen.items()), _benchmark(result))


def _scatter(result: Result) -> alt.LayerChart:
    from layton_batch.tasks.rome_rules.rounds import over_rounds
    from layton_batch.tasks.rome_rules.scatter import Round, points, scatter_chart

    found = []
    for one in (round_ for mine in result.rounds.values() for round_ in mine):
        silent = one.n_rows - len(one.tokens)
        if silent or not one.tokens:
            raise DataError(
                f"{one.where}: --chart needs the tokens of every answer, and {silent} of {one.n_rows} predictions say "
                "none; give them a column output_tokens (or usage with it)"
            )
        accuracy = over_rounds([one.document or {}])["accuracy"].mean
        found.append(Round(one.name, accuracy, sum(one.tokens) / len(one.tokens)))
    return scatter_chart(points(found), "Accuracy against tokens used")


def _benchmark(result: Result) -> str:
    from layton_batch.text import one_line

    return one_line(result.asked.benchmark or "")
