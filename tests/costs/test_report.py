"""The bill: sums are exact, unknown stays unknown in every form, hostile names stay text."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.costs.report import (
    NOT_ENDED,
    CostQuery,
    TotalCost,
    UnknownCost,
    UsageRow,
    build_report,
    cost_table,
    line_json,
)
from layton_batch.records import Usage
from layton_batch.reports.cost_document import CostDocument, report_json
from layton_batch.reports.table import as_csv, as_markdown
from layton_batch.states import Role
from layton_batch.text import money

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


def test_a_bill_to_send_is_one_page_with_a_line_a_model_and_what_it_was_of_the_live_price() -> None:
    hostile = "<script>alert(1)</script>"
    rows = [replace(row(), day="2026-11-30"), replace(row(hostile, "3.0"), day="2026-11-30", cost_unbatched=D("4.0"))]
    query = CostQuery.parse("day,provider,model", "yesterday", "yesterday", TODAY)
    page = CostDocument(build_report(rows, by=query.by), ["lab"], query).text("html")
    assert "Cost of lab on 2026-11-30" in page
    assert hostile not in page
    assert "prefers-color-scheme: dark" in page
    assert not re.findall(r"<(?:link|script|img)[^>]*(?:src|href)=\"(?!data:)", page)
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S) for line in re.findall(r"<tr.*?</tr>", page, re.S)]
    cells = [[re.sub(r"<.*?>", "", cell) for cell in line] for line in lines]
    shares = {line[2]: (line[8], line[9], line[11]) for line in cells[1:]}
    assert shares["gpt-5.1"] == ("$0.5000", "$1.00", "50%")
    assert shares["Total"] == ("$3.50", "$5.00", "70%")


def test_unknown_is_never_zero_in_any_form() -> None:
    unknown = UsageRow("together", "nobody/knows", Role.PREDICT, 1, USAGE, None, None)
    report = build_report([unknown])
    assert report.total.batched.usd is None
    line = line_json(report.lines[0])
    assert {line[key] for key in ("cost_usd", "unbatched_usd", "saved_usd", "price_source")} == {"unknown"}
    assert as_markdown(cost_table(report)).count("| unknown | unknown | unknown | – |") == 2
    assert ",unknown,unknown,unknown,,unknown,unknown," in as_csv(cost_table(report))


costs = st.none() | st.decimals(0, 1000, places=8)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(Role)), costs), max_size=12))
def test_every_split_of_the_rows_adds_up_to_the_total(found: list[tuple[str, Role, Decimal | None]]) -> None:
    report = build_report(UsageRow("p", model, role, 1, USAGE, cost, cost) for model, role, cost in found)
    known = [cost for _, _, cost in found if cost is not None]
    assert sum(line.requests for line in report.lines) == len(found)
    assert sum((line.batched.usd or D(0) for line in report.lines), D(0)) == sum(known, D(0))
    assert all(line.batched.complete for line in report.lines) == (len(known) == len(found))
    assert (report.total.batched.usd is None) == (not known and bool(found))


HOSTILE = ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "  =1", "＝1", "a|b", "a\nb|c", "[red]x[/red]", "[/]",
           '"quoted", name', "<script>", "\x1b[2J", "\u202egnp", "x\\", "`code`"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    report = build_report([row(name)])
    sheet, page = as_csv(cost_table(report)), as_markdown(cost_table(report))
    _, cells = csv.reader(io.StringIO(sheet))
    assert not cells[1].strip().startswith(("=", "+", "-", "@", "＝"))
    assert [line.replace(r"\\", "").replace(r"\|", "").count("|") for line in page.splitlines()] == [15] * 4
    assert not any(bad in sheet + page for bad in "\x1b\u202e")
    assert "<script>" not in page
    assert json.loads(json.dumps(report_json(report)))["rows"][0]["model"] == name


def test_an_unknown_cost_is_bounded_beside_the_bill_and_makes_its_sums_incomplete() -> None:
    lost = UnknownCost("openai", "gpt-5.1", Role.PREDICT, D("0.03"))
    report = build_report([row(), row("claude", provider="anthropic")], [lost, lost])
    claude, gpt = report.lines
    assert (claude.batched, claude.unknown_cost) == (TotalCost(D("0.5"), complete=True), TotalCost(D(0), complete=True))
    assert (gpt.batched, gpt.unbatched) == (TotalCost(D("0.5"), complete=False), TotalCost(D("1.0"), complete=False))
    assert (gpt.unknown_cost, gpt.unknown_cost_requests, gpt.requests) == (TotalCost(D("0.06"), complete=True), 2, 2)
    assert (report.total.unknown_cost.usd, report.total.unknown_cost_requests) == (D("0.06"), 2)
    assert report.total.batched.text == "at least $1.00"


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
