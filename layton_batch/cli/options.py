"""Arguments and options that several commands of this package share."""

from __future__ import annotations

from typing import Annotated

import typer

from layton_batch.commands.parameters import RUN_HELP, RUNS_OPTION

RunName = Annotated[str | None, typer.Argument(metavar="RUN", help=RUN_HELP)]
Runs = Annotated[str | None, RUNS_OPTION]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
