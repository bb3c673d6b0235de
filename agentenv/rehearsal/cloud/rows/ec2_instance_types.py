"""EC2 instance types: filters with wildcards, which moto compares as they are."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from agentenv.rehearsal.cloud.request_context import OperationHandler

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.responses import Response


def with_expanded_filters(context: RequestContext) -> Response:
    """Forward the call with the names of the instance types that its filter's patterns match."""
    filters = context.parameters.get("Filters") or []
    expanded = [_expanded(row) if row["Name"] == "instance-type" else row for row in filters]
    return context.forward(None if expanded == filters else {**context.parameters, "Filters": expanded})


def _expanded(row: dict[str, Any]) -> dict[str, Any]:
    names = [name for pattern in row["Values"] for name in fnmatch.filter(INSTANCE_TYPES, pattern)]
    # A pattern without a match stays: an empty filter would match every type.
    return {**row, "Values": sorted(set(names)) or row["Values"]}


ROWS = (
    OperationHandler("ec2", "DescribeInstanceTypeOfferings", with_expanded_filters),
    OperationHandler("ec2", "DescribeInstanceTypes", with_expanded_filters),
)
