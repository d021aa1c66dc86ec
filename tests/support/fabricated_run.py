"""A run folder with tables made up for tests: small, complete, and as hostile as asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import orjson

from layton_batch.batches.run_costs import usage_rows
from layton_batch.costs.report import CostReport, UnknownCost, build_report
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.runs.status import JobStatus, RunState, Status
from layton_batch.states import BatchOutcome, Lifecycle
from tests.support.fabricated_judges import judges_rows

MODELS = ("alpha-9", "beta-10", "gamma-2")
ITEMS = 4

Row = Mapping[str, object]


@dataclass(slots=True)
class Words:
    """What outsiders may write; every field reaches a page."""

    name: str = "riddles"
    models: Sequence[str] = MODELS
    provider: str = "openai"
    judge: str = "judge"
    item_id: str = "item"
    category: str = "Logic"
    question: str = "How many?"
    hint: str = "Count."
    reference: str = "Seven."
    answer: str = "7"
    justification: str = "I counted."
    raw: str = "no JSON here"
    note: str = "mended"
    flag: str = "known_zeros"
    price_source: str = "genai-prices"
    reason: str = ""


def hostile(text: str) -> Words:
    """Words that are this text, told apart where they must be."""
    return Words(
        name=text,
        models=tuple(f"{text} {index}" for index in range(3)),
        provider=text,
        judge=text,
        item_id=text,
        category=text,
        question=text,
        hint=text,
        reference=text,
        answer=text,
        justification=text,
        raw=text,
        note=text,
        flag=text.replace(",", ""),
        price_source=text,
        reason=text,
    )


_WRITTEN = (
    "items", "predictions", "usage", "verdicts", "scores", "leaderboard", "pairs", "label_need", "judges",
    "cost",
)  # fmt: skip


@dataclass(slots=True)
class FabricatedRun:
    """Tables of a made-up run. Item 1 is right for all models, 2 wrong for all, the rest split."""

    folder: RunFolder
    words: Words = field(default_factory=Words)
    items: int = ITEMS
    unknown: Sequence[UnknownCost] = ()

    def write(self) -> None:
        self.manifest()
        for name in _WRITTEN:
            self.table(name, getattr(self, f"{name}_rows")())
        self.batch_files()

    def table(self, name: str, rows: Sequence[Row]) -> None:
        tables.write(self.folder.part(name, name), tables.frame(name, rows))

    def manifest(self) -> None:
        self.folder.root.mkdir(parents=True, exist_ok=True)
        manifest = {
            "name": self.words.name,
            "task": self.words.name,
            "items": {"split": "llm", "hints": 0},
            "scoring": {"metric": "both_correct", "level": 0.95},
        }
        self.folder.manifest.write_bytes(orjson.dumps({"manifest": manifest}))

    def item_id(self, index: int) -> str:
        return f"{self.words.item_id} {index}"

    def items_rows(self) -> list[Row]:
        words = self.words
        return [
            {
                "item_id": self.item_id(index),
                "split": "llm",
                "category": words.category if index % 2 else f"{words.category}, other",
                "question": words.question,
                "images": [],
                "hints": [words.hint, None, words.hint],
                "answer": words.reference,
                "justification": words.reference,
                "solution": words.reference,
                "payload": "{}",
            }
            for index in range(1, self.items + 1)
        ]

    def _pairs(self) -> list[tuple[int, int, str]]:
        return [
            (index, place, model) for index in range(1, self.items + 1) for place, model in enumerate(self.words.models)
        ]

    def kind(self, index: int, place: int) -> str:
        return "unparsed" if (index, place) == (3, 2) else "answered"

    def yes(self, index: int, place: int) -> int:
        """Of two votes."""
        if index <= 2:
            return 2 if index == 1 else 0
        return (2, 1, 0)[place]

    def predictions_rows(self) -> list[Row]:
        words = self.words
        return [
            {
                "item_id": self.item_id(index),
                "model": model,
                "provider": words.provider,
                "n_hints": 0,
                "kind": self.kind(index, place),
                "answer": words.answer,
                "justification": words.justification,
                "raw_text": words.raw,
                "note": words.note,
                "finish_reason": "stop",
                "custom_id": f"r0-{place}-{index}",
            }
            for index, place, model in self._pairs()
        ]

    def batch_files(self) -> None:
        """What was sent: one form for all models, their own settings."""
        words = self.words
        for place, model in enumerate(words.models):
            path = self.folder.batch(f"predict-{place}.s0001.a1").request_file
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = []
            for index in range(1, self.items + 1):
                system = {"role": "system", "content": f"Answer well. {words.hint}"}
                asked = {"role": "user", "content": [{"type": "text", "text": f"Number {index}: {words.question}"}]}
                body = {"model": model, "messages": [system, asked], "max_tokens": 100 + place}
                lines.append(orjson.dumps({"custom_id": f"r0-{place}-{index}", "body": body}) + b"\n")
            path.write_bytes(b"".join(lines))

    def usage_rows(self) -> list[Row]:
        return [
            {"custom_id": f"r0-{place}-{index}", "role": "predict", "provider": self.words.provider, "model": model,
             "batch_id": "batch-1", "attempt": 1, "input_tokens": 1250, "cached_input_tokens": 0, "output_tokens": 500,
             "reasoning_tokens": 125, "cache_write_tokens": 0, "hour_write_tokens": 0,
             "cost_usd": "0.0031", "unbatched_usd": "0.0062"}
            for index, place, model in self._pairs()
        ]  # fmt: skip

    def verdicts_rows(self) -> list[Row]:
        return [
            {
                "item_id": self.item_id(index),
                "model": model,
                "judge": f"{self.words.judge} {seat}",
                "judge_provider": self.words.provider,
                "is_answer_correct": seat < self.yes(index, place),
                "is_justification_correct": seat < self.yes(index, place),
                "note": self.words.note,
            }
            for index, place, model in self._pairs()
            if self.kind(index, place) == "answered"
            for seat in range(2)
        ]

    def scores_rows(self) -> list[Row]:
        return [
            {
                "item_id": self.item_id(index),
                "model": model,
                "metric": "both_correct",
                "yes": self.yes(index, place) if self.kind(index, place) == "answered" else 0,
                "total": 2 if self.kind(index, place) == "answered" else 0,
                "flag": None if self.kind(index, place) == "answered" else "unparsed",
            }
            for index, place, model in self._pairs()
        ]

    def leaderboard_rows(self) -> list[Row]:
        return [
            {
                "rank": place + 1,
                "rank_best": max(place, 1),
                "rank_worst": min(place + 2, 3),
                "model": model,
                "provider": self.words.provider,
                "n_hints": 0,
                "score": 80.0 - 10 * place,
                "lower": 78.1 - 10 * place,
                "upper": 81.6 - 10 * place,
                "half_width": 1.8,
                "target": "new items",
                "method": "hierarchical",
                "metric": "both_correct",
                "n_items": self.items,
                "n_unparsed": int(place == 2),
                "n_missing": 0,
                "n_unjudged": 0,
                "flags": self.words.flag if place == 2 else "",
            }
            for place, model in enumerate(self.words.models)
        ]

    def both_targets(self) -> list[Row]:
        """The leaderboard for new items, with what is known of this set: one point more, within half a point, at ranks
        that are sure; the last two change places."""
        return [
            {
                **row,
                "new_score": row["score"],
                "set_rank": rank,
                "set_rank_best": rank,
                "set_rank_worst": rank,
                "set_score": 91.0 - 10 * rank,
                "set_lower": 90.5 - 10 * rank,
                "set_upper": 91.5 - 10 * rank,
            }
            for row, rank in zip(self.leaderboard_rows(), (1, 3, 2), strict=True)
        ]

    def pairs_rows(self) -> list[Row]:
        """Each model is better than the next ones with 90 percent probability, on new items with 80."""
        names = self.words.models
        return [
            {
                "model": one,
                "n_hints": 0,
                "other": other,
                "other_hints": 0,
                "better": 0.9,
                "better_new": 0.8,
                "lower": 9.0,
                "upper": 11.0,
                "lower_new": 7.5,
                "upper_new": 12.5,
            }
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        ]

    def label_need_rows(self) -> list[Row]:
        return [{"labels": 12, "half_width_now": 8.1, "half_width_then": 6.3}]

    def judges_rows(self) -> list[Row]:
        return judges_rows(self.words.models, self.words.judge, self.words.provider, self.item_id)

    def cost_rows(self) -> list[Row]:
        return [
            {
                "provider": self.words.provider,
                "model": model,
                "stage": "predict",
                "requests": self.items,
                "input_tokens": 1000,
                "cached_input_tokens": 0,
                "output_tokens": 2000,
                "reasoning_tokens": 500,
                "cost_usd": f"{place + 1}.25",
                "unbatched_usd": f"{2 * (place + 1)}.50",
                "saved_usd": f"{place + 1}.25",
                "price_source": self.words.price_source,
                "price_date": "2026-11-01",
            }
            for place, model in enumerate(self.words.models)
        ]

    def bill(self) -> CostReport:
        usage, reused = (usage_rows(tables.read(self.folder.tables, name)) for name in ("usage", "reused"))
        return build_report(usage, self.unknown, reused=reused)

    def status(self, state: RunState = RunState.DONE) -> Status:
        words = self.words
        jobs = [
            JobStatus(f"predict-{place}", "predict", words.provider, model, 4, 4, 0, 0, 0, 0, 0, True, True)
            for place, model in enumerate(words.models)
        ]
        lost = state is RunState.NEEDS_PERSON
        batch = Batch(
            id="batch-1", job_id="predict-0", shard_id="s", provider=words.provider, model="m", attempt=1,
            state=Lifecycle.LOST if lost else Lifecycle.COLLECTED, tag="t", requests=4, path="p", sha256="x",
            size_bytes=1, outcome=None if lost else BatchOutcome.COMPLETED, reason=words.reason,
        )  # fmt: skip
        return Status(
            run="riddles-1a2b3c4d",
            state=state,
            reason=words.reason or None,
            spent_usd=Decimal("6.75"),
            reserved_usd=Decimal(0),
            jobs=tuple(jobs),
            batches=(batch,),
        )


def fabricated(root: Path, words: Words | None = None, items: int = ITEMS) -> FabricatedRun:
    """A complete run under ``root``."""
    run = FabricatedRun(RunFolder(root / "riddles-1a2b3c4d"), words or Words(), items)
    run.write()
    return run
