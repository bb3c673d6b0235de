"""The records of the handlers, by kind, account and region.

Every resource that a handler creates is a record here, so the census needs no list of its own. Kinds whose name
begins with `_` hold data about resources (settings, updates, tags) and do not count.
"""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.cloud.network_load_balancers import NetworkLoadBalancers

Record = dict[str, Any]


class Store:
    """All records, by kind (`eks.addons`), account and region, and the data plane of load balancers."""

    def __init__(self, *, balancers: bool = False) -> None:
        # Whether load balancers pass connections on: they are processes.
        self.balancers = NetworkLoadBalancers(served=balancers)
        self._records: dict[tuple[str, str, str], dict[str, Record]] = {}

    def records(self, kind: str, account: str, region: str) -> dict[str, Record]:
        """Return the records of a kind, account and region by identifier; empty at first."""
        return self._records.setdefault((kind, account, region), {})

    def identifiers(self) -> dict[str, list[str]]:
        """Return the identifiers of all records, by kind."""
        identifiers: dict[str, list[str]] = {}
        for (kind, _, _), records in self._records.items():
            if not kind.startswith("_"):
                identifiers.setdefault(kind, []).extend(records)
        return identifiers
