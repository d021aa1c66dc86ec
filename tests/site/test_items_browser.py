"""The list of items in a real browser: filters work, and the address keeps them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.site.build import build_site
from tests.site.devtools import Browser, Tab
from tests.site.fabricated_run import fabricated
from tests.site.test_browser import PROGRAMS


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    about = {"item_id": run.item_id(1), "model": run.words.models[0], "n_hints": 0, "people": 1}
    marks = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), False)
    run.table("labels", [about | marks])
    return build_site(run.folder, run.status()).parent / "items" / "index.html"


def shown(tab: Tab) -> list[str]:
    rows = "[...document.querySelectorAll('#item-rows tr:not([hidden]) .c-item')]"
    found: list[str] = tab.run(f"{rows}.map((n) => n.textContent)")
    return found


def choose(tab: Tab, key: str, words: str) -> None:
    tab.run(f"""(() => {{
      const one = document.querySelector('select[data-key="{key}"]');
      one.value = [...one.options].find((option) => option.textContent === {words!r}).value;
      one.dispatchEvent(new Event("change"));
    }})()""")


def test_the_items_on_which_people_and_jury_disagree_are_found_and_the_address_keeps_the_choice(
    browser: Browser, items: Path
) -> None:
    tab = browser.open(items)
    assert len(shown(tab)) == 4
    choose(tab, "apart", "people and jury")
    assert shown(tab) == ["item 1"]
    assert tab.run("location.hash") == "#apart=people+and+jury"
    assert tab.trouble() == []


def test_the_items_that_a_model_does_not_get_right_are_found(browser: Browser, items: Path) -> None:
    tab = browser.open(items)
    choose(tab, "failing", "beta-10")
    assert shown(tab) == ["item 2", "item 3", "item 4"]
    choose(tab, "apart", "within the jury")
    assert shown(tab) == ["item 3", "item 4"]


def test_an_address_with_filters_opens_with_them(browser: Browser, items: Path) -> None:
    tab = browser.open(items)
    tab.run("location.hash = '#q=item&standing=all+wrong&failing=alpha-9'")
    tab.run("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    assert shown(tab) == ["item 2"]
    assert tab.run("document.querySelector('[data-search]').value") == "item"
    assert tab.trouble() == []


def test_the_filters_fit_a_phone(browser: Browser, items: Path) -> None:
    tab = browser.open(items, width=375)
    assert tab.run("document.documentElement.scrollWidth") <= 375
