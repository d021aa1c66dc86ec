"""Frozen replies, and the ledger of who asked for them: what the wires of the replay server share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

LATE_LISTS = 3
"""Lists that do not have a batch yet which shows late."""
Reply = tuple[int, Any]
"""HTTP status, and a document or bytes."""
TOO_MANY: Reply = (429, {"error": {"message": "Too many requests.", "type": "rate_limit_error"}})


@dataclass(frozen=True, slots=True)
class FrozenReply:
    """A line of a file of replies. It answers a request of a model in ``by`` whose prompt has every text of ``about``.

    Of several lines the first that is not used up (``times``) answers. Tokens of the prompt: 100, and one for each
    character of ``about``. Tokens of the reply: 5, and one for four characters; ``reasoning`` ones are added to them.
    ``error``: the row fails with this status, code and message. ``fate``: ``expired`` or ``missing``, without a reply.
    """

    about: Sequence[str]
    by: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    cached: int = 0
    reasoning: int = 0
    times: int | None = None
    error: tuple[int, str, str] | None = None
    fate: str | None = None

    @property
    def is_answer(self) -> bool:
        """Tell whether the model answers, so that the row is billed."""
        return self.fate is None and self.error is None

    @property
    def read(self) -> int:
        """Return the tokens of the prompt, cached ones included."""
        return 100 + sum(map(len, self.about))

    def fits(self, model: str, prompt: str) -> bool:
        """Tell whether the line answers this prompt of the model."""
        return model in self.by and all(text in prompt for text in self.about)

    def written(self, model: str) -> int:
        """Return the tokens of the model's reply, reasoning included."""
        return 5 + len(self.by[model]) // 4 + self.reasoning


MISSING = FrozenReply((), fate="missing")


def read_replies(*paths: Path) -> list[FrozenReply]:
    """Read files of replies; lines of an earlier file come first."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return [FrozenReply(**json.loads(line)) for line in lines]


class Incident(StrEnum):
    """What becomes of the first create of a batch of a model."""

    MADE_TWICE = "made twice"  # and the reply is lost
    LISTED_LATE = "listed late"  # and the reply is lost; the next lists do not have the batch
    NOT_MADE = "not made"  # and the reply is lost
    REFUSED = "refused"  # for too many calls


class Ledger:
    """Who asked and was billed: ``asked`` and ``billed`` count rows by model, ``tokens`` are those of billed rows.

    ``unknown``: models and prompts for which no line of the replies was left.
    """

    def __init__(self, replies: Iterable[FrozenReply], incidents: Mapping[str, Incident]) -> None:
        self.asked: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.unknown: list[str] = []
        self.creates = 0
        self._replies, self._incidents = list(replies), dict(incidents)
        self._used: Counter[int] = Counter()
        self._hidden: dict[str, int] = {}

    def answer(self, model: str, prompt: str) -> FrozenReply:
        """Return the reply to a prompt, and bill the row where the model answers."""
        self.asked[model] += 1
        for number, reply in enumerate(self._replies):
            if reply.fits(model, prompt) and (reply.times is None or self._used[number] < reply.times):
                self._used[number] += 1
                if reply.is_answer:
                    self.billed[model] += 1
                    self.tokens.update({"input": reply.read, "output": reply.written(model)})
                return reply
        self.unknown.append(f"{model}: {prompt}")
        return MISSING

    def create(self, model: str, carry_out: Callable[[], dict[str, Any]]) -> Reply | None:
        """Create a batch of a model, as its incident says; None: the reply is lost."""
        incident = self._incidents.pop(model, None)
        if incident is Incident.REFUSED:
            return TOO_MANY
        batches = []
        if incident is not Incident.NOT_MADE:
            self.creates += 1 + (incident is Incident.MADE_TWICE)
            batches = [carry_out() for _ in range(1 + (incident is Incident.MADE_TWICE))]
        if incident is Incident.LISTED_LATE:
            self._hidden[batches[0]["id"]] = LATE_LISTS
        return (200, batches[0]) if incident is None else None

    def listed(self, batches: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the batches that a list has now, newest first."""
        for name, batch in reversed(batches.items()):
            if self._hidden.get(name, 0) > 0:
                self._hidden[name] -= 1
            else:
                yield batch
