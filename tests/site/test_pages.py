"""The pages show what the tables say, as far as they are written, and nothing that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from layton_batch.errors import DamagedTableError, FileError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import RunState
from layton_batch.scoring import history
from layton_batch.site import item_pages
from layton_batch.site.build import build_site
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


def test_a_model_without_a_score_has_a_dash_and_a_reason(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    rows = run.leaderboard_rows()
    gap = dict.fromkeys(("rank", "rank_best", "rank_worst", "score", "lower", "upper", "half_width"))
    run.table("leaderboard", [rows[0], {**rows[1], **gap, "flags": "no items"}, {**rows[2], "score": float("nan")}])
    page = read_page(built(run) / "index.html")
    assert "No items." in words(page)
    assert "nan" not in words(page).casefold()
    assert page.tags.count("circle") == 1 + 2  # one dot on the scale; two models have a rank to draw


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
    run.table("untold", [{**second, "why": "unread", "answered": True, "bound_usd": "1.25"}])
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


def test_a_models_page_keeps_its_address_over_refreshes(tmp_path: Path) -> None:
    first = {path.name for path in (built(fabricated(tmp_path / "a")) / "models").iterdir()}
    assert first == {path.name for path in (built(fabricated(tmp_path / "b")) / "models").iterdir()}
