"""Ballots in columns are the ballots they were made of."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Ballot, Entrant

ENTRANTS = [Entrant(model, provider, hints) for model in "ba" for provider in "qp" for hints in (0, 1)]
BALLOT = st.builds(
    Ballot,
    entrant=st.sampled_from(ENTRANTS),
    item_id=st.sampled_from(["i10", "i2", "é", ""]),
    yes=st.integers(0, 3),
    total=st.integers(0, 3),
    content=st.integers(-(2**63), 2**63 - 1),
    known_zero=st.booleans(),
    kind=st.sampled_from(["answered", "missing", "unparsed"]),
)
SOME = st.lists(BALLOT, max_size=30)


@given(SOME)
def test_one_by_one_and_all_they_are_the_same(some: list[Ballot]) -> None:
    found = Ballots.of(some)
    assert list(found) == some
    assert [found[at] for at in range(len(some))] == some
    assert list(found[1:7:2]) == some[1:7:2]
    assert list(found.numbered()) == some
    assert Ballots.of(found) is found


@given(SOME)
def test_their_order_is_by_entrant_and_item_and_keeps_what_is_alike(some: list[Ballot]) -> None:
    assert list(Ballots.of(some).in_order()) == sorted(some, key=lambda one: (one.entrant, one.item_id))


@given(SOME)
def test_numbers_follow_the_order_in_which_names_come(some: list[Ballot]) -> None:
    found = Ballots.of(some).in_order().numbered()
    rows = list(found)
    assert list(found.entrants) == list(dict.fromkeys(one.entrant for one in rows))
    assert list(found.items) == list(dict.fromkeys(one.item_id for one in rows))


@given(SOME)
def test_what_is_counted_and_found_is_what_a_loop_counts_and_finds(some: list[Ballot]) -> None:
    found = Ballots.of(some)
    assert found.kinds_of() == Counter((one.entrant, one.kind) for one in some)
    sizes: dict[Entrant, set[int]] = {}
    for one in some:
        if one.total:
            sizes.setdefault(one.entrant, set()).add(one.total)
    assert found.jury_sizes() == sizes
    again = [one for at, one in enumerate(some) if any(_about(one) == _about(earlier) for earlier in some[:at])]
    assert found.twice() == (again[0] if again else None)
    once = list({_about(one): one for one in some}.values())
    places = {(*_about(one), one.content): place for place, one in enumerate(once)}
    predictions = [(one.entrant, one.item_id, one.content) for one in some]
    assert Ballots.of(once).find(predictions) == [places.get(one, -1) for one in predictions]
    assert Ballots.of(once).find([(Entrant("c", "p", 0), "i2", 1), (ENTRANTS[0], "i3", 1)]) == [-1, -1]


def _about(ballot: Ballot) -> tuple[Entrant, str]:
    return ballot.entrant, ballot.item_id
