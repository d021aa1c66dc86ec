"""In a real browser, from ``file://``: no complaint, nothing loaded, sorting and filters work, nothing overflows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from layton_batch.site.build import build_site
from tests.support.devtools import Browser, Tab
from tests.support.fabricated_run import fabricated, hostile
from tests.support.tiers import tiered

PAGES = (
    "index.html",
    "judges.html",
    "cost.html",
    "method.html",
    "run.html",
    "items/index.html",
    "items/0003.html",
)
"""One page of each kind."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    rows = run.leaderboard_rows()
    gap = dict.fromkeys(("rank", "rank_best", "rank_worst", "score", "lower", "upper", "half_width"))
    unscored = {**rows[0], **gap, "model": "delta-1", "provider": "groq", "flags": "no items"}
    run.table("leaderboard", [*rows, unscored])
    return build_site(run.folder, run.status()).parent


def models(tab: Tab) -> list[str]:
    found: list[str] = tab.run("[...document.querySelectorAll('#board-rows a bdi')].map((n) => n.textContent)")
    return found


def head(name: str) -> str:
    return f"[...document.querySelectorAll('.board th button')].find((b) => b.textContent === '{name}')"


LONG = "W" * 150
"""A word that no line can break."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """By the text that outsiders wrote everywhere: the site of that run."""

    @cache
    def build(text: str) -> Path:
        run = fabricated(tmp_path_factory.mktemp("hostile"), hostile(text))
        return build_site(run.folder, run.status()).parent

    return build


def test_the_policy_stops_what_would_get_into_a_page(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "index.html")
    tab.run("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=window.hit=1>')")
    tab.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = 2'}))")
    assert tab.run("typeof window.hit") == "undefined"
    assert any("Content Security Policy" in one for one in tab.trouble())


def test_a_click_on_a_head_sorts_and_a_second_one_turns_the_order(browser: Browser, site: Path) -> None:
    tab = browser.open(site / "index.html")
    assert models(tab) == ["alpha-9", "beta-10", "gamma-2", "delta-1"]
    tab.run(f"{head('Score')}.click()")
    tab.run(f"{head('Score')}.click()")
    assert models(tab) == ["gamma-2", "beta-10", "alpha-9", "delta-1"]  # what has no score stays last
    assert tab.run(f"{head('Score')}.closest('th').getAttribute('aria-sort')") == "ascending"
    assert tab.run("document.querySelectorAll('.board [aria-sort]').length") == 1
    tab.run(f"{head('Model')}.click()")
    assert models(tab) == ["alpha-9", "beta-10", "delta-1", "gamma-2"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("long", tiered((False, True), ci=(True,)))
def test_a_phone_never_scrolls_sideways(
    browser: Browser, site: Path, sites: Callable[[str], Path], page: str, long: bool
) -> None:
    tab = browser.open((sites(LONG) if long else site) / page, width=390)
    assert tab.run("document.documentElement.scrollWidth") <= 390


def in_colours(tab: Tab, *, dark: bool) -> None:
    """Let the reader of an open page prefer dark or light colours."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    tab.call("Emulation.setEmulatedMedia", {"features": [scheme]})
    assert tab.run("matchMedia('(prefers-color-scheme: dark)').matches") is dark
