"""The providers' side of simulated histories: batches, what was asked and billed, and all that may go wrong there.

The world keeps its own ledger by content: what was asked is provider, model and prompt, never a name of ours.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

INPUT_USD, OUTPUT_USD = Decimal("0.0001"), Decimal("0.0003")
"""What each model costs for a token in a batch."""
INPUT_BYTES, OUTPUT_TOKENS = 40, 60
"""Bytes of a request that are billed as a token, and the most tokens of a reply."""
TRAITS = ("tagged", "untagged", "uncertain")
LATEST_CREATE = 420.0
"""Seconds after its connection broke in which a create may still be carried out."""
LONGEST_LAG = 180.0
"""Seconds for which a list may lack a new batch."""

Key = tuple[str, str, str]
"""What is asked: provider, model and the digest of the prompt."""
Error = tuple[str, str, str, Mapping[str, Any]]
"""A failure of a call: ``error``, the class of ``layton_batch.errors``, its message, and its keywords."""


@dataclass(slots=True)
class Bill:
    """A row that was carried out and is paid for. ``readable``: its line names its request and has the text."""

    key: Key
    batch_id: str
    prompt: str
    text: str
    usd: Decimal
    readable: bool = True


@dataclass(slots=True)
class WorldBatch:
    """A batch at a provider. ``lines``: the requests as they came; ``rows``: its result lines once it has ended.

    ``shown_at``: when lists have it, None: never. ``results_at``: when there are files. ``odd_until``: until then its
    status is a word that nobody documents.
    """

    id: str
    provider: str
    tag: str
    lines: Sequence[Mapping[str, Any]]
    content: bytes
    created: float
    ends_at: float
    fate: str
    share: float
    shown_at: float | None
    results_at: float = 0.0
    odd_until: float = 0.0
    status: str = "running"
    answered: int = 0
    rows: list[bytes] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "stopping")


@dataclass(frozen=True, slots=True)
class Weather:
    """Of a history: how likely each kind of trouble is, by name, and how often each may happen at a provider.

    ``batch_seconds``: the longest that a batch takes. ``last``: how often a kind may happen at one provider.
    ``outage``: seconds from the beginning between which no call gets through; ``no_creates``: between which each create
    is answered with HTTP 503, although a share of them, ``carried_out``, is carried out.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    last: int = 3
    batch_seconds: float = 300.0
    outage: tuple[float, float] = (0.0, 0.0)
    no_creates: tuple[float, float] = (0.0, 0.0)
    carried_out: float = 0.0


def key_of(provider: str, line: Mapping[str, Any]) -> Key:
    """Return what a line asks."""
    return provider, str(line["model"]), hashlib.sha256(prompt_of(line).encode()).hexdigest()[:16]


def prompt_of(line: Mapping[str, Any]) -> str:
    """Return the words of a line's prompt."""
    return "\n".join([line["system"], *line["said"]])


