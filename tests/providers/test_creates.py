"""The paid call: one POST, which says whether it may have been carried out (its form: test_forms)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, FileError, ProviderError
from layton_batch.providers import BUILT_IN, connect
from layton_batch.providers.protocol import Access
from layton_batch.records import JsonValue, Submission

from .conftest import KEY, Play, Serve, reply
from .documents import anthropic_batch

UNCLEAR = {
    "409": reply({}, 409), "no id": reply({}), "an odd id": reply({"id": 5, "batch_id": 5, "name": 5}),
    "a list": reply(["b-1"]), "an error": reply({"object": "error", "message": "down"}),
    "gone": reply({"error": {"code": 499, "status": "CANCELLED"}}, 499),
    "asked again": reply({}, 503, **{"x-should-retry": "true", "retry-after": "0"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("case", UNCLEAR)
def test_a_create_whose_reply_names_no_batch_may_have_made_one(
    play: Play, submission: Submission, name: str, case: str
) -> None:
    """Each kind of failure: the contract suite."""
    provider, server = play(name, {"": UNCLEAR[case]})
    with pytest.raises(AmbiguousCallError) as caught:
        provider.create(submission)
    assert (server.posts(), KEY in str(caught.value)) == (1, False)


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_missing_here_is_no_call(play: Play, submission: Submission, name: str, tmp_path: Path) -> None:
    provider, server = play(name, {"": {}})
    gone = replace(submission, path=tmp_path / "absent.jsonl", input_ref=None)
    inline = name in ("anthropic", "openrouter")
    with pytest.raises(FileError if inline else ProviderError):
        provider.create(gone)
    if inline:
        assert provider.upload(gone) is None
    else:
        with pytest.raises(FileError, match="absent"):
            provider.upload(gone)
    assert server.calls == []


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_anthropics_body_is_the_file_whole_across_chunk_borders(
    play: Play, submission: Submission, ending: bytes
) -> None:
    lines = [json.dumps({"custom_id": f"c-{n}", "params": {"x": "y" * 99_000}}).encode() for n in range(40)]
    lines.insert(0, b'{"custom_id":"' + b"z" * ((1 << 20) - 17) + b'"}')  # its newline ends the first chunk
    submission.path.write_bytes(b"\n".join(lines) + ending)
    provider, server = play("anthropic", {"": anthropic_batch()})
    provider.create(replace(submission, requests=41))
    assert json.loads(server.calls[0].body)["requests"] == [json.loads(line) for line in lines]


@pytest.mark.parametrize(("name", "made"), [
    ("doubleword", {"id": "b-1"}), ("openrouter", {"id": "b-1", "status": "validating"}), ("xai", {"batch_id": "b-1"}),
])  # fmt: skip
def test_what_the_environment_says_for_openai_is_not_taken_over(
    serve: Serve, submission: Submission, monkeypatch: pytest.MonkeyPatch, name: str, made: JsonValue
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    for variable in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY"):
        monkeypatch.setenv(f"OPENAI_{variable}", "a-secret-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: a-secret-of-openai\nauthorization: Bearer other")
    provider, server = serve(name, reply(made))
    provider.create(submission)
    (call,) = server.calls
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert "secret-of-openai" not in str(call.headers)
    unset: Callable[..., object] = connect(name, Access(KEY))._open  # type: ignore[attr-defined]
    assert "127.0.0.1" not in str(unset().base_url)  # type: ignore[attr-defined]
