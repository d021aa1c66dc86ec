"""A prompt is rendered once for all models that are asked the same, and never shown for anything else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from layton_batch.records import Image, Item, Prediction, Prompt
from layton_batch.runs.requests import KEPT_BYTES, PromptCache
from layton_batch.states import PredictionKind


def item(name: str) -> Item:
    return Item(name, "llm", "", "")


class Rendered:
    """Counts what was rendered."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, *more: Image) -> Prompt:
        self.texts.append(text)
        return Prompt("", (text, *more))


def test_a_prompt_is_kept_for_the_item_and_answer_that_it_shows() -> None:
    cache, first, render = PromptCache(), item("1"), Rendered()
    said, other = (Prediction("1", "m", PredictionKind.ANSWERED, text, "") for text in ("a", "b"))
    for one, answer, text in (
        (first, None, "item"),
        (first, None, "item, again"),
        (item("1"), None, "the item, read anew"),
        (replace(first, question="Why?"), None, "another of the same name"),
        (first, said, "an answer"),
        (first, other, "another answer"),
    ):
        cache.of(one, answer, partial(render, text))
    assert render.texts == ["item", "another of the same name", "an answer", "another answer"]


def test_another_subject_has_prompts_of_its_own() -> None:
    cache, render = PromptCache(), Rendered()
    for subject in ("a", "a", "b", "a"):
        cache.about("task", subject)
        cache.of(item("1"), None, partial(render, subject))
    assert render.texts == ["a", "b", "a"]


def test_pictures_are_not_kept_and_texts_only_while_there_is_room() -> None:
    cache, render = PromptCache(), Rendered()
    picture = Image("image/png", "iVBORw0KGgo=")
    long = "x" * KEPT_BYTES
    for _ in range(2):
        cache.of(item("picture"), None, partial(render, "picture", picture))
        cache.of(item("long"), None, partial(render, long))
        cache.of(item("late"), None, partial(render, "late"))
    assert render.texts == ["picture", long, "late", "picture", "late"]
