"""`[site]`: what may stand in it, and that a run keeps it without the manifest's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.manifest import Manifest
from tests.support.manifest_texts import MINIMAL, load

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def test_the_logo_comes_along_and_a_site_table_asks_nothing(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(PNG)
    manifest = load(
        tmp_path,
        MINIMAL + '[site]\ntitle = "Riddles"\nlogo = "logo.png"\nlinks = { Paper = "https://example.org/p" }\n'
        'colours = { openai = "#aabbcc" }\n',
    )
    (tmp_path / "logo.png").unlink()
    again = Manifest.from_frozen(manifest.frozen_json())
    assert json.loads(again.frozen_json())["logo"].startswith("data:image/png;base64,iVBOR")
    assert again.identity() == load(tmp_path, MINIMAL).identity()
    assert "logo" not in load(tmp_path, MINIMAL).frozen()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('links = { Paper = "javascript:alert(1)" }', "site.links.Paper: must be an address that begins with https://"),
        ('links = { Paper = "https://me:pw@example.org" }', "site.links.Paper: must not hold blanks"),
        ('links = { Paper = "https://" }', "site.links.Paper: must be an address"),
        ('colours = { openai = "red" }', "site.colours.openai: string should match pattern '^#[0-9a-fA-F]{6}$'"),
        ('title = "a\\u202eb"', "site.title: must not contain control or invisible characters"),
        (f'description = "{"x" * 1001}"', "site.description: must be at most 1000 characters, not 1001"),
        ('logo = "none.png"', "site.logo: no file"),
        ('logo = "https://example.org/logo.png"', "a logo is a file on this machine"),
        ('logo = "evil.svg"', "is not a JPEG, PNG, WebP or GIF image"),
        ('logo = "large.png"', "100,001 bytes are too many for a logo (at most 100,000)"),
        ('licence = "CC0"', "site.licence: unknown key; did you mean 'license'?"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_reason(tmp_path: Path, line: str, complaint: str) -> None:
    (tmp_path / "evil.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (tmp_path / "large.png").write_bytes(PNG.ljust(100_001, b"0"))
    with pytest.raises(ManifestError) as problem:
        load(tmp_path, f"{MINIMAL}[site]\n{line}\n")
    assert complaint in str(problem.value)
