"""A run folder with tables made up for tests: small, complete, and as hostile as asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import orjson

from layton_batch.costs.report import CostReport, UnknownCost, UsageRow, build_report
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, Usage
from layton_batch.runs.status import JobStatus, RunState, Status
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import AnnotatorAgreement, DiagnosisRecord, diagnose
from layton_batch.scoring.leaderboard import ScoringRules
from layton_batch.states import BatchOutcome, Lifecycle, Role
from tests.support.evidence import Judged, frames, judged_frame

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
    models = tuple(f"{text} {index}" for index in range(3))
    return Words(**{one.name: text for one in fields(Words)} | {"models": models, "flag": text.replace(",", "")})  # type: ignore[arg-type]


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
            "items": {"source": "items.jsonl", "split": "llm", "hints": 0},
            "scoring": {"metric": "both_correct", "level": 0.95},
        }
        self.folder.manifest.write_bytes(orjson.dumps({"manifest": manifest}))

    def item_id(self, index: int) -> str:
        return f"{self.words.item_id} {index}"

    def items_rows(self) -> list[Row]:
        words = self.words
        texts = {"question": words.question, "hints": [words.hint, None, words.hint], "answer": words.reference}
        texts |= {"justification": words.reference, "solution": words.reference, "payload": "{}"}
        categories = (f"{words.category}, other", words.category)
        return [
            {"item_id": self.item_id(index), "split": "llm", "category": categories[index % 2], "images": [], **texts}
            for index in range(1, self.items + 1)
        ]

    def _pairs(self) -> list[tuple[int, int, Row]]:
        """Number of an item, place of a model, and the columns that name both."""
        return [
            (index, place, {"item_id": self.item_id(index), "model": model})
            for index in range(1, self.items + 1)
            for place, model in enumerate(self.words.models)
        ]

    def is_read(self, index: int, place: int) -> bool:
        return (index, place) != (3, 2)

    def yes(self, index: int, place: int) -> int:
        """Of two votes."""
        return (2, 0)[index - 1] if index <= 2 else (2, 1, 0)[place % 3]

    def predictions_rows(self) -> list[Row]:
        words = self.words
        said = {"provider": words.provider, "n_hints": 0, "answer": words.answer, "raw_text": words.raw}
        said |= {"justification": words.justification, "note": words.note, "finish_reason": "stop"}
        return [
            {**about, **said, "kind": "answered" if self.is_read(index, place) else "unparsed",
             "custom_id": f"r0-{place}-{index}"}
            for index, place, about in self._pairs()
        ]  # fmt: skip

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
            {"custom_id": f"r0-{place}-{index}", "role": "predict", "provider": self.words.provider,
             "model": about["model"], "batch_id": "batch-1", "attempt": 1, "input_tokens": 1250,
             "cached_input_tokens": 0, "output_tokens": 500, "reasoning_tokens": 125, "cache_write_tokens": 0,
             "hour_write_tokens": 0, "cost_usd": "0.0031", "unbatched_usd": "0.0062"}
            for index, place, about in self._pairs()
        ]  # fmt: skip

    def verdicts_rows(self) -> list[Row]:
        by = {"judge_provider": self.words.provider, "note": self.words.note}
        return [
            {**about, **by, "judge": f"{self.words.judge} {seat}",
             **dict.fromkeys(("is_answer_correct", "is_justification_correct"), seat < self.yes(index, place))}
            for index, place, about in self._pairs() if self.is_read(index, place) for seat in range(2)
        ]  # fmt: skip

    def scores_rows(self) -> list[Row]:
        return [
            {**about, "metric": "both_correct", "yes": read * self.yes(index, place), "total": 2 * read,
             "flag": None if read else "unparsed"}
            for index, place, about in self._pairs() for read in (self.is_read(index, place),)
        ]  # fmt: skip

    def leaderboard_rows(self) -> list[Row]:
        same = {"provider": self.words.provider, "n_hints": 0, "half_width": 1.8, "target": "new items"}
        same |= {"method": "hierarchical", "metric": "both_correct", "n_items": self.items}
        same |= {"n_missing": 0, "n_unjudged": 0}
        return [
            {"rank": place + 1, "rank_best": max(place, 1), "rank_worst": min(place + 2, 3), "model": model, **same,
             "score": 80.0 - 10 * place, "lower": 78.1 - 10 * place, "upper": 81.6 - 10 * place,
             "n_unparsed": int(place == 2), "flags": self.words.flag if place == 2 else ""}
            for place, model in enumerate(self.words.models)
        ]  # fmt: skip

    def both_targets(self) -> list[Row]:
        """The leaderboard for new items, with what is known of this set: one point more, within half a point, at ranks
        that are sure; the last two change places."""
        return [
            {**row, "new_score": row["score"], "set_score": 91.0 - 10 * rank, "set_lower": 90.5 - 10 * rank,
             "set_upper": 91.5 - 10 * rank, **dict.fromkeys(("set_rank", "set_rank_best", "set_rank_worst"), rank)}
            for row, rank in zip(self.leaderboard_rows(), (1, 3, 2), strict=True)
        ]  # fmt: skip

    def pairs_rows(self) -> list[Row]:
        """Each model is better than the next ones with 90 percent probability, on new items with 80."""
        known = {"n_hints": 0, "other_hints": 0, "better": 0.9, "better_new": 0.8}
        known |= {"lower": 9.0, "upper": 11.0, "lower_new": 7.5, "upper_new": 12.5}
        return [{"model": one, "other": other, **known} for one, other in combinations(self.words.models, 2)]

    def label_need_rows(self) -> list[Row]:
        return [{"labels": 12, "half_width_now": 8.1, "half_width_then": 6.3}]

    def judges_rows(self) -> list[Row]:
        """Two judges, of whom the second is kinder than people; every word reaches the page."""
        words, family = self.words, self.words.provider
        judged = [
            Judged(Entrant(model, family, 0), family, self.item_id(index),
                   {f"{words.judge} 0": index % 2 == 1, f"{words.judge} 1": True}, human=index % 2 == 1)
            for index in range(1, ITEMS + 1) for model in words.models
        ]  # fmt: skip
        found = diagnose(judged_frame(judged), JuryBoard(*frames([]), ScoringRules()))
        record = DiagnosisRecord(found, AnnotatorAgreement({words.judge: len(judged)}, 0, 0, 0.95, None))
        return [{"document": orjson.dumps(asdict(record)).decode()}]

    def cost_rows(self) -> list[Row]:
        same = {"provider": self.words.provider, "stage": "predict", "requests": self.items, "input_tokens": 1000}
        same |= {"cached_input_tokens": 0, "output_tokens": 2000, "reasoning_tokens": 500}
        same |= {"price_source": self.words.price_source, "price_date": "2026-11-01"}
        return [
            {**same, "model": model, "unbatched_usd": f"{2 * place}.50",
             **dict.fromkeys(("cost_usd", "saved_usd"), f"{place}.25")}
            for place, model in enumerate(self.words.models, 1)
        ]  # fmt: skip

    def bill(self) -> CostReport:
        rows = []
        for row in tables.read(self.folder.tables, "usage").iter_rows(named=True):
            costs = [row[name] and Decimal(row[name]) for name in ("cost_usd", "unbatched_usd")]
            usage = Usage(**{part.name: row[part.name] for part in fields(Usage) if part.name in row})
            rows.append(UsageRow(row["provider"], row["model"], Role(row["role"]), 1, usage, costs[0], costs[1]))
        return build_report(rows, self.unknown)

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
