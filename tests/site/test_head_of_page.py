"""The top of the leaderboard's page: what the manifest says of the benchmark, and what a reader has to know first."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from layton_batch.scoring.leaderboard import BORROWED_ONLY
from layton_batch.site.build import build_site
from layton_batch.site.front_page import write_front
from tests.support.fabricated_run import FabricatedRun, fabricated
from tests.support.read_html import Page, read_page, words

SITE = {
    "title": "Riddles <of> the week",
    "description": "Forty & more.",
    "links": {'Paper"><b>': "https://example.org/p?a=1&b=2"},
    "license": "CC BY 4.0",
    "colours": {"openai": "#a1b2c3"},
}
LOGO = "data:image/png;base64,iVBORw0KGgo="


def with_site(run: FabricatedRun, site: dict[str, object], logo: str = LOGO) -> None:
    document = orjson.loads(run.folder.manifest.read_bytes())
    document["manifest"]["site"] = site
    run.folder.manifest.write_bytes(orjson.dumps({**document, "logo": logo}))


def board(run: FabricatedRun) -> Page:
    return read_page(build_site(run.folder, run.status()))


def test_the_page_says_what_the_manifest_says_of_the_benchmark(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    with_site(run, SITE)
    page = board(run)
    for part in ("Riddles <of> the week", "Forty & more.", 'Paper"><b>', "Licence: CC BY 4.0."):
        assert part in words(page)
    assert "https://example.org/p?a=1&b=2" in page.values("href")
    assert LOGO in page.values("src")
    assert "#a1b2c3" in page.values("fill")
    assert "Riddles <of> the week" in words(read_page(write_front(tmp_path / "front", [run.folder])))


@pytest.mark.parametrize(
    ("site", "logo"),
    [
        ({"links": {"x": "javascript:alert(1)"}, "colours": {"openai": "red; x"}}, "data:text/html,x"),
        ({"links": {"x": "https://u:p@example.org"}}, "https://example.org/logo.png"),
    ],
)
def test_a_frozen_manifest_that_was_changed_by_hand_brings_nothing_else_in(
    tmp_path: Path, site: dict[str, object], logo: str
) -> None:
    run = fabricated(tmp_path)
    plain = board(run)
    with_site(run, site, logo)
    changed = board(run)
    assert changed.values("href", "src") == plain.values("href", "src")
    assert changed.values("fill") == plain.values("fill")


def test_made_up_models_uncalibrated_boards_and_borrowed_labels_are_said_before_the_table(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    document = orjson.loads(run.folder.manifest.read_bytes())
    run.folder.manifest.write_bytes(orjson.dumps({**document, "made_up": ["openai"]}))
    rows = run.leaderboard_rows()
    run.table("leaderboard", [{**rows[0], "flags": BORROWED_ONLY}, *rows[1:]])
    top = words(board(run)).partition(" Leaderboard Filter")[0]
    assert "Made up: a sandbox played openai." in top
    pages = ("charts.html", "compare.html", "items/index.html", "items/0001.html", "judges.html")
    assert all("Made up: a sandbox played openai." in words(read_page(run.folder.site / page)) for page in pages)
    assert "1 of 3 rows (*) has no label on answers of their own" in top
    run.table("leaderboard", [{**row, "method": "uncalibrated"} for row in rows])
    assert "Uncalibrated: no human label counts here." in words(board(run)).partition(" Leaderboard Filter")[0]
