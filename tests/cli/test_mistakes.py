"""Mistakes in a command line, a manifest, a file or the environment: exit code 2, the place is named, no traceback."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import NOBODY
from tests.support import cli_harness
from tests.support.cli_harness import call, desk, write
from tests.support.lab import manifest_text, quiz_text

TOP = 'name = "m"\ntask = "qa"\n'
ITEMS = '[items]\nsource = "quiz.csv"\n'
MODEL = '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'
MANIFEST = TOP + ITEMS + MODEL
SCORES = "model,item_id,score\na,1,1\na,2,0\nb,1,0\nb,2,1\n"
FILES = {
    "quiz.csv": "question,answer\na?,b\n",
    "quiz.toml": MANIFEST,
    "scores.csv": SCORES,
    "other.csv": SCORES.replace("1,", "x-1,").replace("a,", "c,"),
    "labels.csv": "item_id,model,answer_correct\n1,g,true\n",
    "empty.csv": "question,answer\n",
    "title.csv": "My quiz,\nquestion,answer\na?,1\n",
    "twice.csv": "question,answer,answer\na?,1,2\n",
    "comma.csv": "question,answer\nIn France, what?,Paris\n",
    "quote.csv": 'question,answer\n"a?,b\n',
    "german.csv": "Frage;Antwort\na?;b\n",
    "options.csv": "question,A,B,answer\na?,x,y,3\n",
    "words.csv": "model,item_id,score\na,1,good\n",
    "percent.csv": "model,item_id,score\na,1,85%\n",
    "replies.csv": "id,response\n1,Answer: A\n",
    "no_id.csv": "question,reference,response\na?,1,2\n",
    "in.json": '{"quiz": [{"question": "a?"}]}',
}
"""Text files of the working folder."""
BYTES = {
    "zip.xlsx": b"PK\x03\x04 and more",
    "none.parquet": b"question,answer\n",
    "latin.csv": b"question,answer\nCaf\xe9?,x\n",
}


@pytest.fixture
def place(offline: Path) -> Path:
    """The working folder with all these files."""
    for name, text in FILES.items():
        write(offline, text, name)
    for name, content in BYTES.items():
        (offline / name).write_bytes(content)
    (offline / "empty").mkdir()
    return offline


def refused(*command: str | Path) -> str:
    """Give a command that is refused; return the line that says why."""
    (line,) = [line for line in cli_harness.refused(*command).splitlines() if line.startswith("layton-batch: ")]
    return line


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("run quiz.toml --verbose", "--verbose"),
        ("run quiz.csv --limit 0 --model openai:x", "--limit"),
        ("run quiz.csv --limit", "--limit"),
        ("run quiz.csv --model openai:x --max-usd 5,00", "5,00"),
        ("leaderboard scores.csv --max-score x", "--max-score"),
        ("init qa extra", "extra"),
        ("statsu", "status"),
        ("export m", "--to"),
        ("site m", "--out"),
        ("resolve", "BATCH"),
        ("export m --to xlsx --out x", "xlsx"),
        ("grade", "TASK"),
        ("grade rome", "--predictions"),
        ("grade nope --predictions replies.csv", "nope"),
        ("init nope", "nope"),
        ("init qa --out quiz.csv", "quiz.csv"),
        ("run", "no run"),
        ("run quiz.csv", "--model"),
        ("run rome", "--model"),
        ("run rmoe --model openai:x", "rmoe"),
        ("run quiz.csv --model gpt-5.1", "gpt-5.1"),
        ("run quiz.csv --model opanai:x", "openai"),
        ("run quiz.csv --model openai:x --model openai:x", "openai:x"),
        ("run quiz.toml --model openai:x", "quiz.toml"),
        ("run quiz.toml --limit 3", "--limit"),
        ("run none.csv --model openai:x", "none.csv"),
        ("run none.toml", "none.toml"),
        ("run quizz.toml", "quiz.toml"),
        ("run empty", "empty"),
        ("plan quiz.csv", "quiz.csv"),
        ("plan quiz.toml --offline --out quiz.csv", "quiz.csv"),
        ("judge none.csv", "none.csv"),
        ("judge no_id.csv", "no_id.csv, line 2"),
        ("judge quiz.csv --items quiz.csv", "quiz.csv"),
        ("judge replies.csv --panel none.toml", "none.toml"),
        ("judges scores.csv", "graded by rule"),
        ("compare a", "two models"),
        ("compare scores.csv a z", "'z'"),
        ("leaderboard scores.csv --metric x", "'x'"),
        ("leaderboard scores.csv --method paper", "--method"),
        ("leaderboard scores.csv --labels scores.csv", "--labels"),
        ("leaderboard scores.csv other.csv", "(a, b, c)"),
        ("leaderboard words.csv", "words.csv, line 2"),
        ("leaderboard percent.csv", "percent.csv, line 2"),
        ("leaderboard quiz.csv", "quiz.csv"),
        ("leaderboard none.csv", "none.csv"),
        ("leaderboard empty", "'empty'"),
        ("verify empty", "'empty'"),
        ("cost m --runs none", "none"),
        ("cost m --runs quiz.csv", "quiz.csv"),
        ("cost m --runs s3://bucket/runs", "s3://bucket/runs"),
        ("sandbox --faults none.toml", "none.toml"),
        ("check empty.csv", "empty.csv"),
        ("check title.csv", "title.csv, line 1"),
        ("check twice.csv", "'answer'"),
        ("check comma.csv", "comma.csv, line 2"),
        ("check quote.csv", "quote.csv, line 2"),
        ("check german.csv", "'Frage'"),
        ("check options.csv", "line 2"),
        ("check latin.csv", "latin.csv, line 2"),
        ("check in.json", "line 1"),
        ("check zip.xlsx", "zip.xlsx"),
        ("check none.parquet", "none.parquet"),
        ("check none.csv", "none.csv"),
    ],
)
def test_a_mistake_in_a_command_ends_with_2_and_its_place(place: Path, command: str, named: str) -> None:
    before = sorted(path.name for path in place.iterdir())
    assert named in refused(*command.split())
    assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.parametrize("arguments", [("export", "m", "--to", "csv", "--out"), ("cancel",), ("check",)])
def test_an_empty_argument_is_refused(place: Path, arguments: tuple[str, ...]) -> None:
    assert " ".join(arguments) in refused(*arguments, "")


@pytest.mark.parametrize("command", ["leaderboard", "verify", "judge", "run", "cost a --runs"])
def test_a_text_in_the_place_of_a_name_is_refused(place: Path, command: str) -> None:
    assert "too long" in refused(*command.split(), "model,item_id,score " * 30)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{MANIFEST}max_usd = 5\n", "models[0].max_usd: "),
        (MANIFEST.replace('"qa"', '"QA"'), "did you mean 'qa'?"),
        (MANIFEST.replace("quiz.csv", "quizz.csv"), "did you mean 'quiz.csv'?"),
        (MANIFEST.replace("quiz.csv", "german.csv"), "german.csv"),
        (f'prompts = {{ judge = "Is it right?" }}\n{MANIFEST}', "prompts.judge"),
        (MANIFEST.replace('"qa"', '"mcq_idk"') + "[jury]\nseats = 1\n", "jury: "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_manifest_is_named_by_its_key(place: Path, text: str, key: str) -> None:
    ending = call("plan", write(place, text), "--offline")
    assert (ending.code, ending.out, "Traceback" in ending.err) == (2, "", False), ending.err
    assert key in ending.err


@pytest.mark.parametrize("provider", ["openai", "sk-one"])
def test_a_key_in_a_manifest_is_not_shown(place: Path, provider: str) -> None:
    text = MANIFEST.replace('"openai"', f'"{provider}"') + 'api_key = "sk-two-3"\n'
    ending = call("plan", write(place, text), "--offline")
    assert (ending.code, "models[0].api_key: " in ending.err, "sk-two-3" in ending.err) == (2, True, False)


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ("1,g,maybe\n2,g,?\n", "line 2"),
        ("1,g,yes\n2,g,\n", "line 3"),
        ("9,g,1\n", "'9'"),
        ("1,nobody,1\n", "'nobody'"),
    ],
)
def test_a_row_of_labels_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str, named: str
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write(FILES["quiz.csv"], "quiz.csv")
        assert call("run", there.write(MANIFEST), "--yes").code == 0
        there.write(f"item_id,model,answer_correct\n{rows}", "labels.csv")
        ending = call("label", "import", "m", "labels.csv")
        assert named in ending.err, ending.err


# ---- the environment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", " "])
def test_a_key_that_is_blank_is_asked_for_by_its_variable(
    offline: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert "OPENAI_API_KEY" in refused("run", write(offline, manifest_text(("openai",))))


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080/v1",
        "htps://api.openai.com/v1",
        "gateway.example.com/v1/sk-ABCDEFabcdef0123456789",
        "https:/api.example.com/k/abcdEFGH12345678abcdEFGH",
    ],
)
def test_an_address_that_is_no_url_is_named_by_its_variable_and_not_shown(
    offline: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    manifest = write(offline, manifest_text(("openai",)))
    for command in ("run", "plan"):
        line = refused(command, manifest)
        assert ("OPENAI_BASE_URL" in line, address in line) == (True, False)
    assert not (offline / "runs").exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:secret@h/d",
        "mysql://u:secret@h/d",
        "postgresql+psycopg://u:p@secret@h/d",
        "state.db",
        "postgresql+psycopg://u:secret@127.0.0.1:9/d",
    ],
)
def test_a_database_that_is_written_wrongly_is_named_without_its_password(
    offline: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("LAYTON_BATCH_STATE", url)
    ending = call("run", write(offline, quiz_text()))
    assert ending.code in (2, 74)
    assert ("layton-batch: " in ending.err, "secret" in ending.err) == (True, False)


@pytest.mark.parametrize("line", ['$env:OPENAI_API_KEY="x"', "OPENAI_API_KEY: x", "sk-proj-abcdef"])
def test_a_line_of_dotenv_in_another_form_is_named(offline: Path, caplog: pytest.LogCaptureFixture, line: str) -> None:
    write(offline, f"{line}\n", ".env")
    call("status")
    assert f"{offline / '.env'}, line 1" in caplog.text


def test_files_that_are_no_utf_8_are_named(offline: Path) -> None:
    manifest = write(offline, MANIFEST)
    manifest.write_text(MANIFEST, encoding="utf-16")
    assert f"{manifest}: " in refused("plan", manifest)
    (offline / ".env").write_text("OPENAI_API_KEY=secret", encoding="utf-16")
    assert ".env: " in refused("plan", write(offline, MANIFEST))


def test_a_working_folder_that_is_gone_is_said_to_be_gone(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (offline / "gone").mkdir()
    monkeypatch.chdir(offline / "gone")
    (offline / "gone").rmdir()
    assert "working folder" in refused("status")


def test_a_source_that_cannot_be_reached_is_named(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layton_batch.files.addresses.WAITS_SECONDS", ())
    source = f"{NOBODY}/quiz.csv"
    assert source in refused("plan", write(offline, MANIFEST.replace("quiz.csv", source)))


def test_a_run_does_not_begin_inside_the_folder_of_a_run(offline: Path) -> None:
    manifest = write(offline, quiz_text())
    (offline / "runs" / "lab").mkdir(parents=True)
    write(offline / "runs" / "lab", "{}", "run.json")
    for command in (("run", manifest), ("plan", manifest, "--offline")):
        assert "runs/lab" in refused(*command, "--runs", "runs/lab")
    assert [path.name for path in (offline / "runs" / "lab").iterdir()] == ["run.json"]


@pytest.mark.parametrize("webhook", ["hooks.slack.com/services/secret", "https://", "http://[secret"])
def test_a_webhook_that_is_no_url_is_refused_before_the_night(offline: Path, webhook: str) -> None:
    line = refused("overnight", write(offline, quiz_text()), "--webhook", webhook)
    assert ("--webhook" in line, "secret" in line) == (True, False)


# ---- the sandbox -----------------------------------------------------------------------------------------------------


def test_a_second_sandbox_with_the_same_state_is_refused(offline: Path) -> None:
    (offline / "state").mkdir()
    with (offline / "state" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "--state state" in refused("sandbox", "--port", "0", "--state", "state")


def test_a_port_in_use_is_named(offline: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused("sandbox", "--port", port)


@pytest.mark.parametrize("line", ["status = 99", "times = -1"])
def test_a_number_of_a_fault_that_is_out_of_bounds_is_refused(offline: Path, line: str) -> None:
    write(offline, f'[[faults]]\non = "upload"\naction = "status"\n{line}\n', "faults.toml")
    assert "faults[0]" in refused("sandbox", "--port", "0", "--faults", "faults.toml")
