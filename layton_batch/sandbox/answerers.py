"""Who answers in the sandbox: made-up models by default, recorded ones where recordings are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.sandbox.item_files import load_items
from layton_batch.sandbox.questions import Answerer
from layton_batch.sandbox.replay import ReplayAnswerer
from layton_batch.sandbox.simulate import SimulateAnswerer


def default_answerer(seed: int = 0) -> Answerer:
    """Simulated models that know no riddle: plausible replies to whatever is asked."""
    return SimulateAnswerer((), seed)


def answerer_from_files(replay: Sequence[Path] = (), items: Sequence[Path] = (), seed: int = 0) -> Answerer:
    """A replay of the recordings if any are given, else simulated models that know the items.

    With recordings nothing is ever made up: a question they do not answer raises NotRecorded. Raises UnreadableRows
    for a file that is not in a form either of them reads.
    """
    if replay:
        return ReplayAnswerer(replay)
    known = load_items(items)
    return SimulateAnswerer(known.riddles, seed, exercises=known.exercises)
