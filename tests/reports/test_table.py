"""One table in four forms: what is in it is in each, and a name does nothing but stand there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.columns import DATA, FOR_PEOPLE, Column, OutputForm, Table, text_table
from layton_batch.records import JsonValue
from layton_batch.reports import table as tables
from layton_batch.reports.table import as_csv, as_html, as_markdown, show

BOARD = Table(
    (
        Column("rank", value=itemgetter("rank")),
        Column("model", value=itemgetter("model"), is_text=True),
        Column("ends", "95 % CI\n(new\nitems)", value=itemgetter("ends"), surfaces=FOR_PEOPLE | {OutputForm.JSON},
               text=lambda row: "–".join(map(str, row["ends"]))),
        Column("id", value=itemgetter("rank"), surfaces=DATA),
    ),
    ({"rank": 1, "model": "larch-2", "ends": [80.6, 96.3]}, {"rank": None, "model": "wagtail=5", "ends": [77.2, 94.2]}),
)  # fmt: skip
texts = st.text(max_size=30)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WITHOUT_TERMINAL", 80)


def one(cell: JsonValue) -> Table[Sequence[JsonValue]]:
    return text_table("", ("name", "figure"), ((cell, 1),))


def test_a_column_is_said_once_and_stands_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    assert BOARD.records()[1] == {"rank": None, "model": "wagtail=5", "ends": [77.2, 94.2], "id": None}
    rows = [["rank", "model", "id"], ["1", "larch-2", "1"], ["", "wagtail=5", ""]]
    assert list(csv.reader(io.StringIO(as_csv(BOARD)))) == rows
    people = [["rank", "model", "95 % CI (new items)"], ["1", "larch-2", "80.6–96.3"], ["–", "wagtail=5", "77.2–94.2"]]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in as_markdown(BOARD).splitlines()]
    assert [lines[0], *lines[2:]] == people
    cells = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", as_html(BOARD), re.S)
    assert [" ".join(cell.split()) for cell in cells] == [cell for row in people for cell in row]
    show(BOARD)
    assert [line.split() for line in capsys.readouterr().out.splitlines()][-2:] == people[1:]


@given(texts, texts)
def test_no_text_breaks_out_of_its_cell(first: str, second: str) -> None:
    table = text_table("", ("a", "b"), ((first, second),), text=2)
    (_, row) = csv.reader(io.StringIO(as_csv(table)))
    assert len(row) == 2
    header, _, line, *rest = as_markdown(table).split("\n")
    assert rest == [""]
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == header.count("|") == 3


@pytest.mark.parametrize("cell", ["=1", " @SUM(1)", "＋1", "\t=1", "-1+1"])
def test_what_a_spreadsheet_would_run_is_text_and_a_number_stays_one(cell: str) -> None:
    assert list(csv.reader(io.StringIO(as_csv(one(cell)))))[1][0].startswith("'")
    for number in ("-0.25", "12"):
        assert list(csv.reader(io.StringIO(as_csv(one(number)))))[1][0] == number


def test_money_stays_readable_in_markdown_and_mathematics_is_none() -> None:
    assert "| at least $1.50 |" in as_markdown(one("at least $1.50"))
    assert "| \\$x\\$ |" in as_markdown(one("$x$"))


def test_the_widest_text_gives_way_and_figures_never(capsys: pytest.CaptureFixture[str]) -> None:
    long = "provider/a-model-with-a-name-that-no-screen-holds-" + "x" * 60
    row = (long, "a sentence that is not so short", "83.3–92.9")
    show(text_table("", ("model", "note", "figure"), (row,), text=2))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "83.3–92.9" in lines[1]
    assert "".join(line[:40].split(" ")[0] for line in lines[1:]) == long


def test_rich_markup_and_control_characters_are_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = text_table("[b]title[/]", ("[red]head[/]",), (("[bold]x[/] \x1b[31m\u202e\nnext",),))
    show(replace(table, notes=("[i]note[/]\nrow",)))
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("[red]head[/]", "[bold]x[/]", "[b]title[/]", "[i]note[/] row"))
    assert not {"\x1b", "\u202e"} & set(shown)
    assert len(shown.splitlines()) == 4


def test_no_column_is_lost_however_narrow_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"judge-number-{number}-of-nine" for number in range(9)]
    figures = [f"+{number}.5 ± 12.5" for number in range(9)]
    show(text_table("", ("maker", *names), (("Fieldstone", *figures),)))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split("  ")[0].startswith("Fieldstone")
    assert [figure for figure in figures if figure not in last] == []
