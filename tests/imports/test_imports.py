"""Answers made elsewhere, in a run: judged and ranked beside the others, checked whole, and paid for never twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from layton_batch.batches import batch_results
from layton_batch.records import JsonValue
from layton_batch.store.run_store import RunStore
from tests.support.cli_harness import call, refused
from tests.support.harness_files import write_lines
from tests.support.lab import Lab, RunState, lab, manifest_text
from tests.support.pages import without_pages as without_pages

MANIFEST = manifest_text(("openai",)) + "[policy]\nreask_unparsed = 2\n"
JUDGE = "tern-3-referee"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose run has one model on four riddles, judged by one judge, and is done. Each test imports a model of its
    own name, or what is refused."""
    with lab(tmp_path_factory.mktemp("there")) as found:
        found.finish(MANIFEST)
        yield found


def _items(there: Lab, text: str = MANIFEST) -> list[str]:
    return there.table(text, "items")["item_id"].to_list()


def _answers(there: Lab, model: str, items: Sequence[str] = ()) -> Path:
    rows = [
        {"item_id": item, "answer": f"{model} says {item}", "justification": "I counted."}
        for item in items or _items(there)
    ]
    return write_lines(there.folder / f"{model}-answers.jsonl", rows)


def _verdicts(there: Lab, items: Sequence[str], judge: str = JUDGE, *, right: bool = True) -> Path:
    said = json.dumps({"is_answer_correct": right, "is_justification_correct": right})
    rows = [{"custom_id": item, "answer": said, "model": judge} for item in items]
    return write_lines(there.folder / f"{judge}.jsonl", rows)


def _import(there: Lab, *more: str | Path, text: str = MANIFEST) -> str:
    """Import what is taken; return the messages."""
    ended = call("import", there.run_folder(text).root, *more)
    assert ended.code == 0, ended.err
    return ended.err


def _refused(there: Lab, *more: str | Path) -> str:
    return refused("import", there.run_folder(MANIFEST).root, *more)


def _board(there: Lab, text: str = MANIFEST) -> dict[str, dict[str, JsonValue]]:
    rows = json.loads(call("leaderboard", there.run_folder(text).root, "--format", "json").out)
    return {row["model"]: row for row in rows}


def _content(there: Lab, text: str = MANIFEST) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in there.run_folder(text).root.rglob("*.parquet")}


def _asked_since(there: Lab, paid: Mapping[str, int], text: str = MANIFEST) -> set[tuple[str, str, str]]:
    """Role, model and item of each request that was billed since."""
    new = list(there.billed().keys() - paid.keys())
    asked = there.requests(text).filter(pl.col("custom_id").is_in(new))
    return set(asked.select("role", "model", "item_id").rows())


# ---- predictions ---------------------------------------------------------------------------------------------------


def test_imported_answers_go_before_the_runs_jury_and_nothing_else_is_asked_also_the_second_time(there: Lab) -> None:
    before, answers = there.billed(), _answers(there, "finch")
    finch = ("--model", "finch", "--predictions", answers)
    assert "4 answers, 4 verdicts to be asked for" in _import(there, *finch)
    assert there.billed() == before
    there.finish(MANIFEST)
    assert _asked_since(there, before) == {("judge", "finch", item) for item in _items(there)}
    assert {"larch-2-mini", "finch"} <= _board(there).keys()
    paid, content = there.billed(), _content(there)
    lines = answers.read_text().splitlines()
    answers.write_text("\n".join(reversed(lines)) + "\n")  # the order of a file means nothing
    assert "nothing new of its answers" in _import(there, *finch)
    assert _content(there) == content
    there.finish(MANIFEST)
    assert there.billed() == paid
    assert set(paid.values()) == {1}
    assert "the run has other predictions" in _refused(there, *finch[:-1], _answers(there, "finch", _items(there)[:2]))


