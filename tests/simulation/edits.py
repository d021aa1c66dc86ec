"""Manifests that are edited during a history: models, names, order, items and the limit, at points of its course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lab import BUNDLED, MODELS, demo_prices

if TYPE_CHECKING:
    from tests.simulation.world import History

RIDDLES = (BUNDLED / "riddles_llm.jsonl").read_bytes().splitlines()[:8]


@dataclass(frozen=True, slots=True)
class Asks:
    """What a revision of the manifest asks. ``models``: provider and the name that the board shows, in order;
    ``items``: numbers of riddles, which a file of its own has in this order; empty: the bundled ones."""

    models: tuple[tuple[str, str], ...]
    items: tuple[int, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class Edit:
    """At point ``at`` the program is stopped, and goes on with this manifest; where the run is over sooner, then."""

    at: int
    asks: Asks


def text(asks: Asks, judge: str, judge_model: str, source: str) -> str:
    """The manifest: one judge; attempts enough for all that a history does to its requests."""
    said = f'name = "history"\ntask = "layton"\n[items]\nsource = "{source}"\nsplit = "llm"\nlimit = {asks.limit}\n'
    said += "[policy]\nattempts = 9\n"
    for provider, name in asks.models:
        said += f'[[models]]\nname = "{name}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        said += "max_output_tokens = 4000\n"
    said += f'[jury]\nseats = 1\n[[jury.judges]]\nname = "judge"\nprovider = "{judge}"\nmodel = "{judge_model}"\n'
    return f"{said}max_output_tokens = 2000\n" + demo_prices()


def items_file(folder: Path, items: Sequence[int]) -> Path:
    """A file of these riddles; the same riddles are in the same file."""
    path = folder / f"items-{'-'.join(map(str, items))}.jsonl"
    path.write_bytes(b"".join(RIDDLES[number] + b"\n" for number in items))
    return path


def turn_page(found: History) -> None:
    """Note the edits whose points have passed."""
    passed = sum(edit.at <= found.has_passed for edit in found.plan.edits)
    found.revised = max(found.revised, passed)


def is_edited_when_done(found: History) -> bool:
    """Whether there is an edit that the run did not live to see; it is made now."""
    if found.cancelled or found.revised == len(found.plan.edits):
        return False
    found.revised += 1
    return True
