"""Hostile replies cost time in proportion to their length, and never an exception."""

from __future__ import annotations

import random
import time

import pytest

from layton_batch.tasks.mcq_idk import CORRECTED, ORIGINAL, read_letters

MEGABYTE = 1_000_000
BAIT = {
    "answers": "answer ",
    "colons": "answer: ",
    "is": "Answer is ",
    "final": "final answer ",
    "final is": "final answer is is ",
    "stars": "answer****",
    "brackets": "answer: ((((((((((((",
    "boxes": "answer: \\boxed{",
    "nested commands": "\\boxed{\\text{",
    "hedges": "Answer: A or ",
    "articles": "Answer: A x ",
    "open tags": "<think>",
    "close tags": "</think>",
    "think blocks": "<think></think>",
    "torn tags": "<thi<think></think>",
    "hashes": "###",
    "headings": "\n# A",
    "lines": "\nA",
    "choices": "choice ",
    "wide": "answer：Ａ ",
    "nul": "\0",
    "spaced runs": "final answer" * 8 + " " * 400,
}
RUNS = {
    "answer, blanks": "answer" + " " * MEGABYTE,
    "final answer, blanks": "final answer" * 8 + " " * MEGABYTE,
    "final answer is, blanks": "final answer is" + " " * MEGABYTE + "x",
    "boxed, blanks": "\\boxed" + " " * MEGABYTE + "{" + " " * MEGABYTE,
    "braces 10,000 deep": "answer: " + "{" * 10_000 + "B" + "}" * 10_000,
    "brackets 10,000 deep": "\\boxed{" * 10_000 + "B" + "}" * 10_000,
    "one line": "x" * MEGABYTE,
}


def seconds(text: str, protocol: str) -> float:
    start = time.process_time()
    read_letters(text, protocol, 25)
    return time.process_time() - start


@pytest.mark.parametrize("protocol", [ORIGINAL, CORRECTED])
@pytest.mark.parametrize("bait", BAIT.values(), ids=BAIT.keys())
def test_four_times_the_bait_takes_about_four_times_as_long(bait: str, protocol: str) -> None:
    """A quadratic reader would need 16 times as long, and hours for a megabyte of some of these."""
    short, long = (bait * (size // len(bait)) for size in (16_000, 64_000))
    assert seconds(long, protocol) < 9 * seconds(short, protocol) + 0.25


@pytest.mark.parametrize("protocol", [ORIGINAL, CORRECTED])
@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS.keys())
def test_a_megabyte_of_one_thing_is_read_within_seconds(text: str, protocol: str) -> None:
    assert seconds(text, protocol) < 5


@pytest.mark.parametrize("protocol", [ORIGINAL, CORRECTED])
def test_no_text_makes_a_reader_fail(protocol: str) -> None:
    draw = random.Random(5)
    pieces = [
        "answer",
        ":",
        "A",
        "\ud800",
        "\0",
        "###",
        "\\boxed{",
        "}",
        "İ",
        "ſ",
        "K",
        "ı",
        "Ａ",
        "<think>",
        "</think>",
        "\n",
        " ",
    ]
    for _ in range(2_000):
        text = "".join(draw.choices(pieces, k=draw.randint(0, 12)))
        letter = read_letters(text, protocol, draw.randint(2, 25)).letter
        assert letter is None or len(letter) == 1
