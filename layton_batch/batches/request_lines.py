"""A job's requests as lines of its batch files, what many of them share encoded once.

A line is put together where its dialect says that it copies texts (``copies_text``): the dialect encodes one request
with stand-ins for the custom_id and for each part of the prompt, and every other request of that form is the same
bytes with its own texts in their places, as JSON writes them. Texts are encoded once for all models and judges that
are shown them. The bytes are those of :meth:`Provider.encode`: a form's first line is compared with it, and one in a
thousand after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

import orjson

from layton_batch.batches.batch_file import Line
from layton_batch.costs.estimate import (
    Size,
    TokenBound,
    bound_cost,
    form_bound,
    image_size,
    output_bound,
    text_bytes,
    tokens_of_size,
)
from layton_batch.costs.prices import PriceBook
from layton_batch.providers.protocol import Provider
from layton_batch.records import Image, Item, ModelSpec, Prediction, Prompt, Request, ResponseSchema

KEPT_BYTES = 24 << 20
"""Of encoded texts that are kept for the next model."""
COMPARED = 1_000
"""One line in so many is encoded by its dialect as well."""
_MOST_FORMS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What prompts have in common but for their texts. ``parts``: of each the media type of an image, or whether it is
    an ``empty`` or another ``text``."""

    system: str
    schema: ResponseSchema | None
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt as far as no model changes it. ``texts``: its parts that are not empty, as they stand in JSON; None:
    one holds half a surrogate pair, which each dialect replaces by itself."""

    form: Form
    texts: tuple[bytes, ...] | None
    text_bytes: int
    images: tuple[Size | None, ...]
    prompt: Callable[[], Prompt]

    @property
    def size(self) -> int:
        """About the bytes that keeping it takes."""
        return 500 + 2 * sum(map(len, self.texts or ()))


@dataclass(slots=True)
class ShownPrompts:
    """Prompts that were encoded for one model and will be for the next, as many as ``KEPT_BYTES`` holds."""

    _forms: dict[tuple[str, tuple[str, ...]], Form] = field(default_factory=dict)
    _kept: dict[str, tuple[Item, Prediction | None, Shown]] = field(default_factory=dict)
    _size: int = 0
    _about: str | None = None

    def about(self, judged: str | None) -> None:
        """Whose answers are shown next (None: only the items); prompts about another's are let go."""
        if judged != self._about:
            self._about, self._kept, self._size = judged, {}, 0

    def of(self, item: Item, said: Prediction | None, prompt: Callable[[], Prompt]) -> Shown:
        """What ``prompt`` gives of this item and what was said of it, or gave before."""
        known = self._kept.get(item.id)
        if known is not None and known[:2] == (item, said):
            return known[2]
        shown = self._encoded(prompt)
        if known is None and self._size < KEPT_BYTES:
            self._kept[item.id] = item, said, shown
            self._size += shown.size
        return shown

    def _encoded(self, make: Callable[[], Prompt]) -> Shown:
        prompt = make()
        texts = [part if isinstance(part, str) else part.base64 for part in prompt.parts]
        images = tuple(image_size(part) for part in prompt.parts if isinstance(part, Image))
        return Shown(
            form=self._form(prompt),
            texts=_in_json([text for text in texts if text]),
            text_bytes=text_bytes(prompt),
            images=images,
            prompt=make,
        )

    def _form(self, prompt: Prompt) -> Form:
        kinds = tuple(map(_kind, prompt.parts))
        known = self._forms.get((prompt.system, kinds))
        if known is not None and known.schema is prompt.response_schema:
            return known
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        form = Form(prompt.system, prompt.response_schema, kinds)
        self._forms[prompt.system, kinds] = form
        return form


def _kind(part: str | Image) -> str:
    if isinstance(part, str):
        return "text" if part else "empty"
    return f"{part.media_type}{'' if part.base64 else ', empty'}"


def _in_json(texts: list[str]) -> tuple[bytes, ...] | None:
    try:
        return tuple(orjson.dumps(text)[1:-1] for text in texts)
    except orjson.JSONEncodeError:
        return None


