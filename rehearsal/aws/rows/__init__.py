"""The table: a row for each resource type, in a module for each family."""

from __future__ import annotations

from typing import Final

from rehearsal.aws.row import Row
from rehearsal.aws.rows import (
    asking,
    billing,
    buckets,
    budgets,
    cluster,
    cluster_parts,
    doors,
    firewall,
    identity,
    keys,
    logs,
    messages,
    network,
    roles,
    routes,
    rules,
    storage,
    tables,
    watch,
)

FAMILIES: Final = (
    network,
    routes,
    firewall,
    rules,
    doors,
    identity,
    roles,
    keys,
    logs,
    storage,
    cluster,
    cluster_parts,
    messages,
    watch,
    tables,
    buckets,
    asking,
    billing,
    budgets,
)
TABLE: Final[dict[str, Row]] = {row.type: row for family in FAMILIES for row in family.ROWS}
