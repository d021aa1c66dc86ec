"""Questions about panels with letters: clocks, arrows, glasses, an odd one out."""

from __future__ import annotations

from functools import partial

from tools.layton_pictures.canvas import BLUE, GOLD, GREEN, INK, PALE, RED, WHITE, Canvas, on_circle
from tools.rome_pictures.visual_question import VisualQuestion

_QUARTERS = ((170.0, 130.0), (470.0, 130.0), (170.0, 350.0), (470.0, 350.0))
_TIMES = ((8, 20), (4, 40), (10, 20), (2, 40))
_ASKED = (4, 40)
_ARROWS = (315, 45, 225, 315)  # clock degrees: 0 is up, 90 is right
_ASKED_ARROW = 315
_LEVELS = (0.35, 0.85, 0.15, 0.6)
_ODD = 8


def questions() -> tuple[VisualQuestion, ...]:
    """All of this module, in the order of the file."""
    return (_clocks(), _arrows(), _odd_cell(), _glasses())


def _letter(place: int) -> str:
    return "ABCDEFGHI"[place]


def _clocks() -> VisualQuestion:
    label = _letter(_TIMES.index(_ASKED))
    hour, minute = _ASKED
    return VisualQuestion(
        f"Four clocks are lettered A to D. Which one shows {minute} minutes past {hour}?\nA. clock A\nB. clock B\n"
        "C. clock C\nD. clock D",
        label,
        "choices_matching",
        {"label": label},
        "recognition",
        (_draw_clocks,),
    )


def _draw_clocks() -> Canvas:
    canvas = Canvas()
    for place, ((x, y), (hour, minute)) in enumerate(zip(_QUARTERS, _TIMES, strict=True)):
        canvas.circle((x, y), 88, WHITE, width=4)
        for tick in range(12):
            inner = 70 if tick % 3 == 0 else 78
            canvas.line([on_circle((x, y), inner, tick * 30), on_circle((x, y), 84, tick * 30)], width=3)
        canvas.line([(x, y), on_circle((x, y), 44, hour * 30 + minute / 2)], width=8)
        canvas.line([(x, y), on_circle((x, y), 72, minute * 6)], RED, width=5)
        canvas.circle((x, y), 6, INK)
        canvas.text((x - 112, y - 70), _letter(place), size=30)
    return canvas


def _arrows() -> VisualQuestion:
    label = "".join(_letter(place) for place, degrees in enumerate(_ARROWS) if degrees == _ASKED_ARROW)
    return VisualQuestion(
        "Which of the arrows A to D point up and to the left? Name all of them.\nA. arrow A\nB. arrow B\nC. arrow C\n"
        "D. arrow D",
        ", ".join(label),
        "choices_matching",
        {"label": label},
        "spatial",
        (_draw_arrows,),
    )


def _draw_arrows() -> Canvas:
    canvas = Canvas()
    for place, ((x, y), degrees) in enumerate(zip(_QUARTERS, _ARROWS, strict=True)):
        canvas.box((x - 110, y - 90, x + 110, y + 90), WHITE, radius=8)
        tail, head = on_circle((x, y), 60, degrees + 180), on_circle((x, y), 60, degrees)
        canvas.arrow(tail, head, BLUE, width=10, head=34)
        canvas.text((x - 90, y - 66), _letter(place), size=28)
    return canvas


def _odd_cell() -> VisualQuestion:
    label = _letter(_ODD)
    options = "\n".join(f"{_letter(place)}. cell {_letter(place)}" for place in range(9))
    return VisualQuestion(
        f"Eight of the nine cells, lettered A to I row by row, are equal. Which one is different?\n{options}",
        label,
        "choices_matching",
        {"label": label},
        "recognition",
        (_draw_cells,),
    )


def _draw_cells() -> Canvas:
    canvas = Canvas()
    for place in range(9):
        x, y = 150 + 170 * (place % 3), 90 + 150 * (place // 3)
        canvas.box((x - 75, y - 68, x + 75, y + 68), WHITE, radius=6)
        canvas.circle((x + 8, y), 42, GREEN)
        canvas.box((x - 10, y - 18, x + 26, y + 18), GOLD)
        dot = (x + 8, y + 54) if place == _ODD else (x + 8, y - 54)
        canvas.circle(dot, 6, INK)
        canvas.text((x - 58, y - 48), _letter(place), size=24)
    return canvas


def _glasses() -> VisualQuestion:
    order = [_letter(place) for place in sorted(range(4), key=lambda place: -_LEVELS[place])]
    return VisualQuestion(
        "One glass was photographed while someone drank from it: A is <image 1>, B is <image 2>, C is <image 3> and D "
        "is <image 4>. Put the letters of the pictures in the order in which they were taken.",
        ", ".join(order),
        "ordered_list_matching",
        {"order": list(order)},
        "multi-image",
        tuple(partial(_draw_glass, level) for level in _LEVELS),
    )


def _draw_glass(level: float) -> Canvas:
    canvas = Canvas()
    top, bottom = 90.0, 400.0
    surface = bottom - level * (bottom - top)
    edge = 60 * (surface - top) / (bottom - top)
    canvas.line([(60, 404), (580, 404)], PALE, width=8)
    canvas.polygon([(210 + edge, surface), (430 - edge, surface), (370, bottom), (270, bottom)], BLUE, None)
    canvas.line([(210, top), (270, bottom), (370, bottom), (430, top)], width=6)
    return canvas
