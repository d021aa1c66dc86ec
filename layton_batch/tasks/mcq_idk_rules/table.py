"""The table as evaluate-idk prints it: which run stands for a model, in what order, and every blank of the Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, Estimate

_MARKDOWN = re.compile(r"([\\`*\[\]<>|])")


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One line of the table: a model or an ensemble, and its estimates by metric; one that is missing prints as "-"."""

    name: str
    estimates: Mapping[str, Estimate]

    def mean(self, metric: str) -> float | None:
        """The mean; None where there is no estimate."""
        found = self.estimates.get(metric)
        return None if found is None else found.mean


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run's result as it lies in a file; ``model`` is the full name, such as ``openrouter/openai/gpt-5``."""

    path: str
    model: str
    estimates: Mapping[str, Estimate]


def latest(results: Iterable[RunResult]) -> dict[str, RunResult]:
    """By model, named by what follows the last slash: of several runs the one with the largest path."""
    in_order = sorted(results, key=lambda result: result.path)
    return {result.model.rpartition("/")[2]: result for result in in_order}


def ordered(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """By trad_score, highest first and those without one last; what is equal stays in its order."""
    return sorted(rows, key=lambda row: -_or_least(row.mean("trad_score")))


def markdown(rows: Sequence[BoardRow]) -> str:
    """The table of the rows as they come, without a line break at its end."""
    lines = [[row.name, *(cell(row.estimates.get(metric)) for metric in METRICS)] for row in rows]
    return _grid(["Model", *(f"{metric} ± se" for metric in METRICS)], lines)


def _grid(header: list[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [header, *([_plain(row[0]), *row[1:]] for row in rows)]
    widths = [max(3, *(len(line[i]) for line in cells)) for i in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))


def cell(estimate: Estimate | None) -> str:
    """Percent with two decimals: "64.65 ± 3.41", "64.65" without a standard error, "-" without a value."""
    if estimate is None:
        return "-"
    value = f"{estimate.mean * 100:.2f}"
    return value if estimate.se is None else f"{value} ± {estimate.se * 100:.2f}"


def _plain(name: str) -> str:
    """A name that can end neither its cell nor its line, and is nothing but text."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return _MARKDOWN.sub(r"\\\1", " ".join(shown.split()))


def _or_least(value: float | None) -> float:
    return float("-inf") if value is None else value
