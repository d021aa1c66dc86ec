"""The bill: sums are exact, unknown stays unknown in every form, hostile names stay text."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.costs.report import (
    NOT_ENDED,
    CostQuery,
    UsageRow,
    build_report,
)
from layton_batch.records import Usage
from layton_batch.states import Role
from layton_batch.text import money
from tests.support.cli_harness import call
from tests.support.lab import MODELS, lab, quiz_text

D = Decimal
USAGE = Usage(1_000, 100, 2_000, 1_500)


def row(
    model: str = "gpt-5.1", cost: str | None = "0.5", provider: str = "openai", role: Role = Role.PREDICT
) -> UsageRow:
    known = None if cost is None else D(cost)
    double = None if known is None else known * 2
    return UsageRow(provider, model, role, 2, USAGE, known, double, cost and "a source", cost and "2026-11-01")


DAYS = [("2026-11-29", "a"), ("2026-11-30", "a"), ("2026-12-01", "b"), (NOT_ENDED, "b")]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("run", [("a",), ("b",)]),
        ("month", [("2026-11",), ("2026-12",), (NOT_ENDED,)]),
        ("week,run", [("2026-W48", "a"), ("2026-W49", "a"), ("2026-W49", "b"), (NOT_ENDED, "b")]),
        ("day", [(day,) for day, _ in DAYS]),
    ],
)
def test_rows_are_added_up_by_run_and_time(by: str, groups: list[tuple[str, ...]]) -> None:
    query = CostQuery.parse(by, None, None, TODAY)
    report = build_report((replace(row(), day=day, run=run) for day, run in DAYS), by=query.by)
    assert [line.group for line in report.lines] == groups
    assert sum((line.batched.usd or D(0) for line in report.lines), D(0)) == report.total.batched.usd == D("2.0")


TODAY = date(2026, 12, 1)


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        (None, None, [day for day, _ in DAYS]),
        ("yesterday", None, ["2026-11-30", "2026-12-01", NOT_ENDED]),
        ("yesterday", "yesterday", ["2026-11-30"]),
        ("7d", "2026-11-29", ["2026-11-29"]),
        ("today", "today", ["2026-12-01"]),
    ],
)
def test_a_bill_of_some_days_has_these_and_no_others(since: str | None, until: str | None, days: list[str]) -> None:
    query = CostQuery.parse(None, since, until, TODAY)
    assert [day for day, _ in DAYS if query.includes(day)] == days


HOSTILE = "<b>a</b> | `b`"


def test_a_bill_to_send_has_each_model_s_share_of_the_live_price_and_what_is_unknown_is_zero_in_no_form(
    tmp_path: Path,
) -> None:
    text = quiz_text(("openai", "together", "groq"), limit=2).replace(MODELS["openai"], HOSTILE, 1)
    text = text.replace(f'model = "{MODELS["groq"]}"', 'model = "nobody/knows"', 1)
    with lab(tmp_path) as there:
        there.finish(text)
        asked = ("cost", "lab", "--runs", there.runs, "--by", "day,provider,model", "--since", "2026-11-18", "--format")
        bill, sheet, markdown, page = (call(*asked, form).out for form in ("json", "csv", "md", "html"))
        of_a_day = call(*asked, "html", "--until", "2026-11-18").out
    report = json.loads(bill)
    unpriced, hostile, _ = report["rows"]
    assert (hostile["model"], unpriced["complete"], hostile["complete"]) == (HOSTILE, False, True)
    for key in ("cost_usd", "unbatched_usd", "saved_usd", "price_source"):
        assert unpriced[key] == "unknown" != hostile[key]
    assert "| unknown | unknown | unknown | – |" in markdown
    assert list(csv.reader(io.StringIO(sheet)))[1][8:14] == [*["unknown"] * 3, "", "unknown", "unknown"]
    assert ("from 2026-11-18" in page, "Cost of lab on 2026-11-18" in of_a_day) == (True, True)
    assert HOSTILE not in page + markdown
    assert "prefers-color-scheme: dark" in page
    assert not re.findall(r"<(?:link|script|img)[^>]*(?:src|href)=\"(?!data:)", page)
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S) for line in re.findall(r"<tr.*?</tr>", page, re.S)]
    cells = [[re.sub(r"<.*?>", "", cell) for cell in line] for line in lines]
    assert [line[11] for line in cells[1:]] == ["–", "50%", "100%", "81%"]
    at_least = f"at least {money(D(report['total']['cost_usd']))}"
    assert [line[8] for line in cells[1:]][::3] == ["unknown", at_least]
    assert (cells[2][8], round(report["total"]["share_of_live"], 2)) == (money(D(hostile["cost_usd"])), 0.81)


costs = st.none() | st.decimals(0, 1000, places=8)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(Role)), costs), max_size=12))
def test_every_split_of_the_rows_adds_up_to_the_total(found: list[tuple[str, Role, Decimal | None]]) -> None:
    report = build_report(UsageRow("p", model, role, 1, USAGE, cost, cost) for model, role, cost in found)
    known = [cost for _, _, cost in found if cost is not None]
    assert sum(line.requests for line in report.lines) == len(found)
    assert sum((line.batched.usd or D(0) for line in report.lines), D(0)) == sum(known, D(0))
    assert all(line.batched.complete for line in report.lines) == (len(known) == len(found))
    assert (report.total.batched.usd is None) == (not known and bool(found))


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        ("0", "$0.00"),
        ("0.00001", "<$0.0001"),
        ("0.00005", "$0.0001"),
        ("0.1234567", "$0.1235"),
        ("1", "$1.00"),
        ("1.005", "$1.01"),
        ("1234567.891", "$1,234,567.89"),
        ("-0.25", "-$0.2500"),
    ],
)
def test_money_is_printed_to_the_cent_and_small_amounts_to_four_decimals(usd: str, text: str) -> None:
    assert money(D(usd)) == text
