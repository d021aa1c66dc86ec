"""What the numbers of a board mean, in plain words."""

from __future__ import annotations

from layton_batch.scoring.rules import HIERARCHICAL, PAPER
from layton_batch.scoring.uncalibrated import UNCALIBRATED
from layton_batch.site.board_table import Board

_METHODS = {
    HIERARCHICAL: "The jury’s votes are corrected by people’s labels in one calculation over all models, which "
    "learns how much a vote means for a better or a weaker model.",
    PAPER: "The published method: the jury’s mean vote, corrected by the mean error on labelled answers.",
    UNCALIBRATED: "No person labelled anything: the score is what the jury’s votes say if the judges are right in "
    "about nine of ten cases.",
}
_FAILURES = "Abstained, unreadable and missing answers count as wrong."
_OF_RULES = {
    "Right, partly right, wrong": "What the rule says of one answer; its word for a failure stands beside it.",
}
_OF_JURIES = {
    "Right, wrong, split jury": "One answer is right where every judge said yes, wrong where every judge said no, and "
    "split in between.",
    "Disputed by people": "A person says the opposite of the whole jury. The person counts.",
    "Human labels": "People’s verdicts. Own: on the model’s answers in this run. Borrowed: on other answers with the "
    "same votes, which say what a vote is worth.",
    "Family": "Who made a model. A judge never sits on the jury of its own family’s answers.",
}
_OF_ALL = {
    "Abstained, unparsed, missing": "Three things that are never mixed: the model said that it does not know; its "
    "reply could not be read; there is no reply.",
    "Cost": "Tokens that the provider counted, times the price of the day for batches. Unbatched: the same tokens at "
    "the price of single calls. What has no known price is unknown, never 0.",
    "Cost an answer": "What the model’s own answers cost, divided by their number; the jury is not in it.",
}
_BETTER = "The probability that one model’s true score is above another’s, from the same draws as the intervals."
_THIS_SET = (
    "Score, interval, rank range, comparison and charts are for new items of this kind or, with “this set” chosen, for "
    "exactly these items; never one of one and one of the other."
)
_HINTS = "How many of an item’s hints stand in the question that the models were asked."


def terms(board: Board, here: Board | None, *, has_hints: bool) -> tuple[tuple[str, str], ...]:
    """Return each term of the board with its meaning."""
    how = "A rule grades every answer." if board.by_rule else _METHODS.get(board.method, "")
    score = " ".join(filter(None, (board.score_words, how, _FAILURES)))
    meanings = {
        "Score": score,
        **({"This set": _THIS_SET} if here else {}),
        "Intervals": _both(board.meaning, here.meaning if here else None),
        "Rank range": _both(board.range_meaning, here.range_meaning if here else None),
        "Better than": _BETTER,
        **(_OF_RULES if board.by_rule else _OF_JURIES),
        **_OF_ALL,
        "Hints": _HINTS if has_hints and not board.by_rule else "",
    }
    return tuple((term, words) for term, words in meanings.items() if words)


def _both(words: str, here: str | None) -> str:
    return f"{words} With this set chosen: {here}" if here else words
