"""Another attempt for the requests that got no answer: the same lines, in a batch of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import sha256

from layton_batch.batches.batch_file import Line, batch_requests, check_file
from layton_batch.batches.fingerprints import retired_ids
from layton_batch.batches.machine import pause_before_next
from layton_batch.batches.names import part_of, tag
from layton_batch.batches.outcomes import Tally
from layton_batch.errors import StaleStateError
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, Content, Response
from layton_batch.runs.context import Run
from layton_batch.states import PASSING, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.text import decimal_text

MOST_SPLITS = 7
"""How often a batch is halved: into 128 parts at most."""
MOST_WAITS = 100
"""How often a batch comes back that the provider had no room for: for about a day, at the longest pauses."""


def next_attempts(
    run: Run, batch: Batch, tally: Tally, elsewhere: frozenset[str] = frozenset()
) -> tuple[list[Batch], frozenset[str]]:
    """The batches that repeat what got no answer, and the custom_ids they repeat. ``elsewhere``: those that others ask
    for, or have the answers of.

    None where nothing may go again or no attempts are left. What a batch that was too large as a whole left unanswered
    comes back as two halves; that costs no attempt. Files are on disk when this returns; doing it again gives the same
    files.
    """
    row = run.store.row()
    if row is not None and row.cancelled:
        return [], frozenset()
    is_split, unwanted = _to_be_split(run, batch), retired_requests(run, batch) | elsewhere
    again = [
        custom_id
        for custom_id, reply in tally.replies.items()
        if custom_id not in unwanted and may_go_again(reply.response, in_parts=is_split)
    ]
    if is_split:
        middle = (len(again) + 1) // 2
        halves = [
            write_batch(run, batch, part, _half_of(batch, mark), batch.attempt, "half of a batch too large")
            for mark, part in (("1", again[:middle]), ("2", again[middle:]))
            if part
        ]
        return halves, frozenset(again)
    if not again or not attempts_are_left(run, batch):
        return [], frozenset()
    reason = f"{len(again)} of {batch.requests} requests of attempt {batch.attempt} got no answer"
    due = run.clock.now() + pause_before_next(batch, _attempts(run, batch)[1], run.pacing)
    return [write_next(run, batch, again, "n", reason, due)], frozenset(again)


def attempts_are_left(run: Run, batch: Batch) -> bool:
    """Whether the batch's requests may go again by themselves."""
    had_room, had_none = _attempts(run, batch)
    return had_room < run.manifest.policy.attempts and had_none < MOST_WAITS


def retired_requests(run: Run, batch: Batch) -> frozenset[str]:
    """The custom_ids of the batch's job that the manifest does not ask for any more: none of them goes again."""
    requests = tables.read_part(run.folder.part("requests", batch.job_id))
    if any(job.retired for job in run.store.all_jobs() if job.id == batch.job_id):
        return frozenset(requests["custom_id"])
    return retired_ids(requests)


def _attempts(run: Run, batch: Batch) -> tuple[int, int]:
    """How many attempts it took so far: those that were made, and those that the provider turned away as a whole for
    want of room (queued tokens, rate limits), or that were withdrawn before they were sent: these are no fault of the
    requests and cost them no attempt."""
    by_id = {other.id: other for other in run.store.job_batches(batch.job_id)}
    turned_away, one = 0, by_id.get(batch.id)
    while one is not None:
        turned_away += _had_no_room(one)
        one = by_id.get(one.parent_id or "")
    return batch.attempt - turned_away, turned_away


def _had_no_room(batch: Batch) -> bool:
    if batch.outcome is BatchOutcome.CANCELLED and batch.provider_id is None:
        return True
    return batch.outcome is BatchOutcome.FAILED and batch.error_class is ErrorClass.RATE_LIMITED


def _to_be_split(run: Run, batch: Batch) -> bool:
    """Whether a batch was refused for its size and halves of it may fit. A batch refused whole costs nothing, but a
    provider that means something else must not be asked for ever."""
    if batch.error_class is not ErrorClass.TOO_LARGE or batch.outcome is not BatchOutcome.FAILED or batch.requests < 2:
        return False
    by_id = {other.id: other for other in run.store.job_batches(batch.job_id)}
    depth, above = 0, by_id.get(batch.parent_id or "")
    while above is not None and above.error_class is ErrorClass.TOO_LARGE:
        depth, above = depth + 1, by_id.get(above.parent_id or "")
    return depth < MOST_SPLITS


def _half_of(batch: Batch, mark: str) -> str:
    """Of a later attempt a name of its own: a half of the first may have come to the same attempt by itself."""
    return part_of(batch.shard_id, mark if batch.attempt == 1 else f"{batch.attempt}h{mark}")


