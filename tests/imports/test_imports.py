"""Answers made elsewhere, in a run: judged and ranked beside the others, checked whole, and paid for never twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from layton_batch.batches.retry import retry_run
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import JsonValue
from layton_batch.runs.status import RunState
from layton_batch.store.run_store import RunStore
from tests.support.cli_harness import Ending, call
from tests.support.finished_runs import RULES, rule_run
from tests.support.lab import Lab, lab, manifest_text
from tests.support.tiers import tiered

MANIFEST = manifest_text(("openai",))
JUDGE = "tern-3-referee"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Lab]:
    """A lab whose run has one model on four riddles, judged by one judge, and is done."""
    with lab(tmp_path) as found:
        found.finish(MANIFEST)
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The same for imports that are refused: they leave the run as it is."""
    with lab(tmp_path_factory.mktemp("unchanged")) as found:
        found.finish(MANIFEST)
        yield found


def _items(there: Lab) -> list[str]:
    return there.table(MANIFEST, "items")["item_id"].to_list()


def _write(path: Path, rows: Sequence[Mapping[str, JsonValue]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _answers(there: Lab, *items: str) -> Path:
    rows = [
        {"item_id": item, "answer": f"seven {item}", "justification": "I counted."} for item in items or _items(there)
    ]
    return _write(there.folder / "answers.jsonl", rows)


def _verdicts(there: Lab, items: Sequence[str], judge: str = JUDGE, *, right: bool = True) -> Path:
    said = json.dumps({"is_answer_correct": right, "is_justification_correct": right})
    rows = [{"custom_id": item, "answer": said, "model": judge} for item in items]
    return _write(there.folder / f"{judge}.jsonl", rows)


def _import(there: Lab, *more: str | Path) -> Ending:
    return call("import", there.run_folder(MANIFEST).root, *more)


def _board(folder: RunFolder, *more: str) -> list[dict[str, JsonValue]]:
    found: list[dict[str, JsonValue]] = json.loads(call("leaderboard", folder.root, "--format", "json", *more).out)
    return found


def _content(folder: RunFolder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.root.rglob("*.parquet")}


# ---- predictions ---------------------------------------------------------------------------------------------------


def test_imported_answers_go_before_the_runs_jury_and_nothing_else_is_asked_also_the_second_time(there: Lab) -> None:
    before, answers = there.billed(), _answers(there)
    ended = _import(there, "--model", "finch", "--predictions", answers)
    assert ended.code == 0, ended.err
    assert "4 answers, 4 verdicts to be asked for" in ended.err
    assert there.billed() == before
    there.finish(MANIFEST)
    new = {name for name, times in there.billed().items() if name not in before}
    asked = there.requests(MANIFEST).filter(pl.col("custom_id").is_in(list(new)))
    assert set(asked.select("role", "model", "judge").rows()) == {("judge", "finch", JUDGE)}
    assert len(new) == 4
    assert {row["model"] for row in _board(there.run_folder(MANIFEST))} == {"larch-2-mini", "finch"}
    paid, content = there.billed(), _content(there.run_folder(MANIFEST))
    lines = answers.read_text().splitlines()
    answers.write_text("\n".join(reversed(lines)) + "\n")  # the order of a file means nothing
    ended = _import(there, "--model", "finch", "--predictions", answers)
    assert "nothing new of its answers" in ended.err
    assert _content(there.run_folder(MANIFEST)) == content
    there.finish(MANIFEST)
    assert there.billed() == paid
    assert set(paid.values()) == {1}
    ended = _import(there, "--model", "finch", "--predictions", _answers(there, *_items(there)[:2]))
    assert (ended.code, "the run has other predictions" in ended.err) == (2, True)


def test_items_without_an_imported_answer_are_missing_and_never_asked_and_a_judge_of_its_family_does_not_sit(
    there: Lab,
) -> None:
    answers = _answers(there, *_items(there)[:3])
    ended = _import(there, "--model", "finch", "--predictions", answers, "--family", "gemini")
    assert "1 item of the run without one" in ended.err
    there.finish(MANIFEST)
    assert set(there.table(MANIFEST, "verdicts").filter(model="finch")["judge"]) == {"sirocco-referee"}
    paid = there.billed()
    with there.open(MANIFEST) as run:
        assert retry_run(run) == 0
    there.finish(MANIFEST)
    assert there.billed() == paid
    row = next(row for row in _board(there.run_folder(MANIFEST)) if row["model"] == "finch")
    assert (row["n_items"], row["n_missing"]) == (4, 1)


def test_an_imported_answer_that_cannot_be_read_is_not_asked_again_where_the_policy_does_so(tmp_path: Path) -> None:
    text = MANIFEST + "[policy]\nreask_unparsed = 2\n"
    with lab(tmp_path) as there:
        there.finish(text)
        paid = there.billed()
        rows = [{"item_id": item, "response": "no JSON at all"} for item in there.table(text, "items")["item_id"]]
        path = _write(tmp_path / "answers.jsonl", rows)
        ended = call("import", there.run_folder(text).root, "--model", "finch", "--predictions", path)
        assert ended.code == 0, ended.err
        assert "4 answers, 4 in another form than the task asks for, which count as wrong" in ended.err
        there.finish(text)
        assert there.billed() == paid
        assert next(row for row in _board(there.run_folder(text)) if row["model"] == "finch")["n_unparsed"] == 4


@pytest.mark.parametrize("task", tiered(RULES, ci=("zebralogic",)))
def test_a_model_of_another_run_graded_by_rule_comes_back_with_the_same_row(tmp_path: Path, task: str) -> None:
    folder = rule_run(tmp_path, task)
    call("export", folder.root, "--to", "parquet", "--out", tmp_path / "out")
    whole = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    for number, name in enumerate(whole["model"].unique(maintain_order=True)):
        part = tmp_path / f"{number}.parquet"
        whole.filter(model=name).write_parquet(part)
        ended = call("import", folder.root, "--model", f"again {name}", "--predictions", part)
        assert ended.code == 0, ended.err
    rows = {str(row["model"]): row for row in _board(folder)}
    counted = ("score", "n_items", "n_unparsed", "n_missing", "n_abstained", "failures")
    for name in whole["model"].unique():
        assert [rows[name][key] for key in counted] == [rows[f"again {name}"][key] for key in counted]


# ---- verdicts ------------------------------------------------------------------------------------------------------


def test_judges_files_come_with_the_predictions_and_only_the_rest_is_asked(there: Lab) -> None:
    items, paid = _items(there), len(there.billed())
    given = _verdicts(there, items[:3])
    arguments = ("--model", "finch", "--predictions", _answers(there), "--verdicts", given)
    ended = _import(there, *arguments)
    assert ended.code == 0, ended.err
    assert "4 answers, 3 verdicts, 1 verdict to be asked for" in ended.err
    there.finish(MANIFEST)
    assert len(there.billed()) == paid + 1
    said = there.table(MANIFEST, "verdicts").filter(model="finch", judge=JUDGE)
    assert sorted(said["item_id"]) == sorted(items)
    assert said.filter(pl.col("item_id").is_in(items[:3]))["both_correct"].all()
    content = _content(there.run_folder(MANIFEST))
    assert _import(there, *arguments).code == 0
    there.finish(MANIFEST)
    assert (len(there.billed()), _content(there.run_folder(MANIFEST))) == (paid + 1, content)


def test_with_verdicts_on_all_predictions_the_board_is_complete_at_once_and_nothing_is_ever_paid(there: Lab) -> None:
    paid = there.billed()
    _import(there, "--model", "finch", "--predictions", _answers(there))
    ended = _import(there, "--model", "finch", "--verdicts", _verdicts(there, _items(there)))
    assert ended.code == 0, ended.err
    assert "finch" in [row["model"] for row in _board(there.run_folder(MANIFEST))]
    there.finish(MANIFEST)
    assert there.billed() == paid


def test_a_judge_that_was_asked_keeps_its_word(unchanged: Lab) -> None:
    content = _content(unchanged.run_folder(MANIFEST))
    ended = _import(
        unchanged, "--model", "larch-2-mini", "--verdicts", _verdicts(unchanged, _items(unchanged), right=False)
    )
    assert (ended.code, "was asked about this model already" in ended.err) == (2, True)
    assert _content(unchanged.run_folder(MANIFEST)) == content


@pytest.mark.parametrize("moment", tiered(("add_jobs", "plan_job", "plan_again"), ci=("plan_job",)))
def test_an_import_that_was_cut_short_is_finished_by_the_next_and_nothing_of_it_is_ever_paid(
    there: Lab, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    items, paid = _items(there), len(there.billed())
    arguments = ("--model", "finch", "--predictions", _answers(there), "--provider", "openai")
    arguments = (*arguments, "--verdicts", _verdicts(there, items[:3]))

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, moment, stop)
        assert _import(there, *arguments).code == 75
    assert _import(there, *arguments).code == 0
    there.finish(MANIFEST)
    assert len(there.billed()) == paid + 1
    assert there.table(MANIFEST, "verdicts").filter(model="finch", judge=JUDGE)["both_correct"].count() == 4


# ---- files that are wrong ------------------------------------------------------------------------------------------


def _row(there: Lab, number: int = 1, **changes: JsonValue) -> dict[str, JsonValue]:
    return {"item_id": _items(there)[number], "answer": "7", "justification": "so", **changes}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"item_id": "nowhere"}, "there is no item 'nowhere'"),
        ({"item_id": None}, "has no id of an item (a column called item_id, "),
        ({"item_id": True}, "'item_id' must be text or a whole number"),
        ({"item_id": "FIRST"}, "is there twice (first in"),
        ({"answer": 7}, "'answer' and 'justification' must be text or null"),
        ({"response": ["a"]}, "'response' must be text or null"),
    ],
)
def test_a_wrong_row_is_told_with_its_file_and_line_and_nothing_changes(
    unchanged: Lab, changes: dict[str, JsonValue], reason: str
) -> None:
    wrong = {**_row(unchanged), **changes}
    if wrong["item_id"] == "FIRST":
        wrong["item_id"] = _items(unchanged)[0]
    path, content = (
        _write(unchanged.folder / "a.jsonl", [_row(unchanged, 0), wrong]),
        _content(unchanged.run_folder(MANIFEST)),
    )
    ended = _import(unchanged, "--model", "finch", "--predictions", path)
    assert ended.code == 2
    assert f"{path}, line 2: " in ended.err
    assert reason in ended.err
    assert _content(unchanged.run_folder(MANIFEST)) == content
    assert "finch" not in call("status", unchanged.run_folder(MANIFEST).root, "--json").out