def test_answers_that_lack_or_cannot_be_read_are_never_asked_and_a_judge_of_the_model_s_family_does_not_sit(
    there: Lab,
) -> None:
    answers = _answers(there, "robin", _items(there)[:3])
    first, second, third = answers.read_text().splitlines()
    unreadable = json.dumps({"item_id": json.loads(third)["item_id"], "response": "no JSON at all"})
    answers.write_text("\n".join((first, second, unreadable)))
    told = _import(there, "--model", "robin", "--predictions", answers, "--family", "gemini")
    assert "1 item of the run without one" in told
    assert "1 in another form than the task asks for" in told
    there.finish(MANIFEST)
    assert set(there.table(MANIFEST, "verdicts").filter(model="robin")["judge"]) == {"sirocco-referee"}
    paid = there.billed()
    assert there.retry() == 0
    there.finish(MANIFEST)
    assert there.billed() == paid
    row = _board(there)["robin"]
    assert (row["n_items"], row["n_missing"], row["n_unparsed"]) == (4, 1, 1)


# ---- verdicts ------------------------------------------------------------------------------------------------------


def test_judges_files_come_with_the_predictions_and_only_the_rest_is_asked(there: Lab) -> None:
    items, paid = _items(there), there.billed()
    given = _verdicts(there, items[:3])
    arguments = ("--model", "swift", "--predictions", _answers(there, "swift"), "--verdicts", given)
    assert "4 answers, 3 verdicts, 1 verdict to be asked for" in _import(there, *arguments)
    there.finish(MANIFEST)
    assert _asked_since(there, paid) == {("judge", "swift", items[3])}
    said = there.table(MANIFEST, "verdicts").filter(model="swift", judge=JUDGE)
    assert sorted(said["item_id"]) == sorted(items)
    assert said.filter(pl.col("item_id").is_in(items[:3]))["both_correct"].all()
    content, paid = _content(there), there.billed()
    _import(there, *arguments)
    there.finish(MANIFEST)
    assert (there.billed(), _content(there)) == (paid, content)
    # with verdicts on all predictions the board is complete at once, and nothing is ever paid
    _import(there, "--model", "wren", "--predictions", _answers(there, "wren"))
    _import(there, "--model", "wren", "--verdicts", _verdicts(there, items))
    assert "wren" in _board(there)
    there.finish(MANIFEST)
    assert there.billed() == paid


def test_an_import_that_was_cut_short_is_finished_by_the_next_and_nothing_of_it_is_ever_paid(
    there: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, paid, name = _items(there), there.billed(), "cut"
    arguments = ("--model", name, "--predictions", _answers(there, name), "--verdicts", _verdicts(there, items[:3]))

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "plan_job", stop)
        assert call("import", there.run_folder(MANIFEST).root, *arguments).code == 75
    _import(there, *arguments)
    there.finish(MANIFEST)
    assert _asked_since(there, paid) == {("judge", name, items[3])}
    assert there.table(MANIFEST, "verdicts").filter(model=name, judge=JUDGE)["both_correct"].count() == 4


# ---- files that are wrong ------------------------------------------------------------------------------------------


def test_a_wrong_row_and_what_contradicts_the_run_is_refused_as_a_whole(there: Lab) -> None:
    answers, items, content = _answers(there, "crow"), _items(there), _content(there)
    verdicts = _verdicts(there, items[:1])
    line, odd = json.loads(verdicts.read_text()), there.folder / "odd.jsonl"
    crow, larch = ("--model", "crow", "--predictions", answers), ("--model", "larch-2-mini")
    for changes in ({"custom_id": "nowhere"}, {"custom_id": None}, {"model": None}, {"answer": {"x": True}}, {}):
        write_lines(odd, [line, line | changes])
        assert f"{odd}, line 2: " in _refused(there, *crow, "--verdicts", odd)
    wrong: list[tuple[tuple[str | Path, ...], str]] = [
        ((*larch, "--predictions", answers), "'larch-2-mini'"),
        ((*larch, "--verdicts", _verdicts(there, items, right=False)), "was asked"),
        (("--model", "a\nb", "--predictions", answers), "cannot name a model"),
        (("--predictions", answers), "--model"),
        (("--model", "crow", "--verdicts", verdicts), "'crow'"),
        ((), "--predictions"),
        (("--eee", answers), "Every Eval Ever"),
        ((*crow, "--verdicts", _verdicts(there, items, "wren")), "'wren'"),
    ]
    for arguments, named in wrong:
        assert named in _refused(there, *arguments)
    assert _content(there) == content
    assert "crow" not in call("status", there.run_folder(MANIFEST).root, "--json").out


