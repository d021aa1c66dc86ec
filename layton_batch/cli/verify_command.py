"""verify: a run or a site, in a folder or published, computed again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, Runs

if TYPE_CHECKING:
    from layton_batch.verification.verify import Verification

_MOST_PRINTED = 50
_GONE = ": is gone"
"""End of a difference that is a missing file."""


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("verify")(verify)


def verify(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|SITE|URL",
            help="A run's name, folder or manifest, or a site's folder or address; default: the only run.",
        ),
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Compute a run or a site again, and name what differs.

    Checks the digest of every recorded file, computes predictions, verdicts, votes, board, bill and pages in a
    temporary folder, and compares them with what is stored. A site is computed again where it was written by
    `site --with-data`. No key, and no network but for a site at an address; nothing is written into the run or the
    site. Ends with 0, or with 2 where anything differs.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.clock import SystemClock
    from layton_batch.errors import DamagedTableError
    from layton_batch.files.addresses import WEB
    from layton_batch.runs.folders import find_run
    from layton_batch.settings import Settings
    from layton_batch.verification.verify import is_site, verify_run, verify_site

    settings = Settings.from_process()
    if source is not None and source.startswith(WEB):
        from layton_batch.verification.published import verify_url

        results = verify_url(source, settings, SystemClock())
    elif source is not None and is_site(Path(source)):
        results = verify_site(Path(source), settings)
    else:
        results = [verify_run(find_run(source, runs), settings)]
    if as_json:
        print_json([_json(result) for result in results])
    else:
        for result in results:
            for line in _lines(result):
                say(line)
    if any(result.differences for result in results):
        raise typer.Exit(DamagedTableError.exit_code)


def _lines(checked: Verification) -> list[str]:
    from layton_batch.text import money, plural

    counts = {
        "answer": checked.answers, "prediction": checked.predictions, "verdict": checked.verdicts,
        "label": checked.labels, "model": checked.models, "page": checked.pages,
    }  # fmt: skip
    parts = [f"{plural(checked.files, 'file')} by digest"]
    parts += [plural(count, noun) for noun, count in counts.items() if count]
    if checked.answers:
        parts.append(money(checked.dollars))
    lines = [f"{checked.name}: checked {', '.join(parts)}", *checked.notes]
    if not checked.differences:
        computed = ", and as it is computed from the raw replies" if checked.answers else ""
        return [*lines, f"{checked.name}: everything is as it was written{computed}"]
    lines += [f"differs: {line}" for line in checked.differences[:_MOST_PRINTED]]
    if (more := len(checked.differences) - _MOST_PRINTED) > 0:
        lines.append(f"{more} more; --json lists them")
    return [*lines, *_advice(checked.differences)]


def _advice(differences: Sequence[str]) -> list[str]:
    """Say what to do about tables, and about other files, as far as some differ."""
    from layton_batch.text import first_of

    tables = [line for line in differences if ".parquet: " in line]
    others = list(dict.fromkeys(line.partition(": ")[0] for line in differences if line not in tables))
    advice = []
    if any(not line.endswith(_GONE) for line in tables):
        advice.append("move a damaged table away, and `layton-batch run` makes it again")
    if any(line.endswith(_GONE) for line in tables):
        advice.append("`layton-batch run` makes a table that is gone again")
    if others:
        advice.append(f"put back from a copy: {first_of(others, 3)}")
    return advice


def _json(checked: Verification) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(checked), "dollars": f"{checked.dollars:f}"}
