"""Several runs are one site: a front page that leads to each board, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.errors import FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.form import SiteTable
from layton_batch.site.build import HOME, build_site, write_front
from layton_batch.site.leaderboard_page import citation
from layton_batch.site.run_tables import PageManifest
from tests.support.fabricated_run import FabricatedRun, Words
from tests.support.read_html import read_page, words

EVIL = "</title><script>alert(1)</script>"


def two(root: Path) -> list[FabricatedRun]:
    runs = [
        FabricatedRun(RunFolder(root / "riddles-1a2b3c4d")),
        FabricatedRun(RunFolder(root / "others"), Words(name=EVIL)),
    ]
    for run in runs:
        run.write()
    rows = runs[1].leaderboard_rows()
    runs[1].table("leaderboard", [{**rows[0], "model": f"m{place}"} for place in range(7)])
    return runs


def test_a_front_page_leads_to_every_board_and_each_board_back(tmp_path: Path) -> None:
    runs, out = two(tmp_path / "runs"), tmp_path / "out"
    for run in runs:
        build_site(run.folder, run.status(), out=out / run.folder.root.name, home=HOME)
    front = read_page(write_front(out, [run.folder for run in runs]))
    for link in front.values("href"):
        assert link.startswith(("data:image/svg+xml,", "#")) or (out / link).is_file(), link
    text = words(front)
    for part in ("riddles", EVIL, "4 items", "alpha-9", "80.0", "and 2 more"):
        assert part in text
    for page in ("index.html", "items/index.html", "items/0001.html", "charts.html"):
        path = out / "others" / page
        back = f"../{HOME}" if "/" in page else HOME
        assert back in read_page(path).values("href")
        assert (path.parent / back).resolve() == out / "index.html"


def test_a_front_page_is_written_anew_but_never_over_a_page_of_someone_else(tmp_path: Path) -> None:
    runs, out = [run.folder for run in two(tmp_path / "runs")], tmp_path / "out"
    assert write_front(out, runs).read_bytes() == write_front(out, runs).read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").write_text("mine")
    with pytest.raises(FileError, match="left alone"):
        write_front(other, runs)
    assert (other / "index.html").read_text() == "mine"


def test_a_citation_stays_one_entry_whatever_the_name_is() -> None:
    ask = PageManifest(site=SiteTable(author="A}da", address="https://example.org/"))
    text = citation(ask, "a}ß{\\ü", "2026-11-23 08:00 UTC")
    assert text.count("{") == text.count("}") == 6
    assert text.startswith("@misc{assu,\n  author = {Ada},\n")
    assert "  year = {2026},\n  url = {https://example.org/},\n" in text
    assert "author" not in citation(PageManifest(), "x", "")
