"""A CloudFormation template as AWS would see it: linted, its functions evaluated, its policies asked.

The evaluation knows the functions and the condition operators that glowplug's templates use, and fails on any other.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from cfnlint.api import lint
from cfnlint.core import get_rules
from cfnlint.helpers import REGIONS
from cfnlint.rules import RulesCollection

__all__ = ["PSEUDO", "REGIONS", "allows", "deploy", "findings"]

PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::AccountId": "123456789012",
}
_ABSENT = object()
_VARIABLE = re.compile(r"\$\{(!?)([^}]*)\}")


def findings(text: str, regions: Sequence[str] = (PSEUDO["AWS::Region"],)) -> list[str]:
    """What cfn-lint has to say: errors and warnings."""
    return [str(match) for match in lint(text, rules=_rules(), regions=list(regions))]


@functools.cache
def _rules() -> RulesCollection:
    """cfn-lint's own choice; reading the rules takes longer than applying them."""
    return get_rules([], [], ["W", "E"])


def deploy(text: str, **given: str) -> dict[str, Any]:
    """The resources' properties by name, as a deployment with these parameters has them. KeyError: a parameter is lacking."""
    template = yaml.safe_load(text)
    parameters = {
        name: about["Default"] for name, about in template.get("Parameters", {}).items() if "Default" in about
    }
    resources = {name: f"<{name}>" for name in template["Resources"]}
    values = {**PSEUDO, **resources, **parameters, **given}
    conditions = {name: _value(form, values, {}) for name, form in template.get("Conditions", {}).items()}
    return {
        name: {"Type": resource["Type"], **_value(resource["Properties"], values, conditions)}
        for name, resource in template["Resources"].items()
    }


def _value(form: Any, values: Mapping[str, Any], conditions: Mapping[str, bool]) -> Any:
    if isinstance(form, list):
        found = [_value(item, values, conditions) for item in form]
        return [item for item in found if item is not _ABSENT]
    if not isinstance(form, dict):
        return form
    if len(form) == 1 and (next(iter(form)).startswith("Fn::") or "Ref" in form):
        (name, argument), *_ = form.items()
        return _function(name, argument, values, conditions)
    return {key: _value(item, values, conditions) for key, item in form.items()}


def _function(name: str, argument: Any, values: Mapping[str, Any], conditions: Mapping[str, bool]) -> Any:
    match name:
        case "Ref":
            return _ABSENT if argument == "AWS::NoValue" else values[argument]
        case "Fn::Sub":
            return _VARIABLE.sub(lambda found: "${" + found[2] + "}" if found[1] else str(values[found[2]]), argument)
        case "Fn::If":
            return _value(argument[1 if conditions[argument[0]] else 2], values, conditions)
        case "Fn::Equals":
            one, other = (_value(item, values, conditions) for item in argument)
            return one == other
        case "Fn::GetAtt":
            return f"<{argument[0]}.{argument[1]}>"
        case "Fn::Base64":
            return _value(argument, values, conditions)
    raise AssertionError(f"nobody said what {name} is")


def allows(
    statements: Sequence[Mapping[str, Any]], action: str, resource: str, context: Mapping[str, str] | None = None
) -> bool:
    """Whether a policy lets this request pass. Conditions: StringLike and StringEquals; a key that the request lacks fails."""
    return any(_matches(one, action, resource, context or {}) for one in statements)


def _matches(statement: Mapping[str, Any], action: str, resource: str, context: Mapping[str, str]) -> bool:
    assert statement["Effect"] == "Allow"
    if not (_any(statement["Action"], action) and _any(statement["Resource"], resource)):
        return False
    for operator, keys in statement.get("Condition", {}).items():
        assert operator in {"StringLike", "StringEquals"}
        if not all(key in context and _any(wanted, context[key]) for key, wanted in keys.items()):
            return False
    return True


def _any(patterns: str | Sequence[str], text: str) -> bool:
    several = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in several)
