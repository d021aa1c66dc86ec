"""Keys stay where they belong: in the environment and in the headers of calls."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from layton_batch import log
from layton_batch.records import Event
from layton_batch.redaction import HIDDEN, Redactor
from layton_batch.runs.stores import EventLog
from layton_batch.settings import Settings
from tests.support.lab import MODELS, ROOT, quiz_text
from tests.support.tiers import tiered

KEYS = {name: f"sk-test-{name}-0123456789abcdefSECRET" for name in (*MODELS, "gemini")}
VARIABLES = {
    "openai": ("OPENAI_BASE_URL", "/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", ""),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", ""),
    "mistral": ("MISTRAL_BASE_URL", ""),
    "together": ("TOGETHER_BASE_URL", ""),
    "groq": ("GROQ_BASE_URL", ""),
    "doubleword": ("DOUBLEWORD_BASE_URL", "/v1"),
}
LOUD = {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug", "TOGETHER_LOG": "debug", "GROQ_LOG": "debug"}
MAIN = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from layton_batch.cli import main
main()
"""


class Telltale(BaseHTTPRequestHandler):
    """A provider that repeats the key it was given in everything it says."""

    status = 400

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = " ".join(f"{name}: {value}" for name, value in self.headers.items())
        message = f"Incorrect API key provided: {told}"
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": "bad_key"}}).encode()
        self.send_response(self.status, "no")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = do_POST

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def telltale(status: int) -> Iterator[str]:
    handler = type("Handler", (Telltale,), {"status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def secrets_in(content: bytes) -> list[str]:
    return [key for key in KEYS.values() if key.encode() in content]


@pytest.mark.parametrize("status", tiered((400, 401, 500), ci=(401,)))
def test_a_failing_run_with_loud_sdks_leaves_no_key_anywhere(tmp_path: Path, status: int) -> None:
    (tmp_path / "manifest.toml").write_text(quiz_text(tuple(MODELS), limit=1), encoding="utf-8")
    with telltale(status) as url:
        environment = {f"{name.upper()}_API_KEY": key for name, key in KEYS.items()}
        environment |= {variable: url + path for variable, path in VARIABLES.values()}
        environment |= {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **LOUD}
        command = [sys.executable, "-c", MAIN, "run", "manifest.toml", "--once"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, 5, 75), done.stderr[-2000:]
    said = done.stdout + done.stderr
    assert secrets_in(said) == []
    assert b"DEBUG" in said  # the SDKs did talk
    left = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert any(path.name == "log.jsonl" for path in left)
    assert any(path.name == "state.sqlite3" for path in left)
    for path in left:
        assert secrets_in(path.read_bytes()) == [], path
    assert HIDDEN.encode() in b"".join(path.read_bytes() for path in left)  # they were told, and did not pass


def test_a_traceback_of_a_bug_shows_no_key() -> None:
    program = "import sys\nfrom layton_batch import log\nlog.protect([sys.argv[1]])\n"
    program += "headers = {'Authorization': 'Bearer ' + sys.argv[1]}\nraise RuntimeError(headers)\n"
    command = [sys.executable, "-c", program, KEYS["openai"]]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=60, check=False)
    assert b"RuntimeError" in done.stderr
    assert HIDDEN.encode() in done.stderr
    assert secrets_in(done.stderr) == []


ELSEWHERE = {
    "a thread": "import threading\ndef fail(): raise RuntimeError(key)\nthread = threading.Thread(target=fail)\n"
    "thread.start()\nthread.join()",
    "a __del__": "class Client:\n    def __del__(self): raise RuntimeError(key)\nclient = Client()\ndel client",
    "a warning": "import warnings\nwarnings.warn('RuntimeError ' + key)",
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_nor_does_one_of_a_thread_or_a_destructor_nor_a_warning(where: str) -> None:
    program = (
        f"import sys\nfrom layton_batch import log\nlog.protect([sys.argv[1]])\nkey = sys.argv[1]\n{ELSEWHERE[where]}"
    )
    command = [sys.executable, "-c", program, KEYS["openai"]]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=60, check=True)
    assert b"RuntimeError" in done.stderr
    assert HIDDEN.encode() in done.stderr
    assert secrets_in(done.stderr) == []


def test_a_process_does_not_show_keys_in_its_arguments() -> None:
    program = "from layton_batch import cli; print(open('/proc/self/cmdline').read())"
    environment = {"OPENAI_API_KEY": KEYS["openai"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=60)
    assert secrets_in(done.stdout) == []


@pytest.fixture
def protected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What ``protect`` changes in this process is as it was afterwards."""
    hooks = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"), (warnings, "formatwarning"))
    for module, name in (*hooks, (log, "_known"), (log, "_ours")):
        there = getattr(module, name)
        monkeypatch.setattr(module, name, list(there) if isinstance(there, list) else there)
    factory = logging.getLogRecordFactory()
    log.protect(KEYS.values())
    yield
    logging.setLogRecordFactory(factory)


@pytest.mark.usefixtures("protected")
def test_log_records_of_any_logger_are_clean_whatever_they_carry(caplog: pytest.LogCaptureFixture) -> None:
    key = KEYS["groq"]
    logger, unfit = logging.getLogger("some.sdk.made.later"), "more places %s than values %s"
    with caplog.at_level(logging.DEBUG, logger="some"):
        logger.debug("options %s", {"headers": {"x-api-key": key}, "url": f"https://host/?key={key}"})
        logger.debug(unfit, key)
        try:
            int(key)
        except ValueError:
            logger.exception("failed")
        logger.info("100 %% of %(what)s", {"what": "it"})
    assert key not in caplog.text
    assert "100 % of it" in caplog.text
    assert caplog.text.count(HIDDEN) >= 3


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


def test_a_longer_secret_goes_before_one_that_is_a_part_of_it() -> None:
    assert Redactor.of(["secret", "secret-long"])("my secret-long") == f"my {HIDDEN}"


def test_settings_name_every_secret_they_hold(tmp_path: Path) -> None:
    environment = {
        "OPENAI_API_KEY": "one-key",
        "HF_TOKEN": "two-token",
        "OPENAI_BASE_URL": "http://there",
        "HOME": "/x",
    }
    environment["LAYTON_BATCH_STATE"] = "postgresql+psycopg://me:p%40ss-word@host/db"
    found = set(Settings.from_environment(environment, tmp_path).secrets())
    assert found == {"one-key", "two-token", "p%40ss-word", "p@ss-word"}


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
