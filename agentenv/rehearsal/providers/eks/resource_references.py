"""Inputs that are resources: extracted from the request by URN, before the SDK converts them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import struct_pb2
from pulumi.resource import DependencyResource
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from agentenv.rehearsal.providers.eks.inputs import UnsupportedInputs

if TYPE_CHECKING:
    import pulumi

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_RESOURCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"


@dataclass(frozen=True)
class Reference:
    """A resource that an input refers to."""

    urn: str

    def resource(self) -> pulumi.Resource:
        """Return the resource, for use as a parent or a dependency."""
        return DependencyResource(self.urn)


def extract_references(subject: str, inputs: struct_pb2.Struct, names: Iterable[str]) -> dict[str, Reference]:
    """Remove the resources from the inputs and return them."""
    references: dict[str, Reference] = {}
    for name in names:
        if name not in inputs.fields:
            continue
        urn = _urn(inputs.fields[name])
        if urn is None:
            raise UnsupportedInputs(
                f"{subject}: {name} is not a resource, or not known yet; the stand-in needs a resource"
            )
        references[name] = Reference(urn)
        del inputs.fields[name]
    return references


async def output_resource_urn(urn: str, output: str) -> str:
    """Return the URN of the resource that is an output of another one."""
    arguments = struct_pb2.Struct(fields={"urn": struct_pb2.Value(string_value=urn)})
    request = resource_pb2.ResourceInvokeRequest(
        tok="pulumi:pulumi:getResource", args=arguments, acceptResources=True, version=""
    )
    monitor: Any = settings.get_monitor()
    response = await asyncio.to_thread(monitor.Invoke, request)
    state = getattr(response, "return").fields["state"].struct_value
    output_urn = _urn(state.fields[output]) if output in state.fields else None
    if output_urn is None:
        raise UnsupportedInputs(
            f"{urn} has no resource '{output}' among its outputs; is it a cluster of this component?"
        )
    return output_urn


def _urn(value: struct_pb2.Value) -> str | None:
    """Return the URN in a reference, also in one that is wrapped as an output."""
    fields = value.struct_value.fields
    if _SIGNATURE not in fields:
        return None
    if fields[_SIGNATURE].string_value == _RESOURCE:
        return fields["urn"].string_value or None
    return _urn(fields["value"]) if "value" in fields else None
