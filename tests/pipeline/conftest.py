"""What tests of whole runs share."""

from __future__ import annotations

from tests.support.pages import without_pages as without_pages