def test_the_order_in_which_letters_are_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = {"id": "a", "question": "?", "options": ["x", "y"], "answer": "y"}
    (tmp_path / "items.jsonl").write_text(json.dumps(items) + "\n", encoding="utf-8")
    (tmp_path / "mine.toml").write_text(
        'name="mine"\ntask="mcq_idk"\n[items]\nsource="items.jsonl"\n', encoding="utf-8"
    )
    (tmp_path / "finch.jsonl").write_text('{"item_id": "a", "response": "Answer: A"}\n', encoding="utf-8")
    ended = call("import", "mine.toml", "--model", "finch", "--predictions", "finch.jsonl")
    assert ended.code == 0, ended.err
    assert "letters of finch.jsonl are read in the order in which mine shows the options" in ended.err


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"custom_id": "nowhere"}, "there is no item 'nowhere'"),
        ({"custom_id": None}, "'custom_id' must be text"),
        ({"model": None}, "'model' must be the judge's name"),
        ({"answer": {"is_answer_correct": True}}, "'answer' must be text"),
        ({}, "has a verdict on item"),
    ],
)
def test_a_wrong_verdict_is_told_and_the_predictions_beside_it_do_not_come_in(
    unchanged: Lab, changes: dict[str, JsonValue], reason: str
) -> None:
    items = _items(unchanged)
    path = _verdicts(unchanged, items[:1])
    row = json.loads(path.read_text())
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **changes}) + "\n")
    ended = _import(unchanged, "--model", "finch", "--predictions", _answers(unchanged), "--verdicts", path)
    assert ended.code == 2
    assert f"{path}, line 2: " in ended.err
    assert reason in ended.err
    assert "finch" not in call("status", unchanged.run_folder(MANIFEST).root, "--json").out


