"""The five evaluators as they were meant: the stated answer is read, not whatever the text happens to contain.

Every rule checks what the annotation asks for; one it cannot grade by gets 0 and an error in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules.grades import RomeGrade, Score
from layton_batch.tasks.rome_rules.letters import chosen_letters, label_letters
from layton_batch.tasks.rome_rules.mentions import Mentions
from layton_batch.tasks.rome_rules.quantity import gold_number, matches, stated_number
from layton_batch.tasks.rome_rules.sequence import is_in_order, things_in_order
from layton_batch.tasks.rome_rules.statement import AnswerStatement, Source, final_statement

Arguments = Mapping[str, JsonValue]
Evaluator = Callable[[AnswerStatement, Arguments], RomeGrade]


class UnfitArgumentsError(ValueError):
    """The annotation's ``evaluator_kwargs`` cannot be graded by; the message says why."""


def grade(evaluator: str, arguments: Arguments, reply: str) -> RomeGrade:
    """The score of a reply by the evaluator of this name. Never raises."""
    rule = EVALUATORS.get(evaluator)
    if rule is None:
        return RomeGrade(0, reply, f"there is no evaluator {evaluator!r} (there are {', '.join(EVALUATORS)})")
    function, names = rule
    statement = final_statement(reply)
    try:
        _check_names(evaluator, arguments, names)
        return function(statement, arguments)
    except UnfitArgumentsError as error:
        return RomeGrade(0, statement.text.strip(), str(error))


def _check_names(evaluator: str, arguments: Arguments, names: Sequence[str]) -> None:
    if unknown := sorted(set(arguments) - set(names)):
        raise UnfitArgumentsError(f"{evaluator} takes no {', '.join(unknown)} (it takes {', '.join(names)})")


def _key_items(statement: AnswerStatement, arguments: Arguments) -> RomeGrade:
    groups = _variant_groups(arguments.get("key_items"))
    text = _searched(statement)
    mentions = Mentions(text, squeezed=arguments.get("remove_space") is True)
    return RomeGrade(int(all(mentions.any_of(variants) for variants in groups)), text.strip())


def _variant_groups(items: JsonValue) -> list[list[str]]:
    """A list of lists: one of each is needed. A list of texts: one of all."""
    if not isinstance(items, list) or not items:
        raise UnfitArgumentsError("key_items must be a list with something in it")
    if all(isinstance(item, str) for item in items):
        return [_names(items, "key_items")]
    return [_names(item, f"key_items[{place}]") for place, item in enumerate(items)]


def _names(value: JsonValue, where: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise UnfitArgumentsError(f"{where} must be a list of texts")
    names = [name for name in values if isinstance(name, str) and name.strip()]
    if not names:
        raise UnfitArgumentsError(f"{where} names nothing to look for")
    return names


def _searched(statement: AnswerStatement) -> str:
    """Return the text to search for names: all after a label, since lists span paragraphs; else the statement."""
    return statement.wide if statement.source is Source.LABEL else statement.text


def _choices(statement: AnswerStatement, arguments: Arguments) -> RomeGrade:
    label = arguments.get("label")
    if not isinstance(label, str) or not label.strip():
        raise UnfitArgumentsError("label must be a text with at least one letter")
    wanted = label_letters(label)
    letters = chosen_letters(statement, len(wanted))
    is_same = bool(wanted) and frozenset(letters) == wanted
    return RomeGrade(int(is_same or _is_label_itself(statement, label)), letters)


def _is_label_itself(statement: AnswerStatement, label: str) -> bool:
    """Return whether the whole answer is the label, for labels such as "True" or "7" that are no option letters."""
    answer = statement.paragraph
    return len(answer) <= len(label) + 16 and answer.strip(" .*()[]{}\"'").casefold() == label.strip().casefold()


def _ordered_list(statement: AnswerStatement, arguments: Arguments) -> RomeGrade:
    try:
        things = things_in_order(arguments.get("order"))
    except ValueError as error:
        raise UnfitArgumentsError(str(error)) from error
    return RomeGrade(int(is_in_order(statement, things)), statement.paragraph)


def _number(statement: AnswerStatement, arguments: Arguments) -> RomeGrade:
    gold = gold_number(arguments.get("value_to_match"))
    if gold is None:
        raise UnfitArgumentsError("value_to_match must be a finite number")
    read, values = stated_number(statement)
    return RomeGrade(int(any(matches(value, gold) for value in values)), read)


def _location(statement: AnswerStatement, arguments: Arguments) -> RomeGrade:
    fine = _names(arguments.get("location_fine_grained"), "location_fine_grained")
    coarse_names = arguments.get("location_coarse_grained")
    coarse = _names(coarse_names, "location_coarse_grained") if coarse_names else []
    worths = _worth(arguments, "fine_grained_score", 1.0), _worth(arguments, "coarse_grained_score", 0.5)
    text = _searched(statement)
    mentions = Mentions(text)
    for names, worth in zip((fine, coarse), worths, strict=True):
        if mentions.any_of(names):
            return RomeGrade(worth, text.strip())
    return RomeGrade(0, text.strip())


def _worth(arguments: Arguments, name: str, default: float) -> Score:
    worth = arguments.get(name, default)
    if isinstance(worth, bool) or not isinstance(worth, int | float) or not abs(worth) <= 1e6:
        raise UnfitArgumentsError(f"{name} must be a number")
    return worth


EVALUATORS: Mapping[str, tuple[Evaluator, tuple[str, ...]]] = {
    "key_items_matching": (_key_items, ("key_items", "remove_space")),
    "choices_matching": (_choices, ("label",)),
    "ordered_list_matching": (_ordered_list, ("order",)),
    "number_matching": (_number, ("value_to_match",)),
    "location_matching": (
        _location,
        ("location_fine_grained", "location_coarse_grained", "fine_grained_score", "coarse_grained_score"),
    ),
}
"""The evaluators by the name an annotation gives them, and the arguments each takes."""
