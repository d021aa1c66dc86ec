"""Every command the README prints works as printed, in its order, with a sandbox in the providers' place."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from layton_batch.cli import doctor
from tests.cli.cli_harness import ROOT, call, desk, finish, start
from tests.pipeline.lab import BUNDLED

NOT_RUN = {
    "scripts/test": "runs this test",
    "scripts/demo": "installs the package, then runs what test_demo.py runs",
    "git clone": "the checkout is there",
}
"""Commands that are printed and not run here, each with its reason."""
DATA = ROOT.parent / "shared" / "data"


def commands() -> list[str]:
    """The lines of the README's ``sh`` blocks without their comments; a line that goes on is one line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
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


def reason_not_to_run(command: str) -> str | None:
    if "../shared/data" in command and not DATA.is_dir():
        return "the optional folder of real data is not there"
    return next((reason for start_of, reason in NOT_RUN.items() if command.startswith(start_of)), None)


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
    found = commands()
    assert len(found) >= 8
    known = ("layton-batch ", *NOT_RUN)
    assert [command for command in found if not command.startswith(known)] == []


def test_every_command_of_the_readme_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: None
) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "manifests").mkdir()
    for path in (ROOT / "manifests").iterdir():
        text = path.read_text(encoding="utf-8")
        (folder / "manifests" / path.name).write_text(without_xai(text), encoding="utf-8")
    if DATA.is_dir():
        (tmp_path / "shared").symlink_to(DATA.parent)
    monkeypatch.setattr(doctor, "MOST_DRIFT", math.inf)  # the desk's clock is not the one in the sandbox's replies
    with desk(folder, monkeypatch):
        for command in commands():
            if reason_not_to_run(command) is not None:
                continue
            words = shlex.split(command)[1:]
            if words[-1] == "&":
                serve(folder, words)
                continue
            end = call(*words)
            assert end.code == 0, f"{command}\n{end.err}"
            assert end.out, command


def test_every_exit_code_of_the_readme_is_the_programs() -> None:
    from layton_batch.cli import app, endings
    from layton_batch.errors import LaytonBatchError

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    printed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    kinds = [LaytonBatchError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    errors = {kind.exit_code for kind in kinds}
    ours = {0, app.INTERRUPTED, endings.UNANSWERED, *endings.CODES.values(), *errors} - {1}
    assert ours <= printed
    assert json.dumps(sorted(printed))  # and nothing else is promised
    assert printed <= ours | {1}
