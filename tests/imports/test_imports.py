"""Answers made elsewhere, in a run: judged and ranked beside the others, checked whole, and paid for never twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from layton_batch.files.run_folder import RunFolder
from layton_batch.records import JsonValue
from layton_batch.runs.status import RunState
from layton_batch.store.reopening import retry
from layton_batch.store.run_store import RunStore
from tests.support.cli_harness import Ending, call
from tests.support.lab import Lab, lab, manifest_text
from tests.support.pages import without_pages as without_pages
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
        assert retry(run.store, run.clock.now()) == 0
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
    # with verdicts on all predictions the board is complete at once, and nothing is ever paid
    assert _import(there, "--model", "wren", "--predictions", _answers(there)).code == 0
    assert _import(there, "--model", "wren", "--verdicts", _verdicts(there, items)).code == 0
    assert "wren" in [row["model"] for row in _board(there.run_folder(MANIFEST))]
    there.finish(MANIFEST)
    assert len(there.billed()) == paid + 1


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


def test_a_wrong_row_is_told_with_its_file_and_line_and_nothing_comes_in(unchanged: Lab) -> None:
    items, content = _items(unchanged), _content(unchanged.run_folder(MANIFEST))
    good: dict[str, JsonValue] = {"item_id": items[1], "answer": "7", "justification": "so"}
    for changes in ({"item_id": "nowhere"}, {"item_id": None}, {"item_id": items[0]}, {"answer": 7}):
        rows = [{**good, "item_id": items[0]}, good | changes]
        path = _write(unchanged.folder / "a.jsonl", rows)
        ended = _import(unchanged, "--model", "finch", "--predictions", path)
        assert (ended.code, f"{path}, line 2: " in ended.err) == (2, True), ended.err
    path = _verdicts(unchanged, items[:1])
    line = json.loads(path.read_text())
    for odd in ({"custom_id": "nowhere"}, {"custom_id": None}, {"model": None}, {"answer": {"x": True}}, {}):
        path.write_text(json.dumps(line) + "\n" + json.dumps({**line, **odd}) + "\n")
        ended = _import(unchanged, "--model", "finch", "--predictions", _answers(unchanged), "--verdicts", path)
        assert (ended.code, f"{path}, line 2: " in ended.err) == (2, True), ended.err
    assert _content(unchanged.run_folder(MANIFEST)) == content
    assert "finch" not in call("status", unchanged.run_folder(MANIFEST).root, "--json").out


def test_what_contradicts_the_run_is_refused_as_a_whole(unchanged: Lab) -> None:
    answers, items = _answers(unchanged), _items(unchanged)
    finch = ("--model", "finch", "--predictions", answers)
    wrong: list[tuple[tuple[str | Path, ...], str]] = [
        (("--model", "larch-2-mini", "--predictions", answers), "'larch-2-mini'"),
        (("--model", "larch-2-mini", "--verdicts", _verdicts(unchanged, items, right=False)), "was asked"),
        (("--model", "a\nb", "--predictions", answers), "cannot name a model"),
        (("--model", "finch", "--predictions", unchanged.folder / "none.jsonl"), "none.jsonl"),
        (("--predictions", answers), "--model"),
        (("--model", "finch", "--verdicts", _verdicts(unchanged, items)), "'finch'"),
        ((), "--predictions"),
        (("--model", "finch", "--eee", answers), "--eee"),
        (("--eee", answers), "Every Eval Ever"),
        ((*finch, "--verdicts", _verdicts(unchanged, items, "wren")), "'wren'"),
    ]
    content = _content(unchanged.run_folder(MANIFEST))
    for arguments, named in wrong:
        ended = _import(unchanged, *arguments)
        assert (ended.code, named in ended.err) == (2, True), ended.err
    assert _content(unchanged.run_folder(MANIFEST)) == content


# ---- later manifests -----------------------------------------------------------------------------------------------


def test_a_name_that_the_manifest_had_before_is_refused_and_its_model_may_come_back(there: Lab) -> None:
    renamed = MANIFEST.replace('name = "larch-2-mini"', 'name = "larch"', 1)
    assert there.finish(renamed).unanswered == 0
    ended = _import(there, "--model", "larch", "--verdicts", _verdicts(there, _items(there)))
    assert (ended.code, "was asked about this model already" in ended.err) == (2, True), ended.err
    for text in (renamed, manifest_text(("groq",))):
        there.finish(text)
        before = _content(there.run_folder(MANIFEST))
        ended = _import(there, "--model", "larch-2-mini", "--predictions", _answers(there))
        assert (ended.code, "another name" in ended.err) == (2, True), ended.err
        assert _content(there.run_folder(MANIFEST)) == before
    billed = there.billed()
    assert there.finish(MANIFEST).unanswered == 0
    assert there.billed() == billed


def test_an_imported_model_follows_the_items_of_later_manifests_and_later_files_answer_what_came(there: Lab) -> None:
    first = _items(there)
    _import(there, "--model", "finch", "--predictions", _answers(there))
    for limit in (2, 6):
        later = manifest_text(("openai",), limit=limit)
        assert there.finish(later).state is RunState.DONE
        rows = {str(row["model"]): row for row in _board(there.run_folder(later))}
        assert {name: row["n_items"] for name, row in rows.items()} == {"larch-2-mini": limit, "finch": limit}
        assert rows["finch"]["n_missing"] == max(0, limit - 4)
    with there.open(later) as run:
        assert retry(run.store, run.clock.now()) == 0  # nobody is asked in the place of a file
    items = there.table(later, "items")["item_id"].to_list()
    paid, answers = there.billed(), _answers(there, *items)
    arguments = (there.run_folder(later).root, "--model", "finch", "--predictions", answers)
    assert call("import", *arguments).code == 0
    assert there.finish(later).state is RunState.DONE
    row = next(row for row in _board(there.run_folder(later)) if row["model"] == "finch")
    assert (row["n_items"], row["n_missing"]) == (6, 0)
    new = there.requests(later).filter(pl.col("custom_id").is_in(list(there.billed().keys() - paid.keys())))
    assert set(new.select("role", "model", "item_id").rows()) == {
        ("judge", "finch", item) for item in items if item not in first
    }
    content = _content(there.run_folder(later))
    assert call("import", *arguments).code == 0
    assert _content(there.run_folder(later)) == content
    answers.write_text(answers.read_text().replace("seven", "eight", 1))
    ended = call("import", *arguments)
    assert (ended.code, "other predictions" in ended.err) == (2, True), ended.err
