"""The description of the service, as OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from verigym.envs.contract.schema import Score
from verigym.serve.catalog import Catalog
from verigym.serve.guard import FREE
from verigym.serve.problems import STATUS, Code, ProblemBody
from verigym.serve.reading import JSON, NDJSON
from verigym.serve.schemas import BatchAnswer, BatchItem, EndEpisode, OpenEpisode, PlayTurn, ScoreRequest
from verigym.serve.settings import ServiceLimits

try:
    VERSION = version("verigym")
except PackageNotFoundError:  # run from a folder of sources
    VERSION = "0"

_REF = "#/components/schemas/{model}"
_ALWAYS: tuple[Code, ...] = ("unauthorized", "forbidden", "timeout", "too_large", "invalid", "overloaded", "internal")
"""What may come of every guarded request."""
_SAID: Mapping[Code, str] = {
    "unauthorized": "No token, or a wrong one.",
    "forbidden": "Not a request to this machine, where no token is demanded.",
    "not_found": "No such episode.",
    "method_not_allowed": "Not a method of this path.",
    "timeout": "The body was late.",
    "conflict": "An idempotency key that stands for something else, or a turn that is not the next one.",
    "too_large": "More bytes or items than are taken.",
    "media_type": "A body of another type.",
    "invalid": "Malformed, or not what the environment takes.",
    "overloaded": "No room now; Retry-After says when to come again.",
    "internal": "The service has failed.",
    "unavailable": "Starting or stopping; Retry-After says when to come again.",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def problems(*codes: Code) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for requests that are refused with `codes`."""
    return {
        STATUS[code]: {"description": _SAID[code], "model": ProblemBody}
        | ({"headers": _RETRY} if code in ("overloaded", "unavailable") else {})
        for code in codes
    }


def _operation(body: Mapping[str, Any] | None, *codes: Code, ok: Mapping[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"responses": problems(*codes)}
    if ok is not None:
        made["responses"][200] = {"description": "Verdicts.", "content": dict(ok)}
    if body is not None:
        made["openapi_extra"] = {"requestBody": {"required": True, "content": dict(body)}}
    return made


def _json(model: str) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": _REF.format(model=model)}}}


_LINES = {"description": "One object a line.", "type": "string"}
_BATCH = {"type": "array", "minItems": 1, "items": {"$ref": _REF.format(model="BatchItem")}}
SCORE = _operation(_json("ScoreRequest"), "conflict", "media_type", "unavailable", ok=_json("Score"))
BATCH = _operation(
    {JSON: {"schema": _BATCH}},
    "media_type",
    "unavailable",
    ok={NDJSON: {"schema": {"type": "string", "description": "One `BatchAnswer` a line."}}},
)
OPEN = _operation(_json("OpenEpisode"), "conflict", "media_type", "unavailable")
STATE = _operation(None, "not_found")
TURN = _operation(_json("PlayTurn"), "not_found", "conflict", "media_type", "unavailable")
END = _operation(_json("EndEpisode"), "not_found", "conflict", "media_type", "unavailable")
DROP = _operation(None)
METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_REQUESTS: tuple[type[BaseModel], ...] = (ScoreRequest, BatchItem, OpenEpisode, PlayTurn, EndEpisode)


def describe(app: FastAPI, catalog: Catalog, limits: ServiceLimits) -> None:
    """Set the application's OpenAPI description, built once for the environments that are served."""
    made: dict[str, Any] = {}

    def schema() -> dict[str, Any]:
        if not made:
            made.update(_described(app, catalog, limits))
        return made

    app.openapi = schema  # type: ignore[method-assign]


def _described(app: FastAPI, catalog: Catalog, limits: ServiceLimits) -> dict[str, Any]:
    whole = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = whole.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    models: tuple[type[BaseModel], ...] = (*_REQUESTS, Score, BatchAnswer)
    known: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in models]
    _, defined = models_json_schema(known, ref_template=_REF)
    schemas.update(defined["$defs"])
    for name in ("ScoreRequest", "BatchItem", "OpenEpisode"):
        served = catalog.interactive if name == "OpenEpisode" else catalog.environments
        if served:
            schemas[name] = _tasks(schemas[name], served, catalog)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    batch = whole["paths"]["/score/batch"]["post"]["requestBody"]["content"]
    batch[JSON]["schema"] = {**_BATCH, "description": f"At most {limits.batch_items:,} items."}
    batch[NDJSON] = {"schema": _LINES}
    for path, operations in whole["paths"].items():
        for operation in operations.values():
            if path not in FREE:
                operation["security"] = [{"token": []}]
            for code in _ALWAYS if path not in FREE else ("timeout", "too_large", "overloaded", "internal"):
                response = {"description": _SAID[code], "content": _json("ProblemBody")}
                operation["responses"].setdefault(str(STATUS[code]), response)
            operation["responses"].get("422", {})["content"] = _json("ProblemBody")
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    return whole


def _tasks(schema: Mapping[str, Any], served: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the schema of requests that name a task: a form for each environment, by what names its tasks."""
    forms = []
    properties = dict(schema["properties"])
    judged_alone = schema["title"] == "BatchItem"  # whose reference is looked at when it is its turn
    for described in catalog.describe():
        if described.name not in served:
            continue
        own = {"const": described.name}
        text = {**properties["prompt"], "anyOf": [one for one in properties["prompt"]["anyOf"] if one != {"type": "null"}]}
        reference = {"type": "object"} if judged_alone else _names(described.reference)
        written = {**properties, "environment": own, "prompt": text, "reference": reference}
        del written["task"]
        required = [name for name in schema["required"] if name not in ("prompt", "reference")]
        needs = ["reference"] if reference.get("required") else []
        forms.append(_form(schema, f"{described.name}: a task of yours", written, [*required, "prompt", *needs]))
        if described.generates_tasks:
            generated = {**properties, "environment": own, "task": {"$ref": _REF.format(model="GeneratedTask")}}
            del generated["prompt"], generated["reference"]
            forms.append(_form(schema, f"{described.name}: a task that it generates", generated, [*required, "task"]))
    return {"title": schema["title"], "description": schema.get("description", ""), "anyOf": forms}


def _form(schema: Mapping[str, Any], title: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "title": title,
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": sorted(set(required)),
    }


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a reference by its fields' names alone: environments read values of several types."""
    if "properties" not in schema:
        return {"type": "object"}
    described = {
        name: {key: value for key, value in field.items() if key == "description"}
        for name, field in schema["properties"].items()
    }
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"type": "object", "additionalProperties": False, "properties": described, **required}
