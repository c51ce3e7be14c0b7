"""The form of `server.json`, as far as Hubbub uses it: what the registry's schema 2025-12-11 requires there."""

from typing import Any, Final

VERSION: Final = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)*([-+a-z][0-9A-Za-z.+-]*)?$", "maxLength": 255}
INPUT: Final[dict[str, Any]] = {
    "description": {"type": "string", "minLength": 1},
    "isRequired": {"type": "boolean"},
    "isSecret": {"type": "boolean"},
    "default": {"type": "string"},
    "value": {"type": "string"},
    "placeholder": {"type": "string"},
    "choices": {"type": "array", "items": {"type": "string"}},
    "format": {"enum": ["string", "number", "boolean", "filepath"]},
}
VARIABLE: Final = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"}, **INPUT},
    "required": ["name", "description"],
    "additionalProperties": False,
}
ARGUMENT: Final = {
    "type": "object",
    "properties": {"type": {"enum": ["positional", "named"]}, "name": {"type": "string", "pattern": "^-"}, **INPUT},
    "required": ["type"],
    "additionalProperties": False,
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
    "else": {"required": ["value"]},
}
PACKAGE: Final = {
    "type": "object",
    "properties": {
        "registryType": {"enum": ["pypi", "npm", "nuget", "oci", "mcpb"]},
        "identifier": {"type": "string", "minLength": 1},
        "version": VERSION,
        "runtimeHint": {"type": "string"},
        "fileSha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
        "transport": {
            "type": "object",
            "properties": {"type": {"enum": ["stdio", "streamable-http", "sse"]}, "url": {"type": "string"}},
            "required": ["type"],
            "if": {"properties": {"type": {"const": "stdio"}}},
            "else": {"required": ["url"]},
        },
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "environmentVariables": {"type": "array", "items": VARIABLE},
    },
    "required": ["registryType", "identifier", "version", "transport"],
    "additionalProperties": False,
    "if": {"properties": {"registryType": {"const": "mcpb"}}},
    "then": {"required": ["fileSha256"], "properties": {"identifier": {"pattern": "^https://"}}},
}
SERVER_JSON: Final = {
    "type": "object",
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "minLength": 3, "maxLength": 200},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": VERSION,
        "websiteUrl": {"type": "string", "pattern": "^https://"},
        "repository": {
            "type": "object",
            "properties": {"url": {"type": "string", "pattern": "^https://"}, "source": {"type": "string"}},
            "required": ["url", "source"],
            "additionalProperties": False,
        },
        "packages": {"type": "array", "minItems": 1, "items": PACKAGE},
    },
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
}
