"""Who may talk to the labelling app, and what of all that others wrote is ever run: nobody else, and nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
from starlette.testclient import TestClient

from layton_batch.annotate.guard import POLICY
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.labels import read_label_actions
from tests.labels.app_desk import ENTRY, ORIGIN, Opened, opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, note_as_written
from tests.labels.payloads import PAYLOADS

PAGES = ("/", "/progress", "/adjudicate", "/name", "/progress.json", "/assets/annotate.css", "/assets/annotate.js")
FORMS = ("/label", "/unsure", "/skip", "/undo", "/flag", "/adjudicate", "/name")


def stranger(app: Opened) -> TestClient:
    return TestClient(app.client.app, base_url=ORIGIN, follow_redirects=False)


def fields(app: Opened) -> dict[str, str]:
    return {"csrf": ENTRY.csrf, "id": app.shown(), "answer": "right", "justification": "right", "annotator": "eve"}


def nothing_was_done(root: Path) -> bool:
    return not read_label_actions(RunFolder(root)).by_annotator


def test_no_page_opens_without_the_token(copied: Copied) -> None:
    with opened(copied(PLAIN)) as app:
        for path in PAGES:
            for query in ("", "?token=", "?token=wrong", f"?token={ENTRY.token[:-1]}"):
                answer = stranger(app).get(path + query)
                assert answer.status_code == 403
                assert answer.text.count("\n") == 1
            assert app.get(path).status_code == 200


def test_the_token_leaves_the_address_for_a_cookie_that_scripts_and_other_sites_do_not_get(copied: Copied) -> None:
    with opened(copied(PLAIN)) as app:
        answer = stranger(app).get(f"/?token={ENTRY.token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert str(ENTRY.port) in cookie.partition("=")[0]
        assert ENTRY.token not in app.get("/").text


FOREIGN = (
    {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
)  # fmt: skip
"""Headers of a browser that shows another page."""


def test_no_form_is_taken_without_its_word_or_from_another_page(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        given = fields(app)
        for path in FORMS:
            for word in ("", "wrong", ENTRY.token):
                assert app.client.post(path, data=given | {"csrf": word}).status_code == 403
            assert app.client.post(path, data={k: v for k, v in given.items() if k != "csrf"}).status_code == 403
            assert stranger(app).post(path, data=given).status_code == 403
            for headers in FOREIGN:
                assert app.client.post(path, data=given, headers=headers).status_code == 403
            assert app.client.post(path, content=b"x" * 200_000, headers={"x": "y"}).status_code == 413
            assert app.client.get(path.replace("/label", "/unsure")).status_code in (200, 405)
            assert nothing_was_done(root), path


def test_a_name_that_leads_here_from_elsewhere_is_refused(copied: Copied) -> None:
    with opened(copied(PLAIN)) as app:
        for host in ("evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:8765", ""):
            for path in PAGES:
                answer = app.client.get(path, headers={"host": host})
                assert answer.status_code == 421
            assert app.client.get("/", params={"token": ENTRY.token}, headers={"host": host}).status_code == 421
        assert app.client.get("/", headers={"host": "localhost:8765"}).status_code in (200, 403)


def test_other_methods_unknown_pages_and_answers_and_nonsense_are_refused(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        assert app.client.delete("/").status_code == 405
        assert app.get("/nothing").status_code == 404
        assert app.get("/assets/base.html").status_code == 404
        assert app.get("/assets/../app.py").status_code == 404
        given = fields(app)
        assert app.post("/label", **(given | {"id": "nobody"})).status_code == 404
        assert app.post("/label", **(given | {"answer": "perhaps"})).status_code == 400
        assert app.post("/label", **(given | {"answer": "", "justification": ""})).status_code == 400
        assert app.post("/name", annotator="x" * 61).status_code == 200
        assert app.post("/name", annotator="a\x00b").status_code == 200
        assert nothing_was_done(root)


def test_every_answer_carries_the_policy_and_is_not_kept_by_the_browser(copied: Copied) -> None:
    with opened(copied(PLAIN)) as app:
        answers = [app.get(path) for path in PAGES] + [stranger(app).get("/"), app.post("/label")]
        for answer in answers:
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
        assert "unsafe" not in POLICY
        assert "http" not in POLICY


class _Skeleton(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attributes)))


def skeleton(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return _Skeleton(text).tags


def say_everywhere(root: Path, words: str) -> None:
    """Put words into every text that an item or a model brings."""
    folder = RunFolder(root)
    items = folder.part("items", "items")
    frame = pl.read_parquet(items)
    texts = ("category", "question", "answer", "justification", "solution")
    hints = pl.lit([words, words], dtype=pl.List(pl.String))
    tables.write(items, frame.with_columns(*(pl.lit(words).alias(name) for name in texts), hints=hints))
    note_as_written(root, items)
    for path in (folder.tables / "predictions").glob("*.parquet"):
        frame = pl.read_parquet(path)
        kept = pl.when(pl.col("kind") == "answered").then(pl.lit(words)).otherwise(None)
        tables.write(path, frame.with_columns(answer=kept, justification=kept), tables.made_from(path))


def test_two_hundred_attacks_in_every_text_change_no_page(copied: Copied) -> None:
    assert len(set(PAYLOADS)) >= 200
    root = copied(PLAIN)
    with opened(root, overlap=1.0) as app:
        say_everywhere(root, "plain")
        app.session.answers.read_items()
        bob = app.named("bob")
        shown = app.label(note="plain")
        bob.post("/label", id=shown, answer="wrong", justification="wrong", note="plain")
        app.post("/flag", id=shown, note="plain")
        app.settle()
        paths = ("/", "/progress", "/adjudicate")
        tame = {path: skeleton(bob.get(path).text) for path in paths}
        for start in range(0, len(PAYLOADS), 80):
            words = "\n".join(PAYLOADS[start : start + 80])
            say_everywhere(root, words)
            app.session.answers.read_items()
            app.post("/label", id=shown, answer="right", justification="right", note=words)
            bob.post("/label", id=shown, answer="wrong", justification="wrong", note=words)
            for _ in range(2):
                app.post("/flag", id=shown, note=words)
            app.settle()
            for path in paths:
                page = bob.get(path).text
                assert app.session.forecaster.trouble == ""
                assert skeleton(page) == tame[path], (path, words)
                assert not re.search(r"<script(?! src=\"/assets/annotate.js\" defer>)", page)
        app.settle()
