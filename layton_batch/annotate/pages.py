"""From what is known to HTML: escaped by the templates, unseen characters made visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from layton_batch.annotate.forecast import Forecast
from layton_batch.runs.label_log import LABEL, Deeds
from layton_batch.scoring.annotators import AnnotatorAgreement
from layton_batch.scoring.label_plan import Gain, Outlook
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
    """Templates with escaping on and an error for every name that is not given."""
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
    """A page."""
    return environment().get_template(template).render(**values)


@cache
def asset(name: str) -> bytes:
    """One of our own files."""
    return (files("layton_batch.annotate") / "templates" / name).read_bytes()


def progress(latest: Forecast, deeds: Deeds, *, busy: bool) -> Mapping[str, object]:
    """What pages show while they are open, in sentences; nothing of it is about one model or one answer."""
    now, *later = latest.outlook.gains
    people = {name: sum(deed.kind == LABEL for deed in deeds.standing(name)) for name in deeds.by_annotator}
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


def _bought(now: Gain, then: Gain) -> str:
    """A second digit only where the first does not show the difference."""
    digits = 1 if round(now.mean, 1) > round(then.mean, 1) else 2
    return f"{plural(then.labels, 'more label')}: {_width(now.mean, digits)} → {_width(then.mean, digits)}"


def _enough(outlook: Outlook) -> list[str]:
    if outlook.enough.labels <= outlook.gains[-1].labels:
        return []
    return [f"{_bought(outlook.gains[0], outlook.enough)}; after that only more items make intervals shorter"]


def _width(points: float, digits: int = 1) -> str:
    return f"±{points:.{digits}f}"


def agreement_line(found: AnnotatorAgreement | None) -> str:
    """How far people agree, in one line; empty where nothing was labelled twice."""
    if found is None or found.kappa is None:
        return ""
    kappa = found.kappa
    said = f"{plural(kappa.rated, 'answer')} labelled twice or more, {kappa.agreement:.0%} alike"
    if kappa.value is None:
        return said
    interval = "" if kappa.lower is None or kappa.upper is None else f" ({kappa.lower:.2f} to {kappa.upper:.2f})"
    return f"{said}, κ {kappa.value:.2f}{interval}"


def flagged(deeds: Deeds) -> Sequence[tuple[str, str]]:
    """Items that somebody flagged, each with who did and their words."""
    return [
        (item, "; ".join(f"{one.annotator}: {one.note}" if one.note else one.annotator for one in flags))
        for item, flags in sorted(deeds.flags().items())
    ]
