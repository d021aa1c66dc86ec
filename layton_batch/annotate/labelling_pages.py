"""HTML of the labelling app's pages. Templates escape all text; invisible characters are made visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from layton_batch.annotate.forecast import Forecast
from layton_batch.runs.label_log import LABEL, LabelActions
from layton_batch.scoring.annotator_agreement import AnnotatorAgreement
from layton_batch.scoring.label_plan import ExpectedIntervals, LabelForecast
from layton_batch.text import plural, visible

KEYS = (
    ("1  2", "answer right, answer wrong"),
    ("3  4", "justification right, justification wrong"),
    ("y  n", "both right, both wrong"),
    ("Enter", "keep what is set, also where one of the two is left open"),
    ("u", "unsure: somebody else's"),
    ("s", "skip: it comes again at the end"),
    ("z", "undo the last one"),
    ("m", "write a note; Esc leaves it"),
    ("f", "flag the item: something is wrong with it"),
    ("h", "show or hide the hints"),
    ("?", "this help"),
)


@cache
def environment() -> Environment:
    """Return the templates' environment: it escapes all text and raises an error for an undefined name."""
    loaded = Environment(
        loader=PackageLoader("layton_batch.annotate"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    loaded.filters["visible"] = lambda text: visible(str(text).replace("\r\n", "\n"))
    loaded.globals["keys"] = KEYS
    return loaded


def render(template: str, **values: object) -> str:
    """Return a page as HTML."""
    return environment().get_template(template).render(**values)


@cache
def asset(name: str) -> bytes:
    """Read a style or script file of the app."""
    return (files("layton_batch.annotate") / "templates" / name).read_bytes()


def progress(latest: Forecast, actions: LabelActions, *, busy: bool) -> Mapping[str, object]:
    """Return the numbers and sentences of the progress display. None of them is about a single model or answer."""
    now, *later = latest.outlook.gains
    people = {name: sum(action.kind == LABEL for action in actions.active(name)) for name in actions.by_annotator}
    return {
        "labels": latest.labels,
        "left": latest.outlook.unlabelled,
        "now": _width(now.mean),
        "buys": [*(_bought(now, gain) for gain in later if gain.labels), *_enough(latest.outlook)],
        "enough": latest.outlook.enough.labels,
        "agreement": agreement_line(latest.agreement),
        "disputed": len(latest.disputed),
        "people": [f"{visible(name)}: {count}" for name, count in sorted(people.items())],
        "busy": busy,
    }


def _bought(now: ExpectedIntervals, then: ExpectedIntervals) -> str:
    """Describe the gain of further labels; use a second digit only if one digit does not show it."""
    digits = 1 if round(now.mean, 1) > round(then.mean, 1) else 2
    return f"{plural(then.labels, 'more label')}: {_width(now.mean, digits)} → {_width(then.mean, digits)}"


def _enough(outlook: LabelForecast) -> list[str]:
    if outlook.enough.labels <= outlook.gains[-1].labels:
        return []
    return [f"{_bought(outlook.gains[0], outlook.enough)}; after that only more items make intervals shorter"]


def _width(points: float, digits: int = 1) -> str:
    return f"±{points:.{digits}f}"


def agreement_line(agreement: AnnotatorAgreement | None) -> str:
    """Describe how far people agree, in one line; empty if no answer was labelled twice."""
    if agreement is None or agreement.kappa is None:
        return ""
    kappa = agreement.kappa
    sentence = f"{plural(kappa.rated, 'answer')} labelled twice or more, {kappa.agreement:.0%} alike"
    if kappa.value is None:
        return sentence
    interval = "" if kappa.lower is None or kappa.upper is None else f" ({kappa.lower:.2f} to {kappa.upper:.2f})"
    return f"{sentence}, κ {kappa.value:.2f}{interval}"


def flagged(actions: LabelActions) -> Sequence[tuple[str, str]]:
    """Return (item id, annotators with their notes) of each flagged item."""
    return [
        (item, "; ".join(f"{flag.annotator}: {flag.note}" if flag.note else flag.annotator for flag in flags))
        for item, flags in sorted(actions.flags().items())
    ]
