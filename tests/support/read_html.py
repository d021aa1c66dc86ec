"""A page taken apart: tags in order, attributes, text and the content of scripts and styles."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path


@dataclass(slots=True)
class Page:
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    text: str = ""
    scripts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def values(self, *names: str) -> list[str]:
        return [value for _, name, value in self.attributes if name in names]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append(tag)
        self.page.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside.append(tag)
        if tag in ("script", "style"):
            getattr(self.page, f"{tag}s").append("")

    def handle_endtag(self, tag: str) -> None:
        self.page.tags.append(f"/{tag}")
        self._inside.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        last = self._inside[-1] if self._inside else ""
        if last in ("script", "style"):
            getattr(self.page, f"{last}s")[-1] += data
        else:
            self.page.text += f" {data}"


def read_page(path: Path) -> Page:
    parser = _Parser()
    parser.feed(path.read_text("utf-8"))
    parser.close()
    return parser.page


def words(page: Page) -> str:
    """The text of a page with single blanks."""
    return " ".join(page.text.split())


def pages(site: Path) -> dict[str, Page]:
    """Every page of a site by its path within it."""
    return {str(path.relative_to(site)): read_page(path) for path in sorted(site.rglob("*.html"))}
