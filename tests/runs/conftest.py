"""What tests of the parts of a run share."""

from __future__ import annotations

from tests.support.pages import without_pages as without_pages
