"""A job's requests as lines of its batch files, what many of them share encoded once.

A line is put together where its dialect says that it copies texts (``copies_text``): the dialect encodes one request
with stand-ins for the custom_id and for each part of the prompt, and every other request of that form is the same
bytes with its own texts in their places, as JSON writes them. Texts are encoded once for all models and judges that
are shown them. The bytes are those of :meth:`Provider.encode`: a form's first line is compared with it, and one in a
thousand after that. What comes before the texts is hashed once for the fingerprints of all requests of the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, compress
from string import ascii_letters, digits
from typing import Any, cast

from layton_batch.batches.batch_file import Line, Pieces
from layton_batch.batches.fingerprints import begun, fingerprint
from layton_batch.batches.names import may_name
from layton_batch.batches.shown_prompts import MOST_FORMS, Form, Shown
from layton_batch.costs.estimate import (
    CostBound,
    TokenBound,
    form_bound,
    output_bound,
    tokens_of_size,
)
from layton_batch.costs.prices import PriceBook
from layton_batch.providers.protocol import Provider
from layton_batch.records import Image, ModelSpec, Request

COMPARED = 1_000
"""One line in so many is encoded by its dialect as well."""
_OF_NAMES = frozenset(bytes((letter,)) for letter in (ascii_letters + digits + "-_").encode()) | {b""}


@dataclass(slots=True)
class _Template:
    """A line with places for the custom_id and the texts, for requests of one form to a model with one output limit.

    ``line``: what comes before the custom_id, between that and the first text, and after each text; None before the
    second request of the form, or where the dialect does not copy the texts one by one. ``begun``: the hash of a
    fingerprint up to the first text; None where a custom_id may be elsewhere than in its place.
    """

    form: Form
    spec: ModelSpec
    input: int
    output: int
    cost: CostBound | None
    requests: int = 0
    line: tuple[bytes, bytes, tuple[bytes, ...]] | None = None
    length: int = 0
    begun: Any = None

    def tokens(self, shown: Shown) -> int:
        """Of the request's input, at most."""
        tokens = self.input + shown.text_bytes
        return tokens + images(self.spec, shown) if shown.images else tokens

    def most(self, shown: Shown) -> Decimal | None:
        """The most that the request can cost."""
        return None if self.cost is None else self.cost(self.tokens(shown))


