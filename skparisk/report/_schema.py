"""The shape of a report's document: a JSON Schema, and what checks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@cache
def json_schema() -> Any:
    """Return the JSON Schema of reports, which is a file of the package."""
    text = files("skparisk.report").joinpath("report.schema.json").read_text("utf-8")
    return json.loads(text)


def check_document(document: Any) -> None:
    """Raise ValueError unless a document has the shape of a report."""
    for error in _errors(document, json_schema(), "the report"):
        raise ValueError(f"this is not a report of skparisk: {error}.")


def _errors(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield what is wrong, by the words of JSON Schema that the file uses."""
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        # True is no 1 here.
        if not any(type(value) is type(one) and value == one for one in allowed):
            yield f"{where} must be one of {allowed}, got {value!r}"
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) in _TYPES[name] for name in types):
        yield f"{where} must be of the type {' or '.join(types)}, got {value!r}"
    elif isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{where} must match {schema['pattern']}, got {value!r}"
    elif isinstance(value, dict):
        yield from _errors_of_object(value, schema, where)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 2**62):
            yield f"{where} must have {schema['minItems']} entries, got {len(value)}"
        for place, item in enumerate(value):
            yield from _errors(item, schema["items"], f"{where}, entry {place}")
    elif type(value) in _TYPES["number"]:
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{where} is out of range, got {value!r}"


def _errors_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    missing = [name for name in schema.get("required", ()) if name not in value]
    unknown = [name for name in value if name not in known] if others is False else []
    if missing or unknown:
        yield f"{where} lacks {missing}, and has the unknown {unknown}"
    for name, part in value.items():
        if name in known:
            yield from _errors(part, known[name], f"{where}, {name!r}")
        elif isinstance(others, dict):
            yield from _errors(part, others, f"{where}, {name!r}")
