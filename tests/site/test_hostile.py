"""Nothing that a model, an item or a manifest says changes what a page is, runs, loads or hides."""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.runs.status import RunState
from layton_batch.site.build import build_site
from layton_batch.text import visible
from tests.support.fabricated_run import fabricated, hostile
from tests.support.paths import ROOT
from tests.support.read_html import Page, pages
from tests.support.tiers import tiered

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "</style></script><!--",
    "{{7*7}} {% raw %} {{ self.__init__ }}",
    "abc\N{RIGHT-TO-LEFT OVERRIDE}def",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "../../etc/passwd",
    "=1+1",
    "a\x00b\x1b[31m",
    "${alert(1)}`",
    "🧩" * 20,
)
SEEN_FORMATS = {*map(chr, range(0x600, 0x606)), *"\u200c\u200d\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"}
TOGETHER = " ".join(ATTACKS[number] for number in (0, 2, 5, 6))
PLAIN = "plain"


def is_unseen(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} and char not in SEEN_FORMATS


def site_of(root: Path, text: str) -> dict[str, Page]:
    run = fabricated(root, hostile(text))
    site = build_site(run.folder, run.status(RunState.NEEDS_PERSON)).parent
    _number_models(site)
    return pages(site)


def _number_models(site: Path) -> None:
    """A model's page is named by a digest of the model's name: here by its place on the board."""
    names = list(dict.fromkeys(re.findall(r"models/(\w+)\.html", (site / "index.html").read_text(encoding="utf-8"))))
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for number, name in enumerate(names):
            text = text.replace(f"models/{name}.html", f"models/{number}.html")
        page.write_text(text, encoding="utf-8")
    for number, name in enumerate(names):
        (site / "models" / f"{name}.html").rename(site / "models" / f"{number}.html")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Page]]:
    """By the text that outsiders wrote everywhere: the pages of that run."""
    return cache(lambda text: site_of(tmp_path_factory.mktemp("written"), text))


@pytest.fixture(scope="module")
def tame(written: Callable[[str], dict[str, Page]]) -> dict[str, Page]:
    """The pages of a run in which nobody means harm."""
    return written(PLAIN)


@pytest.mark.parametrize("attack", tiered((TOGETHER, *ATTACKS), ci=(TOGETHER,)))
def test_what_outsiders_write_never_changes_a_pages_structure(
    written: Callable[[str], dict[str, Page]], tame: dict[str, Page], attack: str
) -> None:
    wild = written(attack)
    assert set(wild) == set(tame)
    for name, page in wild.items():
        assert page.tags == tame[name].tags, name
        assert [(tag, key) for tag, key, _ in page.attributes] == [(tag, key) for tag, key, _ in tame[name].attributes]
        assert page.scripts == tame[name].scripts
        assert page.values("href", "src") == tame[name].values("href", "src")


def test_template_marks_and_scripts_are_shown_as_they_were_written(written: Callable[[str], dict[str, Page]]) -> None:
    for name, page in written(TOGETHER).items():
        assert ATTACKS[0] in page.text, name
        assert ATTACKS[6] in page.text, name


def test_every_page_carries_a_policy_that_fits_its_own_script_and_style(tame: dict[str, Page]) -> None:
    for page in tame.values():
        (content,) = [
            value for tag, name, value in page.attributes if (tag, name) == ("meta", "content") and "-src" in value
        ]
        assert content.startswith("default-src 'none'; ")
        assert {"img-src data:", "base-uri 'none'", "form-action 'none'"} <= set(content.split("; "))
        assert "unsafe" not in content
        assert "http" not in content
        for kind, (text,) in (("script", page.scripts), ("style", page.styles)):
            assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in content


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a run whose every text is an address outside."""
    run = fabricated(tmp_path_factory.mktemp("elsewhere") / "runs", hostile("http://example.org/../../../escape"))
    return build_site(run.folder, run.status()).parent


def test_no_page_points_anywhere_outside_its_folder(elsewhere: Path) -> None:
    for page in pages(elsewhere).values():
        for link in page.values("href", "src", "action", "srcset", "data", "poster", "xlink:href"):
            assert re.fullmatch(
                r"data:image/svg\+xml,.*|#[\w-]+|(\.\./)?((items|models)/)?\w+\.html(#\w+)?|(charts|data)/\w+\.\w+|\w+\.csv",
                link,
            ), link
        for own in (*page.scripts, *page.styles):
            assert not re.search(r"https?:|url\(|@import|innerHTML|eval\(", own)


def test_no_hidden_or_turning_character_reaches_a_page(tmp_path: Path) -> None:
    unseen = "".join(filter(is_unseen, map(chr, {*range(0x110000)} - {*b"\n\t", *range(0xD800, 0xE000)})))
    for name, page in site_of(tmp_path, f"a\u202e{unseen}b").items():
        everything = page.text + "".join(value for _, _, value in page.attributes)
        assert not set(unseen) & set(everything), name
        assert "‹U+202E›" in page.text


def test_a_long_text_is_folded_cut_and_said_to_be(tmp_path: Path) -> None:
    run = fabricated(tmp_path, hostile("<\n" + "A" * 2**19))
    site = build_site(run.folder, run.status()).parent
    for path in site.rglob("*.html"):
        assert path.stat().st_size < 500_000, path
        title = path.read_text(encoding="utf-8").partition("<title>")[2].partition("</title>")[0]
        assert ("\n" in title, 0 < len(title) < 600) == (False, True)
    page = pages(site)["items/0001.html"]
    assert "524,290 characters in all" in page.text
    assert page.tags.count("details") > 3
    assert "A" * 20_001 not in page.text


def test_nothing_but_our_own_files_goes_into_a_page_unescaped() -> None:
    raw = {
        (path.name, found)
        for path in (ROOT / "layton_batch" / "site" / "templates").iterdir()
        for found in re.findall(r"\{\{[^}]*\|\s*safe[^}]*\}\}|autoescape", path.read_text(encoding="utf-8"))
    }
    assert raw == {("base.html", "{{ style|safe }}"), ("base.html", "{{ script|safe }}")}


@given(st.text(max_size=200))
def test_no_text_keeps_a_character_that_cannot_be_seen(text: str) -> None:
    assert not any(is_unseen(char) for char in set(visible(text)) - {"\n", "\t"})