@dataclass(slots=True)
class LineWriter:
    """Lines for one job's model. Requests are named as :func:`~layton_batch.batches.names.custom_id` does."""

    provider: Provider
    prices: PriceBook
    _templates: dict[tuple[Form, int | None], _Template] = field(default_factory=dict)
    _latest: _Template | None = None

    @property
    def put_together(self) -> int:
        """How many lines were, of the forms that are known."""
        return sum(max(0, one.requests - 2) for one in self._templates.values() if one.line is not None)

    def line(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> Line:
        """The line of this request, as :func:`~layton_batch.batches.batch_file.line_of` makes it of the whole one."""
        content, _, max_cost = self.asked(custom_id, item_id, spec, shown)
        return Line(custom_id, content, max_cost)

    def asked(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> tuple[bytes, bytes, Decimal | None]:
        """That line, the digest that its fingerprint is, and the most it can cost."""
        template, texts = self._template(spec, shown.form), shown.texts
        if template.line is None or texts is None:
            content = self._content(template, custom_id, item_id, shown)
            return content, _digest(template.spec, content, custom_id), template.most(shown)
        before, between, after = template.line
        end = _end(texts, after)
        content = b"".join((before, custom_id.encode(), between, *end))
        template.requests += 1
        if template.requests % COMPARED == 0:
            self.compare(template, content, custom_id, item_id, shown)
        if template.begun is None or shown.may_name:
            return content, _digest(template.spec, content, custom_id), template.most(shown)
        return content, _ended(template.begun, end), template.most(shown)

    def alike(self, spec: ModelSpec, shown: Sequence[Shown]) -> Alike | None:
        """Some requests whose lines are put together from one template; None: each has to be looked at by itself."""
        template = self._template(spec, shown[0].form)
        if template.begun is None or any(one.form is not template.form or one.may_name for one in shown):
            return None
        return Alike(self, template, shown)

    def size(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> tuple[int, Decimal | None]:
        """The bytes of that line, and the most it can cost; no line is made where that can be told without."""
        template = self._template(spec, shown.form)
        if template.line is None or shown.texts is None or (template.requests + 1) % COMPARED == 0:
            length = len(self.asked(custom_id, item_id, spec, shown)[0])
        else:
            template.requests += 1
            length = template.length + len(custom_id) + sum(map(len, shown.texts))
        return length, template.most(shown)

    def _template(self, spec: ModelSpec, form: Form) -> _Template:
        latest = self._latest
        if latest is not None and latest.form is form and latest.spec is spec:
            return latest
        key = form, spec.max_output_tokens
        found = self._templates.get(key)
        if found is None or not _is_same(found.spec, spec):
            if len(self._templates) >= MOST_FORMS:
                self._templates.clear()
            output, price = output_bound(spec), self.prices.price(spec.provider, spec.model)
            cost = None if price is None else CostBound.of(price, output)
            found = _Template(form, spec, form_bound(len(form.parts), form.schema), output, cost)
            self._templates[key] = found
        self._latest = found
        return found

    def compare(self, template: _Template, content: bytes, custom_id: str, item_id: str, shown: Shown) -> None:
        """Raises AssertionError where a line is not what the dialect encodes."""
        if content != self._encoded(custom_id, item_id, template.spec, shown):
            raise AssertionError(f"{custom_id}: its line is not what {template.spec.provider} encodes")

    def _content(self, template: _Template, custom_id: str, item_id: str, shown: Shown) -> bytes:
        """The line as the dialect encodes it; of the second one of a form a template is made."""
        template.requests += 1
        whole = self._encoded(custom_id, item_id, template.spec, shown)
        if template.requests == 2 and shown.texts is not None and getattr(self.provider, "copies_text", False):
            self._make(template, whole, custom_id, shown, shown.texts)
        return whole

    def _make(self, template: _Template, whole: bytes, custom_id: str, shown: Shown, texts: tuple[bytes, ...]) -> None:
        pieces = self._made(template.spec, shown)
        if pieces is None:
            return
        before, between, *after = pieces
        if b"".join((before, custom_id.encode(), between, *_end(texts, tuple(after)))) == whole:
            template.line, template.length = (before, between, tuple(after)), sum(map(len, pieces))
            template.begun = _begun(template.spec, pieces)

    def _encoded(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> bytes:
        return self.provider.encode(Request(custom_id, item_id, spec, shown.prompt()))

    def _made(self, spec: ModelSpec, shown: Shown) -> tuple[bytes, ...] | None:
        """What is around custom_id and texts in the line of a prompt whose texts are stand-ins; None where these are
        not in it once each, in their order."""
        prompt = shown.prompt()
        places = [_stand_in(number) for number in range(1 + len(shown.texts or ()))]
        texts = iter(places[1:])
        parts = tuple(_with_text(part, texts) for part in prompt.parts)
        line = self.provider.encode(Request(places[0], "", spec, replace(prompt, parts=parts)))
        pieces, rest = list[bytes](), line
        for place in places:
            before, found, rest = rest.partition(place.encode())
            if not found:
                return None
            pieces.append(before)
        is_once = all(line.count(place.encode()) == 1 for place in places)
        return (*pieces, rest) if is_once else None

    def tokens(self, spec: ModelSpec, shown: Shown) -> TokenBound:
        """The most tokens of the request, as :func:`~layton_batch.costs.estimate.estimate_tokens` has it."""
        template = self._template(spec, shown.form)
        return TokenBound(template.tokens(shown), template.output)


class Alike:
    """Requests of one form, before they have names: what stands in their lines from the first text on (``ends``), and
    the digests of their fingerprints."""

    def __init__(self, writer: LineWriter, template: _Template, shown: Sequence[Shown]) -> None:
        self._writer, self._template, self._shown = writer, template, shown
        assert template.line is not None  # noqa: S101 - it has the beginning of a fingerprint
        self._before, self._between, after = template.line
        self._ends = [_end(cast("tuple[bytes, ...]", one.texts), after) for one in shown]
        self.digests = [_ended(template.begun, end) for end in self._ends]

    def only(self, chosen: Sequence[bool]) -> None:
        """Forget the others."""
        self._ends, self._shown = list(compress(self._ends, chosen)), list(compress(self._shown, chosen))
        self.digests = list(compress(self.digests, chosen))

    def lines(self, custom_ids: Sequence[str], item_ids: Sequence[str]) -> list[Pieces]:
        """Their lines, under these names."""
        before, between, number = self._before, self._between, self._template.requests
        named = zip(custom_ids, self._ends, strict=True)
        found = [(before, name.encode(), between, *end, b"\n") for name, end in named]
        self._template.requests += len(found)
        for at in range(-(number + 1) % COMPARED, len(found), COMPARED):
            line = b"".join(found[at][:-1])
            self._writer.compare(self._template, line, custom_ids[at], item_ids[at], self._shown[at])
        return found

    def costs(self) -> list[Decimal | None]:
        """The most that each can cost."""
        if self._template.cost is None:
            return [None] * len(self._shown)
        return [self._template.most(one) for one in self._shown]


def _ended(begun: Any, end: Pieces) -> bytes:
    found = begun.copy()
    for piece in end:
        found.update(piece)
    return bytes(found.digest())


def _end(texts: tuple[bytes, ...], after: tuple[bytes, ...]) -> Pieces:
    """Texts, each with what comes after it."""
    return (*texts, *after) if len(texts) == 1 else tuple(chain.from_iterable(zip(texts, after, strict=True)))


def _begun(spec: ModelSpec, pieces: tuple[bytes, ...]) -> Any:
    """See ``_Template``. No custom_id reaches from one piece into another or a text: what is next to one is of no
    custom_id."""
    ends = (*(piece[-1:] for piece in pieces[:-1]), *(piece[:1] for piece in pieces[1:]))
    if any(map(may_name, pieces)) or any(end in _OF_NAMES for end in ends):
        return None
    found = begun(spec.provider, spec.model, spec.sample)
    found.update(pieces[0] + pieces[1])
    return found


def _digest(spec: ModelSpec, content: bytes, custom_id: str) -> bytes:
    return bytes.fromhex(fingerprint(spec.provider, spec.model, content, custom_id, spec.sample))


def images(spec: ModelSpec, shown: Shown) -> int:
    """At most how many tokens the prompt's images are."""
    return sum(tokens_of_size(size, spec.provider, spec.model) for size in shown.images)


def _is_same(one: ModelSpec, other: ModelSpec) -> bool:
    """``1`` and ``true`` are equal, and not the same in a line."""
    return one is other or (one.params is other.params and one == other)


def _stand_in(number: int) -> str:
    return f"layton-batch-text-{number:06d}-5b1c77e0"


def _with_text(part: str | Image, texts: Iterator[str]) -> str | Image:
    if isinstance(part, str):
        return next(texts) if part else part
    return replace(part, base64=next(texts)) if part.base64 else part