class World:
    """Every provider's side. ``answer`` gives the text of a reply to a prompt and the number of its bill."""

    def __init__(self, seed: int, weather: Weather, answer: Callable[[str, int], str], now: float) -> None:
        self.seed, self.weather, self.answer, self.now = seed, weather, answer, now
        self.began = now
        self.batches: list[WorldBatch] = []
        self.bills: list[Bill] = []
        self.happened: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._late: list[tuple[float, Callable[[], object]]] = []
        self._files: dict[str, bytes] = {}
        self._failed_rows: Counter[Key] = Counter()

    def next_event(self) -> float | None:
        """Return when something is next carried out by itself."""
        return min((due for due, _ in self._late), default=None)

    def batch(self, batch_id: str) -> WorldBatch | None:
        """Return a batch as of now."""
        self.catch_up()
        return next((batch for batch in self.batches if batch.id == batch_id), None)

    def catch_up(self) -> None:
        """Carry out what is due: late creates, and batches that end."""
        now, due = self.now, [late for late in self._late if late[0] <= self.now]
        self._late = [late for late in self._late if late[0] > self.now]
        for self.now, carry_out in sorted(due, key=lambda late: late[0]):
            carry_out()  # when it was due: nothing asks the world between two events of the processes
        self.now = now
        for batch in self.batches:
            if not batch.is_over and batch.ends_at <= self.now:
                self._end(batch, batch.fate, batch.share)

    def troubled(self, kind: str, provider: str, *about: object) -> random.Random | None:
        """Return a generator of its details where a trouble happens now, else None."""
        rate = self.weather.rates.get(kind, 0.0)
        if not rate or self.happened[f"{kind} {provider}"] >= self.weather.last:
            return None
        draw = random.Random(f"{self.seed} {kind} {provider} {about}")
        if draw.random() >= rate:
            return None
        self.happened[f"{kind} {provider}"] += 1
        return draw

    # ---- calls -----------------------------------------------------------------------------------------------------

    def call(self, provider: str, operation: str, details: Sequence[Any]) -> tuple[Any, ...]:
        """Carry out a call; returns ``("ok", value)`` or an error. ``("ok", None)`` never stands for a lost reply."""
        self.catch_up()
        self.calls[f"{operation} {provider}"] += 1
        number = self.calls[f"{operation} {provider}"]
        before = self._fails_before(provider, operation, number, details)
        if before is not None:
            return before
        reply: tuple[Any, ...] = getattr(self, f"_{operation}")(provider, number, *details)
        if operation == "create" and self._is_within(self.weather.no_creates):
            return _UNAVAILABLE
        is_lost = reply[0] == "ok" and self.troubled(f"{operation} reply lost", provider, number)
        return _unclear("the connection broke before the reply") if is_lost else reply

    def _fails_before(self, provider: str, operation: str, number: int, details: Sequence[Any]) -> Error | None:
        if self._is_within(self.weather.outage) or self.troubled("network", provider, operation, number):
            return _error("TransientProviderError", "no route to host", is_sent=False)
        if operation == "create" and self._is_within(self.weather.no_creates):
            self.happened["creates unavailable"] += 1
            chance = random.Random(f"{self.seed} unavailable {provider} {number}").random()
            return None if chance < self.weather.carried_out else _UNAVAILABLE
        for kind, error in _FAILURES[operation].items():
            if draw := self.troubled(f"{operation} {kind}", provider, number):
                if kind == "late":
                    due = self.now + draw.uniform(1.0, LATEST_CREATE)
                    self._late.append((due, lambda: self._create(provider, number, *details)))
                return error
        return None

    def _is_within(self, span: tuple[float, float]) -> bool:
        return span[0] <= self.now - self.began < span[1]

    def _upload(self, provider: str, number: int, name: str, content: bytes) -> tuple[Any, ...]:
        name = f"file-{provider}-{hashlib.sha256(content).hexdigest()[:8]}-{number}"
        self._files[name] = content
        return "ok", name

    def _create(self, provider: str, number: int, tag: str, file: str | bytes, _name: str) -> tuple[Any, ...]:
        content = file if isinstance(file, bytes) else self._files[file]
        draw = random.Random(f"{self.seed} batch {provider} {number}")
        is_denied = self.troubled("create denied", provider, number) is not None
        lag = self.troubled("list late", provider, number)
        batch = WorldBatch(
            f"{provider}-{len(self.batches) + 1}", provider, tag, [json.loads(line) for line in content.splitlines()],
            content, self.now, self.now + draw.uniform(0.1, 1.0) * self.weather.batch_seconds, "completed",
            draw.random(), None if is_denied else self.now + (lag.uniform(1.0, LONGEST_LAG) if lag else 0.0),
        )  # fmt: skip
        for fate in ("expired", "failed", "cancelled"):
            if self.troubled(fate, provider, number):
                batch.fate = fate
        if late := self.troubled("results late", provider, number):
            batch.results_at = batch.ends_at + late.uniform(10.0, 200.0)
        if odd := self.troubled("status odd", provider, number):
            batch.odd_until = self.now + odd.uniform(1.0, 600.0)
        self.batches.append(batch)
        return _unclear("HTTP 500") if is_denied else ("ok", batch.id)

    def _list(self, provider: str, _number: int, tag: str) -> tuple[Any, ...]:
        shown = [
            b for b in self.batches if b.provider == provider and b.shown_at is not None and b.shown_at <= self.now
        ]
        return "ok", [
            {
                "id": batch.id, "tag": batch.tag, "created": batch.created, "total": len(batch.lines),
                "custom_ids": [line["custom_id"] for line in batch.lines] if batch.is_over else None,
            }
            for batch in reversed(shown)
        ]  # fmt: skip

    def _poll(self, provider: str, number: int, batch_id: str) -> tuple[Any, ...]:
        batch = self.batch(batch_id)
        if batch is None:
            return _error("NotFoundError", "HTTP 404", status=404)
        if self.now - batch.created < 60.0 and self.troubled("poll 404", provider, number):
            return _error("NotFoundError", "HTTP 404: not yet", status=404)
        total, is_counted = len(batch.lines), batch.is_over and batch.results_at <= self.now
        return "ok", {
            "status": "pondering" if self.now < batch.odd_until and not batch.is_over else batch.status,
            "total": total, "succeeded": batch.answered if is_counted else None,
            "failed": total - batch.answered if is_counted else None,
            "message": "internal error" if batch.status == "failed" else None,
        }  # fmt: skip

    def _results(self, provider: str, number: int, batch_id: str) -> tuple[Any, ...]:
        batch = self.batch(batch_id)
        assert batch is not None
        rows = list(batch.rows) if batch.results_at <= self.now else []
        if rows and (draw := self.troubled("results short", provider, number)):
            rows = rows[: draw.randrange(len(rows))]
        content = b"".join(row + b"\n" for row in rows)
        if content and (draw := self.troubled("results cut", provider, number)):
            return "ok", (content[: draw.randrange(len(content))], True)
        return "ok", (content, False)

    def _cancel(self, _provider: str, number: int, batch_id: str) -> tuple[Any, ...]:
        batch = self.batch(batch_id)
        assert batch is not None
        if not batch.is_over and batch.status != "stopping":
            batch.status, batch.fate = "stopping", "cancelled"
            batch.share = min(1.0, (self.now - batch.created) / max(batch.ends_at - batch.created, 1.0))
            batch.ends_at = self.now + 20.0
        return "ok", None

    # ---- what batches come to ----------------------------------------------------------------------------------------

    def _end(self, batch: WorldBatch, status: str, share: float) -> None:
        total = len(batch.lines)
        done = {"completed": total, "failed": 0}.get(status, int(share * total))
        batch.status = status
        for number, line in enumerate(batch.lines):
            if number < done:
                batch.rows.extend(self._row(batch, line))
            elif status == "expired":
                batch.rows.append(_line(line, error="expired"))
        draw = random.Random(f"{self.seed} order {batch.id}")
        draw.shuffle(batch.rows)

    def _row(self, batch: WorldBatch, line: Mapping[str, Any]) -> Iterator[bytes]:
        """Carry out a request: its bill, and its lines."""
        key, number = key_of(batch.provider, line), len(self.bills) + 1
        self._failed_rows[key] += 1
        about = (*key, self._failed_rows[key])
        if self.troubled("row fault", batch.provider, *about):
            yield _line(line, error="fault")
            return
        if self.troubled("row refused", batch.provider, *about):
            yield _line(line, error="refused")
            return
        if self.troubled("row missing", batch.provider, *about):
            return
        text, tokens_in = self.answer(prompt_of(line), number), len(prompt_of(line)) // INPUT_BYTES
        tokens_out = 10 + number % (OUTPUT_TOKENS - 10)
        bill = Bill(key, batch.id, prompt_of(line), text, tokens_in * INPUT_USD + tokens_out * OUTPUT_USD)
        self.bills.append(bill)
        batch.answered += 1
        whole = _line(line, text=text, input=tokens_in, output=tokens_out)
        if self.troubled("row garbled", batch.provider, *about):
            bill.readable = False
            yield whole[: len(whole) // 2]
            return
        yield whole
        if self.troubled("row twice", batch.provider, *about):
            yield _line(line, text=text, input=tokens_in, output=tokens_out)
        if self.troubled("row unknown", batch.provider, *about):
            yield _line({"custom_id": "somebody-else-7"}, text=text, input=tokens_in, output=tokens_out)

    # ---- the ledger --------------------------------------------------------------------------------------------------

    def let_all_end(self) -> None:
        """Let time pass until nothing is on its way, known to anybody or not."""
        while (due := self.next_event()) is not None:
            self.now = max(self.now, due)
            self.catch_up()
        self.now = max([self.now, *(batch.ends_at for batch in self.batches)])
        self.catch_up()

    def billed(self) -> Decimal:
        """Return what everything cost."""
        return sum((bill.usd for bill in self.bills), Decimal(0))


def _line(line: Mapping[str, Any], **more: Any) -> bytes:
    return json.dumps({"custom_id": line["custom_id"], **more}).encode()


def _error(kind: str, message: str, **options: Any) -> Error:
    return "error", kind, message, options


def _unclear(message: str) -> Error:
    return _error("AmbiguousCallError", message)


_BUSY = _error("TransientProviderError", "HTTP 429", status=429, retry_after=60.0)
_AWAY = _error("TransientProviderError", "HTTP 503", status=503)
_BROKEN = _unclear("the connection broke")
_UNAVAILABLE = _error("AmbiguousCallError", "HTTP 503", status=503)
_FAILURES: Mapping[str, Mapping[str, Error]] = {
    "upload": {"429": _BUSY, "503": _AWAY},
    "create": {
        "429": _BUSY, "unmade": _BROKEN, "late": _BROKEN,
        "forbidden": _error("RequestRefusedError", "HTTP 403", status=403),
        "unpaid": _error("RequestRefusedError", "HTTP 402: no credit", status=402),
        "refused": _error("RequestRefusedError", "HTTP 400: not acceptable", status=400),
    },
    "list": {"429": _BUSY, "503": _AWAY, "refused": _error("LookUpRefusedError", "HTTP 403", status=403)},
    "poll": {"429": _BUSY, "503": _AWAY},
    "results": {"429": _BUSY, "503": _AWAY},
    "cancel": {"refused": _error("RequestRefusedError", "HTTP 409", status=409)},
}  # fmt: skip
"""Failures of calls before anything is carried out, by operation and kind. A late create is carried out afterwards."""
