"""The figures of evaluate-idk's two analyses: how long each model's replies are by outcome, and on which questions all
models agree.

Length is in characters, and in tokens where rows say how many a reply took; upstream counts the tokens of one
tokenizer. As upstream has it, a wrong reply is one that costs a point, so that replies without a letter are counted
among the wrong and by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, stdev

from layton_batch.tasks.mcq_idk_rules.mcq_items import idk_letter
from layton_batch.tasks.mcq_idk_rules.model_report import LetterRow, plain_cell
from layton_batch.text import plural

KINDS = ("right", "wrong", '"I don\'t know"', "no letter (among the wrong)")
_MARKS: Mapping[str, tuple[str, int]] = {
    KINDS[0]: ("idk_score", 1),
    KINDS[1]: ("idk_score", -1),
    KINDS[2]: ("idk_freq", 1),
    KINDS[3]: ("extract_fail", 1),
}


def analysis(rows_by_model: Mapping[str, Sequence[LetterRow]]) -> str:
    """Return the figures as Markdown. ``rows_by_model``: each model's graded replies."""
    lines: list[str] = []
    for name, rows in rows_by_model.items():
        lines += [f"## Replies of {plain_cell(name)}", "", *_reply_table(rows), ""]
    if len(rows_by_model) > 1:
        lines += ["## Questions", "", *_question_table(rows_by_model), ""]
    return "\n".join(lines)


def _is(row: LetterRow, kind: str) -> bool:
    metric, value = _MARKS[kind]
    return row.marks.as_dict()[metric] == value


def _reply_table(rows: Sequence[LetterRow]) -> Iterator[str]:
    yield "| outcome | replies | share | characters | tokens |"
    yield "|:--|--:|--:|--:|--:|"
    for kind in KINDS:
        mine = [row for row in rows if _is(row, kind)]
        tokens = [row.tokens for row in mine if row.tokens is not None]
        share = f"{len(mine) / len(rows):.1%}" if rows else "-"
        yield f"| {kind} | {len(mine)} | {share} | {_length([row.characters for row in mine])} | {_length(tokens)} |"


def _length(lengths: Sequence[int]) -> str:
    """Mean and sample standard deviation."""
    if not lengths:
        return "-"
    return f"{mean(lengths):.1f} ± {stdev(lengths):.1f}" if len(lengths) > 1 else f"{lengths[0]:.1f}"


def _question_table(rows_by_model: Mapping[str, Sequence[LetterRow]]) -> Iterator[str]:
    by_item = [{row.item_id: row for row in rows} for rows in rows_by_model.values()]
    shared = [item for item in by_item[0] if all(item in rows for rows in by_item[1:])]
    questions = {item: [rows[item] for rows in by_item] for item in shared}
    alike = {kind: [item for item, rows in questions.items() if all(_is(row, kind) for row in rows)] for kind in KINDS}
    agreed = set().union(*alike.values())
    counts = {**{f"all {kind}": len(items) for kind, items in alike.items()}, "mixed": len(shared) - len(agreed)}
    yield f"{plural(len(shared), 'question')} that all {len(rows_by_model)} models have:"
    yield ""
    yield "| outcome | questions | share |"
    yield "|:--|--:|--:|"
    yield from (
        f"| {name} | {n} | {n / len(shared):.1%} |" if shared else f"| {name} | 0 | - |" for name, n in counts.items()
    )
    same = [(item, questions[item]) for item in alike[KINDS[1]] if _is_same_letter(questions[item])]
    yield ""
    yield f"All models give the same wrong letter on {plural(len(same), 'question')}{':' if same else '.'}"
    if same:
        yield ""
        yield "| question | given | right |"
        yield "|:--|:--|:--|"
        yield from (f"| {plain_cell(item)} | {rows[0].letter} | {'/'.join(rows[0].key.gold)} |" for item, rows in same)


def _is_same_letter(rows: Sequence[LetterRow]) -> bool:
    letters = {row.letter for row in rows}
    return len(letters) == 1 and None not in letters and idk_letter(rows[0].key.n_options) not in letters
