"""Keys stay where they belong: in the environment and in the headers of calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from layton_batch.records import Event
from layton_batch.redaction import HIDDEN, Redactor
from layton_batch.runs.stores import EventLog
from layton_batch.settings import Settings
from tests.support.paths import ROOT

KEY = "sk-test-0123456789abcdefSECRET"
LEAKS = {
    "a bug": "raise RuntimeError({'Authorization': 'Bearer ' + key})",
    "a thread": "import threading\ndef fail(): raise RuntimeError(key)\nthread = threading.Thread(target=fail)\n"
    "thread.start()\nthread.join()",
    "a __del__": "class Client:\n    def __del__(self): raise RuntimeError(key)\nclient = Client()\ndel client",
    "a warning": "import warnings\nwarnings.warn('RuntimeError ' + key)",
    "a logger made later": """
import logging
logging.basicConfig(level=logging.DEBUG)
logger, unfit = logging.getLogger("some.sdk"), "more places %s than values %s"
logger.debug("options %s", {"headers": {"x-api-key": key}, "url": f"https://host/?key={key}"})
logger.debug(unfit, key)
logger.info("100 %% of %(what)s", {"what": "RuntimeError"})
try:
    int(key)
except ValueError:
    logger.exception("failed")
""",
}


@pytest.mark.parametrize("where", LEAKS)
def test_no_traceback_no_warning_and_no_log_record_shows_a_key(where: str) -> None:
    program = f"""
import os, sys
from layton_batch.cli import main
key = os.environ["OPENAI_API_KEY"]
try:
    main(["--version"])
except SystemExit:
    pass
{LEAKS[where]}"""
    environment = {"OPENAI_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, timeout=60, check=False)
    assert (b"RuntimeError" in done.stderr, HIDDEN.encode() in done.stderr) == (True, True)
    assert KEY.encode() not in done.stderr


def test_a_process_does_not_show_keys_in_its_arguments() -> None:
    program = "from layton_batch import cli; print(open('/proc/self/cmdline').read())"
    environment = {"OPENAI_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=60)
    assert KEY.encode() not in done.stdout


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer "),
        ("{'authorization': 'Bearer abcdefgh12345678'}", "{'authorization': 'Bearer "),
        ("Headers([('x-api-key', 'abcdefgh12345678')])", "Headers([('x-api-key', '"),
        ('{"X-Goog-Api-Key": "abcdefgh12345678"}', '{"X-Goog-Api-Key": "'),
        ("GET https://host/v1?key=abcdefgh12345678&x=1", "GET https://host/v1?key="),
        ("postgresql+psycopg://me:abcdefgh12345678@host/db", "postgresql+psycopg://me:"),
    ],
)
def test_what_stands_where_keys_stand_is_hidden_even_when_unknown(text: str, kept: str) -> None:
    cleaned = Redactor()(text)
    assert cleaned.startswith(kept + HIDDEN)
    assert "12345678" not in cleaned
    assert Redactor()(cleaned) == cleaned


def test_ordinary_text_and_short_values_are_left_alone() -> None:
    text = "an answer about keys: the authorization of 12 apples, https://host/v1/files?limit=10 at 10:30"
    assert Redactor.of(["an", ""])(text) == text


def test_settings_name_every_secret_they_hold(tmp_path: Path) -> None:
    environment = {
        "OPENAI_API_KEY": "one-key",
        "HF_TOKEN": "two-token",
        "OPENAI_BASE_URL": "http://there",
        "SORT_KEY": "Answer: A",
        "WEBHOOK_TOKEN": "other",
    }
    environment["LAYTON_BATCH_STATE"] = "postgresql+psycopg://me:p%40ss-word@host/db"
    (tmp_path / ".env").write_text("GROQ_API_KEY=theirs\n", encoding="utf-8")
    found = set(Settings.from_environment(environment, tmp_path).secrets())
    assert found == {"one-key", "two-token", "theirs", "p%40ss-word", "p@ss-word"}


def test_the_log_has_a_line_per_event_and_mends_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write = EventLog(path, "run-1")
    write(Event(1, 1_800_000_000.0, None, "run_created", "line\nbreak \u2028"))
    with path.open("ab") as handle:
        handle.write(b'{"at": "torn')
    write(Event(2, 1_800_000_001.0, "b-1", "submitting", ""))
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3
    assert orjson.loads(lines[0])["detail"] == "line\nbreak \u2028"
    assert orjson.loads(lines[2]) == {
        "at": "2027-01-15T08:00:01Z", "run": "run-1", "seq": 2, "event": "submitting", "batch": "b-1", "detail": "",
    }  # fmt: skip


def test_a_log_that_cannot_be_written_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write = EventLog(tmp_path, "run-1")
    for seq in range(3):
        write(Event(seq, 1_800_000_000.0, None, "kind", ""))
    assert len(caplog.records) == 1
    assert str(tmp_path) in caplog.text
