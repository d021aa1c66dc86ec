"""Quality of the simulated models: the profiles of `profiles.toml`; for any other model one derived from its name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from layton_batch.sandbox.answerers.reply_forms import ReplyForm
from layton_batch.sandbox.answerers.seeded_draws import draw, normal

Rate = Annotated[float, Field(ge=0, le=1)]

_HINT_GAIN = 0.45
_EFFORT_GAIN = {"none": 0.0, "minimal": 0.1, "low": 0.25, "medium": 0.5, "default": 0.5, "high": 0.8}
_MOST_EFFORT_GAIN = 1.0
_FULL_BUDGET = 32_000


class BadProfiles(ValueError):
    """A profile file that cannot be used; the message names the entries and the reasons."""


@dataclass(frozen=True, slots=True)
class ParticipantProfile:
    """`skill` is on the scale of the items' difficulty, without hints and reasoning; `flawed` is the share of right
    answers whose justification misses the point; `forms` are the rates of replies that are not plain JSON.
    `reasoning` is the setting the demonstration runs this model with."""

    provider: str
    model: str
    skill: float
    flawed: Rate
    forms: Mapping[ReplyForm, Rate] = field(default_factory=dict)
    reasoning: str | int | None = None
    family: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeProfile:
    """`lenient_answer`: how often it passes a wrong answer; `lenient_justification`: how often it passes reasoning that
    misses the point of a right answer; `strict_…`: how often it fails what is right. `substitute`: it sits on the
    demonstration's panel only for a seat that would stay empty. `family`: who made it, if not its provider."""

    provider: str
    model: str
    lenient_answer: Rate
    lenient_justification: Rate
    strict_answer: Rate
    strict_justification: Rate
    forms: Mapping[ReplyForm, Rate] = field(default_factory=dict)
    substitute: bool = False
    family: str | None = None


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__ = ConfigDict(extra="forbid")

    participants: list[ParticipantProfile]
    judges: list[JudgeProfile]
    prices: object = None


@dataclass(frozen=True, slots=True)
class Profiles:
    """Profiles by model id, in the order of their file."""

    participants: Mapping[str, ParticipantProfile]
    judges: Mapping[str, JudgeProfile]

    def participant(self, model: str) -> ParticipantProfile:
        return self.participants.get(model) or _derived_participant(model)

    def judge(self, model: str) -> JudgeProfile:
        return self.judges.get(model) or _derived_judge(model)


def effort_gain(reasoning: str | int | None) -> float:
    """Return how much a reasoning setting adds to a skill."""
    if reasoning is None:
        return 0.0
    if isinstance(reasoning, int):
        share = 0.5 if reasoning < 0 else min(1.0, reasoning / _FULL_BUDGET)
        return _EFFORT_GAIN["high"] * float(share**0.25)
    return _EFFORT_GAIN.get(reasoning.lower(), _MOST_EFFORT_GAIN)


def hint_gain(hints: int) -> float:
    return _HINT_GAIN * hints


def _derived_participant(model: str) -> ParticipantProfile:
    clumsy = draw("clumsy", model)
    forms = {ReplyForm.FENCED: 0.02 * clumsy, ReplyForm.PROSE: 0.01 * clumsy, ReplyForm.SLIP: 0.01 * clumsy}
    forms |= {
        ReplyForm.UNSTRUCTURED: 0.006 * clumsy,
        ReplyForm.TRUNCATED: 0.006 * clumsy,
        ReplyForm.REFUSED: 0.004 * clumsy,
    }
    return ParticipantProfile("", model, 1.2 + normal("skill", model), 0.03 + 0.09 * draw("flawed", model), forms)


def _derived_judge(model: str) -> JudgeProfile:
    lenient, strict = (0.01 + 0.05 * draw(side, model) for side in ("lenient", "strict"))
    forms = {ReplyForm.FENCED: 0.005, ReplyForm.SLIP: 0.002, ReplyForm.UNSTRUCTURED: 0.001}
    return JudgeProfile("", model, lenient, min(1.0, 5 * lenient), strict / 2, strict / 2, forms)


@cache
def bundled_profiles() -> Profiles:
    return profiles_from((files("layton_batch.sandbox") / "profiles.toml").read_text(encoding="utf-8"))


def profiles_from(text: str) -> Profiles:
    """The profiles of a TOML text with `[[participants]]` and `[[judges]]`. Raises BadProfiles."""
    try:
        read = TypeAdapter(_File).validate_python(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise BadProfiles(f"the profiles cannot be used: {error}") from error
    for participant in read.participants:
        _check_forms(participant.model, participant.forms)
    for judge in read.judges:
        _check_forms(judge.model, judge.forms)
    return Profiles(
        {profile.model: profile for profile in read.participants},
        {profile.model: profile for profile in read.judges},
    )


def _check_forms(model: str, forms: Mapping[ReplyForm, Rate]) -> None:
    if ReplyForm.PLAIN in forms or sum(forms.values()) > 1:
        raise BadProfiles(f"the forms of {model!r} are the rates of replies that are not plain, at most 1 in all")
