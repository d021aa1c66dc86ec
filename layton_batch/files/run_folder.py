"""Folders of runs: the workspace (``runs/``) has their state and what was bought (``runs/batches/``), and each run what
it makes of it (``runs/<name>/``)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

BATCHES = "batches"
"""In a folder of runs: the batches of all of them. No run can have this name."""
MANIFEST = "run.json"
"""In a run's folder: its manifest as frozen."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder of runs, which share its database."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "state.sqlite3"

    def run(self, run_id: str) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(self.root / run_id)

    def batches(self, run_id: str) -> Path:
        """Return the folder of the batches that a run sent."""
        return self.root / BATCHES / run_id

    def batch(self, run_id: str, batch_id: str) -> BatchFolder:
        """Return the folder of one batch."""
        return BatchFolder(self.batches(run_id) / batch_id)


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """Paths of one batch. Beside these lie its raw results, as they came (``output.jsonl.zst`` …)."""

    root: Path

    @property
    def request_file(self) -> Path:
        """Return the path of the batch file that is or was sent."""
        return self.root / "request.jsonl"

    @property
    def raw_results(self) -> list[Path]:
        """Return the paths of the raw results, unchanged."""
        return sorted(self.root.glob("*.jsonl.zst"))

    @property
    def answers(self) -> Path:
        """Return the folder of the responses, a part file for each portion of them."""
        return self.root / "answers"

    @property
    def answer_parts(self) -> list[Path]:
        """Return the part files of the responses."""
        return sorted(self.answers.glob("*.parquet"))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run. They hold ids; nothing parses them."""

    root: Path

    def absolute(self) -> RunFolder:
        """Return the same folder by a path that means the same in processes with other working folders."""
        return RunFolder(self.root.absolute())

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST

    @property
    def workspace(self) -> Workspace:
        """Return the workspace by whose name the run was opened: a run's folder may be a link to another disk."""
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
        """Return the folder of imported labels, a file for each import. No file is ever written again."""
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
    def lock(self) -> Path:
        """Return the path of the file whose lock the process holds that drives the run. It names that process."""
        return self.root / ".lock"

    @property
    def log(self) -> Path:
        return self.root / "log.jsonl"

    @property
    def batches(self) -> Path:
        """Return the folder of the run's batches: a run's folder has the run's name."""
        return self.workspace.batches(self.root.resolve().name)

    def batch(self, batch_id: str) -> BatchFolder:
        """Return the folder of one of the run's batches."""
        return BatchFolder(self.batches / batch_id)

    def part(self, table: str, part: str) -> Path:
        return self.tables / table / f"{part}.parquet"


def slug(text: str) -> str:
    """Return a name fit for ids and paths. Names that had to be changed or cut get a hash, so two never meet."""
    safe = _UNSAFE.sub("-", text).strip("-.")[:60]
    if safe == text:
        return safe
    return f"{safe or 'model'}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
