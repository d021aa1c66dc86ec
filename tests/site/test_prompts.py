"""What was sent for an answer, what came back, what it took: on the item's page, each shared text once."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from layton_batch.site.build import build_site
from tests.support.fabricated_run import FabricatedRun, fabricated
from tests.support.read_html import Page, read_page, words

NO_REQUESTS = (b"", b"not JSON\n", b'{"custom_id":"r0-0-3"}\n', b'{"custom_id":"r0-0-3","body":[]}\n')


def item(run: FabricatedRun, number: int = 3) -> Page:
    return read_page(build_site(run.folder, run.status()).parent / "items" / f"{number:04d}.html")


def test_a_prompt_that_all_answers_share_stands_once_on_the_page(tmp_path: Path) -> None:
    shown = words(item(fabricated(tmp_path)))
    assert "As it was sent for 3 of 3 answers" in shown
    assert shown.count("Number 3: How many?") == 1


@pytest.mark.parametrize(
    "line",
    [
        {"custom_id": "r0-0-3", "body": {"instructions": "S", "input": [{"role": "user", "content": [{"text": "Q"}]}]}},
        {"custom_id": "r0-0-3", "params": {"system": "S", "messages": [{"role": "user", "content": "Q"}]}},
        {"custom_id": "r0-0-3", "params": {"system": [{"type": "text", "text": "S"}],
                                           "messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]}]}},
        {"key": "r0-0-3", "request": {"systemInstruction": {"parts": [{"text": "S"}]},
                                      "contents": [{"role": "user", "parts": [{"text": "Q"}]}]}},
        {"custom_id": "r0-0-3", "body": {"messages": [{"role": "developer", "content": "S"},
                                                      {"role": "user", "content": "Q"}]}},
    ],
)  # fmt: skip
def test_every_dialects_texts_are_found(tmp_path: Path, line: dict[str, object]) -> None:
    run = fabricated(tmp_path)
    run.folder.batch("predict-0.s0001.a1").request_file.write_bytes(orjson.dumps(line) + b"\n")
    site = build_site(run.folder, run.status()).parent
    page = words(read_page(site / "items" / "0003.html"))
    assert "System text 2 , which many items share, then: Q" in page
    assert "System text 2 S" in words(read_page(site / "method.html"))


@pytest.mark.parametrize("content", NO_REQUESTS)
def test_a_batch_file_that_cannot_be_read_leaves_the_answer_without_a_prompt(tmp_path: Path, content: bytes) -> None:
    run = fabricated(tmp_path)
    run.folder.batch("predict-0.s0001.a1").request_file.write_bytes(content)
    assert "As it was sent for 2 of 3 answers" in words(item(run)).replace("2: as", "As")


def test_each_answer_says_its_tokens_and_its_cost(tmp_path: Path) -> None:
    assert words(item(fabricated(tmp_path))).count("1,250 tokens in, 500 out (125 reasoning), $0.0031") == 3
