"""Who may talk to the labelling app, and what of all that others wrote is ever run: nobody else, and nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
from starlette.testclient import TestClient

from layton_batch.annotate.server import POLICY
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, note_as_written
from tests.labels.opened_app import ENTRY, ORIGIN, Opened, opened
from tests.labels.payloads import PAYLOADS

PAGES = ("/", "/progress", "/adjudicate", "/name", "/progress.json", "/assets/annotate.css", "/assets/annotate.js")
FORMS = ("/label", "/unsure", "/skip", "/undo", "/flag", "/adjudicate", "/name")


def stranger(app: Opened) -> TestClient:
    return TestClient(app.client.app, base_url=ORIGIN, follow_redirects=False)


def fields(app: Opened) -> dict[str, str]:
    return {"csrf": ENTRY.csrf, "id": app.shown(), "answer": "right", "justification": "right", "annotator": "eve"}


def nothing_was_done(app: Opened) -> bool:
    return not [*app.session.run.folder.labels.glob("annotate-*")]


def test_no_page_opens_without_the_token(untouched: Opened) -> None:
    for path in PAGES:
        for query in ("", "?token=", "?token=wrong", f"?token={ENTRY.token[:-1]}"):
            answer = stranger(untouched).get(path + query)
            assert (answer.status_code, answer.text.count("\n")) == (403, 1)
        assert untouched.get(path).status_code == 200


def test_the_token_leaves_the_address_for_a_cookie_that_scripts_and_other_sites_do_not_get(untouched: Opened) -> None:
    answer = stranger(untouched).get(f"/?token={ENTRY.token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict"))
    assert str(ENTRY.port) in cookie.partition("=")[0]
    assert ENTRY.token not in untouched.get("/").text


FOREIGN = (
    {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
)  # fmt: skip
"""Headers of a browser that shows another page."""


def test_no_form_is_taken_without_its_word_or_from_another_page(untouched: Opened) -> None:
    given, post = fields(untouched), untouched.client.post
    wordless = {name: value for name, value in given.items() if name != "csrf"}
    for path in FORMS:
        refused = [
            *(post(path, data=wordless | word) for word in ({}, *({"csrf": w} for w in ("", "wrong", ENTRY.token)))),
            *(post(path, data=given, headers=headers) for headers in FOREIGN),
            stranger(untouched).post(path, data=given),
        ]
        assert {answer.status_code for answer in refused} == {403}
        assert post(path, content=b"x" * 200_000, headers={"x": "y"}).status_code == 413
        assert nothing_was_done(untouched), path


def test_a_name_that_leads_here_from_elsewhere_is_refused(untouched: Opened) -> None:
    for host in ("evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:8765", ""):
        for path in (*PAGES, f"/?token={ENTRY.token}"):
            assert untouched.client.get(path, headers={"host": host}).status_code == 421
    assert untouched.client.get("/", headers={"host": "localhost:8765"}).status_code in (200, 403)


def test_other_methods_unknown_pages_and_answers_and_nonsense_are_refused(untouched: Opened) -> None:
    given = fields(untouched)
    assert untouched.client.delete("/").status_code == 405
    for path in ("/nothing", "/assets/base.html", "/assets/../app.py"):
        assert untouched.get(path).status_code == 404
    for changes, status in (
        ({"id": "nobody"}, 404), ({"answer": "perhaps"}, 400), ({"answer": "", "justification": ""}, 400),
        ({"seen": "i0"}, 409),  # the item changed since the page was opened
    ):  # fmt: skip
        assert untouched.post("/label", **(given | changes)).status_code == status
    for name in ("x" * 61, "a\x00b"):
        assert untouched.post("/name", annotator=name).status_code == 200
    assert nothing_was_done(untouched)


def test_every_answer_carries_the_policy_and_is_not_kept_by_the_browser(untouched: Opened) -> None:
    answers = [untouched.get(path) for path in PAGES]
    for answer in (*answers, stranger(untouched).get("/"), untouched.post("/label")):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert not any(word in POLICY for word in ("unsafe", "http"))


def skeleton(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return each tag of a page with the names of its attributes."""
    found: list[tuple[str, tuple[str, ...]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, tuple(name for name, _ in attributes)))  # type: ignore[method-assign]
    parser.feed(text)
    return found


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
    root, paths = copied(ANNOTATED), ("/", "/progress", "/adjudicate")
    tame: list[object] = []
    with opened(root, overlap=1.0) as app:
        bob, shown = app.named("bob"), app.shown()
        for start in (None, *range(0, len(PAYLOADS), 80)):
            words = "plain" if start is None else "\n".join(PAYLOADS[start : start + 80])
            say_everywhere(root, words)
            app.session.answers.read_items()
            app.post("/label", id=shown, answer="right", justification="right", note=words)
            bob.post("/label", id=shown, answer="wrong", justification="wrong", note=words)
            for _ in range(1 if start is None else 2):
                app.post("/flag", id=shown, note=words)
            app.settle()
            assert app.session.forecaster.trouble == ""
            pages = [bob.get(path).text for path in paths]
            tame = tame or [skeleton(page) for page in pages]
            assert [skeleton(page) for page in pages] == tame, words
            assert not any(re.search(r"<script(?! src=\"/assets/annotate.js\" defer>)", page) for page in pages)
