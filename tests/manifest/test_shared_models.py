"""Manifests that read their models and prices from another file: the same run as with the tables in the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from tests.support.manifest_texts import HEAD, MODEL, write

ITEMS = '[items]\nsource = "bundled"\nlimit = 2\n'
PRICE = '[[prices]]\nprovider = "openai"\nmodel = "gpt-5.1"\ninput = 2\noutput = 8\n'
NAMED = HEAD + 'models = "shared/models.toml"\n' + ITEMS


def load_shared(tmp_path: Path, shared: str | None, named: str = NAMED) -> list[str]:
    """Load a manifest that names a file with the text ``shared``; return the lines of the error, if there is one."""
    (tmp_path / "shared").mkdir()
    if shared is not None:
        write(tmp_path / "shared", shared, "models.toml")
    try:
        load_manifest(write(tmp_path, named))
    except ManifestError as error:
        return str(error).replace(f"{tmp_path}/", "").split("\n")
    return []


def test_the_manifest_is_the_one_with_the_tables_inlined(tmp_path: Path) -> None:
    assert load_shared(tmp_path, MODEL + PRICE) == []
    inlined = load_manifest(write(tmp_path, HEAD + ITEMS + MODEL + PRICE, "inlined.toml"))
    named = load_manifest(tmp_path / "m.toml")
    assert named.frozen_json() == inlined.frozen_json()


@pytest.mark.parametrize(
    ("shared", "complaint"),
    [
        (None, "m.toml: models: no file shared/models.toml"),
        ("models = [", "shared/models.toml: not TOML: "),
        (PRICE, "shared/models.toml: models: is missing: add tables [[models]]"),
        ('models = "more.toml"', "shared/models.toml: models: is missing: add tables [[models]]"),
        (MODEL + "[[judges]]\n", "shared/models.toml: judges: unknown key; a file of models has only tables "),
        (MODEL + "samples = 0\n", "shared/models.toml: models[0].samples: "),
        (MODEL * 2, "shared/models.toml: models: 'm' is there twice"),
        (MODEL + PRICE.replace("2", "-2"), "shared/models.toml: prices[0].input: "),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, shared: str | None, complaint: str) -> None:
    (line,) = load_shared(tmp_path, shared)
    assert line.startswith(complaint)


def test_prices_stand_in_one_of_the_two_files(tmp_path: Path) -> None:
    assert load_shared(tmp_path, MODEL + PRICE, NAMED + PRICE) == [
        "m.toml: prices: shared/models.toml has [[prices]] too; keep them in one of the two files"
    ]
