"""The bytes of every dialect's lines, and with them the fingerprints by which a question is paid for once, stay."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import product

import pytest

from layton_batch.errors import ManifestError
from layton_batch.providers import BUILT_IN, connect
from layton_batch.providers.wire_json import request_line
from layton_batch.records import Image, ModelSpec, Prompt, Reasoning, Request, ResponseSchema
from layton_batch.runs.requests import fingerprint
from layton_batch.tasks.layton import ANSWER_SCHEMA, VERDICT_SCHEMA

MODELS = {"openai": "gpt-5.2-pro", "anthropic": "claude-opus-4-6"}
OPEN_SCHEMA = ResponseSchema("free", {"type": "object", "properties": {"ä": {"type": "array", "items": {}}}})
PICTURE = Image("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ")
PROMPTS = (
    Prompt("Answer in JSON.", ("What has keys and no lock?",), ANSWER_SCHEMA),
    Prompt("", ("No system text.",)),
    Prompt(
        'Quotes " and \\ and \t and \x00 and \x7f', ("line one\nline two\r\n\u2028\u2029</script>",), VERDICT_SCHEMA
    ),
    Prompt("Größe", ("naïve — “quoted” 漢字 🧩 \ufeff\ufffd",), OPEN_SCHEMA),
    Prompt("half \ud83d a pair", ("\udc00 low first", "ends in high \ud83d", "\udde9 begins with low"), ANSWER_SCHEMA),
    Prompt("Pictures.", ("before", PICTURE, "after"), ANSWER_SCHEMA),
    Prompt("", (PICTURE,)),
    Prompt("Two texts.", ("first", "", "third"), ANSWER_SCHEMA),
    Prompt("custom_id", ('{"custom_id":"r00000000-00000000-000001"}', "@@1@@", "%s {} \\u0000"), None),
)
SETTINGS = (
    {},
    {"max_output_tokens": 4000, "reasoning": Reasoning("low")},
    {"reasoning": Reasoning("none"), "params": {"temperature": 0.5, "seed": 7, "stop": ["\n", "END"], "top_p": 1.0}},
    {"reasoning": Reasoning(budget_tokens=2048), "max_output_tokens": 9000, "params": {"note": "ß\ud83d", "n": 1e300}},
    {
        "params": {
            "response_format": {"type": "text"},
            "generationConfig": {"topK": 4},
            "output_config": {"format": None},
        }
    },
    {"params": {"messages": [], "contents": [], "input": "x", "system": "s", "systemInstruction": {"parts": []}}},
    {"params": {"temperature": float("nan")}},
)


def encoded(provider: str) -> Iterator[tuple[Request, bytes]]:
    """A line a request; where the dialect refuses it, how."""
    dialect, names = connect(provider, None), ("larch-2-mini", MODELS.get(provider, "other/one:é"))
    for (number, settings), model, (place, prompt) in product(enumerate(SETTINGS), names, enumerate(PROMPTS)):
        spec = ModelSpec(f"m{number}", provider, model, "family", **settings)  # type: ignore[arg-type]
        request = Request(f"r0a1b2c3d-4e5f6a7b-{place:06d}", str(place), spec, prompt)
        try:
            yield request, request_line(dialect, request)
        except ManifestError as error:
            yield request, f"refused: {error}".encode()


DIGESTS = {
    "openai": "fe25c708b24140ce12b0ed5cb14ecb56f08334293e77e8b512fac6ee9cae57d6",
    "anthropic": "72b0fb9df0001c523fb33f9ea6d30aea95856aaa67cea4e2f4de6c1f40ec4d4a",
    "gemini": "a4a41706eda1eaf20e5783007aff43e1eb164dfe83af250483ef8455a53fb143",
    "mistral": "143013fe7021576f3a6b4daf518c8c17fca15d67aad41d9b5ea9ea82ba768def",
    "together": "535b0ef4da45ba57a43e6977ba3287d16e0cc89f4d0d5b63a0220dbbba66f397",
    "groq": "258cceca127b36fdb30b3a7f46c5d3a2201caa9a083cd87a010fdc11de91e6cb",
    "doubleword": "e0d3e2c95f330e45c625264adf4face5314272bdf71b0fca6b0f055d67673b77",
    "openrouter": "bd053c4b2078d1904fedc847f0ee93856dd2c27d933a1dcbd154e5eee7d06564",
    "xai": "6b688c134eedbdf39fabbf642fc12d674820b8bcd9350596e7df3fc5c02d0308",
    "vertex": "d2d5bf12e1afeb49b931677cd893e60f3a67f862db55d267d6f62ffcd7179476",
}
"""Of the lines of all of ``PROMPTS`` under all of ``SETTINGS``, each with its fingerprint. A change here has people pay
again for what they have answers to."""


@pytest.mark.parametrize("provider", BUILT_IN)
def test_lines_and_fingerprints_are_those_that_were_paid_for(provider: str) -> None:
    found = sha256()
    for request, line in encoded(provider):
        print_ = fingerprint(provider, request.model.model, line, request.custom_id)
        found.update(line + b"\n" + print_.encode() + b"\n")
    assert found.hexdigest() == DIGESTS[provider]
