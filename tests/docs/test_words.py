"""Names of classes and of table columns are made of the glossary's words, and of a short list of technical terms."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from layton_batch.files.table_columns import LEADERBOARD, SCHEMAS
from layton_batch.providers import BUILT_IN
from layton_batch.tasks import BUILT_IN as TASKS

ROOT = Path(__file__).parents[2]
LITTLE = "as both has is may no not now other over own then up yes".split()  # noqa: SIM905
"""Words between nouns."""
TERMS = """
    access account action address agreed agreement ai ambiguous annotation another app arguments axis benchmark best
    better bill bin body book borrowed cache calibration call capabilities category cell change chart check claims
    client clock code column command compared comparison content contract conversation copied correct count
    credentials custom damaged data date deadline decision diagnosis dialect digest discount document download drift
    elsewhere end engine entrant entry export fact failure fewest findings finish flag folder forecast form
    found gate grid guard half handler hour html id illegal image import input intent joined json
    justification key kind known knows lack ledger leniency lifecycle limits line list load location log look
    loopback lower machine matching meaning message method mistake money move n needed new night note notice open
    options order output pacing paid pair part past payload per picture policy preview priors progress
    query question rate raw reader reading reason record redactor refusal refused registry
    report response result round router row saved schema sd search section sent served server session settings shard
    shared shortfall shown size snapshot solution source spec stage stale status step stopped storage store
    stream submission system table tag tally target terminal text thread tick token total transactions transient trouble
    unbatched unclear unfinished unjudged usd variable verification wait width wire worst write
""".split()  # noqa: SIM905
"""Words of programs, files and tables that the glossary does not explain."""
FIELD_TERMS = {
    "stats": """
        difference draws estimate evidence fit kappa paper parameters strata
    """.split(),  # noqa: SIM905
    "sandbox": """
        api config endpoint fault gateway index participant prefix
        profile protocol rejection replay simulate span truth unfit
    """.split(),  # noqa: SIM905
    "tasks": """
        advises brace candidate estimate justify letter logic
        object offline protocol show span statement strata template unfenced unfit zebra
    """.split(),  # noqa: SIM905
}
"""Words of one part of the package: by its folder."""
_FIRST_CELL = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def glossary() -> set[str]:
    """Return the words that the glossary explains: the first column of its tables."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return {word for cell in _FIRST_CELL.findall(text) for word in re.findall(r"[a-z]+", cell.lower())}


@cache
def classes() -> list[tuple[str, str]]:
    """Return the folder of the package and the name of each class."""
    package = ROOT / "layton_batch"
    trees = [
        (path.relative_to(package).parts[0], ast.parse(path.read_bytes())) for path in sorted(package.rglob("*.py"))
    ]
    return [(part, node.name) for part, tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def roots(word: str) -> Iterator[str]:
    """Yield the word and those that it may be a plural or another form of."""
    yield word
    for ending in ("s", "es", "d", "ed", "ing", "r", "er"):
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            yield from (stem, f"{stem}e")
            if stem[-2:-1] == stem[-1:]:
                yield stem[:-1]
    for ending in ("ies", "ied"):
        if word.endswith(ending):
            yield f"{word.removesuffix(ending)}y"


def parts(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(name)]


def known_words(folder: str = "") -> set[str]:
    """Return all words that names of a folder may have; names of providers and benchmarks are among them."""
    proper = {part for name in (*BUILT_IN, *TASKS) for part in parts(name)}
    return {*glossary(), *LITTLE, *TERMS, *FIELD_TERMS.get(folder, ()), *proper}


def strangers(name: str, words: set[str]) -> set[str]:
    """Return the words of a name that are none of the given ones."""
    return {part for part in parts(name) if words.isdisjoint(roots(part))}


def column_names() -> list[str]:
    return [name for columns in (*SCHEMAS.values(), LEADERBOARD) for name in columns]


def test_no_class_name_stands_twice() -> None:
    counts = Counter(name.strip("_") for _, name in classes())
    assert [name for name, count in counts.items() if count > 1] == []


def test_names_of_public_classes_are_made_of_known_words() -> None:
    words = {folder: known_words(folder) for folder, _ in classes()}
    unknown = {name: strangers(name, words[folder]) for folder, name in classes() if not name.startswith("_")}
    assert {name: parts for name, parts in unknown.items() if parts} == {}


def test_columns_are_made_of_known_words() -> None:
    words = known_words()
    assert {name: unknown for name in column_names() if (unknown := strangers(name, words))} == {}


LEFT = """
    brief course deed desk doubt duel kept kin lane law mark place said shelf standing told twin untold
""".split()  # noqa: SIM905


def test_words_that_left_stay_away() -> None:
    assert [name for _, name in classes() if not set(LEFT).isdisjoint(parts(name))] == []
    assert [name for name in column_names() if not set(LEFT).isdisjoint(parts(name))] == []
