"""The wire that each SDK speaks by itself: an upgrade that changes it fails here, and not in a run."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from layton_batch.providers import anthropic as our_anthropic
from layton_batch.providers import gemini as our_gemini
from layton_batch.providers.anthropic import Anthropic
from layton_batch.providers.protocol import Access
from layton_batch.testing.providers import Answer, Loopback
from tests.support.paths import ROOT

from .test_anthropic import batch, batch_file, submission

MAJORS = {"openai": 3, "anthropic": 2, "google-genai": 3, "mistralai": 3, "together": 3, "groq": 1}


@pytest.mark.parametrize(("name", "major"), MAJORS.items())
def test_the_major_of_each_sdk_is_installed_and_capped(name: str, major: int) -> None:
    assert int(version(name).split(".")[0]) == major
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (asked,) = [one for one in project["dependencies"] if one.startswith(f"{name}>=")]
    assert asked.endswith(f",<{major + 1}")


def test_the_lock_holds_what_the_caps_allow() -> None:
    locked = dict(line.split(" ")[0].split("==") for line in (ROOT / "requirements.lock").read_text().splitlines())
    assert {name: int(locked[name].split(".")[0]) for name in MAJORS} == MAJORS


def test_anthropics_sdk_speaks_the_version_that_we_pin() -> None:
    import anthropic

    answer = Answer(body=json.dumps(batch()).encode())
    with Loopback(answer) as server, anthropic.Anthropic(api_key="k", base_url=server.url) as client:
        client.messages.batches.retrieve("msgbatch_1")
    assert [call.headers["anthropic-version"] for call in server.calls] == [our_anthropic.VERSION] == ["2026-10-21"]


def test_googles_sdk_speaks_the_version_that_we_pin() -> None:
    from google import genai

    answer = Answer(body=b'{"name": "batches/1", "metadata": {"state": "BATCH_STATE_RUNNING"}}')
    with Loopback(answer) as server:
        client = genai.Client(vertexai=False, api_key="k", http_options={"base_url": server.url})  # type: ignore[arg-type]
        client.batches.get(name="batches/1")
        client.close()
    assert [call.path for call in server.calls] == [f"/{our_gemini.VERSION}/batches/1"] == ["/v1/batches/1"]


def test_the_other_sdks_call_the_addresses_whose_documents_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import groq
    import openai
    import together
    from mistralai.client.sdkconfiguration import SERVERS

    for name in ("OPENAI", "GROQ", "TOGETHER"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    with openai.OpenAI(api_key="k") as client:
        assert str(client.base_url) == "https://api.openai.com/v1/"
    with groq.Groq(api_key="k") as client_of_groq:
        assert str(client_of_groq.base_url).rstrip("/") == "https://api.groq.com"
    with together.Together(api_key="k") as client_of_together:
        assert str(client_of_together.base_url).rstrip("/") == "https://api.together.ai"
    assert SERVERS["global"] == "https://api.mistral.ai"


def test_anthropics_version_header_is_ours_whatever_the_sdk_would_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(our_anthropic, "VERSION", "2031-01-01")
    with Loopback(Answer(body=json.dumps(batch()).encode())) as server:
        provider = Anthropic(Access("secret-key", server.url))
        provider.create(submission(batch_file(tmp_path)))
        provider.snapshot("msgbatch_1")
        provider.close()
    assert [call.headers["anthropic-version"] for call in server.calls] == ["2031-01-01"] * 2


def test_httpx_is_loaded_before_a_client_of_openai_is_used_beside_lanes_that_load_it() -> None:
    program = (
        "import sys\n"
        "from layton_batch.providers.openai import OpenAI\n"
        "from layton_batch.providers.protocol import Access\n"
        "assert 'httpx' not in sys.modules\n"
        "OpenAI(Access('key', 'http://127.0.0.1:1'))._open()\n"
        "print(sys.modules['httpx'].Timeout.__name__)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("Timeout\n", "")
