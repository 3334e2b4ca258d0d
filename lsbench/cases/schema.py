"""The JSON Schema (draft 7) of case files, made from the models that validate them."""

from __future__ import annotations

from typing import Any

from lsbench.cases.gating import NESTED
from lsbench.cases.loader import SCHEMA
from lsbench.cases.models import KEYS, CaseFields, CaseModel
from lsbench.figures import FIGURES, Figure
from lsbench.formats import FORMATS
from lsbench.gates import COMPARE

DRAFT = "http://json-schema.org/draft-07/schema#"


def schema() -> dict[str, Any]:
    """The schema of a whole file.

    It holds for what stands in a file; that a case has a shape and a dtype once defaults and matrix
    are merged, and that numbers fit their formats, only the loader can tell.
    """
    case, definitions = _parts(CaseModel)
    defaults, more = _parts(CaseFields)
    definitions |= more
    definitions["Gates"] = _gates(definitions)
    for part in (case, defaults):
        gates = {"$ref": "#/definitions/Gates"}
        described = part["properties"]["gates"]["description"]
        part["properties"]["gates"] = {"description": described, "anyOf": [gates, {"type": "null"}]}
        part["required"] = [key for key in part.get("required", []) if key == "name"]
    case["properties"]["matrix"] = _matrix(case["properties"])
    return {
        "$schema": DRAFT,
        "title": "Case file of lsbench",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA, "description": "Version of this format."},
            "defaults": {"anyOf": [{"$ref": "#/definitions/Defaults"}, {"type": "null"}]},
            "cases": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/Case"}},
        },
        "required": ["schema", "cases"],
        "additionalProperties": False,
        "definitions": definitions | {"Case": case, "Defaults": defaults},
    }


def _parts(model: type[CaseFields]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's own schema and what it refers to, in draft 7's words."""
    whole = model.model_json_schema(ref_template="#/definitions/{model}")
    definitions = whole.pop("$defs", {})
    _to_draft_7(whole)
    _to_draft_7(definitions)
    whole["description"] = (model.__doc__ or "").strip()
    return whole, definitions


def _to_draft_7(node: object) -> None:
    """Rewrite tuples of 2020-12 and drop titles and defaults that tell nothing."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if "default" in node and node["default"] is None:
            del node["default"]
        # Draft 7 ignores everything beside a reference: descriptions must wrap it.
        if "$ref" in node and len(node) > 1:
            node["allOf"] = [{"$ref": node.pop("$ref")}]
        for value in node.values():
            _to_draft_7(value)
    elif isinstance(node, list):
        for value in node:
            _to_draft_7(value)


def _gates(definitions: dict[str, Any]) -> dict[str, Any]:
    """Figures with their limits, and the two groups that nest."""
    figures: dict[str, Any] = {name: _limit(figure) for name, figure in FIGURES.items()}
    inner = {"type": "object", "properties": figures, "additionalProperties": False}
    definitions["FigureGates"] = inner
    reference = {"$ref": "#/definitions/FigureGates"}
    per_dtype = {
        "type": "object",
        "properties": dict.fromkeys(FORMATS, reference),
        "additionalProperties": False,
    }
    per_provider = {"type": "object", "additionalProperties": reference}
    providers, dtypes = NESTED
    with_dtypes = {**inner, "properties": {**figures, dtypes: per_dtype}}
    with_providers = {**inner, "properties": {**figures, providers: per_provider}}
    nested = {
        providers: {"type": "object", "additionalProperties": with_dtypes},
        dtypes: {
            "type": "object",
            "properties": dict.fromkeys(FORMATS, with_providers),
            "additionalProperties": False,
        },
    }
    return {
        "type": "object",
        "description": "Figure: limit. The nearest rule wins; null removes an inherited one.",
        "properties": {**figures, **nested},
        "additionalProperties": False,
    }


def _limit(figure: Figure) -> dict[str, Any]:
    text = {"type": "string", "pattern": rf"^\s*({'|'.join(COMPARE)})?\s*\S+\s*$"}
    value = {"type": "boolean"} if figure.better == "true" else {"type": "number"}
    kinds = (
        [value, {"type": "null"}] if figure.better == "true" else [value, text, {"type": "null"}]
    )
    return {"description": figure.doc, "anyOf": kinds}


def _matrix(properties: dict[str, Any]) -> dict[str, Any]:
    """Lists of values for the keys of a case; keys with dots are left to the loader."""
    keys = [key for key in KEYS if key != "name"]
    return {
        "type": "object",
        "minProperties": 1,
        "description": "Every combination of these values is a case: {dtype: [fp32, fp16]}.",
        "properties": {
            key: {"type": "array", "minItems": 1, "items": _bare(properties[key])} for key in keys
        },
        "patternProperties": {rf"^({'|'.join(keys)})\..+$": {"type": "array", "minItems": 1}},
        "additionalProperties": False,
    }


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("description", "default")}
