"""The bundled questions keep the promises of their README, and what can be computed is right."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache
from itertools import permutations, product

import pytest

from layton_batch.records import Item
from layton_batch.tasks.mcq_idk import McqIdkTask
from layton_batch.tasks.protocol import TaskOptions

COLUMNS = ["id", "split", "category", "question", "options", "answer", "explanation"]
TASK = McqIdkTask(TaskOptions("demo"))
Row = dict[str, object]


@cache
def rows() -> list[Row]:
    return [json.loads(line) for line in TASK.bundled("demo").read_text(encoding="utf-8").splitlines()]


@cache
def items() -> tuple[Item, ...]:
    return tuple(TASK.items(rows()))  # type: ignore[arg-type]


def test_there_are_enough_questions_of_enough_kinds() -> None:
    assert len(items()) == len(rows()) >= 40
    assert len({item.category for item in items()}) >= 6
    assert len({item.id for item in items()}) == len({item.question for item in items()}) == len(items())


def test_every_row_has_the_columns_four_different_options_and_a_reason() -> None:
    for row in rows():
        options = row["options"]
        assert list(row) == COLUMNS
        assert isinstance(options, list)
        assert len({option.strip().lower() for option in options}) == 4
        assert row["answer"] in options
        assert len(str(row["explanation"])) > 15
        assert str(row["question"]).endswith(("?", "."))


def test_the_place_of_the_right_answer_gives_nothing_away() -> None:
    raw = Counter(list(row["options"]).index(row["answer"]) for row in rows())  # type: ignore[call-overload]
    shown = Counter(str(item.payload["gold"]) for item in items())
    assert min(raw[place] for place in range(4)) >= 10
    assert min(shown[letter] for letter in "ABCD") >= 7


def hits_until_two_heads() -> float:
    """Solve e = 1 + h/2 + e/2, h = 1 + e/2."""
    return 1.5 / 0.25


def zeros(n: int) -> int:
    return sum(n // 5**k for k in range(1, 8))


def partitions(n: int, most: int) -> int:
    return 1 if n == 0 else sum(partitions(n - part, part) for part in range(1, min(n, most) + 1))


COMPUTED: dict[str, object] = {
    "group homomorphisms": str(sum(12 * x % 18 == 0 for x in range(18))),
    "elements of order exactly 2": str(
        sum(p != (0, 1, 2, 3) and all(p[p[i]] == i for i in range(4)) for p in permutations(range(4)))
    ),
    "spanning trees": str(3**2 * 3**2),
    "irreducible complex representations": str(partitions(5, 5)),
    "last two digits": f"{pow(7, 2026, 100):02d}",
    "exactly five zeros": str(sum(zeros(n) == 5 for n in range(1, 1_000))),
    "Muons": f"{0.8 * 3e8 * 2.2e-6 / math.sqrt(1 - 0.8**2):.0f} m",
    "degeneracy of the level": str(sum(a * a + b * b + c * c == 14 for a, b, c in product(range(1, 5), repeat=3))),
    "pH of a 1.0": f"{-math.log10((1e-8 + math.sqrt(1e-16 + 4e-14)) / 2):.2f}",
    "electromotive force": f"{8.314462 * 298.15 / (2 * 96485.33) * math.log(100):.3f} V",
    "tryptophan codon": str(
        sum(sum(x != y for x, y in zip(stop, "UGG", strict=True)) == 1 for stop in ("UAA", "UAG", "UGA"))
    ),
    "binary search trees": str(math.comb(10, 5) // 6),
    "matching private exponent": str(pow(7, -1, 20)),
    "two's complement": format(-37 & 0xFF, "08b"),
    "no triangle": str(2 * 10 - 4),
    "two heads come up": f"{hits_until_two_heads():.0f}",
    "tests positive": f"{100 * 0.009 / (0.009 + 0.99 * 0.09):.0f} %",
    "Cournot": str(100 - 2 * (100 - 10) // 3),
    "real rate of return": f"{100 * (1.08 / 1.05 - 1):.2f} %",
    "carbon-14": f"{round(math.log2(8) * 5730):,} years",
    "parallax": f"{6 - 5 * math.log10(2):.1f}",
}


@pytest.mark.parametrize("part", COMPUTED)
def test_what_can_be_computed_is_right(part: str) -> None:
    (item,) = [item for item in items() if part in item.question]
    assert item.answer == COMPUTED[part]


def test_other_answers_that_arithmetic_can_check_are_right() -> None:
    assert int(float(2**53 + 1)) != 2**53 + 1
    assert all(int(float(n)) == n for n in (2**53, 2**53 - 1, 2**52 + 1, 2**64))
    assert 4.9e9 < math.sqrt(2 * math.log(2) * 2**64) < 5.2e9
    assert min((25, 50, 100, 1_250), key=lambda n: abs(1 / n - 2 * 0.98 * 0.02)) == 25
    n = 1e7
    assert n * (math.e - math.exp(n * math.log1p(1 / n))) == pytest.approx(math.e / 2, rel=1e-3)
    steps = 200_000
    integral = sum(math.log(math.sin(math.pi * (i + 0.5) / steps)) for i in range(steps)) * math.pi / steps
    assert integral == pytest.approx(-math.pi * math.log(2), rel=1e-4)
    assert sum(p[0] == 0 and sum(map(int.__eq__, p, range(7))) for p in permutations(range(7))) == 2 * math.factorial(6)
