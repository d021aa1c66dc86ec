"""Every command that the README and the pages of docs/ print works as printed, in its order, with a sandbox in the
providers' place; every option that they name exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import typer
from typer.core import TyperGroup

from layton_batch.cli import app
from layton_batch.errors import LaytonBatchError
from layton_batch.manifest import checks
from layton_batch.records import JsonValue
from tests.support.cli_harness import ROOT, Ending, call, desk, finish, start, write
from tests.support.harness_files import GOLDEN, lm_eval_line, write_lines
from tests.support.lab import BUNDLED, MODELS

NOT_RUN = {
    "scripts/test": "runs this test",
    "scripts/demo": "installs the package, then runs the first command of the first hour",
    "git clone": "the checkout is there",
    "pip install": "tests/packaging/test_wheel.py installs the package",
    "uv tool install": "the same by uv, which need not be there",
    ". .venv/bin/activate": "the environment of this test is active",
}
"""Commands that are printed and not run here, each with its reason."""

RUN_PAGES = ("install", "providers", "runs", "cost", "tasks", "questions", "exchange", "publish")
PAGES = ("README.md", *(f"docs/{name}.md" for name in RUN_PAGES))
"""In one place each; ``docs/first_hour.md`` is a script of its own, and other pages have options alone."""


def commands(page: str) -> list[str]:
    """The lines of a page's ``sh`` blocks without their comments; a line that goes on is one line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    bare = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    return [line for line in bare if line]


FILES = {"layton_eval_llm.jsonl": "riddles_llm", "ppi_llm.jsonl": "gold_llm", "layton_eval_vlm.jsonl": "riddles_vlm"}


