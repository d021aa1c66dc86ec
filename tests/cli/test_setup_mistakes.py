"""Mistakes in setting up: keys, providers, the sandbox, folders and the life of a run."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

import layton_batch as lb
from layton_batch.cli import overnight
from layton_batch.errors import ManifestError
from layton_batch.runs.environment_notes import outage_advice
from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from tests.cli.conftest import NOBODY
from tests.support.cli_harness import call, desk, write
from tests.support.lab import quiz_text

# ---- the life of a run -----------------------------------------------------------------------------------------------


def test_a_run_stopped_before_a_snapshot_of_its_board_has_its_name_is_whole_after_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def stop(path: Path, target: Path) -> Path:
        if target.parent.name == "history":
            raise KeyboardInterrupt
        return replace(path, target)

    with desk(tmp_path, monkeypatch) as there:
        manifest = there.write(quiz_text())
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stop)
            assert call("run", manifest).code == 75
        assert not list((there.run_root() / "history").glob("*.json"))
        there.lab.clock.sleep(3600.0)
        assert call("run", manifest).code == 0
        verified = call("verify", "lab")
        assert verified.code == 0, verified.err
        assert [path.name for path in (there.run_root() / "history").iterdir()] == ["0001.json"]


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ('"sk-good"', "the value has characters that no API key has (quotation mark); copy the key again"),
        ("sk good", "the value has characters that no API key has (space)"),
        ("Bearer sk-good", "the value begins with 'Bearer'; write the key alone"),
        ("your-api-key-here", "the value is an example or a shell's expression, which is not replaced here"),
        ("sk-...", "the value is an example or a shell's expression"),
        ("$(cat key.txt)", "the value is an example or a shell's expression"),
        ("${MY_KEY}", "the value is an example or a shell's expression"),
        (
            "sk-ant-api03-good",
            "the value begins as a key of anthropic, and it would go to openai; set OPENAI_API_KEY to",
        ),
    ],
)
def test_a_text_that_can_be_no_key_of_the_provider_is_refused_before_it_is_sent(
    offline: Path, monkeypatch: pytest.MonkeyPatch, key: str, words: str
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    manifest = write(offline, quiz_text())
    for command in (("run", manifest), ("doctor", manifest, "--offline", "--json")):
        ending = call(*command)
        assert ending.code == 2
        assert f"OPENAI_API_KEY in the environment: {words}" in ending.out + ending.err
        assert "good" not in ending.out + ending.err
    planned = call("plan", manifest, "--offline", "--json")
    assert planned.code == 2  # as `run`
    assert any(f"OPENAI_API_KEY in the environment: {words}" in line for line in json.loads(planned.out)["refused"])


def test_a_key_of_openai_does_not_go_to_anthropic(offline: Path) -> None:
    settings = Settings.from_environment({"ANTHROPIC_API_KEY": "sk-proj-x"}, offline)
    assert "begins as a key of openai, and it would go to anthropic" in str(settings.key_trouble("anthropic"))


@pytest.mark.parametrize("key", ["sk-or-v1-x", "xxx"])
def test_a_key_of_any_form_may_go_to_an_address_of_ones_own(offline: Path, key: str) -> None:
    environment = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "https://gateway.example/v1"}
    assert Settings.from_environment(environment, offline).access("openai").api_key == key


@pytest.mark.parametrize(
    "line", ['$env:OPENAI_API_KEY="x"', "OPENAI_API_KEY: x", "sk-proj-abcdef", "set OPENAI_API_KEY=x"]
)
def test_a_line_of_dotenv_in_another_form_is_named(offline: Path, caplog: pytest.LogCaptureFixture, line: str) -> None:
    write(offline, f"{line}\n", ".env")
    Settings.from_environment({}, offline)
    assert f"{offline / '.env'}, line 1: is no NAME=VALUE, such as OPENAI_API_KEY=…, and is not read" in caplog.text


@pytest.mark.parametrize("name", [".env.txt", "sandbox.env", "project/.env", "../.env"])
def test_a_file_with_the_key_that_is_not_read_is_named(
    offline: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    (offline / "here" / "project").mkdir(parents=True)
    monkeypatch.chdir(offline / "here")
    write(Path(), "OPENAI_API_KEY=secret\n", name)
    path = Path.cwd().parent / ".env" if name == "../.env" else Path.cwd() / name
    message = call("run", write(Path.cwd(), quiz_text())).err
    assert f"{path} names it and is not read: copy its line into {Path.cwd() / '.env'}, or export it" in message
    assert "secret" not in message


def test_a_folder_in_the_place_of_dotenv_is_said_to_be_one(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    (offline / ".env").mkdir()
    assert ".env is a folder, so no key is read from it" in call("run", write(offline, quiz_text())).err


@pytest.mark.parametrize(("provider", "name"), [("openai", "OPENAI_API_BASE"), ("gemini", "GEMINI_BASE_URL")])
def test_an_address_under_another_name_is_noted_before_a_key_goes_to_the_providers_own(
    offline: Path, monkeypatch: pytest.MonkeyPatch, provider: str, name: str
) -> None:
    right = "GOOGLE_GEMINI_BASE_URL" if provider == "gemini" else "OPENAI_BASE_URL"
    monkeypatch.delenv(right)
    monkeypatch.setenv(name, NOBODY)
    words = f"{name} is set and not read, so {provider} is called at its own address; the name is {right}"
    assert words in call("run", write(offline, quiz_text((provider,))), "--max-usd", "0", "--offline").err


# ---- places of runs --------------------------------------------------------------------------------------------------


def test_the_working_folder_is_a_folder_of_runs_as_any_other(offline: Path) -> None:
    assert call("status", "--runs", ".").err.startswith("no runs under .; --runs names another folder")


def test_a_run_does_not_begin_inside_the_folder_of_a_run(offline: Path) -> None:
    manifest = write(offline, quiz_text())
    (offline / "runs" / "lab").mkdir(parents=True)
    write(offline / "runs" / "lab", "{}", "run.json")
    for command in (("run", manifest), ("plan", manifest, "--offline")):
        assert (
            "runs/lab is itself a run: `--runs runs` is its folder of runs" in call(*command, "--runs", "runs/lab").err
        )
    assert [path.name for path in (offline / "runs" / "lab").iterdir()] == ["run.json"]


@pytest.mark.parametrize("place", ["S3://bucket/runs", "s3:bucket", "s3:/bucket"])
def test_an_address_of_storage_that_is_mistyped_makes_no_folder(offline: Path, place: str) -> None:
    message = call("run", write(offline, quiz_text()), "--runs", place).err
    assert f"--runs {place}: files can be kept there, and the state of runs cannot" in message
    assert "(postgresql+psycopg://USER@HOST/DATABASE, with :PASSWORD after USER)" in message
    assert [path.name for path in offline.iterdir()] == ["manifest.toml"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "postgres://u:secret@h/d",
            "; for PostgreSQL write LAYTON_BATCH_STATE as postgresql+psycopg://USER@HOST/DATABASE",
        ),
        ("mysql://u:secret@h/d", "; install this database's driver for Python, or use PostgreSQL or SQLite"),
        ("postgresql+psycopg://u:p@secret@h/d", "its host has an '@'; write an '@' of the password as %40"),
        ("state.db", "LAYTON_BATCH_STATE is no database URL; write postgresql+psycopg://USER@HOST/DATABASE, with"),
        ("postgresql+psycopg://u:secret@127.0.0.1:9/d", "; correct the address in LAYTON_BATCH_STATE, or start the"),
    ],
)
def test_a_database_that_is_written_wrongly_is_answered_with_the_form(
    offline: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("LAYTON_BATCH_STATE", url)
    message = call("run", write(offline, quiz_text())).err
    assert words in message
    assert "secret" not in message


# ---- providers that refuse, or are not reached -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "variables", "words"),
    [
        (402, {}, "See to the account of OPENAI_API_KEY in the environment: its credit, its limits and its access"),
        (
            404,
            {"OPENAI_BASE_URL": "https://g.example"},
            "address of a batch API; openai's own is https://api.openai.com/v1",
        ),
        (404, {}, ""),
        (429, {}, ""),
        (None, {}, "Check the connection"),
        (None, {"HTTPS_PROXY": "http://p:8080"}, "Check HTTPS_PROXY in the environment"),
        (None, {"OPENAI_BASE_URL": "https://g.example"}, "Check OPENAI_BASE_URL in the environment"),
        (
            None,
            {"OPENAI_BASE_URL": NOBODY},
            "OPENAI_BASE_URL in the environment again (`layton-batch sandbox`), or unset",
        ),
    ],
)
def test_an_outage_comes_with_what_to_check(status: int | None, variables: dict[str, str], words: str) -> None:
    settings = Settings.from_environment({"OPENAI_API_KEY": "no-key", **variables}, Path())
    advice = outage_advice(settings, "openai", status)
    assert words in advice
    assert bool(words) == bool(advice)


def test_a_run_whose_provider_refuses_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, Fault(on="upload", action="status", status=402, times=2)) as there:
        message = call("run", there.write(quiz_text())).err
    words = "See to the account of OPENAI_API_KEY in the environment: "
    assert "openai answers with HTTP 402 (1 batch waits to be sent, nothing is lost); next try " in message
    assert words in message


def test_a_model_question_without_a_connection_names_the_proxy(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("HTTPS_PROXY", NOBODY)
    ending = call("plan", write(offline, quiz_text()), "--json")
    assert "openai: Check HTTPS_PROXY in the environment" in ending.out


# ---- the sandbox, schedules, pages -----------------------------------------------------------------------------------


def test_a_second_sandbox_with_the_same_state_is_refused(offline: Path) -> None:
    (offline / "state").mkdir()
    with (offline / "state" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        message = call("sandbox", "--port", "0", "--state", "state").err
    assert "sandbox: --state state: another sandbox uses it; stop it, or name another" in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("status = 99", "faults[0]: status 99 is not an HTTP status, 100 to 599"),
        ("times = -1", "faults[0]: times -1 is below 0"),
    ],
)
def test_a_number_of_a_fault_that_is_out_of_bounds_is_refused(offline: Path, line: str, words: str) -> None:
    write(offline, f'[[faults]]\non = "upload"\naction = "status"\n{line}\n', "faults.toml")
    assert words in call("sandbox", "--port", "0", "--faults", "faults.toml").err


@pytest.mark.parametrize("webhook", ["hooks.slack.com/services/secret", "https://", "http://[secret"])
def test_a_webhook_that_is_no_url_is_refused_before_the_night(
    offline: Path, capsys: pytest.CaptureFixture[str], webhook: str
) -> None:
    assert overnight.main([str(write(offline, quiz_text())), "--webhook", webhook]) == 2
    message = capsys.readouterr().err
    assert "--webhook, or LAYTON_BATCH_WEBHOOK, is no URL; write https://HOST/PATH; nothing was sent" in message
    assert "secret" not in message


def test_a_manifest_that_is_not_there_is_said_with_the_working_folder(offline: Path) -> None:
    words = f"none.toml: cannot be read (No such file or directory; the working folder is {offline})"
    assert words in call("run", "none.toml").err


def test_a_working_folder_that_is_gone_is_said_to_be_gone(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (offline / "gone").mkdir()
    monkeypatch.chdir(offline / "gone")
    (offline / "gone").rmdir()
    words = "the working folder was moved or deleted: change to a folder that is there"
    assert words in call("status").err
    with pytest.raises(ManifestError, match=words):
        lb.leaderboard("a")


def test_nothing_is_written_into_a_folder_that_is_named_as_an_address(offline: Path) -> None:
    message = call("init", "--out", "s3://bucket/project").err
    assert "s3:// begins an address; name a folder on this machine" in message
    assert not (offline / "s3:").exists()


@pytest.mark.parametrize(
    "command", ["leaderboard", "verify", "items check", "judge", "run", "status --runs", "cost a --runs", "init --out"]
)
def test_a_text_in_the_place_of_a_name_is_refused_without_a_traceback(offline: Path, command: str) -> None:
    text = "model,item_id,score " * 30
    ending = call(*command.split(), text)
    assert ending.code == 2, ending.err
    assert "too long" in ending.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ("run", "m.toml", "--api-key", "x"),
            "run has no --api-key; keys are variables such as OPENAI_API_KEY",
        ),
        (("plan", "m.toml", "--env-file", ".env"), "plan has no --env-file; keys are variables such as"),
        (
            ("run", "m.toml", "--base-url", "x"),
            "run has no --base-url; addresses are variables such as",
        ),
        (("run", "m.toml", "--proxy", "x"), "a proxy is the variable HTTPS_PROXY in the environment"),
        (("run", "m.toml", "--resume"), "run has no --resume; `layton-batch run` continues a run by itself"),
        (("run", "m.toml", "-v"), "`layton-batch events RUN` shows every step of a run"),
        (("login",), "there is no command 'login'; keys are variables such as OPENAI_API_KEY"),
        (("version",), "there is no command 'version'; `layton-batch --version` prints the version"),
        (("help",), "there is no command 'help'; `layton-batch -h` lists the commands"),
    ],
)
def test_an_option_or_command_of_other_programs_is_answered_with_what_does_the_same(
    offline: Path, command: tuple[str, ...], words: str
) -> None:
    ending = call(*command)
    assert ending.code == 2
    assert words in ending.err


def test_a_variable_of_this_program_that_is_mistyped_is_noted(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYTON_BATCH_RUN", "elsewhere")
    monkeypatch.setenv("LAYTON_BATCH_MAX_ROWS", "10000000")
    message = call("plan", write(offline, quiz_text()), "--offline").err
    assert "LAYTON_BATCH_RUN is set and means nothing; did you mean 'LAYTON_BATCH_RUNS'?" in message
    assert "MAX_ROWS" not in message
