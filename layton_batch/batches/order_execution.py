"""Carry out what a person ordered while this process drives the run: `retry` and `resolve`, as the commands do."""

from __future__ import annotations

from layton_batch.batches.resolve import adopt_batch, give_up, ignore_copy, send_again
from layton_batch.batches.retry import retry_run
from layton_batch.errors import (
    DamagedTableError,
    ManifestError,
    MissingKeyError,
    ProviderError,
    StaleStateError,
    StorageError,
    StoreError,
)
from layton_batch.runs.context import Run
from layton_batch.store.orders import Order, OrderKind, pending_orders, settle_order
from layton_batch.text import plural


def carry_out_orders(run: Run) -> bool:
    """Carry out each pending order and write its outcome as an event; True where there was any.

    An order that a stop cuts short is carried out again: what it did already it finds done.
    """
    orders = pending_orders(run.store)
    for order in orders:
        try:
            event, detail = "order_carried_out", _carry_out(run, order)
        except StorageError:
            raise  # the database or the disk is in the way
        except (ManifestError, MissingKeyError, ProviderError, StoreError, DamagedTableError, StaleStateError) as error:
            event, detail = "order_refused", str(error)
        settle_order(run.store, order, event, f"{order.kind}: {detail}", run.clock.now())
    return bool(orders)


def _carry_out(run: Run, order: Order) -> str:
    """Do what the order says and return the outcome in words. Raises ManifestError, ProviderError, DamagedTableError
    and StaleStateError where it cannot be done."""
    if order.kind is OrderKind.RETRY:
        return f"{plural(retry_run(run, order), 'request')} without an answer"
    batch_id = str(order.batch_id)
    if order.kind is OrderKind.ADOPT:
        adopt_batch(run, batch_id, str(order.argument))
        return f"adopted as {order.argument}"
    if order.kind is OrderKind.GIVE_UP:
        give_up(run, batch_id)
        return "given up; its requests end without an answer"
    if order.kind is OrderKind.IGNORE:
        ignore_copy(run, batch_id)
        return "will be sent"
    send_again(run, batch_id)
    return "will be sent again"
