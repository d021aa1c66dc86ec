"""What an extraction found in a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["primary", "fallback", "none"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The letters a reply gives as its answer (none or one in either protocol), and the rule that found them."""

    letters: tuple[str, ...] = ()
    rule: str | None = None
    stage: Stage = "none"
    note: str | None = None  # why there is no letter, where the rule can tell

    @property
    def letter(self) -> str | None:
        """The letters as one text; None where there is none."""
        return ",".join(self.letters) or None


NOTHING = Reading()
