"""The app's addresses. What comes in is a form with a token; what goes out names no model and no verdict."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from layton_batch.annotate import labelling_pages
from layton_batch.annotate.guard import AppKeys, Guard
from layton_batch.annotate.session import LONGEST_NOTE, Label, LabellingSession
from layton_batch.errors import LaytonBatchError
from layton_batch.reports.label_sheet import Key
from layton_batch.runs.labels import UNSURE, LabelAction
from layton_batch.scoring.annotations import Annotation

LONGEST_NAME = 60
_ASSETS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
_VERDICTS = {"right": True, "wrong": False, "": None}
Act = Callable[[str, Key, FormData], object]


class _RefusedError(Exception):
    """A form that the app refuses. ``status``: the HTTP code."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False)
class App:
    """The labelling app. ``annotator``: the name until a person enters another."""

    session: LabellingSession
    entry: AppKeys
    annotator: str = ""

    def asgi(self) -> Guard:
        """Return the whole app behind its guard."""
        session = self.session
        changing: Mapping[str, Act] = {
            "/label": lambda name, key, form: session.label(name, key, _form_label(form), _note(form)),
            "/unsure": lambda name, key, form: session.pass_over(name, key, _note(form), unsure=True),
            "/skip": lambda name, key, form: session.pass_over(name, key, _note(form), unsure=False),
            "/flag": lambda name, key, form: session.flag(name, key, _note(form)),
            "/adjudicate": lambda name, key, form: session.label(
                name, key, _form_label(form), _note(form), adjudicated=True
            ),
        }
        routes = [
            Route("/", self._page(self._home), methods=["GET"]),
            Route("/progress", self._page(self._progress), methods=["GET"]),
            Route("/adjudicate", self._page(self._disputes), methods=["GET"]),
            Route("/name", self._page(self._who), methods=["GET"]),
            Route("/progress.json", self._json, methods=["GET"]),
            Route("/assets/{name}", self._asset, methods=["GET"]),
            *(Route(path, self._form(act), methods=["POST"]) for path, act in changing.items()),
            Route("/undo", self._undo, methods=["POST"]),
            Route("/name", self._named, methods=["POST"]),
        ]
        return Guard(Starlette(routes=routes), self.entry)

    # ---- pages -------------------------------------------------------------------------------------------------------

    def _page(self, show: Callable[[Request, str], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                self.session.answers.check_items()
                return await run_in_threadpool(show, request, self._name(request))
            except LaytonBatchError as error:
                return self._said(str(error), 500)

        return answer

    def _home(self, _request: Request, annotator: str) -> Response:
        if not annotator:
            return self._who(_request, annotator)
        key = self.session.current(annotator)
        if key is None:
            return self._html("done.html", annotator, here="label")
        given = self.session.given(annotator, key)
        return self._html(
            "label.html", annotator, here="label",
            shown=self.session.answers.shown(key),
            given=given.label if given else None,
            note=given.note if given else "",
            was_unsure=given is not None and given.kind == UNSURE,
            flagged=self.session.flagged(annotator, key[0]),
        )  # fmt: skip

    def _progress(self, _request: Request, annotator: str) -> Response:
        return self._html(
            "progress.html", annotator, here="progress", flags=labelling_pages.flagged(self.session.actions())
        )

    def _disputes(self, request: Request, annotator: str) -> Response:
        if not annotator:
            return RedirectResponse("/", 303)
        disputed = list(self.session.disputed().items())
        at = request.query_params.get("at", "0")
        place = int(at) % len(disputed) if disputed and at.isdecimal() and len(at) < 9 else 0
        first = disputed[place] if disputed else None
        shown = self.session.answers.shown(first[0]) if first else None
        people = [_word(annotation) for annotation in first[1]] if first else []
        return self._html("adjudicate.html", annotator, here="adjudicate", shown=shown, people=people, place=place,
                          count=len(disputed))  # fmt: skip

    def _who(self, _request: Request, annotator: str) -> Response:
        return self._html("name.html", annotator, here="name", problem="")

    async def _json(self, _request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._numbers))

    def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        return Response(labelling_pages.asset(name), media_type=_ASSETS[name])

    def _html(self, template: str, annotator: str, **values: object) -> Response:
        common = {
            "run": self.session.run.id,
            "annotator": annotator,
            "done": self.session.done(annotator),
            "csrf": self.entry.csrf,
            "progress": self._numbers(),
            "trouble": self.session.forecaster.trouble,
            "guidelines": self.session.guidelines,
            "is_justified": "justification_correct" in self.session.run.task.metrics,
        }
        return HTMLResponse(labelling_pages.render(template, **common, **values))

    def _numbers(self) -> dict[str, object]:
        latest = self.session.forecast
        disputed, busy = len(self.session.disputed()), self.session.forecaster.busy
        return dict(labelling_pages.progress(latest, self.session.actions(), disputed, busy=busy))

    def _said(self, message: str, status: int) -> Response:
        return HTMLResponse(labelling_pages.render("message.html", message=message, run=self.session.run.id), status)

    # ---- forms -------------------------------------------------------------------------------------------------------

    def _form(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            def checked(name: str, form: FormData) -> object:
                key = self._key(form)
                self.session.answers.check_items()
                if self.session.answers.shown(key).seen != _text(form, "seen"):
                    raise _RefusedError("The answer changed since this page was opened: open the page again.", 409)
                return act(name, key, form)

            return await self._done(request, checked)

        return answer

    async def _undo(self, request: Request) -> Response:
        return await self._done(request, lambda name, _form: self.session.undo(name))

    async def _named(self, request: Request) -> Response:
        form = await request.form()
        try:
            self._check(form, "whoever they are")
        except _RefusedError as error:
            return self._said(str(error), error.status)
        name = " ".join(_text(form, "annotator").split())
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            problem = f"A name has 1 to {LONGEST_NAME} characters that can be printed."
            return self._html("name.html", self._name(request), here="name", problem=problem)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(f"{self.entry.cookie}_name", quote(name, safe=""), httponly=True, samesite="strict", path="/")
        return answer

    async def _done(self, request: Request, act: Callable[[str, FormData], object]) -> Response:
        form, name = await request.form(max_files=0), self._name(request)
        try:
            self._check(form, name)
            result = await run_in_threadpool(act, name, form)
        except _RefusedError as error:
            return self._said(str(error), error.status)
        except LaytonBatchError as error:
            return self._said(str(error), 500)
        settled = request.url.path == "/adjudicate" or (isinstance(result, LabelAction) and result.adjudicated)
        return RedirectResponse("/adjudicate" if settled else "/", 303)

    def _check(self, form: FormData, name: str) -> None:
        if not hmac.compare_digest(_text(form, "csrf").encode(), self.entry.csrf.encode()):
            raise _RefusedError("This form is of an earlier start of the app: open its new address.", 403)
        if not name:
            raise _RefusedError("Say first who labels.")

    def _key(self, form: FormData) -> Key:
        key = self.session.answers.key_of(_text(form, "id"))
        if key is None:
            raise _RefusedError("There is no such answer.", 404)
        return key

    def _name(self, request: Request) -> str:
        name = unquote(request.cookies.get(f"{self.entry.cookie}_name", ""))
        return name if name and name.isprintable() and len(name) <= LONGEST_NAME else self.annotator


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _form_label(form: FormData) -> Label:
    words = [_text(form, name) for name in ("answer", "justification")]
    if any(word not in _VERDICTS for word in words):
        raise _RefusedError("A label is right or wrong.")
    label = Label(*(_VERDICTS[word] for word in words))
    if label == Label(None, None):
        raise _RefusedError("Say whether the answer or the justification is right or wrong.")
    return label


def _note(form: FormData) -> str:
    # lone surrogates, which a form can carry, cannot be written
    return _text(form, "note").strip()[:LONGEST_NOTE].encode("utf-8", "replace").decode()


def _word(annotation: Annotation) -> tuple[str, str, str, str]:
    spoken = {True: "right", False: "wrong", None: "no word"}
    return (
        annotation.annotator or "no name",
        spoken[annotation.answer_correct],
        spoken[annotation.justification_correct],
        annotation.note,
    )
