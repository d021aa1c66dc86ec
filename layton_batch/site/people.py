"""People's labels on a run's own answers, as pages show them beside the jury's verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.run_tables import table

LabelKey = tuple[object, object, object, object]
"""Item, model, hint level, sample."""
_COLUMNS = (
    "item_id",
    "model",
    "n_hints",
    "sample",
    "answer_correct",
    "justification_correct",
    "both_correct",
    "people",
)
METRICS = _COLUMNS[4:7]


@dataclass(frozen=True, slots=True)
class PeopleWord:
    """Human label of one answer, by part; ``mark``: on the board's metric. None: not labelled."""

    answer: bool | None
    justification: bool | None
    mark: bool | None
    people: int

    @property
    def who(self) -> str:
        """Name the people who gave the label."""
        return "a person" if self.people == 1 else f"{self.people} people"

    @property
    def verdict(self) -> str:
        """The word on the board's metric, where it is against the jury's."""
        return f"{self.who} said {'right' if self.mark else 'wrong'}, the jury {'wrong' if self.mark else 'right'}"


def people_words(folder: RunFolder, metric: str) -> dict[LabelKey, PeopleWord]:
    """Read the labels by answer. Raises DamagedTableError for a table that cannot be read."""
    words: dict[LabelKey, PeopleWord] = {}
    place = METRICS.index(metric) if metric in METRICS else None
    for item_id, model, hints, sample, *marks, people in table(folder, "labels", _COLUMNS).iter_rows():
        mark = None if place is None else marks[place]
        words[item_id, model, hints, sample or 1] = PeopleWord(marks[0], marks[1], mark, people)
    return words


def disagrees(people: PeopleWord, standing: str) -> bool:
    """Tell whether people contradict a unanimous jury."""
    return (people.mark is False and standing == "right") or (people.mark is True and standing == "wrong")
