"""A part of the tables that is gone, cut or overwritten is its job's trouble: said, made again where it can be, and the
rest of the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch import pipeline
from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, Status
from tests.support.lab import MODELS, Lab, lab, manifest_text
from tests.support.tiers import tiered

TEXT = manifest_text(("openai", "anthropic"), limit=2)
HURT, WELL = (f"predict-{MODELS[name]}" for name in ("openai", "anthropic"))
JUDGE = f"judge-tern-3-referee--{MODELS['openai']}"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"PAR1 not really")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def hole(path: Path) -> None:
    """Its columns are zeros; the description of them at its end is whole."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = bytes(len(content) - footer - 4)
    path.write_bytes(content)


def flip(path: Path) -> None:
    """One bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = (cut, overwrite, empty, hole, Path.unlink)


def go_on(there: Lab) -> tuple[Status, dict[str, str]]:
    with there.open(TEXT) as run:
        status = drive(run, once=False, stop_at=there.clock.now() + 200 * 3600)
        return status, dict(run.engine.trouble)


PARTS = (
    *(f"predictions/{HURT}", f"verdicts/{JUDGE}", f"scores/{HURT}", "usage/usage"),
    *("leaderboard/leaderboard", "cost/cost"),
)
"""Tables that are computed from others."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A run that has ended. Each test leaves its tables as they were."""
    with lab(tmp_path_factory.mktemp("done")) as there:
        there.finish(TEXT)
        yield there


@pytest.mark.parametrize(
    ("part", "damage"),
    tiered(
        PARTS,
        DAMAGES,
        ci=[(PARTS[0], hole), (PARTS[1], cut), (PARTS[3], Path.unlink), (PARTS[4], overwrite)],
    ),
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_table_that_is_computed_from_others_is_made_again(
    done: Lab, part: str, damage: Callable[[Path], None]
) -> None:
    path = done.run_folder(TEXT).tables / f"{part}.parquet"
    if damage is hole and not part.startswith("predictions"):
        pytest.skip("nobody reads it, so nobody can know")
    before, billed = pl.read_parquet(path), done.billed()
    damage(path)
    if damage is hole:  # its end still says what it was made from; whoever reads it finds out
        (done.run_folder(TEXT).tables / "scores" / f"{HURT}.parquet").unlink()
    status, trouble = go_on(done)
    assert (status.state, trouble) == (RunState.DONE, {})
    assert pl.read_parquet(path).equals(before)
    assert done.billed() == billed


def until(run: Run, there: Lab, come: Callable[[], bool]) -> None:
    for _ in range(100):
        if come():
            return
        advance(run)
        there.clock.sleep(30.0)
    raise AssertionError("it never came")


def collected(there: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The answers of one model, which are not graded yet."""
    batches = there.run_folder(TEXT).batches
    with monkeypatch.context() as before, there.open(TEXT) as run:
        before.setattr(pipeline, "grade", lambda _run: False)
        until(run, there, lambda: any(batches.glob(f"{HURT}*/answers")))
    (part,) = batches.glob(f"{HURT}*/answers/*.parquet")
    return part


@pytest.mark.parametrize("damage", tiered((*DAMAGES, flip), ci=(hole,)), ids=lambda damage: damage.__name__)
def test_damaged_answers_are_made_again_from_the_raw_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    with lab(tmp_path) as there:
        part = collected(there, monkeypatch)
        kept = pl.read_parquet(part)
        damage(part)
        status, trouble = go_on(there)
        assert (status.state, trouble) == (RunState.DONE, {})
        assert pl.read_parquet(part).equals(kept)
        assert set(there.billed().values()) == {1}


@pytest.mark.parametrize("damage", tiered((flip, cut, Path.unlink), ci=(flip,)), ids=["flip", "cut", "gone"])
def test_damaged_raw_results_are_named_and_their_job_waits_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    with lab(tmp_path) as there:
        part = collected(there, monkeypatch)
        (raw,) = part.parent.parent.glob("*.zst")
        kept, content = pl.read_parquet(part), raw.read_bytes()
        damage(raw)
        flip(part)
        assert str(raw) in go_on(there)[1][HURT]
        raw.write_bytes(content)
        status, trouble = go_on(there)
        assert (status.state, trouble) == (RunState.DONE, {})
        assert pl.read_parquet(part).equals(kept)
        assert set(there.billed().values()) == {1}
        with there.open(TEXT) as run:
            assert "answers_made_again" in {event.kind for event in run.store.events()}
