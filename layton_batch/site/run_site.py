"""A run's site while it is written: what all of its pages show, and where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.board import Board
from layton_batch.site.pages import more_assets, write
from layton_batch.site.run_tables import BoardSettings


@dataclass(frozen=True, slots=True, eq=False)
class RunSite:
    """The site of a run, written into the folder ``building``. ``board``: on new items, or the only one; ``here``: the
    one on this set, if that is another. ``item_ids``: of all items, also of those that only predictions have.

    ``is_by_rule``: a rule graded answers; ``variables``: of the templates of all pages.
    """

    folder: RunFolder
    building: Path
    settings: BoardSettings
    board: Board
    here: Board | None
    item_ids: Sequence[str]
    title: str
    date: str
    is_by_rule: bool
    variables: Mapping[str, object]

    def write(self, name: str, template: str = "", *, loads: bool = False, **values: object) -> None:
        """Write a page with tables, charts and controls. ``template``: by default called as the page; ``loads``: its
        script loads other files of the site."""
        write(self.building / name, template or name, **self.variables, **more_assets(loads=loads), **values)
