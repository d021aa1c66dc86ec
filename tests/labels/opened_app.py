"""The labelling app beside a finished run, as a browser sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from layton_batch.annotate.labelling_app import App
from layton_batch.annotate.server import AppKeys, listening, serving
from layton_batch.annotate.session import AnswerKey, LabellingSession
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import read_run
from layton_batch.settings import Settings

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
ENTRY = AppKeys(PORT, token="the-token-of-this-start", csrf="the-word-in-every-form")


class Later(ThreadPoolExecutor):
    """An executor that begins no work before it is told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waiting: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append(lambda: future.set_result(work(*given, **named)))
        return future

    def work(self) -> None:
        """Do what waits."""
        while self.waiting:
            self.waiting.pop()()


@dataclass
class Opened:
    """``seen``: everything that was sent out, headers and all. ``later``: the forecasts that wait."""

    session: LabellingSession
    client: TestClient
    later: Later
    seen: list[str] = field(default_factory=list)

    def get(self, path: str = "/", **more: object) -> httpx.Response:
        return self._kept(self.client.get(path, **more))  # type: ignore[arg-type]

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form; one that names an answer says that it was seen as it is now."""
        key = self.session.answers.key_of(fields.get("id", ""))
        if key is not None:
            fields.setdefault("seen", self.session.answers.shown(key).seen)
        return self._kept(self.client.post(path, data={"csrf": ENTRY.csrf, **fields}, follow_redirects=False))

    def enter(self) -> httpx.Response:
        return self.get("/", params={"token": ENTRY.token})

    def form(self) -> dict[str, str]:
        """What the page's form says of the answer that is to be labelled."""
        found = dict(re.findall(r'name="(id|seen)" value="([^"]+)"', self.get().text))
        assert found, self.get().text
        return {name: unescape(text) for name, text in found.items()}

    def key(self, name: str) -> AnswerKey:
        """Return item, provider, model and hints of an answer by what the page calls it."""
        key = self.session.answers.key_of(name)
        assert key is not None
        return key

    def shown(self) -> str:
        """What the page calls the answer that is to be labelled."""
        return self.form()["id"]

    def label(self, answer: str = "right", justification: str = "right", **more: str) -> str:
        """Label what is shown; its name."""
        shown = self.shown()
        ended = self.post("/label", id=shown, answer=answer, justification=justification, **more)
        assert ended.status_code == 303, ended.text
        return shown

    def named(self, name: str) -> Opened:
        """Another person at the same app."""
        other = Opened(self.session, TestClient(self.client.app, base_url=ORIGIN), self.later, self.seen)
        other.enter()
        assert other.post("/name", annotator=name).status_code == 303
        return other

    def settle(self) -> None:
        """Have the newest forecast hold the newest labels."""
        self.later.work()

    def _kept(self, response: httpx.Response) -> httpx.Response:
        for one in (*response.history, response):
            self.seen.append(f"{one.url} {dict(one.headers)} {one.text}")
        return response


@contextmanager
def opened(root: Path, annotator: str = "ada", *, design: str = "planned", overlap: float = 0.0) -> Iterator[Opened]:
    """The app of a run, entered by its address. It makes new forecasts when it is told to settle."""
    with Later() as later, _session(root, later, design, overlap) as session:
        client = TestClient(App(session, ENTRY, annotator).asgi(), base_url=ORIGIN)
        found = Opened(session, client, later)
        found.enter()
        yield found


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The address of the app of a run on a port of its own, where ada labels."""
    with ThreadPoolExecutor(1) as executor, _session(root, executor) as session:
        at = listening(0)
        keys = AppKeys(at.getsockname()[1])
        with serving(App(session, keys, "ada").asgi(), at):
            yield keys.address


@contextmanager
def _session(
    root: Path, executor: Executor, design: str = "planned", overlap: float = 0.0
) -> Iterator[LabellingSession]:
    with (
        read_run(RunFolder(root), Settings.from_process()) as run,
        closing(LabellingSession(run, b"secret", executor, design, overlap)) as session,
    ):
        yield session
