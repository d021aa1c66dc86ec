"""HTML of the labelling app's pages. Templates escape all text; invisible characters are made visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from layton_batch.annotate.forecast import Forecast
from layton_batch.runs.labels import LABEL, LabelActions
from layton_batch.scoring.judge_quality import AnnotatorAgreement
from layton_batch.scoring.label_plan import LabelForecast
from layton_batch.text import plural, visible

KEYS = (
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


def progress(latest: Forecast, actions: LabelActions, disputed: int, *, busy: bool) -> Mapping[str, object]:
    """Return the numbers and sentences of the progress display. None of them is about a single model or answer.

    ``disputed``: the number of answers on which people differ and that nobody has settled.
    """
    people = {name: sum(action.kind == LABEL for action in actions.active(name)) for name in actions.by_annotator}
    return {
        "labels": latest.labels,
        "left": latest.outlook.unlabelled,
        "now": _width(latest.outlook.now.mean),
        "enough": latest.outlook.enough.labels,
        "worth": _worth(latest.outlook),
        "agreement": agreement_line(latest.agreement),
        "disputed": disputed,
        "people": [f"{visible(name)}: {count}" for name, count in sorted(people.items())],
        "busy": busy,
    }


def _worth(outlook: LabelForecast) -> str:
    """Say how many further labels are worth giving, and what for."""
    now, enough = outlook.now, outlook.enough
    if not outlook.unlabelled:
        return "Every answer has a label."
    if not enough.labels:
        return "No further label is worth giving: only more items make intervals shorter."
    digits = 1 if round(now.mean, 1) > round(enough.mean, 1) else 2
    gain = f"intervals from {_width(now.mean, digits)} to {_width(enough.mean, digits)} on average"
    return f"{plural(enough.labels, 'more label')} worth giving: {gain}"


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
