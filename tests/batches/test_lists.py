"""Which reading of a provider's list counts before a batch is created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import TransientProviderError
from layton_batch.records import ListReading
from layton_batch.sandbox import Fault
from tests.support.lab import lab, quiz_text, several
from tests.support.tampering import Answer, hostile


@pytest.mark.parametrize(("seconds", "lists"), [(4.0, 1), (11.0, 3), (-11.0, 3)])
def test_a_list_counts_for_all_that_is_sent_within_seconds(tmp_path: Path, seconds: float, lists: int) -> None:
    """``seconds``: by which the clock moves in each create."""
    with hostile(tmp_path) as (bench, between):

        def tamper(_provider: str, kind: str, _path: str, answer: Answer) -> Answer:
            if kind == "create":
                bench.clock.sleep(seconds)
            return answer

        between.tamper = tamper
        bench.begin(several(3))
        counts = bench.server.request_counts()["openai"]
        assert (counts["create"], counts["list"]) == (3, lists)


def mistral_too(text: str) -> str:
    """Write the manifest with a model of another provider."""
    models = quiz_text(("mistral",)).partition("[[models]]")[2].partition("[[prices]]")[0]
    return text.replace("[[prices]]", f"[[models]]{models}[[prices]]", 1)


def test_a_provider_has_its_own_list_and_so_has_a_batch_that_was_tried(tmp_path: Path) -> None:
    text, full = mistral_too(several(2)), Fault(on="create", action="status", status=429, provider="openai", times=2)
    with lab(tmp_path, full) as bench:
        bench.begin(text)
        lists = {name: calls["list"] for name, calls in bench.server.request_counts().items()}
        assert lists == {"openai": 1, "mistral": 1}
        bench.begin(text, ticks=20, seconds=60.0)
        counts = bench.server.request_counts()["openai"]
        assert (counts["create"], counts["list"]) == (4, 3)


def test_a_list_that_could_not_be_read_is_read_by_the_next() -> None:
    reading, answers = ListReading(0.0), iter([None, ["a", "b"]])

    def read() -> Iterator[str]:
        answer = next(answers)
        yield "a row before the page that fails"
        if answer is None:
            raise TransientProviderError("openai: busy")
        yield from answer

    with pytest.raises(TransientProviderError):
        reading.rows(read)
    assert len(reading.rows(read)) == 3
    assert len(reading.rows(read)) == 3  # nobody reads any more
    assert reading.rows(lambda: ["other"], "another part") == ["other"]
