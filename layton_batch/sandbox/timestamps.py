"""RFC 3339 out of the clock's seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
