"""The pages about a run rather than its board: judges, cost, method, and how it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import Status
from layton_batch.site.batch_timeline import show_timeline
from layton_batch.site.board_pages import RankedRun
from layton_batch.site.cost_page import ShownBill
from layton_batch.site.judges_page import show_judges
from layton_batch.site.method_page import show_method
from layton_batch.site.pages import more_assets, passage, sentence, write
from layton_batch.site.sent import MOST_SYSTEMS


def write_run_pages(
    folder: RunFolder,
    status: Status,
    ranked: RankedRun,
    bill: ShownBill | None,
    bill_notes: Sequence[str],
    systems: Sequence[str],
    building: Path,
    about: Mapping[str, object],
) -> None:
    """``bill_notes``: what has to be said of the bill besides its sums; ``systems``: system texts by number;
    ``about``: what all pages are told."""
    assets: dict[str, object] = {**about, **more_assets()}
    items = {item_id: f"items/{name}" for name, item_id in ranked.items}
    write(building / "judges.html", "judges.html", **assets, sections=show_judges(folder, items))
    notes = [sentence(note) for note in bill_notes]
    write(building / "cost.html", "cost.html", **assets, bill=bill, bill_notes=notes)
    method = show_method(folder, ranked.ask, (ranked.board, ranked.here))
    write(building / "method.html", "method.html", **assets, method=method,
          systems=[passage(text) for text in systems[:MOST_SYSTEMS]])  # fmt: skip
    write(building / "run.html", "run.html", **assets, batches=show_timeline(folder, status))
