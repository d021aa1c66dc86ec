"""axe-core finds nothing serious on any kind of page, light or dark.

The bundle comes with the package ``axe-core-python``; AXE_CORE names another one.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from layton_batch.runs.status import RunState
from layton_batch.site.build import HOME, build_site, write_front
from tests.support.devtools import Browser, Tab
from tests.support.fabricated_run import fabricated

PAGES = (
    "index.html", "charts.html", "compare.html", "judges.html", "cost.html", "method.html", "run.html",
    "items/index.html", "items/wrong.html", "items/0003.html", "models/*.html", "../index.html",
)  # fmt: skip
BAD = """axe.run(document, OPTIONS).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`))"""
EVERYTHING = BAD.replace("OPTIONS", '{resultTypes: ["violations"]}')
COLOURS = BAD.replace("OPTIONS", '{resultTypes: ["violations"], runOnly: ["color-contrast"]}')


@pytest.fixture(scope="module")
def axe() -> str:
    package = find_spec("axe_core_python")
    bundled = Path(package.origin).with_name("axe.min.js") if package and package.origin else None
    path = Path(os.environ["AXE_CORE"]) if "AXE_CORE" in os.environ else bundled
    if path is None:
        pytest.skip("no axe-core on this machine (the extra `dev` has it)")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = fabricated(tmp_path_factory.mktemp("runs"))
    out = tmp_path_factory.mktemp("site")
    index = build_site(run.folder, run.status(RunState.NEEDS_PERSON), out=out / run.folder.root.name, home=HOME)
    write_front(out, [run.folder])
    return index.parent


def in_colours(tab: Tab, *, dark: bool) -> None:
    """Let the reader of an open page prefer dark or light colours."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    tab.call("Emulation.setEmulatedMedia", {"features": [scheme]})
    assert tab.run("matchMedia('(prefers-color-scheme: dark)').matches") is dark


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(browser: Browser, site: Path, axe: str, page: str) -> None:
    path = next(iter(sorted(site.glob(page)))) if "*" in page else site / page
    tab = browser.open(path.resolve())
    tab.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    tab.run(f"{axe}; 0")
    assert tab.wait(EVERYTHING) == []
    in_colours(tab, dark=True)
    assert tab.wait(COLOURS) == []


def test_axe_finds_what_is_put_there_to_be_found(browser: Browser, site: Path, axe: str) -> None:
    tab = browser.open(site / "index.html")
    tab.run("document.querySelector('h1').insertAdjacentHTML('afterend', '<input><p id=dim>dim</p>')")
    tab.run("document.getElementById('dim').style.color = '#999'")
    tab.run(f"{axe}; 0")
    assert {one.partition(":")[0] for one in tab.wait(EVERYTHING)} == {"label", "color-contrast"}
    assert {one.partition(":")[0] for one in tab.wait(COLOURS)} == {"color-contrast"}
