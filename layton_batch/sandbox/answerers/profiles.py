"""Quality of the simulated models: the profiles of `profiles.toml`; for any other model one derived from its name.

Draws are the same in every process and whatever the order of the questions: digests of what they depend on.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from typing import TypeVar

from pydantic import TypeAdapter

_Option = TypeVar("_Option")
_STANDARD = NormalDist()
_RESOLUTION = 1 << 53


def draw(*parts: object) -> float:
    """A uniform number in [0, 1) that depends on nothing but the parts."""
    named = "\x1f".join(str(part) for part in parts).encode("utf-8", "backslashreplace")
    return (int.from_bytes(hashlib.sha256(named).digest()[:8], "big") >> 11) / _RESOLUTION


def normal(*parts: object) -> float:
    """A standard normal number."""
    return _STANDARD.inv_cdf(min(max(draw(*parts), 1e-9), 1 - 1e-9))


def pick(options: Sequence[_Option], *parts: object) -> _Option:
    return options[position(len(options), *parts)]


def position(count: int, *parts: object) -> int:
    return int(draw(*parts) * count)


class ReplyForm(StrEnum):
    PLAIN = "plain"
    FENCED = "fenced"
    PROSE = "prose"
    """JSON with a sentence before and after it."""
    SLIP = "slip"
    """JSON with one syntax error a tolerant reader mends."""
    UNSTRUCTURED = "unstructured"
    """Running text of that content: no JSON to read."""
    TRUNCATED = "truncated"
    REFUSED = "refused"


HINT_GAIN = 0.45
"""Skill that each hint shown adds."""
_EFFORT_GAIN = {"none": 0.0, "minimal": 0.1, "low": 0.25, "medium": 0.5, "default": 0.5, "high": 0.8}
_MOST_EFFORT_GAIN = 1.0
_FULL_BUDGET = 32_000


@dataclass(frozen=True, slots=True)
class ParticipantProfile:
    """`skill` is on the scale of the items' difficulty, without hints and reasoning; `flawed` is the share of right
    answers whose justification misses the point; `forms` are the rates of replies that are not plain JSON.
    `reasoning` is the setting the demonstration runs this model with."""

    provider: str
    model: str
    skill: float
    flawed: float
    forms: Mapping[ReplyForm, float] = field(default_factory=dict)
    reasoning: str | int | None = None


@dataclass(frozen=True, slots=True)
class JudgeProfile:
    """`lenient_answer`: how often it passes a wrong answer; `lenient_justification`: how often it passes reasoning that
    misses the point of a right answer; `strict_…`: how often it fails what is right."""

    provider: str
    model: str
    lenient_answer: float
    lenient_justification: float
    strict_answer: float
    strict_justification: float
    forms: Mapping[ReplyForm, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profiles:
    """Contents of the profile file, in its order. ``prices`` are those of the made-up models, by provider."""

    participants: list[ParticipantProfile]
    judges: list[JudgeProfile]
    prices: dict[str, dict[str, dict[str, list[str]]]]


@cache
def bundled_profiles() -> Profiles:
    text = (files("layton_batch.sandbox") / "profiles.toml").read_text(encoding="utf-8")
    return TypeAdapter(Profiles).validate_python(tomllib.loads(text))


def effort_gain(reasoning: str | int | None) -> float:
    """Return how much a reasoning setting adds to a skill."""
    if reasoning is None:
        return 0.0
    if isinstance(reasoning, int):
        share = 0.5 if reasoning < 0 else min(1.0, reasoning / _FULL_BUDGET)
        return _EFFORT_GAIN["high"] * float(share**0.25)
    return _EFFORT_GAIN.get(reasoning.lower(), _MOST_EFFORT_GAIN)


@cache
def participant_profile(model: str) -> ParticipantProfile:
    """Return the model's profile, derived from its name if it has none."""
    for profile in bundled_profiles().participants:
        if profile.model == model:
            return profile
    return ParticipantProfile("", model, 1.2 + normal("skill", model), 0.03 + 0.09 * draw("flawed", model))


@cache
def judge_profile(model: str) -> JudgeProfile:
    """Return the judge's profile, derived from its name if it has none."""
    for profile in bundled_profiles().judges:
        if profile.model == model:
            return profile
    lenient, strict = (0.01 + 0.05 * draw(side, model) for side in ("lenient", "strict"))
    return JudgeProfile("", model, lenient, 5 * lenient, strict / 2, strict / 2)
