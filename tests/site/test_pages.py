"""The pages show what the tables say, as far as they are written, and nothing that is not there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.costs.report import UnknownCost
from layton_batch.errors import DamagedTableError, FileError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import RunState
from layton_batch.scoring import history
from layton_batch.site import item_pages
from layton_batch.site.build import build_site
from layton_batch.states import Role
from tests.support.fabricated_run import FabricatedRun, Row, Words, fabricated
from tests.support.read_html import pages, read_page, words

BOARD = ("index.html", "charts.html", "compare.html", "judges.html", "cost.html", "method.html", "run.html")


def built(run: FabricatedRun, state: RunState = RunState.DONE) -> Path:
    return build_site(run.folder, run.status(state), run.bill()).parent


def changed(rows: Sequence[Row], **columns: object) -> list[Row]:
    return [{**row, **columns} for row in rows]


def test_a_finished_run_has_a_board_a_bill_a_course_and_a_page_for_every_item(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    index = build_site(run.folder, run.status(), run.bill())
    assert index == run.folder.site / "index.html"
    found = pages(index.parent)
    of_models = {name for name in found if name.startswith("models/")}
    assert sorted(words(found[name]).partition(" ·")[0] for name in of_models) == ["alpha-9", "beta-10", "gamma-2"]
    others = {*BOARD, "items/index.html", "items/wrong.html", *(f"items/{number:04d}.html" for number in range(1, 5))}
    assert set(found) - of_models == others
    shown = words(found["index.html"])
    for text in (
        "riddles",
        "whose answer and justification are both right",
        "a jury of models from other makers judged each answer",
        "alpha-9",
        "80.0",
        "78.1–81.6",
        "1–2",
        "$0.0372",
        "$0.0744",
    ):
        assert text in shown
    assert "The 95 % CI holds the score on new items of the same kind, with that probability." in shown
    assert "Abstained, unreadable and missing answers count as wrong." in shown


def test_every_page_with_scores_names_their_interval(tmp_path: Path) -> None:
    site = built(fabricated(tmp_path))
    model = next(site.glob("models/*.html"))
    for page in (site / "index.html", site / "charts.html", site / "compare.html", model):
        assert "95 % CI" in words(read_page(page)), page
    for page in ("charts.html", "compare.html"):
        assert "Intervals are the board’s 95 % CI." in words(read_page(site / page))


def test_the_board_keeps_the_tables_order_and_says_when_it_was_written(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    os.utime(run.folder.part("leaderboard", "leaderboard"), (1_800_000_000, 1_800_000_000))
    shown = words(read_page(built(run) / "index.html"))
    assert shown.index("alpha-9") < shown.index("beta-10") < shown.index("gamma-2")
    assert "2027-01-15 08:00 UTC" in shown


def test_a_column_that_is_zero_everywhere_is_left_out(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    shown = words(read_page(built(run) / "index.html"))
    assert "Unparsed" in shown
    assert "Unjudged" not in shown
    assert "Verdicts" not in shown
    verdicts = {"n_verdicts": 12, "n_verdicts_missing": 3}
    run.table("leaderboard", changed(run.leaderboard_rows(), n_unparsed=0, n_unjudged=2, **verdicts))
    shown = words(read_page(built(run) / "index.html"))
    assert "Unparsed" not in shown
    assert "Unjudged" in shown
    assert "9 of 12" in shown


def test_the_papers_interval_is_printed_as_the_paper_prints_it(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("leaderboard", changed(run.leaderboard_rows(), method="paper"))
    shown = words(read_page(built(run) / "index.html"))
    assert "±1.8" in shown
    assert "2.5th and 97.5th percentile" in shown


def test_a_model_without_a_score_has_a_dash_and_a_reason(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    rows = run.leaderboard_rows()
    gap = dict.fromkeys(("rank", "rank_best", "rank_worst", "score", "lower", "upper", "half_width"))
    run.table("leaderboard", [rows[0], {**rows[1], **gap, "flags": "no items"}, {**rows[2], "score": float("nan")}])
    page = read_page(built(run) / "index.html")
    assert "No items." in words(page)
    assert "nan" not in words(page).casefold()
    assert page.tags.count("circle") == 1 + 2  # one dot on the scale; two models have a rank to draw


def test_an_interval_of_one_point_and_a_board_of_one_model_can_be_drawn(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("leaderboard", changed(run.leaderboard_rows()[:1], score=0.0, lower=0.0, upper=0.0))
    page = read_page(built(run) / "index.html")
    assert [value for tag, name, value in page.attributes if (tag, name) == ("circle", "cx")] == ["50.00%"]


@pytest.mark.parametrize("written", [(), ("items",), ("items", "predictions"), ("items", "predictions", "verdicts")])
def test_a_run_that_is_on_its_way_has_pages_as_far_as_it_is(tmp_path: Path, written: tuple[str, ...]) -> None:
    run = FabricatedRun(RunFolder(tmp_path / "riddles-1a2b3c4d"))
    run.manifest()
    for name in written:
        run.table(name, getattr(run, f"{name}_rows")())
    found = pages(built(run, RunState.RUNNING))
    shown = words(found["index.html"])
    assert "This run is not finished" in shown
    assert "There is no leaderboard yet" in shown
    assert "Spent so far: $6.75" in shown
    of_run = {"judges.html", "cost.html", "method.html", "run.html"}
    assert of_run < set(found)
    assert len(found) - len(of_run) == (3 + 4 if written else 2)
    if "predictions" in written:
        assert "no vote" in words(found["items/0001.html"])


def test_a_folder_with_nothing_in_it_makes_an_honest_page(tmp_path: Path) -> None:
    run = FabricatedRun(RunFolder(tmp_path / "empty"))
    found = pages(built(run, RunState.RUNNING))
    of_run = {"judges.html", "cost.html", "method.html", "run.html"}
    assert set(found) == {"index.html", "items/index.html"} | of_run
    assert "nothing written yet" in words(found["index.html"])
    assert "This run has no items yet." in words(found["items/index.html"])


def test_no_items_at_all(tmp_path: Path) -> None:
    found = pages(built(fabricated(tmp_path, items=0)))
    assert {name for name in found if not name.startswith("models/")} == {*BOARD, "items/index.html"}


@pytest.mark.parametrize(
    ("state", "notice"),
    [
        (RunState.NEEDS_PERSON, "waits for a person"),
        (RunState.OVER_BUDGET, "stopped at its budget"),
        (RunState.CANCELLED, "was cancelled"),
    ],
)
def test_a_run_that_did_not_end_well_says_so_and_why(tmp_path: Path, state: RunState, notice: str) -> None:
    run = fabricated(tmp_path, Words(reason="the create call timed out"))
    shown = words(read_page(built(run, state) / "index.html"))
    assert notice in shown
    assert "the create call timed out" in shown


def test_the_bill_is_that_of_the_command_with_unknown_prices_and_lower_bounds(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    first, second, *rows = run.usage_rows()
    nothing = dict.fromkeys(("cost_usd", "unbatched_usd"))
    run.table("usage", [{**first, **nothing, "provider": "together"}, {**second, **nothing}, *rows])
    run.unknown = [UnknownCost("openai", str(second["model"]), Role.PREDICT, Decimal("1.25"), answered=True)]
    shown = words(read_page(built(run) / "cost.html"))
    assert "together 1 unknown unknown unknown" in shown
    assert "beta-10 answers 4 5,000 0 2,000 500 at least $0.0093 at least $0.0186" in shown
    assert "gamma-2 answers 4 5,000 0 2,000 500 $0.0124 $0.0248 $0.0124 50%" in shown
    assert "Total 12 at least $0.0310 at least $0.0620 at least $0.0310 50%" in shown
    assert "Upper bound for requests whose cost is unknown, not in these sums: $1.25." in shown
    assert "$0.00 " not in shown


def test_an_item_page_has_the_question_the_reference_and_every_answer_with_its_verdicts(tmp_path: Path) -> None:
    shown = words(read_page(built(fabricated(tmp_path)) / "items" / "0003.html"))
    for text in ("How many?", "First hint Count. Third hint Count.", "Reference", "Seven.", "I counted."):
        assert text in shown
    assert "right 2 of 2 yes" in shown
    assert "split jury 1 of 2 yes" in shown
    assert "judge 0 answer ✓ correct reason ✓ correct" in shown
    assert "unparsed" in shown
    assert shown.count("The reply as it came") == 3  # folded, under every answer
    assert shown.index("alpha-9") < shown.index("beta-10") < shown.index("gamma-2")


def test_the_index_sorts_items_into_right_wrong_and_split(tmp_path: Path) -> None:
    page = read_page(built(fabricated(tmp_path)) / "items" / "index.html")
    assert page.values("data-standing") == ["right", "wrong", "split", "split"]
    assert "3 right" in words(page)
    assert "1 right, 1 split jury, 1 unanswered" in words(page)


def test_a_rules_verdict_speaks_of_answers_alone(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    verdicts = [row for row in run.verdicts_rows() if str(row["judge"]).endswith("0")]
    run.table("verdicts", changed(verdicts, judge="rule", judge_provider=None, is_justification_correct=None))
    shown = words(read_page(built(run) / "items" / "0001.html"))
    assert "rule answer ✓ correct" in shown
    assert "not readable" not in shown
    assert "2 of 2 yes" not in shown


def test_a_seat_that_could_not_be_read_is_shown_as_such(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("verdicts", changed(run.verdicts_rows(), is_justification_correct=None))
    run.table("scores", changed(run.scores_rows(), yes=1, total=1, flag="short_jury"))
    shown = words(read_page(built(run) / "items" / "0001.html"))
    assert "reason ? not readable" in shown
    assert "1 of 1 yes, a seat was empty" in shown


def test_predictions_on_unknown_items_are_shown_not_dropped(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("items", run.items_rows()[:3])
    shown = words(read_page(built(run) / "items" / "0004.html"))
    assert "The items table has no question under this id." in shown
    assert "alpha-9" in shown


def test_neighbouring_items_are_linked(tmp_path: Path) -> None:
    site = built(fabricated(tmp_path))
    links = read_page(site / "items" / "0002.html").values("href")
    assert {"0001.html", "0003.html", "index.html", "../index.html"} <= set(links)
    assert "0005.html" not in read_page(site / "items" / "0004.html").values("href")


def test_every_link_leads_to_a_page_or_a_place_that_exists(tmp_path: Path) -> None:
    site = built(fabricated(tmp_path))
    for name, page in pages(site).items():
        for link in page.values("href"):
            if link.startswith("data:"):
                continue
            path, _, place = link.partition("#")
            target = (site / name).parent / path if path else site / name
            assert target.is_file(), (name, link)
            assert not place or place in read_page(target).values("id"), (name, link)


def test_the_same_tables_make_the_same_bytes(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    first = {path: path.read_bytes() for path in built(run).rglob("*") if path.is_file()}
    assert first == {path: path.read_bytes() for path in built(run).rglob("*") if path.is_file()}


def test_a_site_is_replaced_whole_and_a_failed_one_leaves_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fabricated(tmp_path)
    site = built(run)
    before = (site / "index.html").read_bytes()

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(item_pages, "write", broken)
        with pytest.raises(FileError, match="No space left"):
            built(run)
    assert (site / "index.html").read_bytes() == before
    run.table("items", run.items_rows()[:1])
    run.table("predictions", run.predictions_rows()[:1])
    built(run)
    assert len(pages(site)) == len(BOARD) + 3 + 3  # an item, its index and what is wrong; three models
    assert [path.name for path in site.parent.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    other = tmp_path / "precious"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="left alone"):
        build_site(run.folder, run.status(), out=other)
    assert (other / "thesis.tex").read_text() == "years of work"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert build_site(run.folder, run.status(), out=empty).is_file()
    assert build_site(run.folder, run.status(), out=empty).is_file()


def test_a_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.folder.part("scores", "scores").write_bytes(b"PAR1 not really")
    with pytest.raises(DamagedTableError, match=r"scores\.parquet cannot be read"):
        built(run)


def test_a_manifest_that_cannot_be_read_leaves_the_runs_name(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.folder.manifest.write_bytes(b"{")
    assert "riddles-1a2b3c4d" in words(read_page(built(run) / "index.html"))


def test_two_hint_levels_get_a_column(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    rows = run.leaderboard_rows()
    run.table("leaderboard", [*rows, {**rows[0], "rank": 4, "n_hints": 2}])
    assert "Hints" in words(read_page(built(run) / "index.html"))


def test_images_of_the_four_known_kinds_are_embedded_and_others_named(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    kinds = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/svg+xml", "text/html", 'image/png" onerror="']
    images = [{"media_type": kind, "base64": "aGk="} for kind in kinds]
    images.append({"media_type": "image/png", "base64": 'x" onerror="alert(1)'})
    run.table("items", changed(run.items_rows(), images=images))
    page = read_page(built(run) / "items" / "0001.html")
    assert page.values("src") == [f"data:{kind};base64,aGk=" for kind in kinds[:4]]
    assert "An image of the type image/svg+xml is not shown." in words(page)
    assert "not valid base64" in words(page)
    assert "onerror" not in {name for _, name, _ in page.attributes}


def test_a_table_without_rows_reads_like_one_nobody_wrote(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    for name in ("leaderboard", "usage", "scores", "verdicts", "predictions"):
        tables.write(run.folder.part(name, name), tables.frame(name, []))
    shown = words(read_page(built(run) / "index.html"))
    assert "There is no leaderboard yet" in shown
    assert "There is no cost table yet" in shown


def test_a_run_without_jobs_says_that_nothing_was_asked(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    site = build_site(run.folder, replace(run.status(), jobs=(), batches=())).parent
    assert "Nothing was asked yet." in words(read_page(site / "index.html"))


def test_a_page_tells_of_earlier_boards_what_changed_since(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    row = {"provider": "p", "method": "hierarchical", "metric": "both_correct", "rank": 1, "score": 50.0}
    for at, model in enumerate(("first", "<script>alert(1)</script>"), 1_795_000_000):
        history.keep(run.folder.history, tables.frame("leaderboard", [row | {"model": model}]), float(at))
    page = read_page(built(run) / "index.html")
    said = words(page)
    assert "History" in said
    assert "Added: <script>alert(1)</script>." in said
    assert "No longer on the board: first." in said


def test_a_models_page_counts_by_category_and_has_question_and_answer_of_every_item(tmp_path: Path) -> None:
    site = built(fabricated(tmp_path))
    (path,) = (
        one for one in (site / "models").iterdir() if "<bdi>gamma-2</bdi></h1>" in one.read_text(encoding="utf-8")
    )
    page = read_page(path)
    shown = words(page)
    assert "1 right, 2 wrong, 1 unanswered" in shown
    text = path.read_text(encoding="utf-8")
    for number in (1, 2, 3, 4):
        assert f'href="../items/{number:04d}.html"' in text
    assert "item 1 Logic How many? 7 ✓ right · 2 of 2 yes" in shown
    assert "item 3 Logic How many? 7 ✗ unparsed" in shown
    board = (site / "index.html").read_text(encoding="utf-8")
    assert f'href="models/{path.name}"' in board
    item = (site / "items" / "0001.html").read_text(encoding="utf-8")
    assert f'href="../models/{path.name}"' in item


def test_a_models_page_keeps_its_address_over_refreshes(tmp_path: Path) -> None:
    first = {path.name for path in (built(fabricated(tmp_path / "a")) / "models").iterdir()}
    assert first == {path.name for path in (built(fabricated(tmp_path / "b")) / "models").iterdir()}
