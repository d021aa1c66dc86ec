"""One answer as HTML. A page has a hundred of them and a site hundreds of thousands, for which a template is slow.

Everything that anybody wrote goes through ``_text``; nothing else is put between the tags.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape

from markupsafe import Markup

from layton_batch.site.explorer import Reply
from layton_batch.site.item_extras import Grid, answer_cells
from layton_batch.site.item_rows import JudgeWord
from layton_batch.site.pages import Passage

_SIGNS = {"yes": "✓", "no": "✗", "unread": "?"}
_SPOKEN = {"yes": "correct", "no": "not correct", "unread": "not readable"}


def reply_html(reply: Reply, address: str, prompts: int, grid: Grid | None = None) -> Markup:
    """``address``: the model's page, empty where it has none; ``prompts``: how many different ones the page shows;
    ``grid``: the solution, where answers are tables."""
    return Markup(  # noqa: S704  (each part escapes what it is given)
        f'<article class="reply {reply.standing}" data-standing="{reply.standing}">\n'
        f"<header>{_head(address, reply.model, reply.provider, reply.hints, reply.sample)}{_vote(reply)}</header>\n"
        f"{_said(reply, grid)}"
        f"{_judges(reply)}"
        f"{_folded(reply, prompts)}</article>\n"
    )


def _text(text: str) -> str:
    return escape(text, quote=True)


@lru_cache(4096)
def _head(address: str, model: str, provider: str, hints: int, sample: int) -> str:
    name = f"<bdi>{_text(model)}</bdi>"
    linked = f'<a href="../models/{_text(address)}">{name}</a>' if address else name
    level = f", hint level {hints}" if hints else ""
    number = f", sample {sample}" if sample > 1 else ""
    return f"<h3>{linked} <small><bdi>{_text(provider)}</bdi>{level}{number}</small></h3>\n"


def _vote(reply: Reply) -> str:
    vote = f" <span>{_text(reply.vote)}</span>" if reply.vote else ""
    stopped = f' <span class="tag">stopped: {_text(reply.finish)}</span>' if reply.finish else ""
    return f'<p class="vote"><strong>{_text(reply.verdict)}</strong>{vote}{stopped}</p>'


def _said(reply: Reply, grid: Grid | None) -> str:
    note = f'<p class="fine">{_text(reply.note)}</p>\n' if reply.note else ""
    table = _table(reply.answer.text, grid) if reply.answer and grid else ""
    answer = table or (_passage(reply.answer, "answer") if reply.answer else "")
    return note + answer + (_passage(reply.justification, "reason") if reply.justification else "")


def _table(answer: str, grid: Grid) -> str:
    """The answer as a table; what is not as in the solution is marked."""
    cells = answer_cells(answer, grid)
    if not cells:
        return ""
    head = "".join(f'<th scope="col">{_text(one)}</th>' for one in grid.heads)
    rows = "".join(f"<tr>{''.join(map(_cell, row, range(len(row))))}</tr>" for row in cells)
    table = f'<table class="plain solution"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="The answer as a table">{table}</div>\n'


def _cell(cell: tuple[str, bool], place: int) -> str:
    text, is_right = cell
    if place == 0:
        return f'<th scope="row">{_text(text)}</th>'
    if is_right:
        return f"<td>{_text(text)}</td>"
    return f'<td class="off">{_text(text) or "nothing"}<span class="unseen"> (not so)</span></td>'


def _passage(text: Passage, classes: str) -> str:
    if text.teaser:
        teaser = f'<summary dir="auto">{_text(text.teaser)}</summary>'
        return f'<details class="fold {classes}">{teaser}{_body(text)}</details>\n'
    return f'<div class="{classes}">{_body(text)}</div>\n'


def _body(text: Passage) -> str:
    cut = (
        f'<p class="cut">Cut here: {text.size:,} characters in all; the whole text is in the run’s tables.</p>'
        if text.size
        else ""
    )
    return f'<div class="text" dir="auto">{_text(text.text)}</div>{cut}'


def _judges(reply: Reply) -> str:
    people = f'<p class="judges people">{_word(reply.people)}</p>\n' if reply.people else ""
    if not reply.judges:
        return people
    return f'{people}<ul class="judges">{"".join(map(_judge, reply.judges))}</ul>\n'


@lru_cache(4096)
def _judge(judge: JudgeWord) -> str:
    note = f' <span class="fine">{_text(judge.note)}</span>' if judge.note else ""
    return f"<li>{_word(judge)}{note}</li>"


def _word(judge: JudgeWord) -> str:
    signs = "".join(
        f' <span class="sign {said}">{what} <b aria-hidden="true">{_SIGNS[said]}</b>'
        f'<span class="unseen"> {_SPOKEN[said]}</span></span>'
        for what, said in (("answer", judge.answer), ("reason", judge.justification))
        if said
    )
    return f"<bdi>{_text(judge.judge)}</bdi>{signs}"


def _folded(reply: Reply, prompts: int) -> str:
    """The reply as it came, and what it took."""
    which = f"prompt {reply.prompt}" if prompts > 1 and reply.prompt else ""
    facts = " · ".join(filter(None, (which, _text(reply.spent))))
    if reply.raw is None:
        return f'<p class="spent">{facts}</p>\n' if facts else ""
    beside = f' <span class="spent">{facts}</span>' if facts else ""
    return f'<details class="more raw"><summary>The reply as it came{beside}</summary>{_body(reply.raw)}</details>\n'
