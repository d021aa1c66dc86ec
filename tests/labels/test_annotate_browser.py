"""The labelling app in a real browser, by keys alone, its server killed in between; what others wrote never runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.labels import read_label_actions
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, board
from tests.labels.opened_app import served
from tests.labels.payloads import PAYLOADS
from tests.labels.test_annotate_guard import say_everywhere
from tests.support.cli_harness import start
from tests.support.devtools import Browser, Tab

ID = "document.querySelector('[name=id]').value"


@contextmanager
def served_apart(folder: Path, run: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The app in a process of its own, where ada labels, and its address."""
    process = start(
        "label", run, "--annotator", "ada", cwd=folder, env={"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
        assert found is not None, line + process.stderr.read()
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@dataclass
class Page:
    """One tab at the app. ``addresses``, ``complaints``: of all pages it showed."""

    tab: Tab
    addresses: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, address: str) -> None:
        self.after(lambda: self.tab.call("Page.navigate", {"url": address}))

    def after(self, action: Callable[[], object]) -> None:
        """Do something that leads to another page, and wait for that."""
        self.look()
        self.tab.browser.events.clear()
        action()
        self.tab.browser.wait_for("Page.loadEventFired", self.tab.session)
        self.look()

    def look(self) -> None:
        self.complaints += self.tab.trouble()
        self.addresses += self.tab.requests()

    def leave_by(self, key: str) -> None:
        """A key that leads to another page."""
        self.after(lambda: self.tab.press(key))

    def id(self) -> str:
        found: str = self.tab.run(ID)
        return found

    def overflows(self) -> bool:
        found: bool = self.tab.run("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        return found


def page_of(browser: Browser, folder: Path, address: str, *, width: int = 1280, dark: bool = False) -> Page:
    blank = folder / "blank.html"
    blank.write_text("<!doctype html><title>blank</title>", encoding="utf-8")
    page = Page(browser.open(blank, width=width, dark=dark))
    page.tab.browser.events.clear()
    page.go(address)
    return page


def label_by_keys(page: Page, keys: str, labels: int) -> None:
    for number in range(labels):
        key = keys[number % len(keys)]
        if key in "yn":
            page.leave_by(key)
        else:
            page.tab.press("1")
            page.leave_by("4")


def half_widths(root: Path) -> float:
    """Of this set, the sum over all models."""
    return sum(row["half_width"] for row in board(root, "--this-set"))


def test_labels_by_keys_survive_a_kill_and_shorten_the_next_board_s_intervals(
    browser: Browser, copied: Copied, tmp_path: Path
) -> None:
    root = copied(ANNOTATED)
    with served_apart(tmp_path, root.name) as (process, address):
        page = page_of(browser, tmp_path, address)
        assert "token" not in page.tab.run("location.href")
        label_by_keys(page, "yyy4", 6)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
    first = half_widths(root)
    with served(root) as other_address:
        other = page_of(browser, tmp_path, other_address)
        label_by_keys(other, "yyy4", 10)
    for seen, own in ((page, address), (other, other_address)):
        assert seen.complaints == []
        assert {one.split("/")[2] for one in seen.addresses if one.startswith("http")} == {own.split("/")[2]}
        assert all(one.startswith(("http://127.0.0.1:", "data:")) for one in seen.addresses)
    actions = read_label_actions(RunFolder(root))
    assert sum(1 for _ in actions.labels()) == 16
    assert not actions.passed_over
    assert half_widths(root) < first


def test_every_key_does_what_the_help_says_and_pages_fit_a_phone(
    browser: Browser, copied: Copied, tmp_path: Path
) -> None:
    root = copied(ANNOTATED)
    folder = RunFolder(root)
    with served(root) as address:
        page = page_of(browser, tmp_path, address)
        page.tab.press("?")
        assert page.tab.run("document.querySelector('#help').open")
        page.tab.press("?")
        assert not page.tab.run("document.querySelector('#help').open")
        page.tab.press("h")
        assert page.tab.run("document.querySelector('.hints').open")
        page.tab.press("m")
        for letter in "you s1":
            page.tab.press(letter)
        page.tab.press("Escape")
        assert page.tab.run("document.querySelector('textarea').value") == "you s1"
        first = page.id()
        page.tab.press("2")
        page.leave_by("Enter")
        assert [(one.answer_correct, one.note) for one in read_label_actions(folder).labels()] == [(False, "you s1")]
        page.leave_by("z")
        assert page.id() == first
        assert list(read_label_actions(folder).labels()) == []
        page.leave_by("f")
        assert page.id() == first
        assert read_label_actions(folder).flags()
        page.leave_by("u")
        page.leave_by("s")
        kinds = [action.kind for action in read_label_actions(folder).by_annotator["ada"]]
        assert kinds == ["label", "undo", "flag", "unsure", "skip"]
        assert page.complaints == []
        for path in ("", "progress", "adjudicate", "name"):
            narrow = page_of(browser, tmp_path, address, width=375)
            narrow.go(address.partition("?")[0] + path)
            assert not narrow.overflows(), path


def test_no_attack_in_any_text_runs(browser: Browser, copied: Copied, tmp_path: Path) -> None:
    root = copied(ANNOTATED)
    say_everywhere(root, "\n".join(PAYLOADS))
    with served(root) as address:
        page = page_of(browser, tmp_path, address)
        assert page.tab.run(f"document.body.textContent.includes({json.dumps(PAYLOADS[-1])})")
        page.tab.run(
            "document.querySelectorAll('*').forEach((one) => one.click && one.matches('.text *') && one.click())"
        )
        assert page.tab.run("typeof window.attacked") == "undefined"
        assert page.tab.run("document.querySelectorAll('.text *:not(em)').length") == 0
        page.go(address.partition("?")[0] + "progress")
        assert page.tab.run("typeof window.attacked") == "undefined"
        assert page.complaints == []
