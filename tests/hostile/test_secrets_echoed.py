"""A gateway that repeats our keys in everything it says: no file of the run, no page and no message shows one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import zstandard

from layton_batch.errors import ManifestError
from layton_batch.runs.status import RunState
from layton_batch.stages.preview import preview
from tests.support.lab import MODELS, lab, manifest_text
from tests.support.tampering import Answer, hostile

PROVIDERS = (*MODELS,)
READS_PAGES = True
TEXT = manifest_text(PROVIDERS, limit=1)
INSIDE = rb"\"justification\": \""
"""The beginning of every answer's text, as the JSON of a result line has it."""
SORTED = "Answer: A, as one"
"""A text that models write, and the value of a variable that is no key of ours."""


def key_of(provider: str) -> str:
    return f"sandbox-key-{provider}"


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file under ``folder`` as it can be read."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            if path.suffix == ".zst":
                raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            elif path.suffix == ".parquet":
                raw = pl.read_parquet(path).write_json().encode()
            yield path, raw


def shows_a_key(content: bytes) -> bool:
    return any(key_of(provider).encode() in content for provider in PROVIDERS)


class Parrot:
    """Repeats keys in every result line, outside and inside of the answer, and refuses the first call of each kind with
    them; counts what it said."""

    def __init__(self) -> None:
        self.said: Counter[tuple[str, str]] = Counter()

    def __call__(self, provider: str, kind: str, _path: str, answer: Answer) -> Answer:
        key = key_of(provider)
        told = f"Bearer {key}, and {SORTED}"
        if kind in ("list", "poll", "results") and not self.said[provider, kind]:
            self.said[provider, kind] += 1
            return answer.of(b'{"error": {"message": "no: %s", "code": "%s"}}' % (told.encode(), key.encode()), 429)
        if INSIDE not in answer.content:
            return answer
        self.said[provider, "text"] += 1
        inside = INSIDE + b"I was sent " + told.encode() + b". "
        return answer.of(answer.content.replace(INSIDE, inside))


def test_no_key_that_any_provider_repeats_is_kept_or_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    parrot = Parrot()
    with hostile(tmp_path, variables={"SORT_KEY": SORTED}) as (there, between):
        between.tamper = parrot
        status = there.finish(TEXT)
        folder = there.run_folder(TEXT)
        said = there.table(TEXT, "predictions")
    assert {provider for provider, kind in parrot.said if kind == "text"} == set(PROVIDERS)
    assert status.state is RunState.DONE
    assert said["raw_text"].str.contains(r"I was sent Bearer \[hidden\]\*+, and " + SORTED).all()
    assert set(said["kind"]) == {"answered"}
    assert (folder.root / "site").is_dir()
    assert [str(path) for path, content in contents(folder.root) if shows_a_key(content)] == []
    assert not shows_a_key("".join([*capsys.readouterr(), caplog.text]).encode())


def test_values_of_keys_in_a_manifest_are_refused_whatever_their_name(tmp_path: Path) -> None:
    with lab(tmp_path) as there:
        for params in ('{ x = { y = ["my sandbox-key-groq"] } }', '{ x = { "sandbox-key-groq" = 1 } }'):
            text = TEXT.replace("max_output_tokens = 4000\n", f"max_output_tokens = 4000\nparams = {params}\n", 1)
            with pytest.raises(ManifestError, match=r"models\[0\].params.x.* holds the value of a key") as caught:
                there.finish(text)
            assert "sandbox-key" not in str(caught.value)
            with pytest.raises(ManifestError, match="holds the value of a key"):
                preview(there.manifest(text), there.settings, there.clock)
        assert not there.runs.exists()
        assert there.server.request_counts() == {}
