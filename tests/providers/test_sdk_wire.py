"""The wire that each SDK speaks by itself: an upgrade that changes it fails here, and not in a run."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from layton_batch.testing.providers import Loopback
from tests.support.paths import ROOT

from .conftest import Play, reply
from .documents import anthropic_batch, gemini_batch

MAJORS = {"openai": 3, "anthropic": 2, "google-genai": 3, "mistralai": 3, "together": 3, "groq": 1}


def test_the_major_of_each_sdk_is_installed_capped_and_locked() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    locked = dict(re.findall(r"^(.+)==(\d+)\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    for name, major in MAJORS.items():
        assert int(version(name).split(".")[0]) == int(locked[name]) == major
        (cap,) = [one for one in asked if one.startswith(f"{name}>=")]
        assert cap.endswith(f",<{major + 1}")


def test_the_sdks_speak_the_versions_that_we_pin(play: Play) -> None:
    import anthropic
    from google import genai

    with (
        Loopback(reply(anthropic_batch())) as server,
        anthropic.Anthropic(api_key="k", base_url=server.url) as client,
    ):
        client.messages.batches.retrieve("msgbatch_1")
    provider, ours = play("anthropic", {"": anthropic_batch()})
    provider.snapshot("msgbatch_1")
    assert {call.headers["anthropic-version"] for call in (*server.calls, *ours.calls)} == {"2026-10-21"}
    with Loopback(reply(gemini_batch())) as server:
        google = genai.Client(vertexai=False, api_key="k", http_options={"base_url": server.url})
        google.batches.get(name="batches/1")
        google.close()
    provider, ours = play("gemini", {"": gemini_batch()})
    provider.snapshot("batches/1")
    assert [call.path for call in (*server.calls, *ours.calls)] == ["/v1/batches/1"] * 2
