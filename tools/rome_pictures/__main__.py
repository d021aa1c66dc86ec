"""Draw the pictures and write ``questions_vlm.jsonl``; needs Pillow, a development dependency.

    python -m tools.rome_pictures [--output FILE] [--pictures FOLDER]

The committed file is the truth, as the bytes of a JPEG may differ between versions of Pillow.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from layton_batch.files import atomic
from layton_batch.records import JsonValue
from tools.rome_pictures import scenes_figures, scenes_panels, scenes_places
from tools.rome_pictures.visual_question import VisualQuestion

QUESTIONS_FILE = Path(__file__).parents[2] / "layton_batch" / "tasks" / "data" / "rome" / "questions_vlm.jsonl"


def questions() -> tuple[VisualQuestion, ...]:
    """All questions about pictures in the order of the file; the order fixes the ids."""
    return (*scenes_panels.questions(), *scenes_figures.questions(), *scenes_places.questions())


def question_id(number: int) -> str:
    """The id of the question with this place in the file, counted from 1."""
    return f"lb-rv-{number:03d}"


def row(number: int, question: VisualQuestion, jpegs: Sequence[bytes]) -> dict[str, JsonValue]:
    """One line of the file. One picture is a text, several are a list."""
    pictures: list[JsonValue] = [base64.b64encode(jpeg).decode("ascii") for jpeg in jpegs]
    return {
        "question_id": question_id(number),
        "question": question.question,
        "reference": question.reference,
        "evaluator": question.evaluator,
        "evaluator_kwargs": dict(question.arguments),
        "task": question.task,
        "img": pictures[0] if len(pictures) == 1 else pictures,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and write everything; the pictures also go to a folder of their own if one is named."""
    parser = argparse.ArgumentParser(description="Draw the bundled questions about pictures.")
    parser.add_argument("--output", type=Path, default=QUESTIONS_FILE, help="the JSONL file to write")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures as separate JPEG files")
    options = parser.parse_args(arguments)
    drawn = [(question, [draw().jpeg() for draw in question.draw]) for question in questions()]
    if options.pictures is not None:
        for number, (_, jpegs) in enumerate(drawn, 1):
            for place, jpeg in enumerate(jpegs, 1):
                atomic.write_bytes(options.pictures / f"{question_id(number)}-{place}.jpg", jpeg)
    rows = (row(number, question, jpegs) for number, (question, jpegs) in enumerate(drawn, 1))
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in rows]
    atomic.write_text(options.output, "".join(lines))
    sys.stderr.write(f"{len(lines)} questions, {sum(map(len, lines)) // 1000} kB: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