@dataclass(slots=True)
class _Template:
    """A line with places for the custom_id and the texts, for requests of one form to a model with one output limit.

    ``line``: None before the second request of the form, or where the dialect does not copy the texts one by one.
    """

    spec: ModelSpec
    input: int
    output: int
    requests: int = 0
    line: bytes | None = None
    length: int = 0


@dataclass(slots=True)
class LineWriter:
    """Lines for one job's model."""

    provider: Provider
    prices: PriceBook
    put_together: int = 0
    """How many lines no dialect encoded."""
    _templates: dict[tuple[Form, int | None], _Template] = field(default_factory=dict)

    def line(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> Line:
        """As :func:`~layton_batch.batches.batch_file.line_of` makes it of the whole request."""
        template = self._template(spec, shown.form)
        return Line(custom_id, self._content(template, custom_id, item_id, shown), self._max_cost(template, shown))

    def size(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> tuple[int, Decimal | None]:
        """The bytes of that line, and the most it can cost; no line is made where that can be told without."""
        template = self._template(spec, shown.form)
        if template.line is None or shown.texts is None or template.requests % COMPARED == 0:
            length = len(self._content(template, custom_id, item_id, shown))
        else:
            template.requests += 1
            length = template.length + len(custom_id) + sum(map(len, shown.texts))
        return length, self._max_cost(template, shown)

    def _template(self, spec: ModelSpec, form: Form) -> _Template:
        key = form, spec.max_output_tokens
        found = self._templates.get(key)
        if found is None or not _is_same(found.spec, spec):
            if len(self._templates) >= _MOST_FORMS:
                self._templates.clear()
            found = self._templates[key] = _Template(spec, form_bound(len(form.parts), form.schema), output_bound(spec))
        return found

    def _content(self, template: _Template, custom_id: str, item_id: str, shown: Shown) -> bytes:
        template.requests += 1
        if template.line is not None and shown.texts is not None:
            content = template.line % (custom_id.encode(), *shown.texts)
            if template.requests % COMPARED:
                self.put_together += 1
                return content
            if content != self._encoded(custom_id, item_id, template.spec, shown):
                raise AssertionError(f"{custom_id}: its line is not what {template.spec.provider} encodes")
            return content
        whole = self._encoded(custom_id, item_id, template.spec, shown)
        if template.requests == 2 and shown.texts is not None and getattr(self.provider, "copies_text", False):
            made = self._made(template.spec, shown)
            if made is not None and made % (custom_id.encode(), *shown.texts) == whole:
                template.line = made
                template.length = len(whole) - len(custom_id) - sum(map(len, shown.texts))
        return whole

    def _encoded(self, custom_id: str, item_id: str, spec: ModelSpec, shown: Shown) -> bytes:
        return self.provider.encode(Request(custom_id, item_id, spec, shown.prompt()))

    def _made(self, spec: ModelSpec, shown: Shown) -> bytes | None:
        """The line of a prompt whose texts are stand-ins; None where these are not in it once each, in their order."""
        prompt = shown.prompt()
        places = [_stand_in(number) for number in range(1 + len(shown.texts or ()))]
        texts = iter(places[1:])
        parts = tuple(_with_text(part, texts) for part in prompt.parts)
        line = self.provider.encode(Request(places[0], "", spec, replace(prompt, parts=parts)))
        template, rest = b"", line
        for place in places:
            before, found, rest = rest.partition(place.encode())
            if not found:
                return None
            template += before.replace(b"%", b"%%") + b"%b"
        is_once = all(line.count(place.encode()) == 1 for place in places)
        return template + rest.replace(b"%", b"%%") if is_once else None

    def tokens(self, spec: ModelSpec, shown: Shown) -> TokenBound:
        """The most tokens of the request, as :func:`~layton_batch.costs.estimate.estimate_tokens` has it."""
        return _tokens(self._template(spec, shown.form), shown)

    def _max_cost(self, template: _Template, shown: Shown) -> Decimal | None:
        price = self.prices.price(template.spec.provider, template.spec.model)
        return None if price is None else bound_cost(_tokens(template, shown), price)


def _tokens(template: _Template, shown: Shown) -> TokenBound:
    return TokenBound(template.input + shown.text_bytes + images(template.spec, shown), template.output)


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
