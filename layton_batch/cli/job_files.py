"""Files that are named to a program in ``jobs/``, which a scheduler may start in any folder."""

from __future__ import annotations

import sys
from pathlib import Path


def at_job(path: Path) -> Path:
    """Return a manifest's path: as it is where it leads from the working folder, else from the folder that holds
    ``jobs/``, so that ``manifests/layton-today.toml`` means the same everywhere."""
    project_folders = Path(sys.argv[0]).absolute().parents[1:2]
    return next((folder / path for folder in project_folders if not path.exists() and (folder / path).is_file()), path)
