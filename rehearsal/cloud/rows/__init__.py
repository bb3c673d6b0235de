"""The table of what we answer ourselves: a module a family, a row an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehearsal.cloud.rows import eks_access, eks_addons, eks_clusters, eks_identity, eks_nodes, eks_tags

if TYPE_CHECKING:
    from rehearsal.cloud.desk import Row

TABLES = (
    eks_clusters.ROWS,
    eks_nodes.ROWS,
    eks_addons.ROWS,
    eks_access.ROWS,
    eks_identity.ROWS,
    eks_tags.ROWS,
)

ROWS: dict[tuple[str, str], Row] = {(row.service, row.operation): row for table in TABLES for row in table}
