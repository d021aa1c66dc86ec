"""The pages show what the tables say, as far as they are written, and nothing that is not there."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from layton_batch.costs.report import UnknownCost
from layton_batch.errors import FileError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import RunState, Status
from layton_batch.scoring.leaderboard import BORROWED_ONLY, RULE
from layton_batch.site.build import build_site, write_front
from layton_batch.states import BatchOutcome, Role
from tests.support.fabricated_run import FabricatedRun, Row, Words, fabricated
from tests.support.read_html import Page, pages, read_page, words

BOARD = ("index.html", "charts.html", "compare.html", "judges.html", "cost.html", "method.html", "run.html")
START = 1_800_000_000.0


def built(run: FabricatedRun, state: RunState = RunState.DONE, status: Status | None = None) -> Path:
    return build_site(run.folder, status or run.status(state), run.bill()).parent


def page_of(
    run: FabricatedRun, page: str = "index.html", state: RunState = RunState.DONE, status: Status | None = None
) -> Page:
    return read_page(built(run, state, status) / page)


def shown(run: FabricatedRun, page: str = "index.html", status: Status | None = None) -> str:
    return words(page_of(run, page, status=status))


def changed(rows: Sequence[Row], **columns: object) -> list[Row]:
    return [{**row, **columns} for row in rows]


# ---- the pages of a run that is done ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a run that no test changes."""
    return built(fabricated(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[str, Page]:
    return pages(site)


@pytest.mark.parametrize(
    ("page", "facts"),
    [
        ("index.html", ("riddles", "alpha-9", "80.0", "78.1–81.6", "1–2", "95 % CI", "$0.0372", "$0.0744")),
        ("items/0003.html", (
            "How many?", "First hint Count. Third hint Count.", "Seven.", "I counted.", "right 2 of 2 yes",
            "split jury 1 of 2 yes", "judge 0 answer ✓ correct justification ✓ correct", "unparsed",
            "As it was sent for 3 of 3 answers", "1,250 tokens in, 500 out (125 reasoning), $0.0031")),
        ("judges.html", ("12 labelled answers", "judge 0 12 1.000", "judge 1 12 0.500", "+50.0")),
        ("items/index.html", ("3 right", "1 right, 1 split jury, 1 unanswered")),
    ],
)  # fmt: skip
def test_what_the_tables_say_stands_on_its_page(parsed: dict[str, Page], page: str, facts: tuple[str, ...]) -> None:
    text = words(parsed[page])
    assert [fact for fact in facts if fact not in text] == []


def test_every_link_leads_to_a_page_or_a_place_that_exists(site: Path, parsed: dict[str, Page]) -> None:
    for name, page in parsed.items():
        for link in page.values("href"):
            if link.startswith("data:"):
                continue
            path, _, place = link.partition("#")
            target = (site / name).parent / path if path else site / name
            assert target.is_file(), (name, link)
            assert not place or place in read_page(target).values("id"), (name, link)


# ---- what is missing, unknown or went wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("written", [(), ("items", "predictions", "verdicts")])
def test_a_run_that_is_on_its_way_has_pages_as_far_as_it_is(tmp_path: Path, written: tuple[str, ...]) -> None:
    run = FabricatedRun(RunFolder(tmp_path / "riddles-1a2b3c4d"))
    run.manifest()
    for name in written:
        run.table(name, getattr(run, f"{name}_rows")())
    found = pages(built(run, RunState.RUNNING))
    text = words(found["index.html"])
    assert "There is no leaderboard yet" in text
    assert "Spent so far: $6.75" in text
    assert {"judges.html", "cost.html", "method.html", "run.html"} < set(found)
    assert len(found) == (4 + 3 + 4 if written else 4 + 2)


@pytest.mark.parametrize("state", [RunState.NEEDS_PERSON, RunState.OVER_BUDGET, RunState.CANCELLED])
def test_a_run_that_did_not_end_well_says_why(tmp_path: Path, state: RunState) -> None:
    run = fabricated(tmp_path, Words(reason="the create call timed out"))
    assert "the create call timed out" in words(page_of(run, state=state))


def test_the_bill_is_that_of_the_command_with_unknown_prices_and_lower_bounds(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    first, second, *rows = run.usage_rows()
    nothing = dict.fromkeys(("cost_usd", "unbatched_usd"))
    run.table("usage", [{**first, **nothing, "provider": "together"}, {**second, **nothing}, *rows])
    run.unknown = [UnknownCost("openai", str(second["model"]), Role.PREDICT, Decimal("1.25"), answered=True)]
    text = shown(run, "cost.html")
    assert "together alpha-9 answers 1 1,250 0 500 125 unknown unknown unknown" in text
    assert "beta-10 answers 4 5,000 0 2,000 500 at least $0.0093 at least $0.0186" in text
    assert "gamma-2 answers 4 5,000 0 2,000 500 $0.0124 $0.0248 $0.0124 50%" in text
    assert "total 12 15,000 0 6,000 1,500 at least $0.0310 at least $0.0620 at least $0.0310 50%" in text
    assert "not in these sums: $1.25." in text
    assert "$0.00 " not in text


def test_a_model_without_a_score_has_no_dot_and_no_nan(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    rows = run.leaderboard_rows()
    gap = dict.fromkeys(("rank", "rank_best", "rank_worst", "score", "lower", "upper", "half_width"))
    run.table("leaderboard", [rows[0], {**rows[1], **gap, "flags": "no items"}, {**rows[2], "score": float("nan")}])
    page = read_page(built(run) / "index.html")
    assert "nan" not in words(page).casefold()
    assert page.tags.count("circle") == 1 + 2  # one dot on the scale; two models have a rank to draw


# ---- the folder ------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk() -> Iterator[None]:
    """Let no file become larger than the smallest page."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_site_is_replaced_whole_and_a_failed_one_leaves_the_last(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    site = built(run)
    before = (site / "index.html").read_bytes()
    with small_disk(), pytest.raises(FileError, match="File too large"):
        built(run)
    assert (site / "index.html").read_bytes() == before
    run.table("items", run.items_rows()[:1])
    run.table("predictions", run.predictions_rows()[:1])
    built(run)
    assert len(pages(site)) == len(BOARD) + 3 + 3  # an item, its index and what is wrong; three models
    assert [path.name for path in site.parent.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    other, empty = tmp_path / "precious", tmp_path / "empty"
    other.mkdir()
    empty.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="left alone"):
        build_site(run.folder, run.status(), out=other)
    assert (other / "thesis.tex").read_text() == "years of work"
    for _ in range(2):
        assert build_site(run.folder, run.status(), out=empty).is_file()


# ---- what others wrote -----------------------------------------------------------------------------------------------


def test_images_of_the_four_known_kinds_are_embedded_and_others_named(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    kinds = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/svg+xml", "text/html", 'image/png" onerror="']
    images = [{"media_type": kind, "base64": "aGk="} for kind in kinds]
    images.append({"media_type": "image/png", "base64": 'x" onerror="alert(1)'})
    run.table("items", changed(run.items_rows(), images=images))
    page = page_of(run, "items/0001.html")
    assert page.values("src") == [f"data:{kind};base64,aGk=" for kind in kinds[:4]]
    assert "image/svg+xml" in words(page)
    assert "onerror" not in {name for _, name, _ in page.attributes}


LINES: list[dict[str, object]] = [
    {"body": {"instructions": "S", "input": [{"role": "user", "content": [{"text": "Q"}]}]}},
    {"params": {"system": "S", "messages": [{"role": "user", "content": "Q"}]}},
    {"params": {"system": [{"type": "text", "text": "S"}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]}]}},
    {"request": {"systemInstruction": {"parts": [{"text": "S"}]}, "contents": [{"parts": [{"text": "Q"}]}]}},
    {"body": {"messages": [{"role": "developer", "content": "S"}, {"role": "user", "content": "Q"}]}},
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_what_was_sent_is_read_out_of_every_dialects_line(tmp_path: Path, line: dict[str, object]) -> None:
    run = fabricated(tmp_path)
    name = "key" if "request" in line else "custom_id"
    content = orjson.dumps({name: "r0-0-3", **line}) + b"\n"
    run.folder.batch("predict-0.s0001.a1").request_file.write_bytes(content)
    assert "which many items share, then: Q" in shown(run, "items/0003.html")
    assert "System text 2 S" in words(read_page(run.folder.site / "method.html"))


@pytest.mark.parametrize("content", [b"", b"not JSON\n", b'{"custom_id":"r0-0-3","body":[]}\n'])
def test_a_batch_file_that_cannot_be_read_leaves_the_answer_without_a_prompt(tmp_path: Path, content: bytes) -> None:
    run = fabricated(tmp_path)
    run.folder.batch("predict-0.s0001.a1").request_file.write_bytes(content)
    assert "s it was sent for 2 of 3 answers" in shown(run, "items/0003.html")


def test_a_page_tells_of_earlier_boards_what_changed_since(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    row = {"provider": "p", "method": "hierarchical", "metric": "both_correct", "rank": 1, "score": 50.0}
    run.folder.history.mkdir()
    for number, model in enumerate(("first", "<script>alert(1)</script>"), 1):
        board = {"at": 1_795_000_000.0 + number, "rows": [row | {"model": model}]}
        (run.folder.history / f"{number:04d}.json").write_bytes(orjson.dumps(board))
    text = shown(run)
    assert "Added: <script>alert(1)</script>." in text
    assert "No longer on the board: first." in text


def test_every_batch_has_a_line_with_its_time_and_why_it_ended_so(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    status = run.status()
    (batch,) = status.batches
    first = replace(batch, submitted_at=START, ended_at=START + 3700, provider_id="batch_abc")
    second = replace(batch, id="batch-2", submitted_at=START + 3600, ended_at=START + 7200, reason="too late")
    second = replace(second, outcome=BatchOutcome.EXPIRED, attempt=2)
    failed = [{"custom_id": str(n), "outcome": "errored", "error_message": "<b>quota</b> is over"} for n in range(3)]
    tables.write(run.folder.batch("batch-1").answers / "0.parquet", tables.frame("responses", failed))
    place = {"job_id": status.jobs[0].id, "run_id": run.folder.root.name, "batch_id": "batch-1"}
    attempts: Any = [SimpleNamespace(**place, custom_id=str(n)) for n in range(3)]
    text = shown(run, "run.html", replace(status, batches=(second, first), failed=attempts))
    for fact in ("2.0 h.", "collected, expired too late", "batch_abc", "3 <b>quota</b> is over"):
        assert fact in text
    assert text.index("1.0 h") < text.index("too late")


def test_the_method_has_manifest_revisions_and_hashes_and_no_place_of_this_machine(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    frozen = orjson.loads(run.folder.manifest.read_bytes())
    frozen |= {
        "identity": "abc123", "folder": "/secret/place", "prompts": {"participant": "Solve {{ question }}"},
        "revisions": [{"number": 1, "at": "2026-11-23T08:38:38Z", "changes": ["the run began"], "asked": "d1gest"}],
    }  # fmt: skip
    run.folder.manifest.write_bytes(orjson.dumps(frozen))
    text = shown(run, "method.html")
    for fact in (
        '"metric": "both_correct"',
        "the run began d1gest",
        "abc123",
        "scores.parquet",
        "Solve {{ question }}",
    ):
        assert fact in text
    assert "/secret/place" not in text


# ---- labels, and the board for new items and for this set ------------------------------------------------------------


@pytest.mark.parametrize(
    ("correct", "item", "standing", "jury"),
    [(False, 1, "disputed", "right"), (True, 2, "disputed", "wrong"), (True, 1, "right", "right")],
)
def test_an_answer_that_a_person_called_wrong_is_never_shown_as_right(
    tmp_path: Path, correct: bool, item: int, standing: str, jury: str
) -> None:
    run = fabricated(tmp_path)
    row = {"item_id": run.item_id(item), "model": run.words.models[0], "n_hints": 0}
    marks = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), correct)
    run.table("labels", [row | marks])
    page = page_of(run, f"items/{item:04d}.html")
    assert page.values("data-standing") == [standing, jury, jury]


def board_text(tmp_path: Path, **columns: object) -> str:
    run = fabricated(tmp_path)
    more = {"level": 0.95, "own_labels": 12, "borrowed_labels": 345, "fewest_labels_per_vote": 7, "n_abstained": 0}
    run.table("leaderboard", [{**row, **more, **columns} for row in run.both_targets()])
    return shown(run)


def test_a_board_is_for_new_items_and_a_switch_changes_everything_to_this_set(tmp_path: Path) -> None:
    text = board_text(tmp_path)
    assert "12 · 345" in text
    new, here = text.partition("80.0 78.1–81.6")[2].split("81.0 80.5–81.5")
    assert "1–2 A" in new
    assert "1–1 A" in here
    assert here.index("71.0 70.5–71.5") < here.index("61.0 60.5–61.5")
    assert here.index("gamma-2") < here.index("beta-10")  # in the order of this set


def test_a_board_graded_by_rule_speaks_of_no_labels(tmp_path: Path) -> None:
    text = board_text(tmp_path, method=RULE, own_labels=0, borrowed_labels=0, fewest_labels_per_vote=None)
    assert "81.0 exact" in text
    assert "Human labels" not in text


# ---- what the manifest says of the benchmark -------------------------------------------------------------------------

LOGO = "data:image/png;base64,iVBORw0KGgo="


def with_site(run: FabricatedRun, site: dict[str, object], logo: str = LOGO) -> None:
    document = orjson.loads(run.folder.manifest.read_bytes())
    document["manifest"]["site"] = site
    run.folder.manifest.write_bytes(orjson.dumps({**document, "logo": logo}))


def test_the_page_says_what_the_manifest_says_of_the_benchmark(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    links, colours = {'Paper"><b>': "https://example.org/p?a=1&b=2"}, {"OpenAI": "#a1b2c3"}
    title = {"title": "Riddles <of> the week", "description": "Forty & more.", "license": "CC BY 4.0"}
    with_site(run, {**title, "links": links, "colours": colours})
    page = read_page(built(run) / "index.html")
    for part in (*title.values(), *links):
        assert part in words(page)
    assert "https://example.org/p?a=1&b=2" in page.values("href")
    assert LOGO in page.values("src")
    assert "#a1b2c3" in page.values("fill")
    assert title["title"] in words(read_page(write_front(tmp_path / "front", [run.folder])))


@pytest.mark.parametrize(
    ("site", "logo"),
    [
        ({"links": {"x": "javascript:alert(1)"}, "colours": {"openai": "red; x"}}, "data:text/html,x"),
        ({"links": {"x": "https://u:p@example.org"}}, "https://example.org/logo.png"),
    ],
)
def test_a_frozen_manifest_that_was_changed_by_hand_brings_nothing_else_in(
    tmp_path: Path, site: dict[str, object], logo: str
) -> None:
    run = fabricated(tmp_path)
    plain = page_of(run)
    with_site(run, site, logo)
    page = page_of(run)
    assert page.values("href", "src") == plain.values("href", "src")
    assert page.values("fill") == plain.values("fill")


def test_made_up_models_borrowed_labels_and_missing_answers_are_said_before_the_table(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    document = orjson.loads(run.folder.manifest.read_bytes())
    run.folder.manifest.write_bytes(orjson.dumps({**document, "made_up": ["openai"]}))
    rows = run.leaderboard_rows()
    run.table("leaderboard", [{**rows[0], "flags": BORROWED_ONLY}, {**rows[1], "n_missing": 1234}, *rows[2:]])
    site = built(run)
    before = words(read_page(site / "index.html")).partition(" Leaderboard Filter")[0]
    assert "1 of 3 rows (*)" in before
    assert f"{rows[1]['model']} (1,234)" in before
    for page in ("index.html", "charts.html", "compare.html", "items/0001.html", "judges.html"):
        assert "a sandbox played openai." in words(read_page(site / page))
