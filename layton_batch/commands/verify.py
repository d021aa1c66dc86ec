"""verify: a run or a site, in a folder or published, computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Self

import typer

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import TextDocument
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.errors import DamagedTableError
from layton_batch.files.addresses import WEB
from layton_batch.text import first_of, money, plural
from layton_batch.verification.recompute import Verification
from layton_batch.verification.verify import is_site, verify_run, verify_site, verify_url

_MOST_PRINTED = 50
_GONE = ": is gone"
"""End of a difference that is a missing file."""


@dataclass(frozen=True, slots=True)
class VerificationDocument(TextDocument):
    """A run, or each run of a site, computed again."""

    FORMATS: ClassVar = ("table", "json")

    results: Sequence[Verification]

    @classmethod
    def of(cls, results: Sequence[Verification]) -> Self:
        """Return the document of what was computed again."""
        return cls(tuple(chain.from_iterable(map(_lines, results))), results)

    @property
    def differences(self) -> list[str]:
        """Return a sentence for each part that differs."""
        return [line for result in self.results for line in result.differences]

    def end(self) -> int:
        return DamagedTableError.exit_code if self.differences else 0

    def as_json(self) -> object:
        return [{**asdict(result), "dollars": f"{result.dollars:f}"} for result in self.results]


def verify(
    source: Annotated[
        OneRun,
        str | None,
        typer.Argument(
            metavar="RUN|SITE|URL",
            help="A run's name, folder or manifest, or a site's folder or address; default: the only run.",
        ),
    ] = None,
    *,
    runs: Runs = None,
) -> VerificationDocument:
    """Compute a run or a site again, and name what differs.

    Checks the digest of every recorded file, computes predictions, verdicts, votes, board, bill and pages in a
    temporary folder, and compares them with what is stored. A site is computed again where it was written by
    `site --with-data`. No key, and no network but for a site at an address; nothing is written into the run or the
    site. Ends with 0, or with 2 where anything differs.
    """
    settings = environment()
    if isinstance(source, str) and source.startswith(WEB):
        return VerificationDocument.of(verify_url(source, settings, SystemClock()))
    if isinstance(source, str | Path) and is_site(Path(source)):
        return VerificationDocument.of(verify_site(Path(source), settings))
    (folder,) = run_folders(source, runs, settings)
    return VerificationDocument.of([verify_run(folder, settings)])


def _lines(checked: Verification) -> Iterator[str]:
    counts = {
        "answer": checked.answers, "prediction": checked.predictions, "verdict": checked.verdicts,
        "labelled answer": checked.labels, "model": checked.models, "page": checked.pages,
    }  # fmt: skip
    parts = [f"{plural(checked.files, 'file')} by digest"]
    parts += [plural(count, noun) for noun, count in counts.items() if count]
    if checked.answers:
        parts.append(money(checked.dollars))
    yield f"{checked.name}: checked {', '.join(parts)}"
    yield from checked.notes
    if not checked.differences:
        computed = ", and as it is computed from the raw replies" if checked.answers else ""
        yield f"{checked.name}: everything is as it was written{computed}"
    yield from (f"differs: {line}" for line in checked.differences[:_MOST_PRINTED])
    if (more := len(checked.differences) - _MOST_PRINTED) > 0:
        yield f"{more} more; --json lists them"
    yield from _advice(checked.differences)


def _advice(differences: Sequence[str]) -> Iterator[str]:
    """Say what to do about tables, and about other files, as far as some differ."""
    tables = [line for line in differences if ".parquet: " in line]
    other_files = list(dict.fromkeys(line.partition(": ")[0] for line in differences if line not in tables))
    if any(not line.endswith(_GONE) for line in tables):
        yield "move a damaged table away, and `layton-batch run` makes it again"
    if any(line.endswith(_GONE) for line in tables):
        yield "`layton-batch run` makes a table that is gone again"
    if other_files:
        yield f"put back from a copy: {first_of(other_files, 3)}"
