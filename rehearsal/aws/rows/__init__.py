"""The table: a row for each resource type, in a module for each family."""

from __future__ import annotations

from typing import Final

from rehearsal.aws.row import Row
from rehearsal.aws.rows import (
    cluster,
    doors,
    firewall,
    identity,
    keys,
    logs,
    messages,
    network,
    routes,
    storage,
    tables,
    watch,
)

FAMILIES: Final = (network, routes, firewall, doors, identity, keys, logs, storage, cluster, messages, watch, tables)
TABLE: Final[dict[str, Row]] = {row.type: row for family in FAMILIES for row in family.ROWS}
