"""Times at a provider whose clock is not ours.

Where a batch carries no mark, its time of creation tells it from a batch that an earlier execution of the same manifest
made of the same bytes. Our clock may be wrong by hours (a time zone, a machine that has just started), so the `date`
header of the reply that lists the batches (RFC 9110, 6.6.1) says how far apart the two are.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from layton_batch.records import Submission

SLACK = 60.0
"""Seconds left over when the clocks' difference is known: headers have whole seconds, replies take their time."""
APART = 86_400.0
"""How far apart times may be that our clock and another told, and be the same: where nothing but the time tells whose a
batch is, one within it is not ruled out."""


def intent(submission: Submission, headers: Mapping[str, str]) -> float | None:
    """When the intent to create was committed, on the provider's clock as of a reply with these headers."""
    if submission.not_before is None or submission.asked_at is None:
        return submission.not_before
    try:
        theirs = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return submission.not_before
    return submission.not_before + theirs - submission.asked_at


def is_near(created_at: float | None, since: float | None) -> bool:
    """Whether a batch may have been made at ``since``; unknown times may be any."""
    return created_at is None or since is None or abs(created_at - since) <= APART


def is_since(created_at: float | None, since: float | None) -> bool:
    """Whether a batch was surely not made before ``since``; unknown times are no proof."""
    return created_at is not None and since is not None and created_at >= since - SLACK
