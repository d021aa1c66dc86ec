"""Corrected extraction: the form that the prompt asks for decides, for any number of options."""

from __future__ import annotations

import re
from functools import cache

from layton_batch.tasks.mcq_idk_rules.mcq_items import idk_letter, option_letters

_END = r"(?=[)\]}.:*_`$](?!\w)|[ \t]*$)"
"""End of a letter: a closing mark or the end of its line. "Answer: A company" and "Answer: A or B" name no letter."""


def read_corrected(text: str, n_options: int) -> str | None:
    r"""Read the letter of a reply without its thoughts.

    The last ``###X###`` decides; without any, the last "Answer: X", "answer is X" or ``\boxed{X}``.
    """
    for form in _forms(n_options):
        if letters := form.findall(text):
            return str(letters[-1])
    return None


@cache
def _forms(n_options: int) -> tuple[re.Pattern[str], ...]:
    letter = f"([{option_letters(n_options)}{idk_letter(n_options)}])"
    return (
        re.compile(f"###{letter}###"),
        re.compile(rf"(?:(?i:answer(?:\s+is)?)|\\boxed)\W{{1,12}}{letter}{_END}", re.MULTILINE),
    )
