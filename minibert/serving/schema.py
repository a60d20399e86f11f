"""What `GET /openapi.json` says besides the routes: errors, the key, and what the models allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from minibert.serving.limits import PROBES
from minibert.serving.models import Served

REASONS: dict[int | str, str] = {
    400: "The length of the body is ambiguous.",
    401: "The key is missing or wrong.",
    404: "The path or the model does not exist.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is compressed.",
    421: "The service does not serve this host.",
    422: "A field is invalid, or the request exceeds a limit.",
    429: "Too many texts are waiting.",
    500: "The model could not compute this.",
    503: "The computation took too long.",
}
OF_BODIES = ("408", "413", "422", "429", "500", "503")
OF_KEYS = ("401",)

# As in text-embeddings-inference, and as in the APIs of OpenAI and Voyage below /v1
PROBLEM = {
    "type": "object",
    "required": ["error", "error_type"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
}
PROBLEM_OF_OPENAI = {
    "type": "object",
    "required": ["error", "detail"],
    "properties": {
        "detail": {"type": "string"},
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": "null"},
                "code": {"type": "null"},
            },
        },
    },
}


def problem_in_schema(status: int | str, reason: str) -> dict[str, Any]:
    """The response of an error, as FastAPI takes it."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    response: dict[str, Any] = {"description": reason, "content": content}
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    if status == 401:
        response["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return response


def schema_of(
    app: FastAPI, models: Mapping[str, Served], types: Sequence[str], key: str | None
) -> dict[str, Any]:
    """Return the OpenAPI schema of an application.

    Args:
        app: The application.
        models: The models that it serves, whose names and prompts are among the valid values.
        types: What `input_type` and `task` may be, besides the names of prompts.
        key: Key that clients send. None: no key is required.
    """
    if app.openapi_schema is not None:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = schema["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["schemas"] |= {"Problem": PROBLEM, "OpenAIProblem": PROBLEM_OF_OPENAI}
    if key is not None:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            is_probe = path in PROBES and method == "get"
            _complete(operation, path, is_probe, has_key=key is not None)
    for body in components["schemas"].values():
        kinds = body.pop("x-kinds", None)
        if kinds is not None:
            suitable = [model for model in models.values() if {None, model.kind} & {*kinds}]
            _narrow(body["properties"], list(models), suitable, types)
    app.openapi_schema = schema
    return schema


def _complete(operation: dict[str, Any], path: str, is_probe: bool, has_key: bool) -> None:
    """Leave the errors that an operation has, in the format of its API, and add the key."""
    responses = operation["responses"]
    if has_key and not is_probe:
        operation["security"] = [{"key": []}]
    else:
        responses.pop("401", None)
    if "requestBody" not in operation:
        for status in OF_BODIES:
            if not (status == "503" and is_probe and "Problem" not in str(responses.get(status))):
                responses.pop(status, None)
    if path.startswith("/v1/"):
        for response in responses.values():
            content = response.get("content", {}).get("application/json", {})
            if content.get("schema") == {"$ref": "#/components/schemas/Problem"}:
                content["schema"] = {"$ref": "#/components/schemas/OpenAIProblem"}


def _narrow(
    properties: dict[str, Any], names: list[str], models: Sequence[Served], types: Sequence[str]
) -> None:
    """Say which values are valid for all models that answer a request."""
    prompts = [{*model.about.get("prompts", ())} for model in models]
    shared = sorted(set.intersection(*prompts)) if prompts else []
    all_types = sorted({*types, *shared})
    values = {"model": names, "prompt_name": shared, "input_type": all_types, "task": all_types}
    dimensions = [model.about["dimension"] for model in models if "dimension" in model.about]
    for name, property in properties.items():
        # a field whose type already names its values keeps them
        if name in values and not {"const", "enum"} & _part(property, "string").keys():
            properties[name] = {"title": name, "enum": [*values[name], None]}
        if name in ("dimensions", "output_dimension") and dimensions:
            _part(property, "integer")["maximum"] = min(dimensions)
        if name in ("input", "inputs"):
            _limit_ids(property, min([model.vocab_size for model in models], default=1))


def _part(property: dict[str, Any], kind: str) -> dict[str, Any]:
    """The alternative of this type."""
    parts = property.get("anyOf", [property])
    part: dict[str, Any] = next(part for part in parts if part.get("type") == kind)
    return part


def _limit_ids(items: Any, size: int) -> None:
    """Write the number of tokens into the type of token ids, wherever it stands."""
    if isinstance(items, list):
        for item in items:
            _limit_ids(item, size)
    elif isinstance(items, dict):
        if items.get("type") == "integer":
            items["maximum"] = size - 1
        for item in items.values():
            _limit_ids(item, size)
