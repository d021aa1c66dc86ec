"""The way past Typer for ``status`` and ``events``: the same words mean the same, and little is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from layton_batch.cli import app, looking, main
from layton_batch.cli.quick import read
from tests.cli.cli_harness import call
from tests.store.rows import RUN, opened

PLAIN = (
    "status", "status lab", "status lab --json", "status --json lab", "status --runs there", "status --runs=there lab",
    "events lab", "events -f lab", "events lab --follow --json", "events --runs there lab --json",
    "status lab --json --json",
)  # fmt: skip
UNUSUAL = (
    "", "plan m.toml", "status --help", "status a b", "status --runs", "status --runs= lab", "status --runs a --runs b",
    "status -f lab", "events", "events --json", "events lab -fx", "status --jso", "status -- lab",
    "events --runs --json lab",
)  # fmt: skip
HEAVY = {
    "typer",
    "sqlalchemy",
    "alembic",
    "pydantic",
    "polars",
    "numpy",
    "httpx",
    "openai",
    "anthropic",
    "duckdb",
    "jinja2",
}
PROGRAM = """
import sys
from layton_batch.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert end.code == 0, end.code
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split())), file=sys.stderr)
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the two commands were called with."""
    calls: list[object] = []

    def status(*places: object, **named: object) -> int:
        calls.append(("status", places, named))
        return 0

    monkeypatch.setattr(looking, "show_status", status)
    monkeypatch.setattr(looking, "show_events", lambda *places, **named: calls.append(("events", places, named)))
    return calls


@pytest.mark.parametrize("variable", [None, "elsewhere", ""])
@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_line_means_what_it_means_to_typer(
    line: str, variable: str | None, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is None:
        monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    else:
        monkeypatch.setenv("LAYTON_BATCH_RUNS", variable)
    assert read(line.split(), variable) is not None
    with pytest.raises(SystemExit):
        main(line.split())
    assert app.invoke(line.split()) == 0
    quick, typed = asked
    assert quick == typed


@pytest.mark.parametrize("line", UNUSUAL)
def test_anything_else_is_left_to_typer(line: str) -> None:
    assert read(line.split(), None) is None


def test_what_is_wrong_with_the_line_is_said_as_ever(tmp_path: Path) -> None:
    ended = call("events")
    assert (ended.code, "Missing argument 'RUN'" in ended.err) == (2, True)


@pytest.mark.parametrize("line", ["status lab", "status", "status lab --json", "events lab", "events lab --json"])
def test_status_and_events_load_no_library_that_takes_long(line: str, tmp_path: Path) -> None:
    from layton_batch.store import sqlite_url

    root = tmp_path / RUN
    root.mkdir()
    (root / "run.json").write_text(f'{{"manifest": {{"name": "{RUN}"}}, "run_id": "{RUN}"}}')
    with opened(sqlite_url(root / "state.sqlite3")):
        pass
    asked = [*line.replace("lab", RUN).split(), "--runs", str(tmp_path)]
    arguments = [sys.executable, "-c", PROGRAM, " ".join(HEAVY), *asked]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ended.stdout
    assert ended.stderr.split() == []
