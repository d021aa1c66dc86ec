"""What changes around a run between two lives of the program: keys, addresses, the ``.env``, the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.simulation.in_process import ADDRESSES, GATEWAY, HOST, OTHER

Kind = Literal["key", "gateway", "file", "folder", "account"]
STRANGER = "http://stranger.invalid"
"""An address that nobody may call."""
HOSTILE = "\n".join(
    [
        "LAYTON_BATCH_ENGINE=dask://stranger.invalid:8786",
        f"AWS_ENDPOINT_URL={STRANGER}",
        f"HF_ENDPOINT={STRANGER}",
        "LAYTON_BATCH_ENGINE_SECONDS=1",
        *(f"{name}={STRANGER}" for name in ADDRESSES),
    ]
)
"""Lines of a stranger's ``.env``: none of them may do anything, for their keys are in the environment."""


@dataclass(frozen=True, slots=True)
class Change:
    """At the first start of the program from point ``at`` on: the ``provider``'s key is another one of its account, its
    address is a gateway's, its key stands in a ``.env``, which is a stranger's, the folder of runs is moved, or the key
    becomes that of the other account (the second time that of the first account again)."""

    at: int
    kind: Kind
    provider: str


@dataclass(slots=True)
class Surroundings:
    """The environment and the working folder of the program's next life."""

    cwd: Path
    environment: dict[str, str]
    in_file: dict[str, str] = field(default_factory=dict)
    moves: int = 0
    switches: int = 0

    def change(self, change: Change) -> None:
        """Carry out a change other than that of the folder or the account."""
        key = f"{change.provider.upper()}_API_KEY"
        address = next(
            name for name in ADDRESSES if name.startswith(_VARIABLE.get(change.provider, change.provider.upper()))
        )
        if change.kind == "key":
            place = self.in_file if key in self.in_file else self.environment
            place[key] += "-rotated"
        elif change.kind == "gateway":
            self.environment[address] = self.environment[address].replace(HOST, GATEWAY)
        elif change.kind == "file" and key in self.environment:
            self.in_file[key] = self.environment.pop(key)
            self._write()

    def has_other(self, provider: str) -> bool:
        """Return whether the provider's key is that of the other account."""
        key = f"{provider.upper()}_API_KEY"
        return (self.in_file | self.environment)[key].startswith(OTHER)

    def switch(self, provider: str) -> None:
        """Set the key of the account that is not set now."""
        key, is_other = f"{provider.upper()}_API_KEY", self.has_other(provider)
        place = self.in_file if key in self.in_file else self.environment
        place[key] = place[key].removeprefix(OTHER) if is_other else OTHER + place[key]
        self.switches += 1
        if place is self.in_file:
            self._write()

    def _write(self) -> None:
        lines = [f"{name}={value}" for name, value in self.in_file.items()]
        (self.cwd / ".env").write_text("\n".join([HOSTILE, *lines]) + "\n", encoding="utf-8")

    def moved(self, workspace: Path) -> Path:
        """Move the folder of runs elsewhere; return where to."""
        self.moves += 1
        place = self.cwd / f"place-{self.moves}" / "runs"
        place.parent.mkdir()
        return workspace.rename(place)


_VARIABLE: Mapping[str, str] = {"gemini": "GOOGLE_GEMINI"}
