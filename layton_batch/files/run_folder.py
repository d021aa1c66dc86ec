"""Where runs keep their things: the workspace (``runs/``) their state, and each run its files (``runs/<name>/``)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ADDRESS_FILE = "address"
"""Beside this machine's copy of a folder of runs: the address in object storage of which it is a copy."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder of runs, which share its database."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "state.sqlite3"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run. They hold ids; nothing parses them."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "run.json"

    @property
    def workspace(self) -> Workspace:
        """The workspace by whose name the run was opened: a run's folder may be a link to another disk."""
        return Workspace(Path(os.path.abspath(self.root)).parent)

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def prompts(self) -> Path:
        return self.root / "prompts"

    def gold(self, source: str) -> Path:
        return self.root / f"gold-{sha256(source.encode()).hexdigest()[:8]}.jsonl"

    def annotations(self, source: str) -> Path:
        return self.root / f"annotations-{sha256(source.encode()).hexdigest()[:8]}.jsonl"

    @property
    def labels(self) -> Path:
        """Labels that were imported, a file for each import; none is ever written again."""
        return self.root / "labels"

    @property
    def site(self) -> Path:
        return self.root / "site"

    @property
    def history(self) -> Path:
        return self.root / "history"

    @property
    def intents(self) -> Path:
        return self.root / "intents"

    @property
    def log(self) -> Path:
        return self.root / "log.jsonl"

    def request_file(self, job_id: str, shard_id: str) -> Path:
        return self.root / "requests" / job_id / f"{shard_id}.jsonl"

    def raw(self, batch_id: str) -> Path:
        return self.root / "raw" / batch_id

    def part(self, table: str, part: str) -> Path:
        return self.tables / table / f"{part}.parquet"


def slug(text: str) -> str:
    """A name fit for ids and paths. Names that had to be changed or cut get a hash, so two never meet."""
    safe = _UNSAFE.sub("-", text).strip("-.")[:60]
    if safe == text:
        return safe
    return f"{safe or 'model'}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
