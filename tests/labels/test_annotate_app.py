"""The labelling app, request by request: what it keeps, what it shows, and what it never shows."""

from __future__ import annotations

import signal
from pathlib import Path
from statistics import mean

import layton_batch as lb
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, WITH_GOLD, actions, answers, board, exported, labels_used
from tests.labels.opened_app import opened
from tests.support.cli_harness import Ending, call, finish, start


def number_of_labels(root: Path) -> int:
    return len(exported(root, "annotations"))


def test_a_label_is_kept_at_once_goes_out_and_in_again_and_the_next_leaderboard_uses_it(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(ANNOTATED)
    with opened(root) as app:
        app.label("right", "wrong", note="<b>bold</b>")
        for number in range(1, 12):
            assert len(actions(root, "ada")) == number
            app.label("right" if number % 3 else "wrong", "right")
    rows = board(root)
    assert {row["method"] for row in rows} == {"hierarchical"}
    assert sum(row["own_labels"] for row in rows) == 12
    kept = exported(root, "annotations")
    assert sorted(row["notes"] for row in kept)[-2:] == ["", "<b>bold</b>"]
    assert {row["annotator"] for row in kept} == {"ada"}
    taken = lb.label_import(root, tmp_path / "annotations.jsonl").frame
    assert (taken["added"] + taken["changed"]).item() == 12  # known by another `about`
    assert labels_used(root) == 12
    words = [row["human_both_correct"] for row in exported(root, "ppi") if row.get("human_both_correct") is not None]
    assert sorted(words) == [False] * 4 + [True] * 8


def test_no_response_before_a_label_names_a_model_or_a_verdict(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    names = {str(one[name]) for one in answers(root) for name in ("model", "provider")}
    names |= {str(row["model"]) for row in board(root, "--method", "paper")}
    with opened(root) as app:
        for path in ("/", "/progress", "/adjudicate", "/progress.json", "/name", "/assets/annotate.js"):
            app.get(path)
        for _ in range(6):
            app.label()
        app.post("/undo")
        app.get()
        text = "\n".join(app.seen).casefold().replace("data-verdict", "").replace('class="verdict"', "")
    assert len(app.seen) > 20
    assert [name for name in (*names, "verdict", "jury", "vote") if name.casefold() in text] == []


def test_one_annotator_in_two_apps_gets_different_answers_and_an_app_that_ended_holds_none(copied: Copied) -> None:
    root = copied(ANNOTATED)
    with opened(root) as here:
        first = here.shown()
        with opened(root) as there:
            assert there.shown() != first
            assert len({app.label() for app in (there, here, here, there)}) == 4
            left = there.shown()
            assert here.shown() != left
        here.label()
        assert here.shown() == left


def half_width(end: Ending) -> float:
    rows = end.json
    assert isinstance(rows, list)
    return mean(row["half_width"] for row in rows)


def test_unsure_is_no_label_takes_an_earlier_one_away_and_shows_the_answer_to_somebody_else(copied: Copied) -> None:
    root = copied(ANNOTATED)
    with opened(root) as ada:
        shown, *_ = (ada.label() for _ in range(6))
        sure = half_width(call("leaderboard", root.name, "--format", "json"))
        assert ada.post("/unsure", id=shown).status_code == 303
        assert number_of_labels(root) == 5
        assert ada.shown() != shown
        assert "unsure" in ada.get("/progress.json").json()["unsure"]
        unsure = call("leaderboard", root.name, "--format", "json")
        assert "unsure" in unsure.err
        assert half_width(unsure) > sure
        bob = ada.named("bob")
        assert shown in {bob.label() for _ in range(3)}
        assert not ada.get("/progress.json").json()["unsure"]


def test_one_unsure_answer_beside_many_labels_of_a_gold_set_widens_nothing(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    with opened(root) as app:
        sure = half_width(call("leaderboard", root.name, "--format", "json"))
        assert app.post("/unsure", id=app.shown()).status_code == 303
        assert half_width(call("leaderboard", root.name, "--format", "json")) == sure


FOREIGN = (b'{"kind": "label", "item_id": 7}', b'{"hello": "world"}', b'{"kind": "drop", "n_hints": 0}', b"{}")
"""Lines that are no action of the app."""
CUT = b'{"kind": "label", "item_id": "cut o'
"""The machine lost its power."""


def test_the_app_goes_on_where_it_was_and_a_damaged_line_costs_that_line_and_is_said(copied: Copied) -> None:
    root = copied(ANNOTATED)
    with opened(root) as app:
        keys = [app.key(app.label()) for _ in range(5)]
    log = next((root / "labels").glob("annotate-*.jsonl"))
    with log.open("ab") as handle:
        handle.write(b"\n".join((*FOREIGN, CUT)))
    with opened(root) as app:
        assert app.key(app.shown()) not in keys
        app.label()
    told = call("leaderboard", root.name)
    assert (told.code, number_of_labels(root)) == (0, 6)
    assert all(words in told.err for words in ("cut off", f"{log.name}, line 6", "the line is passed over"))


def test_several_people_label_a_share_twice_their_agreement_is_shown_and_disputes_are_settled(copied: Copied) -> None:
    root = copied(ANNOTATED)
    with opened(root, overlap=0.5) as ada:
        mine = {ada.label() for _ in range(10)}
        ada.settle()
        bob = ada.named("bob")
        theirs = {bob.label("wrong", "right") for _ in range(2 * len(mine))}
        shared = theirs & mine
        assert 0 < len(shared) < len(mine)  # though he had time for all of hers
        bob.settle()
        numbers = bob.get("/progress.json").json()
        assert numbers["disputed"] == len(shared)
        assert numbers["agreement"].startswith(f"on {len(shared)} answer")
        assert numbers["people"] == ["ada: 10", f"bob: {len(theirs)}"]
        for left in range(len(shared), 0, -1):
            page = bob.get("/adjudicate").text
            assert f"1 of {left}." in page
            assert "ada" in page
            (shown,) = {part.partition('"')[0] for part in page.split('name="id" value="')[1:]}
            assert bob.post("/adjudicate", id=shown, answer="right", justification="wrong").status_code == 303
        assert "No open disagreement" in bob.get("/adjudicate").text
        assert bob.get("/progress.json").json()["disputed"] == 0  # settled, though the forecast is of before
        assert ada.key(ada.named("eve").shown()) not in set(map(ada.key, shared))
        bob.settle()
    rows = [row for row in exported(root, "annotations") if row.get("adjudicated")]
    assert len(rows) == len(shared)
    words = {(row["annotator"], row["is_answer_correct"], row["is_justification_correct"]) for row in rows}
    assert words == {("bob", True, False)}
    assert call("judges", root.name).code == 0


def test_the_balanced_queue_goes_on_in_one_order_whatever_was_labelled(copied: Copied) -> None:
    root, models = copied(ANNOTATED), list[str]()
    for annotator, of_each in (("ada", 3), ("bob", 6)):
        with opened(root, annotator, design="balanced") as app:
            models += [app.key(app.label())[2] for _ in range(9)]
        assert {models.count(name) for name in models} == {of_each}


def test_ctrl_c_ends_the_app_well(copied: Copied, tmp_path: Path) -> None:
    process = start("label", copied(ANNOTATED).name, "--port", "0", cwd=tmp_path)
    assert process.stderr is not None
    assert "http://127.0.0.1:" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 0
