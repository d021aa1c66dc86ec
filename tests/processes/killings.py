"""What the tests and the full matrix have in common: one provider's run, killed at phases of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.commands import ITEMS, Bench, Kills, broken_claims
from tests.support.proxy import LOST, PHASES

OPERATIONS = ("upload", "create", "poll", "results", "list", "list_files")
FATES = (*PHASES, LOST)
WITHOUT = {
    "anthropic": {"upload", "list_files"},  # requests go with the create
    "gemini": {"list_files"},  # we choose a file's name
    "together": {"list_files"},  # a file's id follows from its bytes
}
MODELS = 3
"""So many batches give every phase of the create a turn."""


def every_cell(provider: str, kinds: Sequence[str] = OPERATIONS) -> Mapping[str, Sequence[str]]:
    """Kind of call → what happens to calls of that kind, each once and in this order."""
    return {kind: FATES for kind in kinds if kind not in WITHOUT.get(provider, ())}


@dataclass(frozen=True, slots=True)
class Ordeal:
    """What a run went through at one provider, and what it came to."""

    provider: str
    happened: tuple[tuple[str, str], ...]
    lives: int
    batches: int
    billed: int
    lost: int
    broken: tuple[str, ...]


def every_phase(place: Bench, provider: str, kinds: Sequence[str] = OPERATIONS) -> Ordeal:
    """Kill the run when a call was received, executed and answered, then lose a reply, for each kind of call."""
    kills = Kills(provider, every_cell(provider, kinds))
    status, lives = place.until_done(place.write(f"killed-{provider}", [provider] * MODELS), kills)
    broken = broken_claims(place, status) + [f"never happened: {one}" for one in kills.left]
    answered = sum(job["succeeded"] for job in status["jobs"])
    return Ordeal(
        provider=provider,
        happened=tuple(kills.happened),
        lives=lives,
        batches=len(place.batches()),
        billed=len(place.billed()),
        lost=MODELS * ITEMS - answered,
        broken=tuple(broken),
    )
