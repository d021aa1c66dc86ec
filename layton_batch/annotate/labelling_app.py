"""The app's addresses and pages. What comes in is a form with a token; what goes out names no model and no verdict.

Templates escape all text; invisible characters are made visible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from urllib.parse import quote, unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from layton_batch.annotate.server import AppKeys, Guard, is_same
from layton_batch.annotate.session import LONGEST_NOTE, LabellingSession
from layton_batch.errors import LaytonBatchError
from layton_batch.runs.labels import LABEL, UNSURE
from layton_batch.runs.shown_items import hints, pictures, references
from layton_batch.scoring.annotations import AnswerKey
from layton_batch.scoring.judges_told import kappa_text
from layton_batch.scoring.label_plan import LabelForecast
from layton_batch.text import plural, visible

LONGEST_NAME = 60
_ASSETS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
_VERDICTS = {"right": True, "wrong": False, "": None}
_WORDS = {True: "right", False: "wrong", None: "no word"}
_KEYS = (
    ("1  2", "answer right, answer wrong"),
    ("3  4", "justification right, justification wrong"),
    ("y  n", "both right, both wrong"),
    ("Enter", "save what is set, and show the next answer"),
    ("u", "unsure: somebody else's"),
    ("s", "skip: it comes again at the end"),
    ("z", "undo the last one"),
    ("m", "write a note; Esc leaves it"),
    ("f", "flag the item: something is wrong with it"),
    ("h", "show or hide the hints"),
    ("g", "show or hide the guidelines"),
    ("?", "this help"),
)
Act = Callable[[str, FormData], Response]
"""Does what a form asks for, in the name of whoever labels; returns where the browser goes."""


@dataclass(eq=False)
class App:
    """The labelling app. ``annotator``: the name until a person enters another."""

    session: LabellingSession
    entry: AppKeys
    annotator: str = ""

    def asgi(self) -> Guard:
        """Return the whole app behind its guard."""
        session, on_answer = self.session, self._on_answer
        pages: Mapping[str, Callable[[Request], Response]] = {
            "/": self._home,
            "/progress": self._progress,
            "/adjudicate": self._disputes,
            "/name": self._who,
            "/progress.json": lambda _request: JSONResponse(self._numbers()),
            "/assets/{name}": _asset,
        }
        forms: Mapping[str, Act] = {
            "/label": on_answer(lambda name, key, form: session.label(name, key, *_marks(form), _note(form))),
            "/unsure": on_answer(lambda name, key, form: session.pass_over(name, key, _note(form), unsure=True)),
            "/skip": on_answer(lambda name, key, form: session.pass_over(name, key, _note(form), unsure=False)),
            "/flag": on_answer(lambda name, key, form: session.flag(name, key, _note(form))),
            "/adjudicate": on_answer(
                lambda name, key, form: session.label(name, key, *_marks(form), _note(form), adjudicated=True),
                "/adjudicate",
            ),
            "/undo": self._undo,
            "/name": self._named,
        }
        return Guard(
            Starlette(
                routes=[
                    *(Route(path, page) for path, page in pages.items()),
                    *(Route(path, self._form(act), methods=["POST"]) for path, act in forms.items()),
                ],
                exception_handlers={HTTPException: self._refusal, LaytonBatchError: self._refusal},
            ),
            self.entry,
        )

    def _refusal(self, _request: Request, error: Exception) -> Response:
        """Return the page of a refused request, or of an error of this program."""
        refusal = error if isinstance(error, HTTPException) else HTTPException(500, str(error))
        message, status = refusal.detail, refusal.status_code
        return HTMLResponse(_render("message.html", message=message, run=self.session.run.id), status)

    # ---- pages -------------------------------------------------------------------------------------------------------

    def _home(self, request: Request) -> Response:
        annotator = self._name(request)
        if not annotator:
            return self._who(request)
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

    def _progress(self, request: Request) -> Response:
        flags = sorted(self.session.actions().flags().items())
        return self._html("progress.html", self._name(request), here="progress", flags=flags)

    def _disputes(self, request: Request) -> Response:
        annotator = self._name(request)
        if not annotator:
            return RedirectResponse("/", 303)
        disputed = list(self.session.disputed().items())
        at = request.query_params.get("at", "0")
        place = int(at) % len(disputed) if disputed and at.isdecimal() and len(at) < 9 else 0
        key, people = disputed[place] if disputed else (None, ())
        return self._html(
            "adjudicate.html", annotator, here="adjudicate", place=place, count=len(disputed), people=people,
            words=_WORDS, shown=key and self.session.answers.shown(key),
        )  # fmt: skip

    def _who(self, request: Request) -> Response:
        return self._html("name.html", self._name(request), here="name", problem="")

    def _html(self, template: str, annotator: str, **values: object) -> Response:
        self.session.answers.check_items()
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
        return HTMLResponse(_render(template, **common, **values))

    def _numbers(self) -> Mapping[str, object]:
        """Return the numbers and sentences of the progress display. None of them is about a single model or answer."""
        latest, actions = self.session.forecast, self.session.actions()
        agreement = latest.agreement
        people = {name: sum(action.kind == LABEL for action in actions.active(name)) for name in actions.by_annotator}
        return {
            "labels": latest.labels,
            "left": latest.outlook.unlabelled,
            "now": _width(latest.outlook.half_width_now),
            "enough": latest.outlook.enough,
            "worth": _worth(latest.outlook),
            "unsure": actions.unsure_note() or "",
            "agreement": "" if agreement is None else kappa_text(agreement),
            "disputed": len(self.session.disputed()),
            "people": [f"{visible(name)}: {count}" for name, count in sorted(people.items())],
            "busy": self.session.forecaster.busy,
        }

    # ---- forms -------------------------------------------------------------------------------------------------------

    def _form(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form, name = await request.form(max_files=0), self._name(request)
            if not is_same(_text(form, "csrf"), self.entry.csrf):
                raise HTTPException(403, "This form is of an earlier start of the app: open its new address.")
            if not name and act != self._named:
                raise HTTPException(400, "Say first who labels.")
            return await run_in_threadpool(act, name, form)

        return answer

    def _on_answer(self, act: Callable[[str, AnswerKey, FormData], object], page: str = "/") -> Act:
        """Return an act on the answer that the form names, after which the browser goes to ``page``."""

        def checked(name: str, form: FormData) -> Response:
            key = self.session.answers.key_of(_text(form, "id"))
            if key is None:
                raise HTTPException(404, "There is no such answer.")
            self.session.answers.check_items()
            if self.session.answers.shown(key).seen != _text(form, "seen"):
                raise HTTPException(409, "The answer changed since this page was opened: open the page again.")
            act(name, key, form)
            return RedirectResponse(page, 303)

        return checked

    def _undo(self, name: str, _form: FormData) -> Response:
        undone = self.session.undo(name)
        return RedirectResponse("/adjudicate" if undone and undone.adjudicated else "/", 303)

    def _named(self, name: str, form: FormData) -> Response:
        annotator = " ".join(_text(form, "annotator").split())
        if not is_name(annotator):
            problem = f"A name has 1 to {LONGEST_NAME} characters that can be printed."
            return self._html("name.html", name, here="name", problem=problem)
        answer = RedirectResponse("/", 303)
        cookie = f"{self.entry.cookie}_name"
        answer.set_cookie(cookie, quote(annotator, safe=""), httponly=True, samesite="strict", path="/")
        return answer

    def _name(self, request: Request) -> str:
        name = unquote(request.cookies.get(f"{self.entry.cookie}_name", ""))
        return name if is_name(name) else self.annotator


def is_name(text: str) -> bool:
    """Return whether a text can be an annotator's name."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _marks(form: FormData) -> tuple[bool | None, bool | None]:
    """Return what the form says of answer and justification. None: the person left that part open."""
    words = _text(form, "answer"), _text(form, "justification")
    if any(word not in _VERDICTS for word in words):
        raise HTTPException(400, "A label is right or wrong.")
    if not any(words):
        raise HTTPException(400, "Say whether the answer or the justification is right or wrong.")
    return _VERDICTS[words[0]], _VERDICTS[words[1]]