class Hub(BaseHTTPRequestHandler):
    """The hub's side of the shipped manifests' sources: a few bundled riddles under the published names."""

    def do_GET(self) -> None:
        name = FILES.get(self.path.rpartition("/")[2])
        content = b""
        if name is not None:
            lines = (BUNDLED / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
            content = b"".join(lines if name.startswith("gold") else lines[:2])
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield
    server.shutdown()
    server.server_close()
    thread.join()


MOST_MODELS, MOST_ITEMS = 2, 4
MODEL = re.compile(r"(?m)^\[\[models\]\]\n(?:.+\n)+")


def with_few_models(text: str) -> str:
    """Return a manifest with its first models only, and none of xai, which the sandbox does not play."""
    played = [block for block in MODEL.findall(text) if 'provider = "xai"' not in block][:MOST_MODELS]
    return MODEL.sub(lambda block: block[0] if block[0] in played else "", text)


def with_few_items(text: str) -> str:
    """Return a manifest of bundled items with its first items only."""
    return text.replace('source = "bundled"', f'source = "bundled"\nlimit = {MOST_ITEMS}', 1)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose manifests have few models, and whose demonstration has few models and items."""
    folder = tmp_path / "checkout"
    (folder / "manifests").mkdir(parents=True)
    for path in (ROOT / "manifests").iterdir():
        text = with_few_models(path.read_text(encoding="utf-8"))
        write(folder / "manifests", with_few_items(text) if path.name == "demo.toml" else text, path.name)
    monkeypatch.setattr(checks, "_SHIPPED", (folder / "manifests",))
    return folder


def write_logs_of_other_programs(folder: Path) -> None:
    """Write the logs that the README ranks: inspect_ai's in ``logs/``, lm-evaluation-harness' in ``samples/``."""
    shutil.copytree(GOLDEN, folder / "logs")
    for model, marks in (("finch", "1110111011"), ("wren", "1010101010")):
        lines = [lm_eval_line(number, {"exact_match": float(mark)}) for number, mark in enumerate(marks)]
        write_lines(folder / "samples" / f"{model}.jsonl", lines)


def write_own_questions_and_answers(folder: Path) -> None:
    """Write the files of one's own that the pages name: questions, answers to them, and judges' files."""
    answers = '{"item_id": "1", "answer": "144"}\n{"item_id": "2", "answer": "8"}\n'
    write(folder, "question,answer\nWhat is 12 times 12?,144\nHow many legs has a spider?,8\n", "quiz.csv")
    write(folder, "item_id,question,reference,answer\n1,What is 12 times 12?,144,144\n", "table.csv")
    write(folder, "system,question,points\nfinch,one,1\nfinch,two,0\nwren,one,1\nwren,two,1\n", "marks.csv")
    write(folder, "model,item_id,gpt,claude,me\nfinch,1,yes,no,yes\nfinch,2,no,no,\nwren,1,yes,yes,\n", "verdicts.csv")
    write(folder, answers, "answers.jsonl")
    write(folder, answers, "finch.jsonl")
    capital = 'x1,Capital of France?,"[""Paris"",""Rome""]",A'
    write(folder, f"id,question,options,answer\n{capital}\n", "capitals.csv")
    write(folder, '{"item_id": "x1", "response": "Answer: A"}\n', "right.jsonl")
    write(folder, 'name = "own"\ntask = "qa"\n[items]\nsource = "quiz.csv"\n', "own.toml")
    gold = (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8").splitlines()
    items = sorted({json.loads(line)["riddle_id"] for line in gold})
    for judge in ("claude", "gpt", "gemini"):
        rows: list[dict[str, JsonValue]] = [
            {"custom_id": item, "model": judge,
             "answer": json.dumps({"is_answer_correct": number % 2 == 0, "is_justification_correct": number % 4 == 0})}
            for number, item in enumerate(items)
        ]  # fmt: skip
        write_lines(folder / f"{judge}.jsonl", rows)


def serve(folder: Path, words: list[str]) -> None:
    """A command that goes on until it is stopped: it must come up, say where, and end well."""
    words = [*words[:-1], "--port", "0"]  # the last word is the &; the printed port may be taken here
    process = start(*words, cwd=folder)
    try:
        assert process.stderr is not None
        assert "http://127.0.0.1:" in process.stderr.readline()
    finally:
        process.terminate()
    assert finish(process).code == 0


def test_the_readme_prints_commands_and_each_is_run_or_excepted_by_name() -> None:
    found = [command for page in PAGES for command in commands(page)]
    assert len(found) >= 30
    known = ("layton-batch ", *NOT_RUN)
    assert [command for command in found if not command.startswith(known)] == []


def test_every_command_of_the_pages_works_as_printed(small: Path, monkeypatch: pytest.MonkeyPatch, hub: None) -> None:
    """All pages in one folder, each command once; the leaderboard that the README shows is the printed one."""
    write_logs_of_other_programs(small)
    write_own_questions_and_answers(small)
    endings: dict[str, Ending] = {}
    with desk(small, monkeypatch) as bench:
        for command in (command for page in PAGES for command in commands(page)):
            words = shlex.split(command)[1:]
            if command.startswith(tuple(NOT_RUN)) or command in endings:
                continue
            if words[-1] == "&":
                serve(small, words)
                continue
            clock, before = bench.lab.clock, bench.lab.clock.seconds
            if words[0] == "check":  # which compares our clock with that in the sandbox's replies
                clock.seconds = time.time()
            endings[command] = end = call(*words)
            clock.seconds = before if words[0] == "check" else clock.seconds
            assert end.code in ((0, 75) if {"--once", "--until"} & {*words} else (0,)), f"{command}\n{end.err}"
            assert end.out or end.err, command
    (ranking,) = (end for command, end in endings.items() if "logs/" in command)
    (block,) = readme_blocks("Leaderboard · match ")
    assert [line for line in block if line not in {line.rstrip() for line in ranking.out.splitlines()}] == []


def readme_blocks(part: str) -> list[list[str]]:
    """The lines of the README's blocks of output in which ``part`` stands; an ellipsis stands for lines left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [[line for line in block.splitlines() if line != "…"] for block in blocks if part in block]


SHIM = """#!/bin/sh
case "$1" in label|sandbox) exec "{python}" -m layton_batch "$@";; esac
env | grep -E '_(API_KEY|BASE_URL)=' > "{folder}/variables"
printf '%s\\n' "$@" > "{folder}/asked"
read code < "{folder}/ended"
exit "$code"
"""
"""The program in the shell of a page: what serves is a process, anything else runs in the process of the test, which
has imported everything already."""


def paste(folder: Path, page: str, run: Callable[[list[str]], int], environment: Mapping[str, str]) -> None:
    """Paste the blocks of a page as they stand into one shell; ``run`` runs each command and returns its exit code."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    script = "".join(blocks).replace(". .venv/bin/activate\n", "").replace("--port 8765", "--port 0")
    at_its_end = f"trap 'kill $(jobs -p) 2>/dev/null || true; echo > {folder}/asked' EXIT"
    write(folder, SHIM.format(python=sys.executable, folder=folder), "layton-batch").chmod(0o755)
    for pipe in ("asked", "ended"):
        os.mkfifo(folder / pipe)
    with (folder / "printed").open("wb") as printed:
        shell = subprocess.Popen(
            ["bash", "-c", f"set -e\n{at_its_end}\n{script}"], cwd=folder, stdout=printed, stderr=printed,
            env={**environment, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            while (words := (folder / "asked").read_text(encoding="utf-8").splitlines()) != [""]:
                (folder / "ended").write_text(f"{run(words)}\n")
        except BaseException:
            shell.kill()
            shell.wait()
            raise
    assert shell.wait(60) == 0, (folder / "printed").read_text(encoding="utf-8")[-2000:]


def test_the_first_hour_goes_as_its_page_says(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every menu word of the page is on the pages of the site. A small demo begins the hour: the next test has all."""
    environment = {"HOME": str(small), "XDG_STATE_HOME": str(small / "user"), "LAYTON_BATCH_PACING": "0.05"}
    for provider in MODELS:
        monkeypatch.delenv(f"{provider.upper()}_API_KEY", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(small)

    def run(words: list[str]) -> int:
        for line in (small / "variables").read_text(encoding="utf-8").splitlines():
            monkeypatch.setenv(*line.split("=", 1))
        end = call(*words)
        assert end.code == 0, (words, end.err)
        return end.code

    paste(small, "docs/first_hour.md", run, environment)
    assert (small / "public" / "index.html").is_file()
    site = small / "demo" / "demo" / "site"
    board = (site / "data" / "leaderboard.json").read_text(encoding="utf-8")
    assert "larch-2-nano" in {row["model"] for row in json.loads(board)}
    items = (site / "items" / "index.html").read_text(encoding="utf-8")
    text = (ROOT / "docs" / "first_hour.md").read_text(encoding="utf-8")
    assert [word for word in re.findall(r"\*([^*\n]+)\*", text) if word not in items] == []


def test_the_demo_prints_what_the_readme_shows_and_pays_nothing_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leaderboard, a bill, and where the files are."""
    monkeypatch.chdir(tmp_path)
    first, second = call("demo"), call("demo")
    for end in (first, second):
        assert end.code == 0
        assert "Leaderboard" in end.out
        assert "cost: $" in end.err
        billed = re.search(r"the sandbox billed \$([0-9.]+); the run accounts for \$([0-9.]+)", end.err)
        assert billed is not None
        assert billed[1] == billed[2] != "0.000000"
    assert second.out == first.out
    printed = {*first.out.splitlines(), *first.err.splitlines()}
    (sample,) = readme_blocks("sandbox billed")
    assert [line for line in sample if line not in printed] == []
    site = re.search(r"^site: (\S+)$", first.err, re.MULTILINE)
    assert site is not None
    assert Path(site[1]).is_file()
    assert len((first.out + first.err).splitlines()) < 80  # a screen or two
    assert "at the provider" not in second.err


def test_every_option_that_a_page_names_exists() -> None:
    root = typer.main.get_command(app.app)
    assert isinstance(root, TyperGroup)
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for line in re.findall(r"layton-batch ([a-z][^`\n]*)", page.read_text(encoding="utf-8")):
            names, options = line.split("#")[0].split(), re.findall(r"(?<![\w-])--[a-z][a-z-]*", line.split("#")[0])
            command = root.commands.get(names[0])
            if command is None:
                continue  # a sentence that goes on after the program's name
            if isinstance(command, TyperGroup):
                command = command.commands.get(names[1] if names[1:] else "", command.commands["app"])
            known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
            assert set(options) <= known | {"--help"}, f"{page.name}: layton-batch {line}"


def test_every_exit_code_of_the_page_is_the_programs() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    printed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    kinds = [LaytonBatchError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    of_runs = {0, 3, 4, 5, 75, 130}  # as their tests see them
    assert printed - {1} == (of_runs | {kind.exit_code for kind in kinds}) - {1}
