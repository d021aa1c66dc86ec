"""Prompts as far as no model changes them, encoded once for all models and judges that are shown them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise

import orjson

from layton_batch.batches.names import may_name
from layton_batch.costs.estimate import Size, image_size, text_bytes
from layton_batch.files.long_list import LongList, since
from layton_batch.records import Image, Item, Prediction, Prompt, ResponseSchema

KEPT_BYTES, KEPT_ON_DISK = 24 << 20, 256 << 20
"""Of encoded texts that are kept for the next model."""
MOST_FORMS = 1_000
"""That are told apart; where there are more, some are made again."""


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
    one holds half a surrogate pair, which each dialect replaces by itself. ``may_name``: a custom_id may be in them."""

    form: Form
    texts: tuple[bytes, ...] | None
    may_name: bool
    text_bytes: int
    images: tuple[Size | None, ...]
    prompt: Callable[[], Prompt]

    @property
    def size(self) -> int:
        """About the bytes that keeping it takes."""
        return 500 + 2 * sum(map(len, self.texts or ()))


class _OfItems(LongList[tuple[str, Shown]]):
    """The first of some items, each with its prompt."""

    def __init__(self, items: Sequence[Item], prompt: Callable[[Item], Prompt]) -> None:
        super().__init__(self._unpacked)
        self.items = items
        self._prompt, self._left = prompt, KEPT_ON_DISK
        self._forms, self._numbers = list[Form](), dict[Form, int]()

    def put(self, item_id: str, shown: Shown) -> bool:
        """The next item's; False where there is no room for any more."""
        if self._left <= 0 or len(self._forms) >= MOST_FORMS:
            return False
        if shown.form not in self._numbers:
            self._numbers[shown.form] = len(self._forms)
            self._forms.append(shown.form)
        form, texts, at = self._numbers[shown.form], shown.texts, len(self)
        lengths = None if texts is None else list(map(len, texts))
        head = orjson.dumps((item_id, at, form, shown.may_name, shown.text_bytes, shown.images, lengths))
        packed = b"\n".join((head, b"".join(texts or ())))
        self._left -= len(packed)
        self.keep((item_id, replace(shown, prompt=partial(self._of, at))), packed)
        return True

    def _of(self, at: int) -> Prompt:
        return self._prompt(self.items[at])

    def _unpacked(self, packed: bytes | memoryview) -> tuple[str, Shown]:
        head, _, content = bytes(packed).partition(b"\n")
        item_id, at, form, names, text_bytes, images, lengths = orjson.loads(head)
        ends = list(accumulate(lengths or (), initial=0))
        texts = None if lengths is None else tuple(content[start:end] for start, end in pairwise(ends))
        sizes = tuple(size and tuple(size) for size in images)
        return item_id, Shown(self._forms[form], texts, names, text_bytes, sizes, partial(self._of, at))


@dataclass(slots=True)
class ShownPrompts:
    """Prompts that were encoded for one model and will be for the next: of answers as many as ``KEPT_BYTES`` holds; of
    items also on disk."""

    _forms: dict[tuple[str, tuple[str, ...]], Form] = field(default_factory=dict)
    _kept: dict[str, tuple[Item, Prediction | None, Shown]] = field(default_factory=dict)
    _size: int = 0
    _about: str | None = None
    _of_items: _OfItems | None = None

    def about(self, judged: str | None) -> None:
        """Whose answers are shown next (None: only the items); prompts about another's are let go."""
        if judged != self._about:
            self._about, self._kept, self._size, self._of_items = judged, {}, 0, None

    def of_items(
        self, items: Sequence[Item], prompt: Callable[[Item], Prompt], *, keep: bool
    ) -> Iterator[tuple[str, Shown]]:
        """The id of each item and what ``prompt`` makes of it, or made before. ``keep``: it will be asked for again."""
        known = self._of_items
        if known is None or known.items is not items:
            known = self._of_items = _OfItems(items, prompt)
        yield from known
        for item in since(items, len(known)):
            shown = self._encoded(partial(prompt, item))
            keep = keep and known.put(item.id, shown)
            yield item.id, shown

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
        in_json = _in_json([text for text in texts if text])
        return Shown(
            form=self._form(prompt),
            texts=in_json,
            may_name=in_json is None or any(map(may_name, in_json)),
            text_bytes=text_bytes(prompt),
            images=images,
            prompt=make,
        )

    def _form(self, prompt: Prompt) -> Form:
        kinds = tuple(map(_kind, prompt.parts))
        known = self._forms.get((prompt.system, kinds))
        if known is not None and known.schema is prompt.response_schema:
            return known
        if len(self._forms) >= MOST_FORMS:
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
