"""Errors of Python functions name arguments, not options of commands."""

from __future__ import annotations

import pytest

from layton_batch.argument_names import names_arguments
from layton_batch.errors import AnotherDriverError


@names_arguments
def _refuse(message: str, max_usd: float | None = None, yes: bool = False) -> None:
    raise AnotherDriverError(message, "process 7")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("--max-usd 'much': give an amount", "max_usd 'much': give an amount"),
        ("give --max-usd or --yes; nothing was sent", "give max_usd or yes=True; nothing was sent"),
        ("there; `--yes x` or `--folder y`", "there; `yes='x'` or `--folder y`"),
        ("`layton-batch resolve x --yes` decides", "`layton-batch resolve x --yes` decides"),
        ("--sandbox is no argument", "--sandbox is no argument"),
        ("well-known, a--b", "well-known, a--b"),
    ],
)
def test_an_option_is_called_by_the_argument_of_its_name(message: str, shown: str) -> None:
    with pytest.raises(AnotherDriverError) as refused:
        _refuse(message)
    assert str(refused.value) == shown
    assert refused.value.driver == "process 7"