def test_what_contradicts_the_run_is_refused_as_a_whole(unchanged: Lab) -> None:
    answers, items = _answers(unchanged), _items(unchanged)
    wrong: list[tuple[tuple[str | Path, ...], str]] = [
        (("--model", "larch-2-mini", "--predictions", answers), "asks a model called 'larch-2-mini' itself"),
        (("--model", "a\nb", "--predictions", answers), "cannot name a model"),
        (("--model", "finch", "--predictions", unchanged.folder / "none.jsonl"), "no such file"),
        (("--predictions", answers), "--model NAME"),
        (("--model", "finch", "--verdicts", _verdicts(unchanged, items)), "the run has no model 'finch'"),
        ((), "give --predictions FILE"),
        (("--model", "finch", "--eee", answers), "--eee cannot be combined with --model"),
        (("--eee", answers), "is no line of Every Eval Ever"),
        (
            ("--model", "finch", "--predictions", answers, "--verdicts", _verdicts(unchanged, items, "wren")),
            "judge 'wren' does not sit",
        ),
    ]
    content = _content(unchanged.run_folder(MANIFEST))
    for arguments, reason in wrong:
        ended = _import(unchanged, *arguments)
        assert (ended.code, reason in ended.err) == (2, True), ended.err
    assert _content(unchanged.run_folder(MANIFEST)) == content


