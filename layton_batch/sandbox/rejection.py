"""The one way a dialect refuses something: an HTTP call, a whole batch or a single row."""

from __future__ import annotations


class Rejection(Exception):
    """`status` is the HTTP status; `code` and `param` go where the provider's error form has a place for them."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after