def _note(form: FormData) -> str:
    # lone surrogates, which a form can carry, cannot be written
    return _text(form, "note").strip()[:LONGEST_NOTE].encode("utf-8", "replace").decode()


# ---- what pages are made of ------------------------------------------------------------------------------------------


@cache
def _environment() -> Environment:
    """Return the templates' environment: it escapes all text and raises an error for an undefined name."""
    loaded = Environment(
        loader=PackageLoader("layton_batch.annotate"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    loaded.filters["visible"] = lambda text: visible(str(text).replace("\r\n", "\n"))
    loaded.globals.update(keys=_KEYS, hints=hints, pictures=pictures, references=references)
    return loaded


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404, "There is no such file.")
    content = (files("layton_batch.annotate") / "templates" / name).read_bytes()
    return Response(content, media_type=_ASSETS[name])


def _worth(outlook: LabelForecast) -> str:
    """Say how many further labels are worth giving, and what for."""
    now, then = outlook.half_width_now, outlook.half_width_then
    if not outlook.unlabelled:
        return "Every answer has a label."
    if not outlook.enough:
        return "No further label is worth giving: only more items make intervals shorter."
    digits = 1 if round(now, 1) > round(then, 1) else 2
    gain = f"intervals from {_width(now, digits)} to {_width(then, digits)} on average"
    return f"{plural(outlook.enough, 'more label')} worth giving: {gain}"


def _width(points: float, digits: int = 1) -> str:
    return f"±{points:.{digits}f}"
