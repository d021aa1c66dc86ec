"""The labelling app, request by request: what it keeps, what it shows, and what it never shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import layton_batch as lb
from layton_batch.annotate.session import _share
from layton_batch.cli import labelling
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.labels import read_label_actions
from tests.labels.app_desk import opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, WITH_GOLD, answers
from tests.support.cli_harness import call


def board(root: Path) -> list[dict[str, object]]:
    ended = call("leaderboard", root.name, "--format", "json")
    assert ended.code == 0, ended.err
    found: list[dict[str, object]] = json.loads(ended.out)
    return found


def exported(root: Path, out: Path) -> list[dict[str, object]]:
    assert call("export", root.name, "--to", "annotations", "--out", str(out)).code == 0
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_a_label_is_kept_at_once_and_the_next_leaderboard_uses_it(copied: Copied) -> None:
    root = copied(PLAIN)
    assert {row["method"] for row in board(root)} == {"uncalibrated"}
    with opened(root) as app:
        for number in range(12):
            app.label("right" if number % 3 else "wrong", "right")
            assert sum(1 for _ in read_label_actions(RunFolder(root)).labels()) == number + 1
        assert {row["method"] for row in board(root)} == {"hierarchical"}
        assert sum(int(str(row["own_labels"])) for row in board(root)) == 12


def test_no_response_before_a_label_names_a_model_or_a_verdict(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    models = {str(one[name]) for one in answers(root) for name in ("model", "provider")}
    rows = board(root)
    with opened(root) as app:
        for path in ("/", "/progress", "/adjudicate", "/progress.json", "/name", "/assets/annotate.js"):
            app.get(path)
        for _ in range(6):
            app.label()
        app.post("/undo")
        app.get()
        text = "\n".join(app.seen).casefold()
    assert len(app.seen) > 20
    for name in (*models, *(str(row["model"]) for row in rows), "verdict", "jury", "vote"):
        assert name.casefold() not in text.replace("data-verdict", "").replace('class="verdict"', ""), name


def test_one_annotator_in_two_apps_gets_different_answers_and_an_app_that_ended_holds_none(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as here:
        first = here.shown()
        with opened(root) as there:
            assert there.shown() != first
            labelled = {app.label() for app in (there, here, here, there)}
            assert len(labelled) == 4
            left = there.shown()
            assert here.shown() != left
        here.label()
        assert here.shown() == left


def test_unsure_is_no_label_takes_an_earlier_one_away_and_shows_the_answer_to_somebody_else(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as ada:
        shown = ada.label()
        assert ada.post("/unsure", id=shown).status_code == 303
        assert list(read_label_actions(RunFolder(root)).labels()) == []
        assert ada.shown() != shown
        bob = ada.named("bob")
        assert shown in {bob.label() for _ in range(3)}


def test_the_app_goes_on_where_it_was_when_it_is_started_again(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        done = [app.label() for _ in range(5)]
        keys = [app.session.answers.key_of(one) for one in done]
    log = next((root / "labels").glob("annotate-*.jsonl"))
    with log.open("ab") as handle:
        handle.write(b'{"kind": "label", "item_id": "cut o')  # the machine lost its power
    with opened(root) as app:
        assert app.session.answers.key_of(app.shown()) not in keys
        app.label()
        actions = read_label_actions(RunFolder(root))
        assert sum(1 for _ in actions.labels()) == 6
        assert actions.damaged == {log: 1}
    told = call("leaderboard", root.name)
    assert told.code == 0
    assert "cut off" in told.err


def test_labels_go_out_and_in_again_with_their_notes(copied: Copied, tmp_path: Path) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        app.label("right", "wrong", note="<b>bold</b>")
        app.label()
    rows = exported(root, tmp_path / "out.jsonl")
    assert sorted(str(row["notes"]) for row in rows) == ["", "<b>bold</b>"]
    assert {row["annotator"] for row in rows} == {"ada"}
    taken = lb.label_import(root, tmp_path / "out.jsonl").frame
    assert (taken["added"] + taken["changed"]).item() == 2  # known by another `about`
    assert sum(int(str(row["own_labels"])) for row in board(root)) == 2
    ppi = tmp_path / "ppi.jsonl"
    assert call("export", root.name, "--to", "ppi", "--out", str(ppi)).code == 0
    words = [json.loads(line).get("human_both_correct") for line in ppi.read_text(encoding="utf-8").splitlines()]
    assert sorted(word for word in words if word is not None) == [False, True]


def test_several_people_label_a_share_twice_their_agreement_is_shown_and_disputes_are_settled(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root, overlap=0.5) as ada:
        mine = {ada.label() for _ in range(10)}
        ada.settle()
        bob = ada.named("bob")
        shared = {one for one in mine if (key := ada.session.answers.key_of(one)) and _share(key) < 0.5}
        assert 0 < len(shared) < 10
        theirs = {bob.label("wrong", "right") for _ in range(2 * len(shared) + 1)}
        assert theirs & mine == shared
        bob.settle()
        numbers = bob.get("/progress.json").json()
        assert numbers["disputed"] == len(shared)
        assert numbers["agreement"].startswith(f"{len(shared)} answer")
        assert numbers["people"] == ["ada: 10", f"bob: {len(theirs)}"]
        for left in range(len(shared), 0, -1):
            page = bob.get("/adjudicate").text
            assert f"1 of {left}." in page
            assert "ada" in page
            (shown,) = {part.partition('"')[0] for part in page.split('name="id" value="')[1:]}
            assert bob.post("/adjudicate", id=shown, answer="right", justification="wrong").status_code == 303
        assert "No open disagreement" in bob.get("/adjudicate").text
        assert bob.get("/progress.json").json()["disputed"] == 0  # settled, though the forecast is of before
        assert ada.session.answers.key_of(ada.named("eve").shown()) not in {
            ada.session.answers.key_of(one) for one in shared
        }
        bob.settle()
    rows = [row for row in exported(root, root / "out.jsonl") if row.get("adjudicated")]
    assert len(rows) == len(shared)
    assert {(row["is_answer_correct"], row["is_justification_correct"]) for row in rows} == {(True, False)}
    assert {row["annotator"] for row in rows} == {"bob"}
    assert call("judges", root.name).code == 0


def test_the_balanced_queue_goes_on_in_one_order_whatever_was_labelled(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root, design="balanced") as app:
        order = [app.session.answers.key_of(app.label()) for _ in range(9)]
        models = [key[2] for key in order if key]
        assert {models.count(name) for name in models} == {3}
    with opened(root, "bob", design="balanced") as app:
        assert [key for key in app.session.forecast.queue if key in order] == []
        more = [app.session.answers.key_of(app.label()) for _ in range(9)]
        models += [key[2] for key in more if key]
        assert {models.count(name) for name in models} == {6}


FOREIGN = (b'{"kind": "label", "item_id": 7}', b'{"hello": "world"}', b'{"kind": "drop", "n_hints": 0}', b"{}")
"""Lines that are no action of the app."""


def test_a_foreign_line_in_one_annotators_file_costs_that_line_and_is_said(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        app.label()
    log = next((root / "labels").glob("annotate-*.jsonl"))
    with log.open("ab") as handle:
        handle.write(b"\n".join(FOREIGN) + b"\n")
    with opened(root) as app:
        app.label()
    actions = read_label_actions(RunFolder(root))
    assert (len(list(actions.labels())), len(actions.foreign)) == (2, len(FOREIGN))
    told = call("leaderboard", root.name)
    assert told.code == 0
    assert f"{log.name}, line 2" in told.err
    assert "the line is passed over" in told.err


def test_ctrl_c_ends_the_app_well_and_what_was_labelled_is_kept(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        app.label()

    def interrupt() -> None:
        raise KeyboardInterrupt  # once it waits; a signal would count as a stop of this whole process

    monkeypatch.setattr(labelling, "enable_sigint", interrupt)
    ended = call("label", root.name)
    assert ended.code == 0, ended.err
    assert sum(1 for _ in read_label_actions(RunFolder(root)).labels()) == 1
