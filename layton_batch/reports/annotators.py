"""The people who labelled, beside each other."""

from __future__ import annotations

from layton_batch.reports.table import heading, say_line
from layton_batch.scoring.annotators import AnnotatorAgreement
from layton_batch.text import number_text, one_line, percent, plural, range_text


def print_annotators(found: AnnotatorAgreement | None) -> None:
    """Who labelled how much, and how far they agree; nothing where no annotation is beside an answer."""
    if found is None:
        return
    heading("Annotators")
    who = ", ".join(f"{one_line(name) or '(no name)'} {count}" for name, count in found.labels.items())
    say_line(f"labels: {who}")
    several = plural(found.several, "answer")
    say_line(f"{several} with several labels, {plural(found.ties, 'tie')} (an answer with a tie has no label)")
    if (kappa := found.kappa) is None:
        return
    interval = "" if kappa.lower is None else f", {percent(found.level)} CI {range_text(kappa.lower, kappa.upper, 2)}"
    say_line(
        f"they agree on {100 * kappa.agreement:.1f} %; {kappa.name}'s kappa {number_text(kappa.value, 2)}{interval}"
    )