# ---- later manifests -----------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Lab]:
    """A lab for one test, whose manifests change."""
    with lab(tmp_path) as found:
        found.finish(MANIFEST)
        yield found


def test_an_imported_model_follows_the_items_of_later_manifests_and_later_files_answer_what_came(own: Lab) -> None:
    first = _items(own)
    _import(own, "--model", "finch", "--predictions", _answers(own, "finch"))
    for limit in (2, 6):
        later = manifest_text(("openai",), limit=limit)
        assert own.finish(later).state is RunState.DONE
        rows = _board(own, later)
        assert {name: row["n_items"] for name, row in rows.items()} == {"larch-2-mini": limit, "finch": limit}
        assert rows["finch"]["n_missing"] == max(0, limit - 4)
    assert own.retry() == 0  # nobody is asked in the place of a file
    items, paid = _items(own, later), own.billed()
    answers = _answers(own, "finch", items)
    finch = ("--model", "finch", "--predictions", answers)
    _import(own, *finch, text=later)
    assert own.finish(later).state is RunState.DONE
    row = _board(own, later)["finch"]
    assert (row["n_items"], row["n_missing"]) == (6, 0)
    assert _asked_since(own, paid, later) == {("judge", "finch", item) for item in items if item not in first}
    content = _content(own, later)
    _import(own, *finch, text=later)
    assert _content(own, later) == content
    answers.write_text(answers.read_text().replace("says", "said", 1))
    assert "other predictions" in _refused(own, *finch)


# ---- results of batches that were sent by hand ---------------------------------------------------------------------


def test_results_of_batches_sent_by_hand_are_filed_judged_and_billed_and_only_what_they_lack_is_asked(
    own: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in own.server.environment().items():
        if not name.endswith("_KEY"):  # who sends files by hand may have none
            monkeypatch.setenv(name, value)
    (raw,) = (path for path in own.run_folder(MANIFEST).batches.rglob("output.jsonl.zst") if "predict" in str(path))
    came = [line for line, _ in batch_results.lines(raw)]
    brought, paid = own.folder / "results.jsonl", own.billed()
    brought.write_bytes(b"\n".join([*came[1:], b"{}", b"no JSON", b"[1]", b'{"custom_id": 7}']))
    own.runs = own.folder / "elsewhere"  # whose custom_ids have another mark, as those of a plan before the run begins
    give = ("import", own.folder / "manifest.toml", "--results", brought, "--runs", own.runs)
    taken = call(*give)
    assert taken.code == 0, taken.err
    assert "3 answers" in taken.err
    assert "4 lines left out" in taken.err
    status = own.read(MANIFEST)
    assert (status.spent_usd > 0, own.billed()) == (True, paid)
    assert "no line answers a request" in refused(*give), "what the run has stays as it is"
    own.finish(MANIFEST, agree=False)
    assert own.billed() == paid, "nobody agreed to what the results lack"
    own.finish(MANIFEST)
    asked = _asked_since(own, paid)
    assert {role for role, _, _ in asked} == {"predict", "judge"}
    assert len([role for role, _, _ in asked if role == "predict"]) == 1
    assert own.table(MANIFEST, "predictions")["raw_text"].null_count() == 0
    assert call("verify", own.run_folder(MANIFEST).root).code == 0
