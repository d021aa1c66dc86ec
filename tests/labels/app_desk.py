"""The labelling app beside a finished run, as a browser sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

import httpx
from starlette.testclient import TestClient

from layton_batch.annotate.guard import AppKeys
from layton_batch.annotate.labelling_app import App
from layton_batch.annotate.session import LabellingSession
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import read_run
from layton_batch.settings import Settings

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
ENTRY = AppKeys(PORT, token="the-token-of-this-start", csrf="the-word-in-every-form")


@dataclass
class Opened:
    """``seen``: everything that was sent out, headers and all."""

    session: LabellingSession
    client: TestClient
    seen: list[str] = field(default_factory=list)

    def get(self, path: str = "/", **more: object) -> httpx.Response:
        return self._kept(self.client.get(path, **more))  # type: ignore[arg-type]

    def post(self, path: str, **fields: str) -> httpx.Response:
        return self._kept(self.client.post(path, data={"csrf": ENTRY.csrf, **fields}, follow_redirects=False))

    def enter(self) -> httpx.Response:
        return self.get("/", params={"token": ENTRY.token})

    def shown(self) -> str:
        """What the page calls the answer that is to be labelled."""
        found = re.search(r'name="id" value="([^"]+)"', self.get().text)
        assert found is not None, self.get().text
        return unescape(found[1])

    def label(self, answer: str = "right", justification: str = "right", **more: str) -> str:
        """Label what is shown; its name."""
        shown = self.shown()
        ended = self.post("/label", id=shown, answer=answer, justification=justification, **more)
        assert ended.status_code == 303, ended.text
        return shown

    def named(self, name: str) -> Opened:
        """Another person at the same app."""
        other = Opened(self.session, TestClient(self.client.app, base_url=ORIGIN), self.seen)
        other.enter()
        assert other.post("/name", annotator=name).status_code == 303
        return other

    def settle(self) -> None:
        self.session.forecaster.settle()

    def _kept(self, response: httpx.Response) -> httpx.Response:
        for one in (*response.history, response):
            self.seen.append(f"{one.url} {dict(one.headers)} {one.text}")
        return response


@contextmanager
def opened(
    root: Path,
    annotator: str = "ada",
    *,
    design: str = "planned",
    overlap: float = 0.0,
    readonly: bool = False,
    executor: Executor | None = None,
) -> Iterator[Opened]:
    """The app of a run, entered by its address."""
    settings = Settings.from_process()
    with read_run(RunFolder(root), settings) as run, ThreadPoolExecutor(1) as own:
        session = LabellingSession(run, b"secret", executor or own, design, overlap)
        found = Opened(session, TestClient(App(session, ENTRY, annotator, readonly).asgi(), base_url=ORIGIN))
        found.enter()
        with closing(session):
            yield found
        session.forecaster.settle()
