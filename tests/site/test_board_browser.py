"""The leaderboard, the charts and two models beside each other in a real browser: addresses, keys, widths, colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.site.build import build_site
from tests.labels.payloads import PAYLOADS
from tests.support.devtools import Browser, Tab
from tests.support.fabricated_run import FabricatedRun, fabricated, hostile
from tests.support.tiers import tiered

WIDE = {
    "level": 0.95, "own_labels": 12, "borrowed_labels": 12_345,
    "fewest_labels_per_vote": 7, "n_abstained": 2,
}  # fmt: skip
PAGES = ("index.html", "charts.html", "compare.html")
OTHER_PAGES = ("judges.html", "cost.html", "method.html", "run.html", "items/index.html", "items/0003.html")
_ROWS = "[...document.querySelectorAll('#board-rows tr')].filter((n) => !n.hidden)"
ALL_COLUMNS = "document.getElementById('all-columns').click()"
MODELS = f"{_ROWS}.map((n) => n.querySelector('bdi').textContent)"


def widest(run: FabricatedRun) -> None:
    """Every column that a board can have, with long numbers."""
    rows = run.both_targets()
    gap = {
        name: None for name in rows[0] if name.startswith(("rank", "score", "lower", "upper", "half", "set_", "new_"))
    }
    rows.append({**rows[0], **gap, "model": "delta-1", "provider": "groq", "flags": "no items"})
    run.table("leaderboard", [{**row, **WIDE, "n_items": 12_000 + place} for place, row in enumerate(rows)])
    families = [{**row, "family": f"maker-{str(row['model'])[0]}"} for row in run.predictions_rows()]
    run.table("predictions", families)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    widest(run)
    return build_site(run.folder, run.status()).parent


def hash_of(tab: Tab) -> str:
    found: str = tab.run("location.hash")
    return found


def at(browser: Browser, page: Path, fragment: str, width: int = 1280) -> Tab:
    """A tab that was opened at an address with a fragment."""
    tab = browser.open(page, width=width)
    tab.run(f"location.hash = {fragment!r}")
    tab.run("new Promise((done) => setTimeout(done, 0))")
    return tab


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 375])
def test_nothing_is_cut_at_a_desktops_or_a_phones_width(browser: Browser, site: Path, page: str, width: int) -> None:
    tab = browser.open(site / page, width=width)
    assert tab.run("document.documentElement.scrollWidth") <= width
    if page == "index.html":
        board = "document.querySelector('.board').parentNode"
        assert tab.run(f"{board}.scrollWidth - {board}.clientWidth") <= 0
        tab.run(ALL_COLUMNS)
        assert tab.run(f"{board}.scrollWidth - {board}.clientWidth") <= 0


def test_an_address_brings_back_what_was_chosen(browser: Browser, site: Path) -> None:
    tab = at(browser, site / "index.html", "sort=score&dir=ascending&maker=maker-b&view=these")
    assert tab.run(MODELS) == ["beta-10"]
    assert tab.run("document.querySelector('[aria-sort]').textContent.trim()") == "Score"
    assert tab.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    shown = "getComputedStyle(document.querySelector('tbody.for-these')).display"
    assert tab.run(shown) == "table-row-group"
    tab = at(browser, site / "index.html", "sort=nothing&maker=<b>&view=x")
    assert len(tab.run(MODELS)) == 0 or tab.run(MODELS) == ["alpha-9", "beta-10", "gamma-2", "delta-1"]
    assert tab.trouble() == []


ATTACKS = PAYLOADS[:15]
CELLS = "a bdi, .c-score, .c-interval, .c-range span, .c-alike"
SHOWN = f"""[...document.querySelectorAll('tbody tr')].filter((n) => n.checkVisibility()).map(
    (n) => [...n.querySelectorAll('{CELLS}')].map((one) => one.textContent))"""
NEW = [["alpha-9", "80.0", "78.1–81.6", "1–2", "A"], ["beta-10", "70.0", "68.1–71.6", "1–3", "A"]]
HERE = [["alpha-9", "81.0", "80.5–81.5", "1–1", "A"], ["gamma-2", "71.0", "70.5–71.5", "2–2", "B"]]


@pytest.mark.parametrize("width", tiered((1280, 375), ci=(375,)))
def test_the_switch_changes_scores_intervals_ranks_and_letters_together(
    browser: Browser, site: Path, width: int
) -> None:
    tab = browser.open(site / "index.html", width=width)
    tab.run(ALL_COLUMNS)
    assert tab.run(SHOWN)[:2] == NEW
    tab.run("document.querySelector('[name=view][value=these]').click()")
    assert tab.run(SHOWN)[:2] == HERE
    search = "document.querySelector('[name=q]')"
    tab.run(f"{search}.value = 'gamma'; {search}.dispatchEvent(new Event('input'))")
    assert [row[0] for row in tab.run(SHOWN)] == ["gamma-2"]
    assert tab.run("document.querySelector('[data-count]').textContent") == "1 of 4"


def test_two_models_are_compared_and_the_pair_stands_in_the_address(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "compare.html")
    said = "document.querySelector('[data-verdict]').textContent"
    assert "alpha-9 is better than beta-10 on new items of this kind with 80.0 % probability." in tab.run(said)
    assert "Difference: +10.0 points (95 % CI: +7.5 to +12.5)." in tab.run(said)
    assert "this set" not in tab.run(said)
    tab.run("document.querySelector('[name=view][value=these]').click()")
    assert tab.run(said) == (
        "alpha-9 is better than beta-10 on this set of items with 90.0 % probability."
        "Difference: +20.0 points (95 % CI: +9.0 to +20.0)."  # the interval holds the difference of the board's scores
    )
    assert tab.run("[...document.querySelectorAll('.differ a')].map((n) => n.getAttribute('href'))") == [
        "items/0003.html", "items/0004.html",
    ]  # fmt: skip
    show = "document.querySelector('[name=show]')"
    assert tab.run(f"[...{show}.options].map((n) => n.textContent)") == [
        "all (2)", "only alpha-9 is right (2)", "only beta-10 is right (0)", "neither is wholly right (0)",
    ]  # fmt: skip
    tab.run(f"{show}.value = 'b'; {show}.dispatchEvent(new Event('change'))")
    assert tab.run("document.querySelectorAll('.differ a').length") == 0
    assert hash_of(tab) == "#a=alpha-9&b=beta-10&view=these&show=b"
    tab.run(f"{show}.value = ''; {show}.dispatchEvent(new Event('change'))")
    tab.run("document.querySelector('[data-swap]').click()")
    assert "beta-10 is better than alpha-9 on this set of items with 10.0 % probability." in tab.run(said)
    assert hash_of(tab) == "#a=beta-10&b=alpha-9&view=these"
    tab = at(browser, site / "compare.html", "a=gamma-2&b=alpha-9")
    assert "gamma-2 is better than alpha-9 on new items of this kind with 20.0 %" in tab.run(said)
    assert "Difference: \u221220.0 points (95 % CI: \u221220.0 to \u22127.5)." in tab.run(said)
    assert tab.trouble() == []


def test_the_board_is_used_by_keys_alone(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "index.html")
    seen = []
    while "maker" not in seen:
        tab.press("Tab")
        seen.append(tab.run("document.activeElement.name || document.activeElement.textContent.trim()"))
        assert tab.run("getComputedStyle(document.activeElement).outlineStyle") != "none", seen[-1]
        assert len(seen) < 60
        if seen[-1] == "Score":
            tab.press("Enter")
    assert {"q", "view", "Rank", "Model"} <= set(seen)
    assert hash_of(tab) == "#sort=score&dir=descending"


def test_attacks_in_names_and_texts_run_nothing(browser: Browser, tmp_path: Path) -> None:
    run = fabricated(tmp_path, items=len(ATTACKS))
    names = [{**row, "model": ATTACKS[at], "n_hints": 0} for at, row in enumerate(run.leaderboard_rows() * 5)]
    run.table(
        "leaderboard", [{**row, "provider": ATTACKS[-1 - at], "flags": "known_zeros"} for at, row in enumerate(names)]
    )
    run.table("cost", [{**run.cost_rows()[0], "model": row["model"]} for row in names])
    pairs = [{**run.pairs_rows()[0], "model": one["model"], "other": names[0]["model"]} for one in names[1:]]
    run.table("pairs", pairs)
    texts = [
        {**row, "category": text, "question": text, "answer": text, "solution": text, "hints": [text]}
        for row, text in zip(run.items_rows(), ATTACKS, strict=True)
    ]
    run.table("items", texts)
    site = build_site(run.folder, run.status()).parent
    for page in (*PAGES, "items/index.html"):
        tab = browser.open(site / page)
        tab.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert tab.run("typeof window.attacked") == "undefined", page
        assert tab.trouble() == [], page
        assert (
            tab.run("document.querySelectorAll('iframe, img, form, math, [onerror], [onload], [ontoggle]').length") == 0
        )
    assert "<script>window.attacked" not in (site / "items" / "0001.html").read_text(encoding="utf-8")


FIGURE = "document.querySelector('#cost')"


def test_a_chart_tells_its_values_at_the_pointer_and_its_legend_hides_and_shows_models(
    browser: Browser, site: Path
) -> None:
    tab = browser.open(site / "charts.html", width=375)
    tab.run(f"{FIGURE}.scrollIntoView()")
    dot = f"{FIGURE}.querySelector('.picture-narrow path[data-model=\"1\"][data-tip]')"
    x, y = tab.run(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({dot}.getBoundingClientRect())")
    for kind, away in (("mouseMoved", 10), ("mousePressed", 0)):  # near is enough, and a finger does not move first
        tab.call("Input.dispatchMouseEvent", {"type": kind, "x": x + away, "y": y, "button": "left"})
        assert tab.run("document.querySelector('.tip').textContent") == "beta-10: 70.0, $0.56"
        assert tab.run("document.querySelector('.tip').checkVisibility()")
    button = f"{FIGURE}.querySelectorAll('.legend button')[1]"
    visible = f"[...{FIGURE}.querySelectorAll('[data-model]')].filter((n) => n.checkVisibility()).length"
    marks = tab.run(visible)
    tab.run(f"{button}.click()")
    assert tab.run(visible) < marks
    assert tab.run(f"{dot}.checkVisibility()") is False
    assert tab.run(f"{button}.getAttribute('aria-pressed')") == "false"
    tab.run(f"{button}.click()")
    assert tab.run(visible) == marks
    assert tab.trouble() == []


def test_the_policy_stops_what_would_get_into_a_page(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "index.html")
    tab.run("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=window.attacked=1>')")
    tab.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.attacked = 2'}))"
    )
    assert tab.run("typeof window.attacked") == "undefined"
    assert any("Content Security Policy" in one for one in tab.trouble())


def head(name: str) -> str:
    return f"[...document.querySelectorAll('.board th button')].find((b) => b.textContent === '{name}')"


def test_a_click_on_a_head_sorts_and_a_second_one_turns_the_order(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "index.html")
    assert tab.run(MODELS) == ["alpha-9", "beta-10", "gamma-2", "delta-1"]
    tab.run(f"{head('Score')}.click()")
    tab.run(f"{head('Score')}.click()")
    assert tab.run(MODELS) == ["gamma-2", "beta-10", "alpha-9", "delta-1"]  # what has no score stays last
    assert tab.run(f"{head('Score')}.closest('th').getAttribute('aria-sort')") == "ascending"
    assert tab.run("document.querySelectorAll('.board [aria-sort]').length") == 1
    tab.run(f"{head('Model')}.click()")
    assert tab.run(MODELS) == ["alpha-9", "beta-10", "delta-1", "gamma-2"]


@pytest.fixture(scope="module")
def long_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a run in which outsiders wrote a word everywhere that no line can break."""
    run = fabricated(tmp_path_factory.mktemp("long"), hostile("W" * 150))
    return build_site(run.folder, run.status()).parent


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES])
def test_a_phone_never_scrolls_sideways(browser: Browser, long_words: Path, page: str) -> None:
    assert browser.open(long_words / page, width=390).run("document.documentElement.scrollWidth") <= 390
