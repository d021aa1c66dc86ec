"""Libraries that take long to import: each is imported only by the commands that need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from layton_batch.store.engine import sqlite_url
from tests.support.paths import ROOT
from tests.support.store_rows import RUN, opened
from tests.support.tiers import tiered

HEAVY = ("sqlalchemy", "pydantic", "polars", "numpy", "httpx", "jinja2", "genai_prices", "altair",
         "vl_convert", "rich", "starlette", "uvicorn", "batchling", "openai", "anthropic", "google", "mistralai",
         "together", "groq")  # fmt: skip
PROGRAM = """
import sys
from layton_batch.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert end.code == 0, end.code
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split())), file=sys.stderr)
"""


def imported(*arguments: str | Path) -> set[str]:
    """Run a command in a process of its own and return the heavy libraries that it imports."""
    command = [sys.executable, "-c", PROGRAM, " ".join(HEAVY), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout
    return set(ended.stderr.splitlines()[-1].split())


def test_help_imports_no_heavy_library() -> None:
    assert imported("--help") == set()


@pytest.mark.parametrize("command", tiered(("status", "status --json", "status --log"), ci=("status", "status --log")))
def test_status_and_its_log_import_the_store_only(command: str, tmp_path: Path) -> None:
    root = tmp_path / RUN
    root.mkdir()
    (root / "run.json").write_text(f'{{"manifest": {{"name": "{RUN}"}}, "run_id": "{RUN}"}}')
    with opened(sqlite_url(tmp_path / "state.sqlite3")):
        pass
    # Typer reads options by pydantic, and a table is drawn by rich
    name, *options = command.split()
    assert imported(name, RUN, *options, "--runs", tmp_path) - {"rich"} == {"sqlalchemy", "pydantic"}


def test_plan_imports_no_statistics(tmp_path: Path) -> None:
    manifest = ROOT / "manifests" / "layton-today.toml"
    heavy = imported("plan", "--offline", manifest, "--runs", tmp_path)
    assert heavy - {"rich"} == {"pydantic", "polars", "jinja2", "genai_prices", "sqlalchemy"}
