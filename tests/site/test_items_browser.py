"""The list of items in a real browser: filters work, and the address keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.site.build import build_site
from tests.support.devtools import Browser, Tab
from tests.support.fabricated_run import fabricated


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    about = {"item_id": run.item_id(1), "model": run.words.models[0], "n_hints": 0}
    marks = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), False)
    run.table("labels", [about | marks])
    own = ("Bridges", "Ferries", "Windmills", "Tunnels")
    rows = [
        {**row, "question": f"{'Long ' * 200}{word}?", "solution": f"Of {word}."}
        for row, word in zip(run.items_rows(), own, strict=True)
    ]
    run.table("items", [{**rows[0], "hints": ["Look at the keystone."]}, *rows[1:]])
    said = [{**row, "answer": f"Said of {row['item_id']}: Zeppelins"} for row in run.predictions_rows()]
    run.table("predictions", [{**said[0], "answer": "A hot-air balloon."}, *said[1:]])
    return build_site(run.folder, run.status()).parent / "items" / "index.html"


def shown(tab: Tab) -> list[str]:
    rows = "[...document.querySelectorAll('#item-rows tr:not([hidden]) .c-item')]"
    found: list[str] = tab.run(f"{rows}.map((n) => n.textContent)")
    return found


def choose(tab: Tab, key: str, *words: str) -> None:
    """Mark these choices of a filter, and no other."""
    tab.run(f"""(() => {{
      for (const one of document.querySelectorAll('[data-key="{key}"] input')) {{
        if (one.checked !== {list(words)!r}.includes(one.parentNode.textContent.trim())) one.click();
      }}
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


def test_an_address_with_filters_opens_with_them(browser: Browser, items: Path) -> None:
    tab = browser.open(items)
    tab.run("location.hash = '#q=item&band=none&failing=alpha-9'")
    tab.run("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    assert shown(tab) == ["item 2"]
    assert tab.run("document.querySelector('[data-search]').value") == "item"
    assert tab.trouble() == []


def search(tab: Tab, text: str) -> None:
    """Type into the field, and wait for the words that it loads."""
    tab.wait(f"""new Promise((done) => {{
      const field = document.querySelector("[data-search]");
      field.value = {text!r};
      field.dispatchEvent(new Event("input"));
      const script = document.querySelector("script[src]");
      window.itemWords ? done() : script.addEventListener("load", () => done());
    }})""")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("item 3", ["item 3"]),
        ("WINDMILLS?", ["item 3"]),
        ("keystone", ["item 1"]),
        ("balloon", ["item 1"]),
        ("zeppelin", ["item 1", "item 2", "item 3", "item 4"]),
        ("zeppelins ferries", ["item 2"]),
        ("nothing of the kind", []),
    ],
)
def test_a_search_finds_name_question_hints_and_answers(
    browser: Browser, items: Path, text: str, found: list[str]
) -> None:
    tab = browser.open(items)
    search(tab, text)
    assert shown(tab) == found
    assert tab.trouble() == []
