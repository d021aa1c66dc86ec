"""Replies that keep to the form they were asked for, read by the column. Where it is not certain that a task would read
one the same by itself, nothing is said of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_SPACE = r"[ \t\r\n]*"
_MAYBE_NO_TEXT = r"^(?:[\[{0-9-]|true$|false$)"
"""What Polars makes a text of that was none: an array, an object, a number, true or false."""


def plain_texts(texts: pl.Series, names: Sequence[str], filled: str) -> pl.DataFrame:
    """A column a name: the strings under these names of a text that is a JSON object with all of them, that under
    ``filled`` with a letter or a digit in it; else nulls."""
    import polars as pl

    text = pl.col("text")
    fields = {name: text.str.json_path_match(f"$.{name}") for name in names}
    found = texts.alias("text").to_frame().with_columns(**fields)
    is_plain = pl.all_horizontal(pl.col(name).is_not_null() & _is_text(text, name) for name in names)
    is_plain &= pl.col(filled).str.contains(r"\w")
    return found.select(pl.when(is_plain).then(pl.col(name)).alias(name) for name in names)


def _is_text(text: pl.Expr, name: str) -> pl.Expr:
    """Whether a found value is a string: by its looks, or because no other value stands behind the name in the text. A
    name may be written with escapes."""
    import polars as pl

    other = rf'"{re.escape(name)}"\s*:\s*[^"\s]'
    behind_the_name = ~text.str.contains(other) & ~text.str.contains("\\u", literal=True)
    return ~pl.col(name).str.contains(_MAYBE_NO_TEXT) | behind_the_name


def plain_marks(texts: pl.Series, names: Sequence[str]) -> pl.DataFrame:
    """A column a name: what a text says that is a JSON object of nothing but true or false under these names, in this
    order; else nulls."""
    import polars as pl

    marks = f"{_SPACE},{_SPACE}".join(rf'"{re.escape(name)}"{_SPACE}:{_SPACE}(true|false)' for name in names)
    found = texts.str.extract_groups(rf"^{_SPACE}\{{{_SPACE}{marks}{_SPACE}\}}{_SPACE}$").struct
    return pl.DataFrame({name: found.field(str(number)) == "true" for number, name in enumerate(names, 1)})
