"""Draw every picture riddle and write ``riddles_vlm.jsonl``; needs Pillow, a development dependency.

    python -m tools.layton_pictures [--output FILE] [--pictures FOLDER]

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
from tools.layton_pictures import scenes_blocks, scenes_paths, scenes_shapes, scenes_signs, scenes_things
from tools.layton_pictures.visual_riddle import VisualRiddle, read_texts, tell

RIDDLES_FILE = Path(__file__).parents[2] / "layton_batch" / "tasks" / "data" / "layton" / "riddles_vlm.jsonl"

_HINT_COLUMNS = ("first_hint", "second_hint", "third_hint", "special_hint")


def riddles() -> tuple[VisualRiddle, ...]:
    """All picture riddles in the order of the file; the order fixes the ids."""
    texts = read_texts()
    sources = (scenes_shapes, scenes_signs, scenes_paths, scenes_things, scenes_blocks)
    return tuple(tell(scene, texts[scene.name]) for source in sources for scene in source.scenes())


def riddle_id(number: int) -> str:
    """The id of the riddle with this place in the file, counted from 1."""
    return f"lb-v-{number:03d}"


def row(number: int, riddle: VisualRiddle, jpeg: bytes) -> dict[str, str | int | None]:
    """One line of the file, in the published columns."""
    hints = dict(zip(_HINT_COLUMNS, (*riddle.hints, None, None), strict=False))
    return {
        "id": riddle_id(number),
        "split": "vlm",
        "category": riddle.category,
        "picarats": riddle.picarats,
        "url": None,
        "description": riddle.description,
        **hints,
        "solution": riddle.solution,
        "answer": riddle.answer,
        "justification": riddle.justification,
        "img": base64.b64encode(jpeg).decode("ascii"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and write everything; the pictures also go to a folder of their own if one is named."""
    parser = argparse.ArgumentParser(description="Draw the bundled picture riddles.")
    parser.add_argument("--output", type=Path, default=RIDDLES_FILE, help="the JSONL file to write")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures as separate JPEG files")
    options = parser.parse_args(arguments)
    drawn = [(number, riddle, riddle.scene.draw().jpeg()) for number, riddle in enumerate(riddles(), 1)]
    if options.pictures is not None:
        for number, _, jpeg in drawn:
            atomic.write_bytes(options.pictures / f"{riddle_id(number)}.jpg", jpeg)
    lines = [json.dumps(row(*entry), ensure_ascii=False) + "\n" for entry in drawn]
    atomic.write_text(options.output, "".join(lines))
    sys.stderr.write(f"{len(lines)} riddles, {sum(map(len, lines)) // 1000} kB: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
