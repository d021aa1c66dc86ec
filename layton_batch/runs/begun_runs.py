"""List of the folders in which this user began runs: whether a run that begins was begun there before.

The list is the user's own, outside the workspace. If a run's folder was removed, all of the run is paid for again, and
a person has to agree.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson

from layton_batch.files.json_lines import append_json_line
from layton_batch.files.run_folder import RunFolder
from layton_batch.settings import Settings

LIST = Path("layton-batch") / "runs.jsonl"


def remember(folder: RunFolder, settings: Settings) -> None:
    """Enter a run into the user's list. A list that cannot be written stops no run."""
    if settings.user_state is None or was_begun(folder, settings):
        return
    path = settings.user_state / LIST
    with suppress(OSError, TypeError):  # TypeError: a path that is no Unicode
        path.parent.mkdir(parents=True, exist_ok=True)
        append_json_line(path, {"root": str(folder.root.absolute())})


def was_begun(folder: RunFolder, settings: Settings) -> bool:
    """Return whether this user began a run in the folder. Lines of the list that cannot be read do not count."""
    if settings.user_state is None:
        return False
    try:
        lines = (settings.user_state / LIST).read_bytes().splitlines()
    except OSError:
        return False
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            if orjson.loads(line)["root"] == str(folder.root.absolute()):
                return True
    return False
