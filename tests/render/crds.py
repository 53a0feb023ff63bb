"""Objects against the resource definitions of lab/crds: every field known, every value of its form. CEL needs an API server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jsonschema
import yaml

_CRDS = Path(__file__).parents[2] / "lab" / "crds"


def faults(thing: dict[str, Any]) -> list[str]:
    """What a strict API server would find wrong. KeyError: no definition has this kind."""
    validator = jsonschema.Draft202012Validator(_schemas()[thing["apiVersion"], thing["kind"]])
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(thing)]


@functools.cache
def _schemas() -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in sorted(_CRDS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(item) for key, item in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made
