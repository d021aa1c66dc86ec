"""Orders of a person to the process that drives a run: rows that the driver carries out and deletes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, delete, select

from layton_batch.store import schema
from layton_batch.store.transactions import Transactions, Writing


class OrderKind(StrEnum):
    """The kinds of orders: ``retry`` of the run; for a lost batch ``adopt`` one of the provider's, ``resubmit`` or
    ``give_up``; for one that a copy of the workspace holds back ``ignore``."""

    RETRY = "retry"
    ADOPT = "adopt"
    RESUBMIT = "resubmit"
    GIVE_UP = "give_up"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Order:
    """An order that is not carried out yet. ``argument``: of `adopt` the provider's id; ``at``: epoch seconds."""

    seq: int
    kind: OrderKind
    batch_id: str | None
    argument: str | None
    at: float


def give_order(
    store: Transactions, kind: OrderKind, at: float, *, batch_id: str | None = None, argument: str | None = None
) -> None:
    """Enter an order for whoever drives the run."""
    values = {"run_id": store.run_id, "kind": str(kind), "batch_id": batch_id, "argument": argument, "at": at}
    with store.transaction() as writing:
        writing.connection.execute(schema.orders.insert().values(**values))


def pending_orders(store: Transactions) -> list[Order]:
    """The run's orders, oldest first."""
    with store.reading() as connection:
        return [
            Order(row["seq"], OrderKind(row["kind"]), row["batch_id"], row["argument"], row["at"])
            for row in connection.execute(_orders_query(store.run_id)).mappings()
        ]


@lru_cache(256)
def _orders_query(run_id: str) -> Select[Any]:
    return select(schema.orders).where(schema.orders.c.run_id == run_id).order_by(schema.orders.c.seq)


def is_pending(writing: Writing, order: Order) -> bool:
    """Return whether the order still stands, as the transaction sees it."""
    return writing.connection.scalar(select(schema.orders.c.seq).where(schema.orders.c.seq == order.seq)) is not None


def take_back_retries(writing: Writing, at: float) -> None:
    """Delete the run's pending orders to retry, with an event that says so: a person cancelled after giving them."""
    table = schema.orders
    retries = delete(table).where(table.c.run_id == writing.run_id, table.c.kind == str(OrderKind.RETRY))
    if writing.connection.execute(retries).rowcount:
        writing.event(at, None, "order_taken_back", f"{OrderKind.RETRY}: a person cancelled the run after ordering it")


def settle_order(store: Transactions, order: Order, event: str, detail: str, at: float) -> None:
    """Delete the order, with an event that tells what came of it; no event where it was taken back meanwhile."""
    with store.writing() as writing:
        if writing.connection.execute(delete(schema.orders).where(schema.orders.c.seq == order.seq)).rowcount:
            writing.event(at, order.batch_id, event, detail)
