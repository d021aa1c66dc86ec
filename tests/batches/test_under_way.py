"""What is on its way is known by fingerprint; each batch's requests are read once, and no answer is lost by that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.batches.paid_answers import UnderWay
from layton_batch.errors import DamagedTableError
from layton_batch.records import Batch
from layton_batch.states import Lifecycle
from tests.store.rows import batch

ONE, TWO, THREE = (batch(number, state=Lifecycle.IN_FLIGHT) for number in (1, 2, 3))


class Tables:
    """By batch: the fingerprints of its requests; None of one: the table is damaged."""

    def __init__(self, **prints: Sequence[str | None] | None) -> None:
        self.prints = {one.id: prints.get(name) for name, one in (("one", ONE), ("two", TWO), ("three", THREE))}
        self.read: list[str] = []

    def asked(self, one: Batch) -> Sequence[str | None]:
        self.read.append(one.id)
        found = self.prints[one.id]
        if found is None:
            raise DamagedTableError("damaged", Path(one.path))
        return found


def test_a_batch_is_read_once_while_it_is_open() -> None:
    tables, known = Tables(one=["a"], two=["b"]), UnderWay()
    assert known.look([ONE], tables.asked) == {"a": ONE.id}
    assert known.look([ONE, TWO], tables.asked) == {"a": ONE.id, "b": TWO.id}
    assert known.look([ONE, TWO], tables.asked) == {"a": ONE.id, "b": TWO.id}
    assert tables.read == [ONE.id, TWO.id]


def test_what_a_batch_asked_that_has_ended_is_on_its_way_only_in_another() -> None:
    tables, known = Tables(one=["a", "b"], two=["b", "c"], three=["a"]), UnderWay()
    assert known.look([ONE, TWO, THREE], tables.asked) == {"a": THREE.id, "b": TWO.id, "c": TWO.id}
    assert known.look([ONE, THREE], tables.asked) == {"a": THREE.id, "b": ONE.id}
    assert known.look([ONE], tables.asked) == {"a": ONE.id, "b": ONE.id}
    assert known.look([], tables.asked) == {}


def test_a_damaged_table_is_looked_at_again() -> None:
    tables, known = Tables(one=None, two=["b"]), UnderWay()
    assert known.look([ONE, TWO], tables.asked) == {"b": TWO.id}
    tables.prints[ONE.id] = ["a"]
    assert known.look([ONE, TWO], tables.asked) == {"a": ONE.id, "b": TWO.id}
