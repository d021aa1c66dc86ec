"""What must hold at the end of every history: the world's ledger against what the program says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import polars as pl

from tests.simulation import manifests
from tests.simulation.histories import LASTING, Played
from tests.simulation.manifests import MODELS, Asks
from tests.simulation.world import Bill, Key

MOST_DENIED = 6
"""An answer is asked for once more after each of five creates that no list shows."""


def broken_claims(played: Played) -> list[str]:
    """Every claim that does not hold, in words; empty for a history as it should be."""
    broken = [*_paid_once(played), *_ended_well(played), *_money_agrees(played), *_everything_is_known(played)]
    assert played.rows is not None
    broken += played.rows.contradictions()
    broken += [f"{tag} was looked for after its id was committed" for tag in played.conductor.forgotten]
    broken += [f"{batch} goes on though everything is over" for batch in played.running]
    broken += [f"verify {name} ended with {code}" for name, code in played.verified.items() if code]
    for name, asks in played.asked.items():
        broken += _answers_are_right(played, name, asks)
    return broken


def _denied(played: Played) -> set[str]:
    """Batches that their provider made, answered with HTTP 500 and never listed, and that are not ours in the end."""
    assert played.rows is not None
    return {batch.id for batch in played.world.batches if batch.shown_at is None} - set(played.rows.provider_ids)


def _paid_once(played: Played) -> Iterator[str]:
    """Nothing is bought more often than it is wanted; a garbled reply again only where a person called `retry`."""
    denied, samples = _denied(played), played.plan.asks.samples
    times: Counter[Key] = Counter(bill.key for bill in played.world.bills if bill.batch_id not in denied)
    garbled = Counter(bill.key for bill in played.world.bills if not bill.readable)
    for key, count in times.items():
        most = samples + (garbled[key] if played.retried else 0)
        if count > most:
            yield f"{key} was billed {count} times, {most} wanted"
    for name, made in Counter(bill.key for bill in played.world.bills if bill.batch_id in denied).items():
        if made > MOST_DENIED:
            yield f"{name} was billed {made} times in batches that were denied"


def _ended_well(played: Played) -> Iterator[str]:
    may_lack = _may_lack(played)
    for name in played.asked:
        status, code = played.status.get(name), played.codes.get(name)
        if status is None:
            yield f"{name} has no status"
            continue
        right = {"done"} | ({"cancelled"} if played.cancelled else set())
        if status["state"] not in right:
            yield f"{name} is {status['state']}: {status['reason']}"
        if code not in ((0, 5) if may_lack or played.cancelled else (0,)):
            yield f"{name} ended with {code}"
        if Decimal(status["reserved_usd"]):
            yield f"{name}: ${status['reserved_usd']} are still reserved"
        for job in status["jobs"]:
            if job["waiting"] and not played.cancelled:
                yield f"{name} {job['id']}: {job['waiting']} requests wait"


def _may_lack(played: Played) -> bool:
    """Return whether requests may be left without an answer."""
    return any(kind.rpartition(" ")[0] in LASTING for kind in played.world.happened)


def _money_agrees(played: Played) -> Iterator[str]:
    """What runs spent is what was billed, but for what nobody could read; the rest is within their unknown cost."""
    if len(played.status) < len(played.asked):
        return
    spent, unknown = (
        sum((Decimal(status[name]) for status in played.status.values()), Decimal(0))
        for name in ("spent_usd", "unknown_cost_usd")
    )
    denied = _denied(played)
    known = sum((bill.usd for bill in played.world.bills if bill.readable and bill.batch_id not in denied), Decimal(0))
    if spent != known:
        yield f"runs say that they spent ${spent}, and ${known} were billed"
    in_denied = sum((bill.usd for bill in played.world.bills if bill.batch_id in denied), Decimal(0))
    rest = played.world.billed() - known - in_denied  # of what is denied for good, the bill is closed after an hour
    if unknown < rest:
        yield f"${rest} were billed that nobody can tell, and runs say at most ${unknown}"
    stops = played.plan.stops
    is_quiet = not (played.conductor.killed or stops.full or stops.freezes or played.world.happened)
    if unknown and not rest and not in_denied and is_quiet:
        yield f"runs say that ${unknown} cannot be told, and everything was told"


def _everything_is_known(played: Played) -> Iterator[str]:
    """Every batch at a provider is one of ours in the end, and nothing temporary is left."""
    assert played.rows is not None
    denied = _denied(played)
    strangers = {batch.id for batch in played.world.batches} - set(played.rows.provider_ids) - denied
    if strangers:
        yield f"no row knows {sorted(strangers)}"
    left = [path.name for path in (played.folder / "runs").rglob("*.tmp")]
    if left:
        yield f"temporary files are left: {sorted(left)[:3]}"


def _answers_are_right(played: Played, name: str, asks: Asks) -> Iterator[str]:
    """Each wanted answer that a provider gave stands under its own question, byte for byte."""
    if played.cancelled:
        return
    predictions = _table(played.folder / "runs" / name, "predictions")
    verdicts = _table(played.folder / "runs" / name, "verdicts")
    bills = [bill for bill in played.world.bills if bill.readable]
    for model in asks.models:
        for number, version in asks.items:
            question = manifests.question(number, version)
            mine = [bill for bill in bills if bill.key[:2] == (MODELS[model], model) and _asks_for(bill, question)]
            rows = predictions.filter(pl.col("model") == model, pl.col("item_id") == f"i{number}")
            texts = rows["raw_text"].to_list()
            right = {bill.text for bill in mine}
            about = f"{name} {model} i{number}"
            if len(texts) != asks.samples:
                yield f"{about} has {len(texts)} predictions, {asks.samples} wanted"
            if wrong := [text for text in texts if text is not None and text not in right]:
                yield f"{about} has an answer to something else: {wrong[0]!r}"
            if None in texts and not _may_lack(played):
                yield f"{about} has no answer"
            if asks.judge and texts and texts[0] is not None:
                yield from _verdict_is_right(verdicts, played.world.bills, model, number, texts[0], about)


def _asks_for(bill: Bill, question: str) -> bool:
    return question in bill.prompt and not manifests.is_judging(bill.prompt)


def _verdict_is_right(
    verdicts: pl.DataFrame, bills: list[Bill], model: str, number: int, text: str, about: str
) -> Iterator[str]:
    submitted = manifests.submitted(text)
    given = {
        bill.text for bill in bills if submitted in bill.prompt and bill.readable and manifests.is_judging(bill.prompt)
    }
    found = verdicts.filter(pl.col("model") == model, pl.col("item_id") == f"i{number}")["is_answer_correct"].to_list()
    if len(found) != 1:
        yield f"{about} has {len(found)} verdicts"
    elif found[0] is not None and given != {manifests.verdict(is_correct=found[0])}:
        yield f"{about} has a verdict that its judge did not give"


def _table(folder: Path, name: str) -> pl.DataFrame:
    parts = sorted((folder / "tables" / name).rglob("*.parquet"))
    frames = [pl.read_parquet(part) for part in parts]
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame({"model": [], "item_id": [], "raw_text": []})
