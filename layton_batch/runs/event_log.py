"""The file ``log.jsonl`` of a run: its events, for people and their tools.

The events of the store are the truth. A log that cannot be written never stops a run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from layton_batch.clock import iso
from layton_batch.files.json_lines import append_json_line
from layton_batch.records import Event


def event_row(run: str, event: Event) -> dict[str, object]:
    """Return the event as a line of the log has it."""
    batch = {"batch": event.batch_id} if event.batch_id else {}
    line = {"at": iso(event.at), "run": run, "seq": event.seq, "event": event.kind, **batch}
    return {**line, "detail": event.detail}


@dataclass(slots=True)
class EventLog:
    """Writer of one line per event; warns once where the file cannot be written."""

    path: Path
    run: str
    _has_warned: bool = False

    def __call__(self, event: Event) -> None:
        """Append the event."""
        try:
            append_json_line(self.path, event_row(self.run, event))
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                reason = error.strerror or error
                logging.getLogger(__name__).warning("%s cannot be written (%s); events are kept", self.path, reason)
