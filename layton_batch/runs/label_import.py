"""Labels that people gave elsewhere, into a run's folder: a file for each import, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import read_rows
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Annotation, annotation_row, latest, parse_annotations
from layton_batch.settings import Settings
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of the rows of an import. ``known``: as they stood already, or older than what stands.

    ``strangers``: added or changed, but of a model or an item that the run does not have (yet).
    """

    run: str
    added: int
    changed: int
    known: int
    strangers: int

    def lines(self) -> list[str]:
        """In sentences."""
        told = [f"{self.run}: {plural(self.added, 'label')} added, {self.changed} changed, {self.known} known already"]
        if self.strangers:
            told.append(f"{self.strangers} of them are of models or items that the run does not have")
        return told


def import_labels(run: Run, files: Sequence[Path], settings: Settings) -> Taken:
    """Add the labels of these files to the run's. Raises DataError naming file and line before anything changes."""
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: there is nothing for people to label")
    given = [one for path in files for one in parse_annotations(read_rows(str(path), settings.cwd, settings))]
    strange = _strangers(run, given)
    if given and strange == set(map(_key, given)):
        raise DataError(
            f"{files[0]}: no row is of a model and an item of {run.id}; nothing was imported. A row names the model as "
            "the leaderboard does or as its provider does"
        )
    return add_labels(run.id, run.folder, given, run.load_labels().annotations, strange)


def add_labels(
    run_id: str,
    folder: RunFolder,
    given: Sequence[Annotation],
    standing: Sequence[Annotation],
    strange: set[tuple[str, str]] | None = None,
) -> Taken:
    """Keep those of the labels that say something other than what stands."""
    stands, wanted = latest(standing), latest(given)
    news = [one for about, one in wanted.items() if _is_news(one, stands.get(about))]
    if news:
        content = b"".join(orjson.dumps(annotation_row(one)) + b"\n" for one in news)
        atomic.write_bytes(_free_name(folder.labels, content), content)
    changed = sum(one.about in stands for one in news)
    strangers = sum(_key(one) in (strange or ()) for one in news)
    return Taken(run_id, len(news) - changed, changed, len(wanted) - len(news), strangers)


def _is_news(one: Annotation, standing: Annotation | None) -> bool:
    if standing is None:
        return True
    same = all(one.mark(metric) == standing.mark(metric) for metric in _METRICS)
    return not same and one.replaces(standing)


_METRICS = ("answer_correct", "justification_correct", "both_correct")


def _free_name(folder: Path, content: bytes) -> Path:
    """After every earlier import; the content is in the name, so that two imports at once do not take one name."""
    last = max((int(path.name[:6]) for path in folder.glob("[0-9]*.jsonl") if path.name[:6].isdigit()), default=0)
    return folder / f"{last + 1:06d}-{sha256(content).hexdigest()[:12]}.jsonl"


def _key(one: Annotation) -> tuple[str, str]:
    return one.item_id, one.model


def _strangers(run: Run, given: Sequence[Annotation]) -> set[tuple[str, str]]:
    """Item and model of the labels that the run cannot have an answer for."""
    specs = run.manifest.model_specs()
    names = {name for spec in specs for name in (spec.name, spec.model)}
    items: Mapping[str, None] = dict.fromkeys(item.id for item in run.items)
    return {
        _key(one)
        for one in given
        if one.item_id not in items or (one.said is None and not names & {one.model, one.also})
    }
