"""What was sent for an answer, what came back, what it took: on the item's page, each shared text once."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from layton_batch.site.build import build_site
from tests.support.fabricated_run import FabricatedRun, fabricated
from tests.support.read_html import Page, read_page, words

OTHER_SHAPES = (
    "", "[]", "{", '{"options":3,"solution":{"header":1}}', '{"solution":{"header":["a"],"rows":[["b","c"]]}}',
    '{"solution":"text"}', '{"evaluator":"x","evaluator_kwargs":3}', '{"evaluator":[],"evaluator_kwargs":{}}',
)  # fmt: skip
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


def test_options_stand_under_the_question_with_the_reference_marked(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    payload = {"options": ["three", "<b>twelve</b>"], "gold": "B", "idk_letter": "C"}
    run.table("items", [{**row, "payload": orjson.dumps(payload).decode()} for row in run.items_rows()])
    page = words(item(run))
    assert "A three B <b>twelve</b> the reference C I don’t know" in page


def test_an_answer_to_a_grid_is_a_table_with_what_is_wrong_marked(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    payload = {"solution": {"header": ["House", "Name"], "rows": [["1", "Chiara"], ["2", "Luis"]]}}
    run.table("items", [{**row, "payload": orjson.dumps(payload).decode()} for row in run.items_rows()])
    rows = run.predictions_rows()
    wrong = {"House 1": {"Name": "chiara"}, "House 2": {"Name": "<b>Eva</b>"}}
    run.table("predictions", [{**row, "answer": orjson.dumps(wrong).decode()} for row in rows[:-1]] + rows[-1:])
    assert "1 chiara 2 <b>Eva</b> (not so)" in words(item(run, 2))
    assert "1 Chiara 2 Luis" in words(item(run, 4))


def test_a_rule_says_what_it_accepts_place_and_region_apart(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    rule = {"location_fine_grained": ["Pharos", "Alexandria"], "location_coarse_grained": [["Egypt", "Misr"]]}
    payload = orjson.dumps({"evaluator": "location_matching", "evaluator_kwargs": rule}).decode()
    run.table("items", [{**row, "payload": payload} for row in run.items_rows()])
    shown = words(item(run))
    assert "Rule: location matching the place itself Pharos · Alexandria" in shown
    assert "the region around it, which is worth less Egypt or Misr" in shown


@pytest.mark.parametrize("payload", OTHER_SHAPES)
def test_a_payload_of_another_shape_shows_nothing(tmp_path: Path, payload: str) -> None:
    run = fabricated(tmp_path)
    run.table("items", [{**row, "payload": payload} for row in run.items_rows()])
    page = item(run)
    assert "The solution" not in page.text
    assert "the reference" not in page.text
    assert "Rule:" not in page.text
