"""Sites of one or several runs, with their answers in another form and what they are computed again from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from layton_batch.batches.run_costs import cost_report
from layton_batch.errors import AnotherDriverError
from layton_batch.files.run_folder import RunFolder
from layton_batch.interchange.writing import add_answers
from layton_batch.pipeline import make_board
from layton_batch.runs.open import open_folder, read_run
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_stores
from layton_batch.settings import Settings
from layton_batch.site.build import HOME, build_site, check_front, write_front
from layton_batch.stages.rank import is_current
from layton_batch.verification.recompute import pack_sources


def update_boards(folders: Sequence[RunFolder], settings: Settings) -> Iterator[str]:
    """Write the board and the pages of each run again if its labels are others than they were made from.

    Yield a note on each run that another process drives: its pages are those of its tables as they are. Raises
    DataError for labels that cannot be read.
    """
    for folder in folders:
        with read_run(folder, settings) as run:
            if is_current(run):
                continue
        try:
            with open_folder(folder, settings, only_scores=True) as run:
                make_board(run)
        except AnotherDriverError as error:
            yield f"{folder.root.name}: pages of its tables as they are: {error}"


def write_sites(
    folders: Sequence[RunFolder], out: Path, settings: Settings, *, with_data: bool = False
) -> Iterator[tuple[str, Path]]:
    """Write the pages of the runs into ``out``, of several runs each into a folder of its own, and a front page.

    Yield each run's name and first page once it is written; at the end, for several, an empty name and the front page.
    ``with_data``: add what ``verify`` computes the site again from. Raises FileError and StoreError.
    """
    several = len(folders) > 1
    if several:
        check_front(out)
    with open_stores(settings) as store_of:
        for folder in folders:
            target = out / folder.root.name if several else out
            store = store_of(folder)
            build_site(
                folder, read_status(store), cost_report({folder: store}), target, home=HOME if several else "",
                add_answers=partial(add_answers, folder, settings),
                add_sources=partial(pack_sources, folder, store) if with_data else None,
            )  # fmt: skip
            yield folder.root.name, target / "index.html"
    if several:
        yield "", write_front(out, folders)
