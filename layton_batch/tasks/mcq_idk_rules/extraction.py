"""From a reply to its letters, by protocol."""

from __future__ import annotations

from functools import lru_cache

from layton_batch.tasks.mcq_idk_rules.corrected import read_corrected
from layton_batch.tasks.mcq_idk_rules.letters import Reading
from layton_batch.tasks.mcq_idk_rules.original import read_original
from layton_batch.tasks.mcq_idk_rules.thoughts import after_thoughts, without_thoughts

ORIGINAL, CORRECTED = "original", "corrected"
PROTOCOLS = (CORRECTED, ORIGINAL)
"""``original``: evaluate-idk to the letter. ``corrected``, the default: the requested form wins, 2 to 25 options."""


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read_letters(text: str, protocol: str, n_options: int, *, cut: bool = False) -> Reading:
    """What a reply answers. ``cut``: it hit the output limit, which only the corrected protocol minds.

    The original knows no number of options: it reads A-E in prose and A-K in the requested forms, whatever was asked.
    """
    if protocol == ORIGINAL:
        return read_original(without_thoughts(text))
    return read_corrected(after_thoughts(text), n_options, cut=cut)