def may_go_again(response: Response, *, in_parts: bool = False) -> bool:
    """Whether a request may go into another batch by itself: it has no answer, and is known not to have been billed
    for one. ``in_parts``: its batch was too large, and comes back in parts."""
    classes = PASSING | {ErrorClass.TOO_LARGE} if in_parts else PASSING
    return response.outcome is not RequestOutcome.SUCCEEDED and response.error_class in classes


def write_next(run: Run, parent: Batch, again: Collection[str], mark: str, cause: str, due_at: float = 0.0) -> Batch:
    """The next attempt at some of a batch's requests, numbered one after their last.

    It goes under the parent's shard where that number is free, else under a name made from the parent and ``mark``.
    What a collected batch leads to by itself is entered with its collection, so whoever comes later sees that number
    taken; and what is not collected leads nowhere else yet. So no two processes can mean one name by two things, which
    they could if numbers were counted over all that is entered.
    """
    number, shard_id = parent.attempt + 1, parent.shard_id
    entered = {(other.job_id, other.shard_id, other.attempt) for other in run.store.job_batches(parent.job_id)}
    if (parent.job_id, shard_id, number) in entered:
        shard_id = part_of(shard_id, f"{parent.attempt}{mark}")
    return write_batch(run, parent, again, shard_id, number, cause, due_at)


def write_batch(
    run: Run,
    parent: Batch,
    again: Collection[str],
    shard_id: str,
    attempt: int,
    cause: str,
    due_at: float = 0.0,
) -> Batch:
    """A batch of some of its parent's requests, their lines byte for byte as they were."""
    lines = _lines_again(run, parent, frozenset(again))
    return write_lines(run, parent, lines, shard_id, attempt, cause, reask_of(run, parent), due_at)


def _lines_again(run: Run, parent: Batch, wanted: frozenset[str]) -> Iterator[Line]:
    asked = batch_requests(run, parent)
    check_file(run, parent)
    with (run.folder.root / parent.path).open("rb") as lines:
        for custom_id, cost, line in zip(asked["custom_id"], asked["max_cost"], lines, strict=True):
            if custom_id in wanted:
                yield Line(custom_id, line.rstrip(b"\n"), None if cost is None else Decimal(cost))


def write_lines(
    run: Run,
    parent: Batch,
    lines: Iterable[Line],
    shard_id: str,
    attempt: int,
    cause: str,
    reask: int,
    due_at: float = 0.0,
) -> Batch:
    """A batch of its own for these lines, as another attempt at some of its parent's requests.

    The file is on disk when this returns; doing it again gives the same file. ``reask``: how many times the requests
    were asked for again though they had been answered. Raises StaleStateError where it is entered already: its file may
    have been sent.
    """
    path = run.folder.request_file(parent.job_id, shard_id if attempt == 1 else f"{shard_id}.a{attempt}")
    batch_id, where = f"{parent.job_id}.{shard_id}.a{attempt}", path.relative_to(run.folder.root).as_posix()
    if any(batch_id == other.id or where == other.path for other in run.store.job_batches(parent.job_id)):
        raise StaleStateError(f"batch {batch_id} is entered already, with its file; call again")
    digest, size, rows = sha256(), 0, []
    names: list[str] = []
    costs: list[Decimal | None] = []
    with atomic.writing(path) as handle:
        for line in lines:
            handle.write(line.content + b"\n")
            digest.update(line.content + b"\n")
            size += len(line.content) + 1
            costs.append(line.max_cost)
            names.append(line.custom_id)
            rows.append({"custom_id": line.custom_id, "max_cost": decimal_text(line.max_cost), "reask": reask})
    tables.write(run.folder.part("attempts", batch_id), tables.frame("attempts", rows))
    return Batch(
        id=batch_id,
        job_id=parent.job_id,
        shard_id=shard_id,
        provider=parent.provider,
        model=parent.model,
        attempt=attempt,
        state=Lifecycle.PLANNED,
        tag=tag(run.tag_prefix, parent.job_id, shard_id, attempt),
        requests=len(rows),
        path=where,
        sha256=digest.hexdigest(),
        size_bytes=size,
        max_cost=total(costs),
        parent_id=parent.id,
        cause=cause,
        content=Content(names, reask),
        due_at=due_at,
    )


def reask_of(run: Run, batch: Batch) -> int:
    """How many times the requests of a batch were asked for again though they had been answered."""
    return reask_in(run.folder, batch.id)


def reask_in(folder: RunFolder, batch_id: str) -> int:
    """The same, of a batch of any run."""
    path = folder.part("attempts", batch_id)
    return int(tables.read_part(path, columns=["reask"])["reask"].max() or 0) if path.exists() else 0  # type: ignore[arg-type]


def total(costs: Sequence[Decimal | None]) -> Decimal | None:
    """The sum of the amounts; None if one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None
