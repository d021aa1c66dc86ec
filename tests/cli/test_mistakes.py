"""Mistakes in a command, a manifest, a file or the environment: exit code 2, the place is named, nothing is written."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
from pathlib import Path

import pytest

from tests.support.cli_harness import NOBODY, call, refused, write
from tests.support.graded_files import replies
from tests.support.lab import BUNDLED, manifest_text, quiz_text

MANIFEST = (
    'name = "m"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n'
    '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "larch-2-mini"\n'
)
SCORES = "model,item_id,score\na,1,1\na,2,0\nb,1,0\nb,2,1\n"
PICTURED = json.loads((BUNDLED / "riddles_vlm.jsonl").read_text(encoding="utf-8").splitlines()[0])


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES = {
    "quiz.csv": "question,answer\na?,b\n",
    "quiz.toml": MANIFEST,
    "scores.csv": SCORES,
    "other.csv": SCORES.replace("1,", "x-1,").replace("a,", "c,"),
    "title.csv": "My quiz,\nquestion,answer\na?,1\n",
    "german.csv": "Frage;Antwort\na?;b\n",
    "options.csv": "question,A,B,answer\na?,x,y,3\n",
    "listed.csv": 'question,options,answer\nTwo?,"3,4,5",4\n',
    "words.csv": "model,item_id,score\na,1,good\n",
    "replies.csv": "id,response\n1,Answer: A\n",
    "no_id.csv": "question,reference,response\na?,1,2\n",
    "plain.csv": "id,question,reference,response\n1,a?,b,It is b\n2,c?,d,d\n",
    "answers.jsonl": lines(*({"custom_id": "1", "answer": "b", "model": model} for model in ("finch", "wren"))),
    "bare.jsonl": '{"a": 1}\n',
    "gold.jsonl": (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8"),
    "copy.jsonl": (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8"),
    "p.jsonl": lines(*replies("A")),
    "empty.jsonl": "",
    "junk.parquet": "PAR1 is not enough",
    "faults.toml": '[[faults]]\nonn = "row"\n',
    "status.toml": '[[faults]]\non = "upload"\naction = "status"\nstatus = 99\n',
}
"""Files of the working folder."""
TOO_LONG = f"'{'model,item_id,score ' * 30}'"
AIM = "either --half-width"
GRADED = "grade mcq_idk --predictions p.jsonl"
SAMPLES = "--samples is for --protocol zeroeval"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    for name, text in FILES.items():
        write(folder, text, name)
    (folder / "latin.csv").write_bytes(b"question,answer\nCaf\xe9?,x\n")
    for name in ("empty", "folder.svg"):
        (folder / name).mkdir()
    for name in ("pipe.toml", "pipe.jsonl"):
        os.mkfifo(folder / name)
    return folder


@pytest.mark.parametrize(
    ("command", "named"),
    [
        # options and words
        ("rnu", "run"),
        ("run quiz.toml --verbose", "--verbose"),
        ("run quiz.csv --limit 0 --model openai:x", "--limit"),
        *((f"run quiz.toml --max-usd {usd}", "--max-usd") for usd in ("nan", "-1", "''", "5,00", "--yes")),
        ("run quiz.toml --until 25:00", "--until"),
        ("run quiz.toml --poll-seconds 3601", "--poll-seconds"),
        # what is run
        ("run quiz.csv", "--model"),
        ("run rmoe --model openai:x", "rmoe"),
        ("run quiz.csv --model opanai:x", "openai"),
        ("run quiz.csv --model openai:x", "quiz.toml is there and asks for something else ("),
        ("run german.csv --model openai:x", "there is no column 'question'; the columns are: 'Frage', 'Antwort'"),
        ("run listed.csv --model openai:x", "column 'options' is no list, so it is no multiple choice"),
        ("run pipe.toml", "pipe.toml"),
        (f"run {TOO_LONG}", "too long"),
        ("plan quiz.toml --offline --out quiz.csv", "quiz.csv"),
        ("init nope", "nope"),
        ("demo --out quiz.csv", "--out names another place"),
        ("overnight quiz.toml --webhook hooks.slack.com/services/x", "--webhook"),
        # runs that are none
        ("status nobody", "there is no run 'nobody'"),
        ("run quiz.toml --runs quiz.csv", "--runs quiz.csv: is a file"),
        ("cost m --runs s3://bucket/runs", "s3://bucket/runs"),
        ("verify pipe.jsonl", "pipe.jsonl"),
        # boards and statistics
        ("leaderboard scores.csv --method paper", "--method"),
        ("leaderboard scores.csv --labels scores.csv", "--labels"),
        ("leaderboard scores.csv other.csv", "(a, b, c)"),
        ("leaderboard gold.jsonl copy.jsonl", "twice"),
        ("leaderboard words.csv", "words.csv, line 2"),
        ("leaderboard pipe.jsonl", "pipe.jsonl"),
        ("judges scores.csv", "graded by rule"),
        ("compare gold.jsonl wagtail-5 anthropic/wagtail-5@0", "same model"),
        *((f"compare scores.csv a b --margin={margin}", "from 0 to 100") for margin in ("-1", "nan", "101")),
        ("label plan gold.jsonl", AIM),
        ("label plan gold.jsonl --half-width 1 --labels 3", AIM),
        # answers to be judged
        ("judge no_id.csv", "no_id.csv: no reply can be read"),
        ("judge answers.jsonl --items none.csv --sandbox", "none.csv: no such file"),
        ("judge . --items quiz.csv --sandbox", ". is a folder; name a file"),
        ("judge answers.jsonl --items answers.jsonl --sandbox", "no task takes these rows"),
        ("judge answers.jsonl --items quiz.csv --protocol original --sandbox", "task 'qa' has no protocols"),
        ("judge answers.jsonl --items quiz.csv --model robin --sandbox", "no predictions of a model called 'robin'"),
        ("judge plain.csv --sandbox --yes", "plain.csv: no reply can be read: column 'response' must hold the JSON"),
        # items
        ("check title.csv", "title.csv, line 2"),
        ("check options.csv", "line 2"),
        ("check latin.csv", "latin.csv, line 2"),
        ("check junk.parquet", "junk.parquet"),
        ("check pipe.jsonl", "pipe.jsonl"),
        # grading
        ("grade rome", "--predictions"),
        ("grade qa --predictions p.jsonl", "'qa' is not graded by rule"),
        ("grade rome --predictions nothing", "no such file or folder, and there is no run 'nothing'"),
        (f"grade mcq_idk --predictions {'x' * 5000}", "no such file or folder"),
        ("grade mcq_idk --predictions =p.jsonl", "NAME=FILE needs a name and a file"),
        ("grade mcq_idk --predictions m=p.jsonl --predictions m=p.jsonl", "two of --predictions are called 'm'"),
        ("grade mcq_idk --predictions empty", "is a folder without predictions"),
        ("grade mcq_idk --predictions junk.parquet", "not a readable Parquet file"),
        (f"{GRADED} --protocol zeroeval", "protocol 'zeroeval'"),
        (f"{GRADED} --chart c.gif", "ends in .svg or .png"),
        (f"{GRADED} --table o --chart p.jsonl/c.svg", "p.jsonl"),
        (f"{GRADED} --table p.jsonl", "is read"),
        (f"{GRADED} --table o.svg --chart o.svg", "written twice"),
        (f"{GRADED} --table - --json", "both write on stdout"),
        (f"{GRADED} --table o --ensemble x=p,other", "there are no replies of other, only of p"),
        *((f"{GRADED} --ensemble {value}", "a new NAME=MODEL,MODEL") for value in ("a,b", "x=a", "=a,b")),
        ("grade zebralogic --predictions p.jsonl --chart c.svg", "--chart is for mcq_idk"),
        ("grade zebralogic --predictions p.jsonl --samples best_of_n", SAMPLES),
        ("grade zebralogic --predictions p.jsonl --protocol zeroeval --samples best", "samples 'best': there are"),
        ("grade rome --predictions p.jsonl --predictions q=p.jsonl --updated u", "here are 2"),
        # the sandbox
        ("sandbox --port 70000", "--port"),
        ("sandbox --port 0 --faults faults.toml", "faults.toml"),
        ("sandbox --port 0 --faults status.toml", "faults[0]"),
        ("sandbox --port 0 --state quiz.csv", "quiz.csv"),
        ("sandbox --port 0 --env-file none/env", "none/env"),
    ],
)
@pytest.mark.usefixtures("offline")
def test_a_mistake_ends_with_2_names_its_place_and_writes_nothing(
    full: Path, monkeypatch: pytest.MonkeyPatch, command: str, named: str
) -> None:
    monkeypatch.chdir(full)
    before = sorted(full.iterdir())
    message = refused(*shlex.split(command))
    assert named in message[message.index("layton-batch: ") :]
    assert sorted(full.iterdir()) == before


RIDDLES = [json.loads(line) for line in (BUNDLED / "riddles_llm.jsonl").read_text(encoding="utf-8").splitlines()[:4]]
GOLD = [json.loads(line) for line in (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8").splitlines()[:4]]
ITEMS = manifest_text(items="rows.jsonl")
PICTURES = ITEMS.replace('split = "llm"', 'split = "vlm"')
LABELS = manifest_text(top='[gold]\nsource = "rows.jsonl"')
UNLABELLED = [{name: value for name, value in row.items() if name != "human_answer_correct"} for row in GOLD]


@pytest.mark.parametrize(
    ("text", "rows", "named"),
    [
        ("name = ", "", ["manifest.toml", "not TOML"]),
        (MANIFEST + "max_usd = 5\n", "", ["models[0].max_usd: "]),
        (MANIFEST.replace("source", "sorce"), "", ["items.sorce", "did you mean 'source'?"]),
        (MANIFEST.replace('"m"', '"../m"'), "", ["name: "]),
        (MANIFEST.replace("quiz.csv", "rows.json"), "", ["did you mean 'rows.jsonl'?"]),
        (MANIFEST.replace("quiz.csv", f"{NOBODY}/quiz.csv"), "", [f"{NOBODY}/quiz.csv"]),
        (MANIFEST.replace('"qa"', '"mcq_idk"') + "[jury]\nseats = 1\n", "", ["jury: "]),
        (f'prompts = {{ judge = "Is it right?" }}\n{MANIFEST}', "", ["prompts.judge"]),
        (MANIFEST + '[[prices]]\nprovider = "openai"\nmodel = "larch-2-mini"\ninput = 0.00000125\noutput = 10\n', "",
         ["prices[0].input: ", "0.00000125"]),
        (manifest_text(top='[gold]\nsource = "no.jsonl"'), "", ["no.jsonl", "no such file"]),
        (ITEMS, lines(*RIDDLES)[:-40], ["rows.jsonl", "line 4", "not JSON"]),
        (ITEMS, lines(*RIDDLES, RIDDLES[0]), ["unique", RIDDLES[0]["id"]]),
        (PICTURES, lines(PICTURED, PICTURED | {"id": "second", "img": "&&&&"}), ["line 2", "second", "img"]),
        (LABELS, lines(*UNLABELLED), ["human_answer_correct"]),
        (LABELS, lines(*GOLD, GOLD[0]), ["line 5", "already"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_manifest_or_its_files_is_named_before_anything_is_sent(
    offline: Path, monkeypatch: pytest.MonkeyPatch, text: str, rows: str, named: list[str]
) -> None:
    monkeypatch.setattr("layton_batch.files.addresses.WAITS_SECONDS", ())
    write(offline, rows, "rows.jsonl")
    for command in ("plan", "run"):
        message = refused(command, write(offline, text))
        assert [part for part in named if part not in message] == [], message
        assert len(message) < 1000
    assert not (offline / "runs").exists()


def test_a_key_in_a_manifest_is_not_shown(offline: Path) -> None:
    for provider in ("openai", "sk-one"):
        text = MANIFEST.replace('"openai"', f'"{provider}"') + 'api_key = "sk-two-3"\n'
        message = refused("plan", write(offline, text), "--offline")
        assert ("models[0].api_key: " in message, "sk-two-3" in message) == (True, False)


# ---- the environment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "hidden"),
    [
        ("OPENAI_API_KEY", " ", None),
        ("OPENAI_API_KEY", "sk-secret\u2028x", "secret"),
        ("OPENAI_BASE_URL", "htps://secret/v1", "secret"),
        ("OPENAI_BASE_URL", "gateway.example.com/v1/sk-ABCDEFabcdef0123456789", "sk-ABC"),
        ("LAYTON_BATCH_STATE", "mysql://u:secret@h/d", "secret"),
        ("LAYTON_BATCH_STATE", "postgresql+psycopg://u:p@secret@h/d", "secret"),
        ("LAYTON_BATCH_STATE", "state.db", None),
    ],
)
def test_a_variable_with_a_wrong_value_is_named_and_nothing_is_made(
    offline: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, hidden: str | None
) -> None:
    monkeypatch.setenv(variable, value)
    message = refused("run", write(offline, quiz_text()))
    is_named = variable in message or "database" in message
    assert (is_named, hidden is not None and hidden in message) == (True, False), message
    assert not list(offline.glob("runs/*/run.json"))


def test_files_that_are_no_utf_8_and_lines_of_dotenv_that_set_nothing_are_named(
    offline: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(offline, '$env:OPENAI_API_KEY="x"\nOPENAI_API_KEY: x\n', ".env")
    call("status")
    assert all(f"{offline / '.env'}, line {number}" in caplog.text for number in (1, 2))
    manifest = write(offline, MANIFEST)
    (offline / ".env").write_text("OPENAI_API_KEY=secret", encoding="utf-16")
    assert ".env: " in refused("plan", manifest)
    manifest.write_text(MANIFEST, encoding="utf-16")
    (offline / ".env").unlink()
    assert f"{manifest}: " in refused("plan", manifest)


def test_a_port_or_a_state_that_another_sandbox_has_is_named(offline: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused("sandbox", "--port", port)
    (offline / "state").mkdir()
    with (offline / "state" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "--state state" in refused("sandbox", "--port", "0", "--state", "state")


# ---- what is allowed, and told ---------------------------------------------------------------------------------------
