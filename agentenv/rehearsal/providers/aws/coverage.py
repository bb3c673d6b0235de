"""The inputs of a type that its row applies. Any other input fails the check, and the conformance test."""

from __future__ import annotations

import functools

from agentenv.rehearsal.providers.aws import api_calls, name_mapping, shapes
from agentenv.rehearsal.providers.aws.row import Call, ResourceType


@functools.cache
def mapped_inputs(token: str) -> frozenset[str]:
    """Return the inputs that a step of the row sends: those it lists, or all it has a member for."""
    from agentenv.rehearsal.providers.aws import rows

    row = rows.TABLE[token]
    out: set[str] = set(create_inputs(row)) | updatable_inputs(row)
    for step in row.delete:
        out.update(step.inputs or ())
    if row.regional:
        out.add("region")
    if row.auto_name:
        out |= {row.auto_name.input, row.auto_name.prefix_input} - {""}
    return frozenset(out)


def create_inputs(row: ResourceType) -> frozenset[str]:
    """Return the inputs that the create itself sends."""
    call = row.create
    if not isinstance(call, Call):
        return frozenset(call.inputs)
    if call.inputs is not None:
        return frozenset(call.inputs)
    members = api_calls.members(call.service or row.service, call.operation)
    return frozenset(
        name
        for name in shapes.shape(row.type).inputs
        if name not in {"tags", "region", *row.unsupported}
        and (call.member_names.get(name) or name_mapping.member(members, name)) in members
    )


def updatable_inputs(row: ResourceType) -> frozenset[str]:
    """Return the inputs that can be updated in place."""
    out = {name for step in row.updates for name in step.inputs or ()}
    for step in row.delete:
        out.update(step.inputs or ())
    return frozenset(out | ({"tags"} if row.tags else set[str]()))
