"""Inputs that are other resources: taken out of the request by their URN, before the SDK turns them into anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import struct_pb2
from pulumi.resource import DependencyResource
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from agentenv.rehearsal.providers.eks.inputs import Refused

if TYPE_CHECKING:
    import pulumi

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_RESOURCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"


@dataclass(frozen=True)
class Reference:
    """Another resource."""

    urn: str

    def resource(self) -> pulumi.Resource:
        """It, as a parent or as something to depend on."""
        return DependencyResource(self.urn)


def taken(where: str, inputs: struct_pb2.Struct, names: Iterable[str]) -> dict[str, Reference]:
    """The resources among the inputs, which no longer hold them afterwards."""
    found: dict[str, Reference] = {}
    for name in names:
        if name not in inputs.fields:
            continue
        urn = _urn(inputs.fields[name])
        if urn is None:
            raise Refused(f"{where}: {name} is not a resource, or not known yet; the stand-in takes resources as such")
        found[name] = Reference(urn)
        del inputs.fields[name]
    return found


async def inner(urn: str, output: str) -> str:
    """The URN of the resource that another one has as an output."""
    arguments = struct_pb2.Struct(fields={"urn": struct_pb2.Value(string_value=urn)})
    request = resource_pb2.ResourceInvokeRequest(
        tok="pulumi:pulumi:getResource", args=arguments, acceptResources=True, version=""
    )
    monitor: Any = settings.get_monitor()
    answer = await asyncio.to_thread(monitor.Invoke, request)
    state = getattr(answer, "return").fields["state"].struct_value
    wanted = _urn(state.fields[output]) if output in state.fields else None
    if wanted is None:
        raise Refused(f"{urn} has no resource '{output}' among its outputs; is it a cluster of this component?")
    return wanted


def _urn(value: struct_pb2.Value) -> str | None:
    """The URN in a reference, also in one that is wrapped as an output."""
    fields = value.struct_value.fields
    if _SIGNATURE not in fields:
        return None
    if fields[_SIGNATURE].string_value == _RESOURCE:
        return fields["urn"].string_value or None
    return _urn(fields["value"]) if "value" in fields else None
