"""What `grade` prints for people, and the form of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from layton_batch.cli.terminal import console, plain
from layton_batch.records import JsonValue

Document = Mapping[str, JsonValue]


def report_text(task: str, document: Document) -> str:
    """The report as a file: rome's in the published bytes, the others as indented JSON."""
    if task == "rome":
        from layton_batch.tasks.rome_rules.files import json_text

        return json_text(dict(document))
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def print_grades(task: str, document: Document) -> None:
    """The totals, a line each; the rows are in ``--json`` and ``--output``."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{task}", box=None, header_style="bold")
    table.add_column("metric", overflow="fold")
    table.add_column("value", justify="right")
    for name, value in {"mcq_idk": _mcq, "zebralogic": _zebra, "rome": _rome}[task](document):
        table.add_row(escape(plain(name)), escape(plain(value)))
    console().print(table)


def _mcq(document: Document) -> Iterator[tuple[str, str]]:
    metrics = document["metrics"]
    if isinstance(metrics, Mapping):
        for name, one in metrics.items():
            if isinstance(one, Mapping):
                yield name, f"{_percent(one['mean'])}{_error(one['se'])}"
    yield "n", str(document["n"])


def _zebra(document: Document) -> Iterator[tuple[str, str]]:
    yield "score", _percent(document["score"])
    for name in ("n_cases", "n_scored"):
        yield name, str(document[name])
    counts = document["failure_counts"]
    if isinstance(counts, Mapping):
        for name, count in counts.items():
            yield f"failures: {name}", str(count)
    summary = document.get("summary")
    if isinstance(summary, Mapping):
        for name, value in summary.items():
            yield name, str(value)


def _rome(document: Document) -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, list):
            yield name, f"{value[0]} of {value[1]}"
        else:
            yield name, f"{value} %"


def _percent(value: JsonValue) -> str:
    return f"{100 * float(value):.2f} %" if isinstance(value, int | float) else "–"


def _error(value: JsonValue) -> str:
    return f" ± {100 * float(value):.2f}" if isinstance(value, int | float) else ""
