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
    about = {"item_id": run.item_id(1), "model": run.words.models[0], "n_hints": 0, "people": 1}
    marks = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), False)
    run.table("labels", [about | marks])
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


def test_an_address_with_several_values_of_a_filter_opens_with_them(browser: Browser, items: Path) -> None:
    tab = browser.open(items)
    tab.run("location.hash = '#standing=all+right&standing=all+wrong'")
    tab.run("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    assert shown(tab) == ["item 2"]  # people dispute one answer to the first
    choose(tab, "standing", "all wrong", "split")
    assert shown(tab) == ["item 1", "item 2", "item 3", "item 4"]


def test_bars_say_how_the_models_did_on_the_items_of_a_category(browser: Browser, items: Path) -> None:
    tab = browser.open(items)
    lines = "[...document.querySelectorAll('.bars li')].map((n) => n.textContent.trim().replace(/\\s+/g, ' '))"
    assert not tab.run("document.querySelector('.bars').checkVisibility()")
    choose(tab, "category", "Logic, other")
    assert shown(tab) == ["item 2", "item 4"]
    assert tab.run("document.querySelector('.bars').checkVisibility()")
    assert tab.run(lines) == ["alpha-9 1 of 2", "beta-10 0 of 2", "gamma-2 0 of 2"]
    assert tab.run("[...document.querySelectorAll('.bars rect')].map((n) => n.getAttribute('width'))") == [
        "50%", "0%", "0%"
    ]  # fmt: skip
    assert tab.trouble() == []


def test_the_filters_fit_a_phone(browser: Browser, items: Path) -> None:
    tab = browser.open(items, width=375)
    tab.run("document.querySelectorAll('.choice').forEach((n) => (n.open = true))")
    assert tab.run("document.documentElement.scrollWidth") <= 375
    edges = "[...document.querySelectorAll('.choice > div')].map((n) => n.getBoundingClientRect())"
    assert tab.run(f"Math.max(...{edges}.map((n) => n.right))") <= 375


def search(tab: Tab, text: str) -> None:
    """Type into the field, and wait for the words that it loads."""
    tab.wait(f"""new Promise((done) => {{
      const field = document.querySelector("[data-search]");
      field.value = {text!r};
      field.dispatchEvent(new Event("input"));
      const script = document.querySelector("script[src]");
      window.itemWords ? done() : script.addEventListener("load", () => done());
    }})""")


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    own = ["Bridges", "Ferries", "Windmills", "Tunnels"]
    rows = [
        {
            **row,
            "question": f"{'Long ' * 200}{word}?",
            "solution": f"Of {word}.",
            "payload": f'{{"_picarats":{10 * at}}}',
        }
        for at, (row, word) in enumerate(zip(run.items_rows(), own, strict=True), 1)
    ]
    run.table("items", [{**rows[0], "hints": ["Look at the keystone."]}, *rows[1:]])
    said = [{**row, "answer": f"Said of {row['item_id']}: Zeppelins"} for row in run.predictions_rows()]
    run.table("predictions", [{**said[0], "answer": "A hot-air balloon."}, *said[1:]])
    return build_site(run.folder, run.status()).parent / "items" / "index.html"


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
    browser: Browser, worded: Path, text: str, found: list[str]
) -> None:
    tab = browser.open(worded)
    search(tab, text)
    assert shown(tab) == found
    assert tab.trouble() == []


def test_the_words_are_loaded_when_somebody_searches_and_not_before(browser: Browser, worded: Path) -> None:
    tab = browser.open(worded)
    assert tab.requests() == [worded.as_uri()]
    search(tab, "keystone")
    search(tab, "balloon")
    assert tab.requests() == [worded.as_uri(), (worded.parent / "words.js").as_uri()]


def test_a_search_goes_on_where_the_list_is_sorted_otherwise(browser: Browser, worded: Path) -> None:
    tab = browser.open(worded)
    tab.run("[...document.querySelectorAll('.items th button')].find((b) => b.textContent === 'Item').click()")
    tab.run("[...document.querySelectorAll('.items th button')].find((b) => b.textContent === 'Item').click()")
    search(tab, "windmills")
    assert shown(tab) == ["item 3"]


def test_items_are_filtered_by_what_they_are_worth_and_by_how_many_models_get_them_right(
    browser: Browser, worded: Path
) -> None:
    tab = browser.open(worded)
    choose(tab, "worth", "20")
    assert shown(tab) == ["item 2"]
    choose(tab, "worth", "20", "40")
    assert shown(tab) == ["item 2", "item 4"]
    assert tab.run("document.querySelector('[data-key=worth] summary').textContent") == "Picarats: 20, 40"
    assert tab.run("location.hash") == "#worth=20&worth=40"
    choose(tab, "worth")
    choose(tab, "band", "a quarter to a half")
    assert shown(tab) == ["item 3", "item 4"]
    assert tab.run("location.hash") == "#band=a+quarter+to+a+half"


def test_nothing_in_the_page_may_run_but_what_its_own_script_loads(browser: Browser, worded: Path) -> None:
    tab = browser.open(worded)
    tab.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hit=1>')")
    tab.run("document.write('<script>window.hit = 2</script><script src=words.js></script>')")
    assert tab.run("typeof window.hit") == "undefined"
    assert tab.run("typeof window.itemWords") == "undefined"
