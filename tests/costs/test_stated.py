"""What a provider says that a batch cost beside what we say: where the two are the same, and where not."""

from __future__ import annotations

import json
import re
from decimal import Decimal as D
from itertools import count
from pathlib import Path
from typing import Any

from layton_batch.providers import connect
from layton_batch.sandbox import Fault
from tests.support.cli_harness import call
from tests.support.lab import RunState, quiz_text
from tests.support.tampering import Answer, hostile

STATED: tuple[tuple[str, str, str, bool], ...] = (
    # of our figures, those of the provider: dollars, tokens read and written; whether the two differ
    ("1", "1", "1", False),
    ("1.0099", "1", "1", False),
    ("0.9901", "1", "1", False),
    ("1.015", "1", "1", True),
    ("0.985", "1", "1", True),
    ("0", "1", "1", True),
    ("1", "1", "1.04", True),
    ("", "1.009", "1", False),
    ("", "1.02", "", True),
    ("", "", "", False),
    ("9", "9", "9", False),
)
SILENT = STATED[-1]
"""The figures of a batch whose answers do not tell their tokens, so that our bill has none to compare."""


class Books:
    """The books of a provider, which state other figures of each batch than the sandbox billed."""

    def __init__(self) -> None:
        self.factors: dict[str, tuple[str, str, str, bool]] = {}

    def __call__(self, provider: str, kind: str, _path: str, answer: Answer) -> Answer:
        batch: dict[str, Any] = json.loads(answer.content) if kind == "poll" else {}
        if provider == "doubleword" and batch.get("status") == "completed":
            batch["analytics"] = {"total_cost": "9"}
        elif provider == "openrouter" and (usage := batch.get("usage")):
            of_unpriced = usage["cost"] is None
            unused = ("9", "1", "9", True) if of_unpriced else STATED[min(len(self.factors), len(STATED) - 1)]
            factors = self.factors.setdefault(batch["id"], unused)
            for name, factor in zip(("cost", "prompt_tokens", "completion_tokens"), factors[:3], strict=True):
                figure = D(str(usage[name] or 1)) * D(factor or 1)
                usage[name] = (str(figure) if name == "cost" else round(figure)) if factor else None
            for row in batch["results"] if factors == SILENT else ():
                del row["response"]["body"]["usage"]
        return answer.of(json.dumps(batch).encode()) if batch else answer


def asked() -> str:
    """Write a quiz for models that are a batch each: the last but one has no price, the last is Doubleword's."""
    text, number = quiz_text(("openrouter",) * (len(STATED) + 1) + ("doubleword",)), count()
    each = re.sub(r"(?<=max_output_tokens = )4000", lambda _: str(4000 + next(number)), text)
    each = re.sub(r'(?<=name = ")z-ai/glm-5.3', lambda _: f"larch {next(number)}", each)
    *models, unpriced, last = each.split('model = "z-ai/glm-5.3"')
    return 'model = "z-ai/glm-5.3"'.join([*models, unpriced]) + 'model = "nobody/knows"' + last


def test_a_bill_names_the_batches_whose_provider_states_another_cost_and_no_others(tmp_path: Path) -> None:
    lost = Fault(on="create", action="drop", provider="doubleword", times=1)
    with hostile(tmp_path, lost) as (there, between):
        between.tamper = books = Books()
        status = there.finish(asked())
        bill = call("cost", "lab", "--runs", there.runs, "--format", "json").table()
    assert status.state is RunState.DONE
    batches = {str(batch.provider_id): batch for batch in status.batches}
    ours = {name: batch for name, batch in batches.items() if books.factors.get(name, SILENT)[3]}
    assert len(books.factors) == len(STATED) + 1
    differing: list[dict[str, str | None]] = bill["differing"]  # type: ignore[assignment]
    assert [batch["batch_id"] for batch in differing] == sorted(batch.id for batch in ours.values())
    assert [batch["cost_usd"] for batch in differing].count(None) == 1
    assert any(f"differs by more than 1 % for {len(ours)} batches" in note for note in bill["notes"])  # type: ignore[attr-defined]
    (unclear,) = (batch for batch in status.batches if batch.provider == "doubleword")
    assert (unclear.stated_usd, unclear.creates_of_unknown_cost) == (D(9), 1)  # of which our bill knows no sum


def amount(value: str) -> D | None:
    """Return what is read as the cost of a reply, in the ten-thousandth millionths of a dollar that xAI counts in."""
    reply = '{"batch_request_id": "c", "batch_result": {"response": {"chat_get_completion": {"model": "m", "choices": '
    reply += '[{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": {"cost_in_usd_ticks": %s}}}}}'
    return connect("xai", None).decode((reply % value).encode()).usage.stated_usd


def test_an_amount_is_read_from_a_number_or_its_text() -> None:
    for value, dollars in (("2.5e9", "0.25"), ('"12500000"', "0.00125"), ("30000000000", "3"), ("0", "0")):
        assert amount(value) == D(dollars)
    for value in ("null", "true", '""', '"free"', '"nan"', '"1e400"', "-1", "[]", "{}", '"inf"'):
        assert amount(value) is None