def test_the_name_of_a_model_that_the_manifest_no_longer_has_is_refused_and_the_model_may_come_back(
    there: Lab,
) -> None:
    retired = "larch-2-mini"
    there.finish(manifest_text(("groq",)))
    before = _content(there.run_folder(MANIFEST))
    ended = _import(there, "--model", retired, "--predictions", _answers(there))
    assert (ended.code, f"give {retired!r} another name" in ended.err) == (2, True), ended.err
    assert _content(there.run_folder(MANIFEST)) == before
    billed = there.billed()
    assert there.finish(MANIFEST).unanswered == 0
    assert there.billed() == billed


def test_verdicts_on_a_model_that_the_manifest_calls_otherwise_by_now_are_no_new_model(there: Lab) -> None:
    renamed = MANIFEST.replace('name = "larch-2-mini"', 'name = "larch"', 1)
    assert there.finish(renamed).unanswered == 0
    ended = _import(there, "--model", "larch", "--verdicts", _verdicts(there, _items(there)))
    assert (ended.code, "was asked about this model already" in ended.err) == (2, True), ended.err
    ended = _import(there, "--model", "larch-2-mini", "--predictions", _answers(there))
    assert (ended.code, "calls otherwise; give 'larch-2-mini' another name" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize("limit", tiered((2, 3, 6), ci=(2,)))
def test_an_imported_model_follows_the_items_of_a_later_manifest(there: Lab, limit: int) -> None:
    _import(there, "--model", "finch", "--predictions", _answers(there))
    there.finish(MANIFEST)
    later = manifest_text(("openai",), limit=limit)
    status = there.finish(later)
    assert status.state is RunState.DONE
    rows = {str(row["model"]): row for row in _board(there.run_folder(later))}
    assert {name: row["n_items"] for name, row in rows.items()} == {"larch-2-mini": limit, "finch": limit}
    assert rows["finch"]["n_missing"] == max(0, limit - 4)
    paid = there.billed()
    with there.open(later) as run:
        assert retry_run(run) == 0  # nobody is asked in the place of a file
    there.finish(later)
    assert there.billed() == paid
    assert there.finish(MANIFEST).state is RunState.DONE
    assert {(row["n_items"], row["n_missing"]) for row in _board(there.run_folder(MANIFEST))} == {(4, 0)}


def test_a_later_file_answers_the_items_that_came_since_and_the_earlier_answers_stay(there: Lab) -> None:
    first = _items(there)
    _import(there, "--model", "finch", "--predictions", _answers(there))
    there.finish(MANIFEST)
    later = manifest_text(("openai",), limit=6)
    there.finish(later)
    items = there.table(later, "items")["item_id"].to_list()
    paid, answers = there.billed(), _answers(there, *items)
    ended = call("import", there.run_folder(later).root, "--model", "finch", "--predictions", answers)
    assert ended.code == 0, ended.err
    assert there.finish(later).state is RunState.DONE
    row = next(row for row in _board(there.run_folder(later)) if row["model"] == "finch")
    assert (row["n_items"], row["n_missing"]) == (6, 0)
    new = there.requests(later).filter(pl.col("custom_id").is_in(list(there.billed().keys() - paid.keys())))
    assert set(new.select("role", "model", "item_id").rows()) == {
        ("judge", "finch", item) for item in items if item not in first
    }
    content = _content(there.run_folder(later))
    assert call("import", there.run_folder(later).root, "--model", "finch", "--predictions", answers).code == 0
    assert _content(there.run_folder(later)) == content
    answers.write_text(answers.read_text().replace("seven", "eight", 1))
    refused = call("import", there.run_folder(later).root, "--model", "finch", "--predictions", answers)
    assert refused.code == 2
    assert "other predictions of a model called 'finch'" in refused.err
