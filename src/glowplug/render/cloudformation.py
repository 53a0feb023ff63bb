"""CloudFormation templates as data: what is known is written in, what is not becomes a parameter that deploying asks for.

Functions are in their long form (`Fn::Sub:`), so that a template is plain data for every YAML reader. Literal text inside
`Fn::Sub` is escaped here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests.writing import plain, stream

if TYPE_CHECKING:
    from collections.abc import Mapping

Template = dict[str, Any]
Parameters = dict[str, dict[str, Any]]

_VERSION: Final = "2010-09-09"
_DEPLOY: Final = """\
CloudFormation, not Kubernetes. Look at it, then:
  aws cloudformation deploy --stack-name NAME --template-file FILE{capabilities}{overrides}"""


def template(
    description: str,
    parameters: Parameters,
    resources: Mapping[str, Any],
    outputs: Mapping[str, Any],
    conditions: Mapping[str, Any] | None = None,
) -> Template:
    """A template; sections with nothing in them are left out."""
    sections = {
        "AWSTemplateFormatVersion": _VERSION,
        "Description": description,
        "Parameters": parameters,
        "Conditions": conditions,
        "Resources": resources,
        "Outputs": outputs,
    }
    return {name: section for name, section in sections.items() if section}


def text(made: Template) -> str:
    """YAML, with how to deploy it above."""
    iam = any(resource["Type"].startswith("AWS::IAM::") for resource in plain(made["Resources"]).values())
    overrides = "".join(f" {name}=…" for name in required(made))
    return stream(
        [made],
        header=_DEPLOY.format(
            capabilities=" --capabilities CAPABILITY_IAM" if iam else "",
            overrides=f" --parameter-overrides{overrides}" if overrides else "",
        ),
    )


def asks(made: Template) -> tuple[str, ...]:
    """One sentence that names the parameters without a value, none where there are none."""
    names = required(made)
    return (f"deploying asks for {', '.join(names)}",) if names else ()


def required(made: Template) -> tuple[str, ...]:
    """Names of the parameters that have no default."""
    return tuple(name for name, about in plain(made.get("Parameters", {})).items() if "Default" not in about)


def parameter(kind: str, description: str, default: str | None = None, **rules: Any) -> dict[str, Any]:
    """A parameter of the type `kind`; without `default`, deploying asks for it."""
    known = {} if default is None else {"Default": default}
    return {"Type": kind, "Description": description, **known, **rules}


def ref(name: str) -> dict[str, str]:
    """The value of a parameter, or the id of a resource."""
    return {"Ref": name}


def arn(resource: str) -> dict[str, list[str]]:
    """The ARN of a resource of this template."""
    return {"Fn::GetAtt": [resource, "Arn"]}


def sub(form: str) -> dict[str, str]:
    """A text with `${…}` in it: parameters and AWS's own (`${AWS::Region}`)."""
    return {"Fn::Sub": form}


def literal(value: str) -> str:
    """A text for use inside `sub` that stands for itself."""
    return value.replace("${", "${!")
