"""The bytes of every dialect's lines, and with them the fingerprints by which a question is paid for once, stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

import pytest

from layton_batch.batches.batch_file import line_of
from layton_batch.batches.fingerprints import fingerprint
from layton_batch.batches.request_lines import COMPARED, LineWriter
from layton_batch.batches.shown_prompts import ShownPrompts
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import ManifestError
from layton_batch.providers import BUILT_IN, connect
from layton_batch.providers.openai import OpenAI
from layton_batch.records import Image, Item, ModelSpec, Prediction, Prompt, Reasoning, Request, ResponseSchema
from layton_batch.states import PredictionKind
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


def specs(provider: str) -> Iterator[ModelSpec]:
    for number, settings in enumerate(SETTINGS):
        for model in ("larch-2-mini", MODELS.get(provider, "other/one:é")):
            yield ModelSpec(f"m{number}", provider, model, "family", **settings)  # type: ignore[arg-type]


def requests(provider: str) -> Iterator[Request]:
    for spec in specs(provider):
        for number, prompt in enumerate(PROMPTS):
            yield Request(f"r0a1b2c3d-4e5f6a7b-{number:06d}", str(number), spec, prompt)


def encoded(provider: str) -> Iterator[tuple[Request, bytes]]:
    """A line a request; where the dialect refuses it, how."""
    dialect = connect(provider, None)
    for request in requests(provider):
        try:
            yield request, dialect.encode(request)
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


def item(name: str) -> Item:
    return Item(name, "llm", "", "")


@pytest.mark.parametrize("provider", BUILT_IN)
def test_a_line_put_together_is_the_line_that_the_dialect_encodes(provider: str) -> None:
    dialect, prices = connect(provider, None), PriceBook(at=datetime(2026, 1, 1, tzinfo=UTC))
    longer = [replace(prompt, parts=tuple(_longer(part) for part in prompt.parts)) for prompt in PROMPTS]
    put_together = 0
    for spec in specs(provider):
        writer, sizes, kept = LineWriter(dialect, prices), LineWriter(dialect, prices), ShownPrompts()
        for number, prompt in enumerate([*PROMPTS, *longer, *PROMPTS, *longer]):
            name = f"r0a1b2c3d-4e5f6a7b-{number:06d}"
            request = Request(name, str(number % (2 * len(PROMPTS))), spec, prompt)
            shown = kept.of(item(request.item_id), None, partial(_same, prompt))
            try:
                expected = line_of(request, dialect, prices)
            except ManifestError:
                with pytest.raises(ManifestError):
                    writer.line(name, request.item_id, spec, shown)
                continue
            content, digest, max_cost = writer.asked(name, request.item_id, spec, shown)
            assert (content, max_cost) == (expected.content, expected.max_cost)
            assert digest.hex() == fingerprint(provider, spec.model, content, name, spec.sample)
            size, max_cost = sizes.size(name, request.item_id, spec, shown)
            assert (size, max_cost) == (len(expected.content), expected.max_cost)
        put_together += writer.put_together
    assert put_together > 100


@pytest.mark.parametrize("provider", BUILT_IN)
def test_lines_of_one_form_are_the_same_together_as_one_by_one(provider: str) -> None:
    dialect, prices = connect(provider, None), PriceBook(at=datetime(2026, 1, 1, tzinfo=UTC))
    spec = ModelSpec("m", provider, "larch-2-mini", "family", max_output_tokens=4000)
    kept, told = ShownPrompts(), 0
    for prompt in (one for one in PROMPTS if PICTURE not in one.parts):
        said = [replace(prompt, parts=(f"{number} {prompt.parts[0]}", *prompt.parts[1:])) for number in range(12)]
        shown = [kept.of(item(f"{prompt.system} {one.parts[0]}"), None, partial(_same, one)) for one in said]
        names = [f"r0a1b2c3d-4e5f6a7b-{number:06d}" for number in range(12)]
        writer = LineWriter(dialect, prices)
        alone = [writer.asked(*one, spec, text) for *one, text in zip(names, names, shown, strict=True)]
        alike = writer.alike(spec, shown)
        if alike is None:  # a custom_id may be in the texts, or the dialect encodes each line by itself
            continue
        told += 1
        chosen = [number % 3 > 0 for number in range(12)]
        alike.only(chosen)
        left = [number for number, is_chosen in enumerate(chosen) if is_chosen]
        lines = [b"".join(pieces) for pieces in alike.lines([names[at] for at in left], names)]
        found = zip(lines, alike.digests, alike.costs(), strict=True)
        assert list(found) == [(line + b"\n", *rest) for line, *rest in (alone[at] for at in left)]
    assert told > 3 or not getattr(dialect, "copies_text", False)


def _same(prompt: Prompt) -> Prompt:
    return prompt


def _longer(part: str | Image) -> str | Image:
    return f"\ufeff{part} % %b {{}}" if part and isinstance(part, str) else part


def test_a_dialect_that_does_not_say_that_it_copies_texts_encodes_every_line() -> None:
    class Counts(OpenAI):
        copies_text = False

        def encode(self, request: Request) -> bytes:
            words = sum(len(part) for part in request.prompt.parts if isinstance(part, str))
            return super().encode(replace(request, prompt=replace(request.prompt, system=str(words))))

    dialect, prices = Counts(None), PriceBook(at=datetime(2026, 1, 1, tzinfo=UTC))
    writer, spec = LineWriter(dialect, prices), ModelSpec("m", "openai", "m", "openai")
    for number in range(5):
        prompt = Prompt("", ("x" * (number + 1),))
        request = Request(f"r{number}", "1", spec, prompt)
        shown = ShownPrompts().of(item("1"), None, partial(_same, prompt))
        assert writer.line(request.custom_id, "1", spec, shown) == line_of(request, dialect, prices)


def test_a_dialect_that_says_so_and_does_not_is_found_out() -> None:
    class Lies(OpenAI):
        def encode(self, request: Request) -> bytes:
            line = super().encode(request)
            return line.replace(b"never", b"often")

    dialect, prices = Lies(None), PriceBook(at=datetime(2026, 1, 1, tzinfo=UTC))
    writer, spec, kept = LineWriter(dialect, prices), ModelSpec("m", "openai", "m", "openai"), ShownPrompts()
    for number in range(COMPARED):
        said = "x" if number < 2 else "never"
        shown = kept.of(item(str(number)), None, partial(_same, Prompt("s", (said,))))
        if number < COMPARED - 1:
            writer.line(f"r{number}", str(number), spec, shown)
    with pytest.raises(AssertionError, match="is not what openai encodes"):
        writer.line("r", "1", spec, shown)


def test_a_prompt_is_kept_for_the_item_and_answer_that_it_shows() -> None:
    kept, first = ShownPrompts(), item("1")
    made: list[str] = []

    def show(what: str) -> Prompt:
        made.append(what)
        return Prompt("", (what,))

    said, other = (Prediction("1", "m", PredictionKind.ANSWERED, text, "") for text in ("a", "b"))
    for one, answer, what in (
        (first, None, "item"),
        (first, None, "item, again"),
        (item("1"), None, "the item, read anew"),
        (replace(first, question="Why?"), None, "another of the same name"),
        (first, said, "what was said"),
        (first, other, "something else"),
    ):
        kept.of(one, answer, partial(show, what))
    assert made == ["item", "another of the same name", "what was said", "something else"]
    kept.about("predict-a")
    kept.of(first, None, partial(show, "after another was judged"))
    assert made[-1] == "after another was judged"
