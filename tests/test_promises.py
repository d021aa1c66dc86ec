"""Every promise of ``promises.toml`` stands in its document, and the tests that are said to hold it exist."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PROMISES = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of a file's tests; ``*`` stands for all of them, where there is one."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return frozenset(names | {"*"} if names else ())


@pytest.mark.parametrize("document", PROMISES)
def test_a_promise_stands_in_its_document_and_a_test_holds_it(document: str) -> None:
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    for promise, holders in PROMISES[document].items():
        assert " ".join(promise.split()) in text, promise
        assert holders, promise
        for path, _, name in (holder.partition("::") for holder in holders):
            assert name in names_in(ROOT / "tests" / path), (promise, path, name)
