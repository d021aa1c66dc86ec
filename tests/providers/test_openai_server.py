"""A manifest's own server of OpenAI's shape: the contract with every list and with none, and a run from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from layton_batch.providers.openai import OpenAIServer
from layton_batch.providers.protocol import Access
from layton_batch.records import ServerForm
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.testing.providers import ProviderContract
from tests.support.cli_harness import call, desk
from tests.support.lab import MODELS, quiz_text

ACME = ServerForm("acme", "https://batch.acme.example/v1", max_tokens="max_tokens")
BARE = replace(ACME, lists_batches=False, lists_files=False)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig(batch_seconds=0.05)) as running:
        yield running


class TestServer(ProviderContract):
    base_path = "/openai/v1"
    model = "gpt-5.1-2025-11-13"
    form = ACME

    @pytest.fixture(autouse=True)
    def _address(self, sandbox: Sandbox) -> None:
        self.sandbox_url = sandbox.url

    def make(self, access: Access | None) -> OpenAIServer:
        return OpenAIServer(self.form, access)


class TestServerWithoutLists(TestServer):
    form = BARE

    def test_find_tells_our_batch_from_others(self, tmp_path: Path) -> None:
        """Nothing is found, so a create whose reply is lost is a person's to look for."""
        provider = self.connect(self.sandbox_url)
        sent, _ = self.submitted(provider, tmp_path, "sent")
        assert list(provider.find(sent)) == []
        assert not provider.capabilities.shows_ours


def own_server(address: str, name: str = "acme") -> str:
    model = f'[[models]]\nname = "mine"\nprovider = "{name}"\nmodel = "{MODELS["openai"]}"\n'
    price = f'[[prices]]\nprovider = "{name}"\nmodel = "{MODELS["openai"]}"\ninput = 1\noutput = 2\n'
    return quiz_text((), top=f'[providers.{name}]\nbase_url = "{address}"\nlists_files = false\n', prices=model + price)


def test_a_manifest_runs_on_a_server_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as place:
        path = place.write(own_server(place.lab.server.environment()["OPENAI_BASE_URL"]))
        unset = call("plan", path, "--json").table()
        assert "ACME_API_KEY" in str(unset["caveats"])
        monkeypatch.setenv("ACME_API_KEY", "sandbox-key-acme")
        ended = call("run", path, "--yes", "--json")
        assert ended.code == 0, ended.err
        (job,) = ended.table()["jobs"]  # type: ignore[misc]
        assert (job["provider"], job["succeeded"]) == ("acme", 3)
        assert place.lab.server.ledger().rows_billed == 3


@pytest.mark.parametrize(
    ("name", "told"),
    [("openai", "openai"), ("google", "gemini"), ("Acme", "Acme")],
)
def test_no_server_gets_the_key_of_another_provider(tmp_path: Path, name: str, told: str) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(own_server("https://batch.acme.example/v1", name), encoding="utf-8")
    with pytest.raises(ManifestError, match=f"providers.*{told}"):
        load_manifest(path)
