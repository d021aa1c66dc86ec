"""A file of a run that is gone, cut or overwritten is its job's or batch's trouble: said, made again where it can be,
and the rest of the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch import pipeline
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, Lab, RunState, Status, drive, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

TEXT = manifest_text(("openai", "anthropic"), limit=2)
HURT = f"predict-{MODELS['openai']}"
JUDGE = f"judge-tern-3-referee--{MODELS['openai']}"
Damage = Callable[[Path], object]


def changing(change: Callable[[bytes], bytes], name: str) -> Damage:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    damage.__name__ = name
    return damage


def zeroed(content: bytes) -> bytes:
    """Its columns are zeros; the description of them at its end is whole."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return content[:4] + bytes(len(content) - footer - 4) + content[-footer:]


def flipped(content: bytes) -> bytes:
    """One bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


cut = changing(lambda content: content[: len(content) // 2], "cut")
overwrite = changing(lambda _content: b"PAR1 not really", "overwrite")
empty = changing(lambda _content: b"", "empty")
hole, flip = changing(zeroed, "hole"), changing(flipped, "flip")
DAMAGES = (cut, overwrite, empty, hole, Path.unlink)


def go_on(there: Lab) -> tuple[Status, dict[str, str]]:
    with there.open(TEXT) as run:
        status = drive(run, once=False, stop_at=there.clock.now() + 200 * 3600)
        return status, dict(run.engine.trouble)


def name_of(value: object) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", "")


PARTS = (
    f"predictions/{HURT}", f"verdicts/{JUDGE}", f"scores/{HURT}", "usage/usage", "leaderboard/leaderboard", "cost/cost",
)  # fmt: skip
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
        PARTS, DAMAGES, ci=[(PARTS[0], hole), (PARTS[4], overwrite)]
    ),
    ids=name_of,
)  # fmt: skip
def test_a_table_that_is_computed_from_others_is_made_again(done: Lab, part: str, damage: Damage) -> None:
    tables = done.run_folder(TEXT).tables
    path = tables / f"{part}.parquet"
    if damage is hole and not part.startswith("predictions"):
        pytest.skip("nobody reads it, so nobody can know")
    before, billed = pl.read_parquet(path), done.billed()
    damage(path)
    if damage is hole:  # its end still says what it was made from; whoever reads it finds out
        (tables / "scores" / f"{HURT}.parquet").unlink()
    status, trouble = go_on(done)
    assert (status.state, trouble) == (RunState.DONE, {})
    assert pl.read_parquet(path).equals(before)
    assert done.billed() == billed


@pytest.mark.parametrize(
    ("raw_damage", "damage"),
    tiered((None, flip, cut, Path.unlink), (hole, flip), ci=[(flip, flip)]),
    ids=name_of,
)
def test_damaged_answers_are_made_again_from_the_raw_results_for_which_their_job_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_damage: Damage | None, damage: Damage
) -> None:
    with lab(tmp_path) as there:
        with monkeypatch.context() as ungraded:
            ungraded.setattr(pipeline, "grade", lambda _run: False)
            batches = there.run_folder(TEXT).batches
            there.tick_until(TEXT, lambda _status: any(batches.glob(f"{HURT}*/answers")), 30.0)
        (part,) = batches.glob(f"{HURT}*/answers/*.parquet")
        (raw,) = part.parent.parent.glob("*.zst")
        kept, content = pl.read_parquet(part), raw.read_bytes()
        damage(part)
        if raw_damage is not None:
            raw_damage(raw)
            assert str(raw) in go_on(there)[1][HURT]
            raw.write_bytes(content)
        status, trouble = go_on(there)
        assert (status.state, trouble) == (RunState.DONE, {})
        assert pl.read_parquet(part).equals(kept)
        assert set(there.billed().values()) == {1}
        assert there.events(TEXT, "answers_made_again")


# ---- files in trouble while something else of their batch is due -----------------------------------------------------


def test_a_download_that_the_disk_has_damaged_is_named_and_once_it_is_deleted_comes_again(tmp_path: Path) -> None:
    text, short = quiz_text(), Fault(on="results", action="short", provider="openai", times=1)
    with lab(tmp_path, short) as there:
        batches = there.run_folder(text).batches
        status = there.tick_until(text, lambda _status: any(batches.glob("*/*.zst")), 30.0)
        assert [batch.state for batch in status.batches] == [Lifecycle.ENDED]
        (copy,) = batches.glob("*/*.zst")
        copy.write_bytes(bytes(4) + copy.read_bytes()[4:])
        assert there.finish(text).state is RunState.RUNNING
        assert any(copy.name in event.detail for event in there.events(text, "table_damaged"))
        copy.unlink()
        there.finish_paid_once(text)
