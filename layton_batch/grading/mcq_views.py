"""What mcq_idk has beside a board: the published table, ensembles, and views of abstaining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layton_batch.errors import ManifestError
from layton_batch.grading.graded import Graded, check_once
from layton_batch.tasks.mcq_idk_rules.abstention import Selective, selective
from layton_batch.tasks.mcq_idk_rules.ensembles import Ensemble, by_letter, by_outcome
from layton_batch.tasks.mcq_idk_rules.letters import idk_letter
from layton_batch.tasks.mcq_idk_rules.table import BoardRow, ordered

_TOP = 3
CORRECTED = "corrected"


def table_rows(models: Sequence[Graded], ensembles: Sequence[BoardRow] = ()) -> list[BoardRow]:
    """The published table's rows in its order."""
    return ordered([*map(_row, models), *ensembles])


def views(models: Sequence[Graded]) -> dict[str, Selective]:
    """What abstaining is worth, by model; models without replies are left out."""
    return {one.name: selective(one.mcq.tally) for one in models if one.mcq is not None}


def ensembles(models: Sequence[Graded], protocol: str) -> list[BoardRow]:
    """All models as one and, of more than three, the best three by trad_score: as published, by what is right or wrong.

    Corrected, also a vote on letters, which needs no gold to be cast. Raises ManifestError for fewer than two models.
    """
    members = [one for one in models if one.mcq is not None]
    if len(members) < 2:
        raise ManifestError("grade: --ensembles needs the replies of two models or more")
    for one in members:
        check_once(one)
    groups = {f"ensemble-all{len(members)}": members}
    if len(members) > _TOP:
        best = {row.name: place for place, row in enumerate(table_rows(members))}
        groups = {f"ensemble-top{_TOP}": sorted(members, key=lambda one: best[one.name])[:_TOP], **groups}
    found = []
    for name, group in groups.items():
        found.append(_voted(name, _by_outcome(group)))
        if protocol == CORRECTED:
            found.append(_voted(f"{name}-letters", _by_letter(group)))
    return found


def _row(one: Graded) -> BoardRow:
    if one.mcq is not None:
        return BoardRow(one.name, one.mcq.tally.estimates())
    return BoardRow(one.name, one.totals or {})


def _voted(name: str, ensemble: Ensemble) -> BoardRow:
    if not ensemble.votes:
        raise ManifestError(f"grade: --ensembles: the models of {name} have no item in common")
    return BoardRow(name, ensemble.estimates())


def _by_outcome(group: Sequence[Graded]) -> Ensemble:
    return by_outcome([{row.item_id: row.marks for row in one.mcq.rows} for one in group if one.mcq is not None])


def _by_letter(group: Sequence[Graded]) -> Ensemble:
    rows = [one.mcq.rows for one in group if one.mcq is not None]
    keys = {row.item_id: row.key for row in rows[0]}
    gold: Mapping[str, str] = {item: key.gold for item, key in keys.items()}
    idk = {item: idk_letter(key.n_options) for item, key in keys.items()}
    return by_letter([{row.item_id: row.letter for row in mine} for mine in rows], gold, idk)
