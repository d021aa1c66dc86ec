"""Folders that tests read: the project, and the optional folder of real data beside it.

``LAYTON_TEST_DATA`` names another folder of real data, or one that does not exist, which hides the data.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = Path(os.environ.get("LAYTON_TEST_DATA", ROOT.parent / "shared" / "data"))
