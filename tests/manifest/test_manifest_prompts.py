"""Prompts at addresses: fetched once when a manifest is loaded, frozen with the run, counted by their content."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from layton_batch.commands.check import examine
from layton_batch.errors import ManifestError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import MOST_BYTES, PromptFiles
from layton_batch.settings import Settings
from tests.support.manifest_texts import MINIMAL, write

JUDGE = "Be fair, é.\r\n"


@dataclass
class Web:
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def web() -> Iterator[Web]:
    found = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path, self.headers.get("authorization")))
            body = found.files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def manifest(tmp_path: Path, source: str, name: str = "judge_system") -> Path:
    return write(tmp_path, f'{MINIMAL}[prompts]\n{name} = "{source}"\n')


def begin(found: Manifest, runs: Path) -> None:
    folder = RunFolder(runs / found.name)
    folder.root.mkdir(parents=True)
    folder.manifest.write_text(found.frozen_json(), encoding="utf-8")


def test_a_prompt_at_an_address_is_the_same_as_one_in_a_file(tmp_path: Path, web: Web) -> None:
    web.files["/judge.txt"] = JUDGE.encode()
    (tmp_path / "judge.txt").write_bytes(JUDGE.encode())
    fetched = load_manifest(manifest(tmp_path, f"{web.address}/judge.txt"))
    local = load_manifest(manifest(tmp_path, "judge.txt"))
    assert fetched.identity() == local.identity()
    assert fetched.prompt_paths()["judge_system"].read_bytes() == JUDGE.encode()
    assert manifest_task(fetched).name == "layton"
    assert len(web.asked) == 1


def test_a_hub_address_is_asked_with_the_token(tmp_path: Path, web: Web) -> None:
    web.files["/datasets/o/n/resolve/main/p/judge.txt"] = b"Be fair."
    settings = Settings(tmp_path, {"HF_ENDPOINT": web.address, "HF_TOKEN": "hf-x"})
    load_manifest(manifest(tmp_path, "hf://datasets/o/n/p/judge.txt"), PromptFiles(settings))
    assert web.asked == [("/datasets/o/n/resolve/main/p/judge.txt", "Bearer hf-x")]


def test_a_run_goes_on_with_its_frozen_copy_and_asks_nobody(tmp_path: Path, web: Web) -> None:
    path, runs = manifest(tmp_path, f"{web.address}/judge.txt"), tmp_path / "runs"
    web.files["/judge.txt"] = b"Be fair."
    first = load_manifest(path)
    begin(first, runs)
    web.asked.clear()
    del web.files["/judge.txt"]
    assert load_manifest(path, PromptFiles(runs=runs)).identity() == first.identity()
    assert load_manifest(path, PromptFiles(runs=runs, offline=True)).identity() == first.identity()
    assert examine(path, Settings(tmp_path, {}), runs, offline=True)
    with pytest.raises(ManifestError, match="no run has a copy"):
        examine(path, Settings(tmp_path, {}), offline=True)
    assert web.asked == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"\n<!DOCTYPE html><html>", "is a web page, not a text file; give the address of the raw file"),
        (b"x" * (MOST_BYTES + 1), "too many for a prompt"),
    ],
)
def test_what_cannot_be_had_is_told_with_its_key_and_address(
    tmp_path: Path, web: Web, content: bytes | None, reason: str
) -> None:
    if content is not None:
        web.files["/judge.txt"] = content
    with pytest.raises(ManifestError, match=rf"prompts\.judge_system: {web.address}/judge\.txt.*{reason}"):
        load_manifest(manifest(tmp_path, f"{web.address}/judge.txt"))


def test_offline_nothing_is_fetched(tmp_path: Path, web: Web) -> None:
    with pytest.raises(ManifestError, match="nothing is fetched with --offline"):
        load_manifest(manifest(tmp_path, f"{web.address}/judge.txt"), PromptFiles(offline=True))
    assert web.asked == []
