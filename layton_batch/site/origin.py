"""What a page says of its benchmark: a sentence, where the items come from and their licence, and how to cite it."""

from __future__ import annotations

from layton_batch.site.run_tables import BoardSettings
from layton_batch.text import plural

_LICENCES = {
    "rvienne/layton-eval": "The riddles are layton-eval’s, by Vienne et al., under CC BY-SA: whoever shares them names "
    "their source and shares alike.",
    "bundled": "The items are layton-batch’s own and stand under its licence, Apache-2.0.",
}


def sentence(ask: BoardSettings, items: int, models: int, *, by_rule: bool, has_labels: bool) -> str:
    """Describe the models, the items and the grading in one sentence."""
    if not models:
        return f"{plural(items, 'item')}; no model is done yet."
    hint_words = f"{ask.hints} hints" if isinstance(ask.hints, str) else plural(ask.hints or 0, "hint")
    hints = f" with {hint_words}" if ask.hints else ""
    judged = "a jury of models from other makers judged each answer"
    graded = (
        "a rule graded each answer" if by_rule else judged + (", corrected by people’s labels" if has_labels else "")
    )
    return f"{plural(models, 'model')} answered {plural(items, 'item')}{hints}; {graded}."


def licence(ask: BoardSettings) -> str:
    """Return the licence of the items, if known: what the manifest says, else what is known of the source."""
    if ask.license:
        return f"Licence: {ask.license}."
    licences = (words for part, words in _LICENCES.items() if part in ask.source)
    return next(licences, "Their licence is their source’s.")


def citation(ask: BoardSettings, title: str, date: str) -> str:
    """Cite the board as BibTeX, with the author and the address that the manifest states."""
    key = "".join(letter for letter in title if letter.isascii() and (letter.isalnum() or letter in "-_"))
    fields = {
        "author": ask.author,
        "title": f"{title}: leaderboard",
        "year": date[:4],
        "url": ask.address,
        "note": f"Last updated {date or 'on an unknown day'}, written by layton-batch",
    }
    lines = "".join(f"  {name} = {{{_plain(value)}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{key or 'leaderboard'},\n{lines}}}"


def _plain(value: str) -> str:
    """Leave out what would end a field."""
    return "".join(letter for letter in value if letter not in "{}\\")
