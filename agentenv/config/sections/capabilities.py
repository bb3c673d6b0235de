"""Capabilities of a sandbox: named grants, and grants of address ranges, domains and other classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer, model_validator

from agentenv.config.mistakes import nearest, shown
from agentenv.config.sections.base import Port, Section
from agentenv.config.values import AnyCidr, Label, wrong

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Word = Literal["dns", "web", "git", "packages", "identity", "metadata", "vpc", "api-server"]
WORDS: dict[Word, str] = {
    "dns": "the DNS resolver of the cluster on port 53, and no other resolver",
    "web": "the internet on TCP port 443",
    "git": "public git hosts on TCP ports 22 and 443: by domain through the egress proxy, else the whole internet",
    "packages": "public package registries on TCP port 443: by domain through the proxy, else the whole internet",
    "identity": "the token exchange, which issues short-lived credentials",
    "metadata": "instance metadata and the Pod Identity agent, on TCP port 80",
    "vpc": "the VPC with its pod and service ranges, except for metadata and the API server",
    "api-server": "the API server on TCP port 443",
}
INTERNET = frozenset({"git", "packages", "web"})

DOMAIN = r"^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$"


class Grant(Section):
    """A grant of network access: a name, or a mapping with exactly one of `cidr`, `domain` and `class`."""

    word: Annotated[Word | None, Field(description="A named grant, written as plain text.")] = None
    cidr: Annotated[AnyCidr | None, Field(description="An address range.")] = None
    domain: Annotated[
        str | None,
        Field(
            title="a domain such as pypi.org or *.example.com",
            pattern=DOMAIN,
            max_length=253,
            description="A domain, or all of its subdomains. Needs `network.egressProxy`.",
        ),
    ] = None
    class_: Annotated[
        Label | None, Field(alias="class", description="The service of the sandboxes of another class.")
    ] = None
    ports: Annotated[
        tuple[Port, ...], Field(max_length=32, description="Allowed ports. An empty list allows all ports.")
    ] = ()
    protocol: Annotated[Literal["tcp", "udp"], Field(description="Protocol of the ports.")] = "tcp"

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        allowed = f"{', '.join(WORDS)}, or a mapping with one of cidr, domain and class"
        if isinstance(value, str):
            if value not in get_args(Word):
                raise wrong(allowed, nearest(value, WORDS))
            return {"word": value}
        if isinstance(value, dict):
            kinds = [key for key in ("cidr", "domain", "class") if key in value]
            if "word" in value:
                raise wrong(allowed, "write a named grant as plain text")
            if len(kinds) != 1:
                raise wrong(allowed, f"the mapping has {' and '.join(kinds) or 'none of them'}")
            return value  # pyright: ignore[reportUnknownVariableType] - a mapping of anything
        raise wrong(allowed, f"not {shown(value)}")

    @model_serializer(mode="wrap")
    def _to_word(self, write: SerializerFunctionWrapHandler) -> str | dict[str, Any]:
        return self.word if self.word is not None else write(self)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema_ = handler.resolve_ref_schema(handler(schema))
        schema_["properties"].pop("word", None)
        schema_["oneOf"] = [{"required": [key]} for key in ("cidr", "domain", "class")]
        return {"anyOf": [{"type": "string", "enum": list(WORDS)}, schema_], "title": "a capability"}
