"""Texts that would run something in a page that takes them for markup: every event, place and spelling once."""

from __future__ import annotations

from itertools import product

_CALL = "window.attacked=1"
_EVENTS = (
    "onload", "onerror", "onclick", "onmouseover", "onfocus", "onblur", "onanimationstart", "ontoggle",
    "onpointerenter", "onbegin", "onpageshow", "onresize", "onscroll", "oncopy", "onkeydown", "oninput", "onwheel",
    "oncanplay", "onstart",
)  # fmt: skip
_TAGS = ("img src=x", "svg", "body", "details open", "input autofocus", "video src=x")
_OPENINGS = ("", '"', "'", "</textarea>", "</title>", "</script>", "</style>", "-->", "]]>", "`")
_WHOLE = (
    f"<script>{_CALL}</script>",
    f"<ScRiPt >{_CALL}</sCrIpT>",
    f"<script\n>{_CALL}</script\n>",
    f"<script/x>{_CALL}</script>",
    f"<iframe srcdoc='<script>parent.{_CALL}</script>'></iframe>",
    f"<a href='javascript:{_CALL}'>x</a>",
    f"<form action='javascript:{_CALL}'><button>x</button></form>",
    f"<object data='data:text/html,<script>{_CALL}</script>'></object>",
    "<meta http-equiv='refresh' content='0;url=javascript:window.attacked=1'>",
    "<base href='http://127.0.0.1:9/'>",
    "<link rel='stylesheet' href='data:text/css,body{display:none}'>",
    "<style>body{display:none}</style>",
    f"<math><mtext><script>{_CALL}</script></mtext></math>",
    f"<svg><a xlink:href='javascript:{_CALL}'><text>x</text></a></svg>",
    f"<template><script>{_CALL}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={_CALL}>'>",
    f"\N{FULLWIDTH LESS-THAN SIGN}script\N{FULLWIDTH GREATER-THAN SIGN}{_CALL}",
    f"&lt;script&gt;{_CALL}&lt;/script&gt;",
    f"&#60;script&#62;{_CALL}",
    f"\\u003cscript\\u003e{_CALL}",
    f"%3Cscript%3E{_CALL}",
    f"+ADw-script+AD4-{_CALL}",
    "{{ 7 * 7 }} {% for x in y %}{{ self.__init__.__globals__ }}",
    "${window.attacked=1}",
    f"x\N{RIGHT-TO-LEFT OVERRIDE}<script>{_CALL}</script>",
    f"x\x00<script>{_CALL}</script>",
    f"x\x1b[31m<img src=x onerror={_CALL}>",
    f"javascript:{_CALL}",
)
PAYLOADS = (
    *_WHOLE,
    *(f"<{tag} {event}={_CALL}>" for tag, event in product(_TAGS, _EVENTS)),
    *(f"{opening}<script>{_CALL}</script>" for opening in _OPENINGS[1:]),
    *(f"{opening} {event}={_CALL} x={opening}" for opening in ('"', "'", "`") for event in _EVENTS),
)
