"""Pictures of every kind of page of a site: light, dark, and as a phone shows them.

python -m tests.support.screenshots SITE OUT
"""

from __future__ import annotations

import sys
import tempfile
from base64 import b64decode
from pathlib import Path

from tests.support.devtools import Browser, chromium

LOOKS = {"light": (1280, False), "dark": (1280, True), "phone": (375, False)}
TALLEST = 4_000
"""Pixels of a page that a picture holds."""


def pages(site: Path) -> list[Path]:
    """Every page but the items' own, of which the first stands for all."""
    found = sorted(path for path in site.rglob("*.html") if not path.stem.isdigit())
    return [*found, *sorted(site.rglob("items/*1.html"))[:1]]


def photograph(browser: Browser, page: Path, out: Path, *, width: int, dark: bool) -> None:
    """Write one page as PNG, from its top."""
    tab = browser.open(page, width=width, dark=dark)
    height = min(int(tab.run("document.documentElement.scrollHeight")), TALLEST)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = tab.call("Page.captureScreenshot", {"format": "png", "clip": clip, "captureBeyondViewport": True})
    out.write_bytes(b64decode(shot["data"]))


def main(site: Path, out: Path) -> int:
    """Write ``<page>-<look>.png`` for every page and look; returns the exit code."""
    program = chromium()
    if program is None:
        sys.stderr.write("no Chromium on this machine (Debian: apt-get install chromium)\n")
        return 1
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, Path(profile))
        for page in pages(site.resolve()):
            name = "-".join(page.relative_to(site.resolve()).with_suffix("").parts)
            for look, (width, dark) in LOOKS.items():
                photograph(browser, page, out / f"{name}-{look}.png", width=width, dark=dark)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
