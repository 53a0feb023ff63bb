"""What a VPC endpoint's policy says of reading a bucket: allow, deny, or that it cannot be known from here.

IAM decides with more than we know (who asks, from where, tags, other policies), so three values are needed: `unknown` wherever a
condition, a principal or a pattern decides that we cannot. An endpoint's policy that denies is final: the request does not take
another way, it is answered 403.

A question is asked of all objects below a prefix at once. A pattern is followed through the fixed beginning of their names: it
covers all of them, none, or some.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LARGEST: Final = 1 << 15
"""Characters of a policy that are read; AWS allows 20,480."""


class Verdict(enum.Enum):
    """What a policy says."""

    ALLOW = "allow"
    DENY = "deny"
    UNKNOWN = "unknown"


class Match(enum.Enum):
    """How much of a question one element of a statement covers."""

    ALL = "all"
    PART = "part"
    NONE = "none"


@dataclass(frozen=True)
class Question:
    """May `action` be done to `resource`? With `below`: to all that begins with it."""

    action: str
    resource: str
    below: bool = False


@dataclass(frozen=True)
class Answer:
    """`why` is a few words, for a person; of several questions, those of the one that decided."""

    verdict: Verdict
    why: str = ""


def partition(region: str) -> str:
    """The first part of ARNs in a region."""
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def reading(bucket: str, prefix: str, region: str) -> tuple[Question, ...]:
    """What streaming a model asks: to list the bucket and to read what lies below the prefix."""
    arn = f"arn:{partition(region)}:s3:::{bucket}"
    below = f"{arn}/{prefix.rstrip('/')}/" if prefix else f"{arn}/"
    return (Question("s3:ListBucket", arn), Question("s3:GetObject", below, below=True))


def ask(text: str, questions: Iterable[Question]) -> Answer:
    """The answer to all questions together: deny before unknown before allow. Never raises."""
    try:
        statements = _statements(text)
    except (ValueError, RecursionError) as error:
        return Answer(Verdict.UNKNOWN, f"the policy cannot be read: {error}")
    answers = [_one(statements, question) for question in questions]
    for verdict in (Verdict.DENY, Verdict.UNKNOWN):
        for answer in answers:
            if answer.verdict is verdict:
                return answer
    return Answer(Verdict.ALLOW)


def _statements(text: str) -> list[Mapping[str, Any]]:
    """Raises ValueError."""
    if len(text) > LARGEST:
        raise ValueError("it is too long")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - any damage is one kind of damage here
    found = value.get("Statement")
    items: list[Any] = found if isinstance(found, list) else [found]
    if not all(isinstance(item, dict) and item.get("Effect") in ("Allow", "Deny") for item in items):
        raise ValueError("a statement has no Effect")
    return items


def _one(statements: list[Mapping[str, Any]], question: Question) -> Answer:
    covered = {"Allow": Match.NONE, "Deny": Match.NONE}
    reasons: dict[str, str] = {}
    for statement in statements:
        effect = statement["Effect"]
        match, why = _covers(statement, question)
        if match is Match.ALL:
            covered[effect] = Match.ALL
        elif match is Match.PART and covered[effect] is Match.NONE:
            covered[effect] = Match.PART
            reasons[effect] = why
    if covered["Deny"] is Match.ALL:
        return Answer(Verdict.DENY, f"a statement denies {question.action}")
    if covered["Allow"] is Match.NONE:
        return Answer(
            Verdict.DENY, f"no statement allows {question.action} on {question.resource}{'*' * question.below}"
        )
    if covered["Deny"] is Match.PART:
        return Answer(Verdict.UNKNOWN, f"a statement denies {question.action} {reasons['Deny']}")
    if covered["Allow"] is Match.PART:
        return Answer(Verdict.UNKNOWN, f"{question.action} is allowed {reasons['Allow']}")
    return Answer(Verdict.ALLOW)


def _covers(statement: Mapping[str, Any], question: Question) -> tuple[Match, str]:
    """Whether a statement is about the question; for a part, in which cases."""
    elements = (
        (_element(statement, "Action", lambda text: _action(text, question.action)), "for some actions"),
        (_element(statement, "Resource", lambda text: _resource(text, question)), "for some objects"),
        (_principal(statement), "for some identities"),
        (_condition(statement), "under a condition"),
    )
    if any(match is Match.NONE for match, _ in elements):
        return Match.NONE, ""
    partly = [why for match, why in elements if match is Match.PART]
    return (Match.PART, " and ".join(partly)) if partly else (Match.ALL, "")


def _element(statement: Mapping[str, Any], name: str, match: Any) -> Match:
    """`Action` or `NotAction`, `Resource` or `NotResource`. What is not as AWS writes it could mean anything: a part."""
    positive, negative = statement.get(name), statement.get(f"Not{name}")
    if (positive is None) == (negative is None):
        return Match.PART
    patterns = positive if positive is not None else negative
    patterns = patterns if isinstance(patterns, list) else [patterns]
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        return Match.PART
    matches = {match(pattern) for pattern in patterns}
    found = Match.ALL if Match.ALL in matches else Match.PART if Match.PART in matches else Match.NONE
    if positive is not None:
        return found
    return {Match.ALL: Match.NONE, Match.NONE: Match.ALL, Match.PART: Match.PART}[found]


def _action(pattern: str, action: str) -> Match:
    return Match.ALL if match_all(pattern.lower(), action.lower()) else Match.NONE


def _resource(pattern: str, question: Question) -> Match:
    if "${" in pattern:  # a policy variable: who asks decides
        return Match.PART
    if not question.below:
        return Match.ALL if match_all(pattern, question.resource) else Match.NONE
    short = _single_stars(pattern)
    alive = _follow(short, question.resource)
    if not alive:
        return Match.NONE
    return Match.ALL if short.endswith("*") and len(short) in alive else Match.PART


def _principal(statement: Mapping[str, Any]) -> Match:
    said = statement.get("Principal")
    if isinstance(said, dict):
        said = said.get("AWS")
    everyone = said == "*" or (isinstance(said, list) and "*" in said)
    return Match.ALL if everyone and "NotPrincipal" not in statement else Match.PART


def _condition(statement: Mapping[str, Any]) -> Match:
    return Match.ALL if statement.get("Condition") in (None, {}) else Match.PART


def match_all(pattern: str, text: str) -> bool:
    """Whether an IAM pattern (`*` any characters, `?` one) matches the whole text."""
    short = _single_stars(pattern)
    return len(short) in _follow(short, text)


def _single_stars(pattern: str) -> str:
    return re.sub(r"\*+", "*", pattern)


def _follow(pattern: str, text: str) -> frozenset[int]:
    """The places in the pattern at which one can stand after reading the text; none where no match can begin with it.

    No two stars stand side by side.
    """
    places = _past_star(pattern, {0})
    for character in text:
        step = set()
        for place in places:
            if place == len(pattern):
                continue
            if pattern[place] == "*":
                step.add(place)
            elif pattern[place] in ("?", character):
                step.add(place + 1)
        places = _past_star(pattern, step)
        if not places:
            break
    return frozenset(places)


def _past_star(pattern: str, places: set[int]) -> set[int]:
    """A star may stand for nothing."""
    return places | {place + 1 for place in places if pattern[place : place + 1] == "*"}
