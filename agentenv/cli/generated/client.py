"""Generate the typed operations and documents of the API's client from the OpenAPI document."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

PATH = "agentenv/client/api.py"
_HEADER = '''\
"""The operations of the workspace service's API, and the documents that they send and return.

Written by `make generate` from the service's OpenAPI document. `Client` and `AsyncClient` send the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict
from urllib.parse import quote


def _quoted(value: object) -> str:
    return quote(str(value), safe="")

'''
_SYNC = '''
class Api:
    """The operations, each in one request."""

    def request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response."""
        raise NotImplementedError
'''
_ASYNC = '''
class AsyncApi:
    """The operations, each in one request, for asynchronous programs."""

    async def request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response."""
        raise NotImplementedError
'''
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


@dataclass(frozen=True)
class _Parameter:
    """A parameter of an operation: its name in the request and in Python, and its type."""

    name: str
    place: str
    type: str

    @property
    def argument(self) -> str:
        name = self.name.replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) or name == "id" else name


def client_text() -> str:
    """Return the module of the client's operations."""
    from agentenv.service.http.app import application

    document = application().openapi()
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    operations = [
        (path, method, operation)
        for path, methods in sorted(document["paths"].items())
        for method, operation in sorted(methods.items())
        # Sandboxes call the others with a token of their own.
        if not any(row["name"] == "authorization" for row in operation.get("parameters", ()))
        # A stream of events is no document: `Client.follow_events` reads it.
        and "text/event-stream" not in operation["responses"].get("200", {}).get("content", {})
    ]
    parts = [_HEADER, *(_document(name, schemas[name]) for name in sorted(_used(schemas, operations)))]
    for base, prefix in ((_SYNC, ""), (_ASYNC, "async ")):
        parts += [base, *(_method(*operation, prefix) for operation in operations)]
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", PATH, "-"]
    return subprocess.run(command, input="\n".join(parts), capture_output=True, text=True, check=True).stdout


def _used(schemas: Mapping[str, Schema], operations: list[tuple[str, str, Schema]]) -> set[str]:
    """Return the schemas that the operations refer to, also through others, and that of a problem."""
    used, waiting = set[str](), ["ProblemShape", *_references(operations)]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += _references(schemas[name])
    return used


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            if key == "$ref":
                yield str(inner).rpartition("/")[2]  # pyright: ignore[reportUnknownArgumentType]
            else:
                yield from _references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _references(inner)


def _name(schema: str) -> str:
    return schema.removesuffix("Shape")


def _document(name: str, schema: Schema) -> str:
    """Return the type of a document; in the form of a call where a key is a keyword of Python."""
    required = set(schema.get("required", ()))
    rows = {
        key: kind if key in required else f"NotRequired[{kind}]"
        for key, kind in ((key, _type(row)) for key, row in schema["properties"].items())
    }
    summary = _sentence(schema.get("description", ""))
    if any(keyword.iskeyword(key) for key in rows):
        fields = ", ".join(f'"{key}": {_in_call(kind)}' for key, kind in rows.items())
        return f"# {summary}\n{_name(name)} = TypedDict({_name(name)!r}, {{{fields},}})\n"
    fields = "\n".join(f"    {key}: {kind}" for key, kind in rows.items())
    return f'class {_name(name)}(TypedDict):\n    """{summary}"""\n\n{fields}\n'


def _in_call(kind: str) -> str:
    """Return a type as a value of a call: in quotes, because it may be defined later; a list of values needs none."""
    if kind.startswith("Literal[") and kind.index("]") == len(kind) - 1:
        return kind
    return '"{}"'.format(kind.replace('"', "'"))


def _type(schema: Schema) -> str:
    """Return the type of a value."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return f"Literal[{', '.join(map(repr, values))}]"
    if schema.get("type") == "array":
        return f"list[{_type(schema['items'])}]"
    if schema.get("type") == "object":
        inner = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
        return f"dict[str, {_type(inner) if isinstance(inner, Mapping) else 'Any'}]"
    return _SCALARS.get(schema.get("type", ""), "Any")


def _method(path: str, method: str, operation: Schema, prefix: str) -> str:
    parameters = [
        _Parameter(row["name"], row["in"], _type(row["schema"]).removesuffix(" | None"))
        for row in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    arguments = [f"{each.argument}: {each.type}" for each in parameters if each.place == "path"]
    arguments += [f"body: {_type(body)}"] if body else []
    optional = [each for each in parameters if each.place in {"query", "header"}]
    if optional:
        arguments += ["*", *(f"{each.argument}: {_argument_type(each.type)} | None = None" for each in optional)]
    values = [f"{_query(parameters, 'query')}"]
    values += ["body"] if body else []
    if headers := _query(parameters, "header") if any(each.place == "header" for each in parameters) else "":
        values += [f"headers={headers}"]
    located = re.sub(r"\{(\w+)\}", lambda found: f"{{_quoted({_of(parameters, found[1])})}}", path)
    text = f'f"{located}"' if "{" in located else f'"{located}"'
    result = _result(operation)
    call = f"{'await ' if prefix else ''}self.request({method.upper()!r}, {text}, {', '.join(values)})"
    lines = [
        f"    {prefix}def {_snake(operation['operationId'])}({', '.join(['self', *arguments])}) -> {result}:",
        f'        """{_sentence(operation["description"])}"""',
        f"        {'' if result == 'None' else 'return '}{call}",
    ]
    return "\n".join(["", *lines])


def _argument_type(kind: str) -> str:
    # Callers may also pass a tuple.
    return kind.replace("list[", "Sequence[")


def _query(parameters: list[_Parameter], place: str) -> str:
    rows = ", ".join(f'"{each.name}": {each.argument}' for each in parameters if each.place == place)
    return f"{{{rows}}}"


def _of(parameters: list[_Parameter], name: str) -> str:
    return next(each.argument for each in parameters if each.name == name)


def _result(operation: Schema) -> str:
    """Return the type of a successful response."""
    for status, response in sorted(operation["responses"].items()):
        if status.startswith("2") and (content := response.get("content")):
            return _type(next(iter(content.values()))["schema"])
    return "None"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _sentence(text: str) -> str:
    """Return the first sentence of a description, in one line."""
    return " ".join(text.partition("\n\n")[0].split()).replace('"', "'")
