"""Which inputs of a type its row carries out. What is left over is refused at check, and fails the conformance test."""

from __future__ import annotations

import functools

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws.row import Call, Row


@functools.cache
def mapped(row_token: str) -> frozenset[str]:
    """The inputs some step of the row uses: by its `takes`, or by the rule where it takes whatever fits."""
    from agentenv.rehearsal.providers.aws import rows

    row = rows.TABLE[row_token]
    out: set[str] = set(at_create(row)) | changeable(row)
    for one in row.delete:
        out.update(one.takes or ())
    if row.regional:
        out.add("region")
    if row.name:
        out |= {row.name.input, row.name.prefix_input} - {""}
    return frozenset(out)


def at_create(row: Row) -> frozenset[str]:
    """The inputs the create itself sends."""
    call = row.create
    if not isinstance(call, Call):
        return frozenset(call.takes)
    if call.takes is not None:
        return frozenset(call.takes)
    members = calls.members(call.service or row.service, call.operation)
    return frozenset(
        name
        for name in shapes.shape(row.type).inputs
        if name not in {"tags", "region", *row.refused}
        and (call.names.get(name) or spelling.member(members, name)) in members
    )


def changeable(row: Row) -> frozenset[str]:
    """The inputs that can be changed in place."""
    out = {name for one in row.sets for name in one.takes or ()}
    for one in row.delete:
        out.update(one.takes or ())
    return frozenset(out | ({"tags"} if row.tags else set[str]()))
