"""Every command that the README and the pages of docs/ print works as printed, in its order, with a sandbox in the
providers' place; every option that they name exists."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import typer
from typer.core import TyperGroup

from layton_batch.cli import app, doctor
from tests.support.cli_harness import ROOT, call, desk, finish, start, write
from tests.support.harness_files import GOLDEN, lm_eval_line, write_lines
from tests.support.lab import BUNDLED

NOT_RUN = {
    "scripts/test": "runs this test",
    "scripts/demo": "installs the package, then runs what test_demo.py runs",
    "git clone": "the checkout is there",
    "pip install": "tests/test_wheel.py installs the package",
    "uv tool install": "the same by uv, which need not be there",
    ". .venv/bin/activate": "the environment of this test is active",
}
"""Commands that are printed and not run here, each with its reason."""

PAGES = ("README.md", *(f"docs/{name}.md" for name in ("install", "providers", "runs", "schedules", "tasks")))
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


def without_xai(text: str) -> str:
    """A manifest without the models of the one provider in it that the sandbox does not play."""
    return re.sub(r'(?m)^\[\[models\]\]\n(?:.+\n)?provider = "xai"\n(?:.+\n)+', "", text)


def write_logs_of_other_programs(folder: Path) -> None:
    """Write the logs that the README ranks: inspect_ai's in ``logs/``, lm-evaluation-harness' in ``samples/``."""
    shutil.copytree(GOLDEN, folder / "logs")
    for model, marks in (("finch", "1110111011"), ("wren", "1010101010")):
        lines = [lm_eval_line(number, {"exact_match": float(mark)}) for number, mark in enumerate(marks)]
        write_lines(folder / "samples" / f"{model}.jsonl", lines)


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


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: None, page: str
) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "manifests").mkdir()
    for path in (ROOT / "manifests").iterdir():
        text = path.read_text(encoding="utf-8")
        (folder / "manifests" / path.name).write_text(without_xai(text), encoding="utf-8")
    write_logs_of_other_programs(folder)
    write(folder, "question,answer\nWhat is 12 times 12?,144\nHow many legs has a spider?,8\n", "quiz.csv")
    monkeypatch.setattr(doctor, "MOST_DRIFT", math.inf)  # the desk's clock is not the one in the sandbox's replies
    elsewhere = () if page == "README.md" else commands("README.md")
    with desk(folder, monkeypatch):
        for command in commands(page):
            if command.startswith(tuple(NOT_RUN)) or command in elsewhere:
                continue
            words = shlex.split(command)[1:]
            if words[-1] == "&":
                serve(folder, words)
                continue
            end = call(*words)
            assert end.code in ((0, 75) if {"--once", "--until"} & {*words} else (0,)), f"{command}\n{end.err}"
            assert end.out or end.err, command


def test_the_leaderboard_of_logs_in_the_readme_is_the_printed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_logs_of_other_programs(tmp_path)
    monkeypatch.chdir(tmp_path)
    (command,) = (line for line in commands("README.md") if "logs/" in line)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(Leaderboard · match .*?)^```", text, re.DOTALL | re.MULTILINE)
    printed = [line.rstrip() for line in call(*shlex.split(command)[1:]).out.splitlines()]
    assert [line for line in block.splitlines() if line not in printed] == []


def test_the_first_hour_goes_as_its_page_says(tmp_path: Path) -> None:
    """Every block is pasted as it stands, into one shell; every menu word of the page is on the pages of the site."""
    text = (ROOT / "docs" / "first_hour.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    program = write(tmp_path, f'#!/bin/sh\nexec "{sys.executable}" -m layton_batch "$@"\n', "layton-batch")
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(tmp_path / "user"), "LAYTON_BATCH_PACING": "0.05",
    }  # fmt: skip
    script = "".join(blocks).replace(". .venv/bin/activate\n", "").replace("--port 8765", "--port 0")
    script = f"set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
    with (tmp_path / "printed").open("wb") as printed:
        ended = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=printed, stderr=printed, check=False,
            timeout=300,
        )  # fmt: skip
    assert ended.returncode == 0, (tmp_path / "printed").read_text(encoding="utf-8")[-2000:]
    assert (tmp_path / "public" / "index.html").is_file()
    site = tmp_path / "demo" / "demo" / "site"
    board = (site / "data" / "leaderboard.json").read_text(encoding="utf-8")
    assert "larch-2-nano" in {row["model"] for row in json.loads(board)}
    items = (site / "items" / "index.html").read_text(encoding="utf-8")
    assert [word for word in re.findall(r"\*([^*\n]+)\*", text) if word not in items] == []


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
                command = command.commands[names[1]]
            known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
            assert set(options) <= known | {"--help"}, f"{page.name}: layton-batch {line}"


def test_every_exit_code_of_the_page_is_the_programs() -> None:
    from layton_batch.cli import endings, entry
    from layton_batch.errors import LaytonBatchError

    text = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    printed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    kinds = [LaytonBatchError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    errors = {kind.exit_code for kind in kinds}
    ours = {0, entry.INTERRUPTED, endings.UNANSWERED, *endings.CODES.values(), *errors} - {1}
    assert ours <= printed
    assert json.dumps(sorted(printed))  # and nothing else is promised
    assert printed <= ours | {1}
