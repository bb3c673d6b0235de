"""The spending near limits, as the budget pass publishes it for all replicas of the service.

It holds amounts, not decisions: a replica compares them with today's limits, so that a raised limit applies at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any

from agentenv.core.ledger.budgets import LimitUsage, Policy, nearest_limit
from agentenv.core.ledger.rows import NOTHING
from agentenv.core.values.object_fields import parsed_object, read_amount, section, strings, text
from agentenv.core.workspaces.workspace import Workspace

NAME = "workspace-budgets"
KEY = "spent.json"
# An entry has at most 80 bytes, and a ConfigMap may have a mebibyte.
MAX_ENTRIES = 12_000
_SMALLEST = Decimal("0.000001")


@dataclass(frozen=True)
class PublishedSpend:
    """The month's cost of owners near their cap, and of workspaces near their budget."""

    month: str = ""
    owners: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    workspaces: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])

    def nearest(self, policy: Policy, workspace: Workspace, now: datetime) -> LimitUsage | None:
        """Return the limit of a workspace with the largest share spent, as `MonthlySpend.nearest` does.

        An owner or workspace that is not published is far from its limits, and each is in a new month.
        """
        current = self.month == month_of(now)
        spent = self.workspaces.get(workspace.id, NOTHING) if current else NOTHING
        capped = self.owners.get(workspace.owner, NOTHING) if current else NOTHING
        return nearest_limit(policy, spent, capped, workspace.class_name, workspace.budget)

    def to_text(self) -> str:
        """Return the document; without the entries of the least amounts where there are too many."""
        rows = [(amount, "owners", name) for name, amount in self.owners.items()]
        rows += [(amount, "workspaces", name) for name, amount in self.workspaces.items()]
        document: dict[str, Any] = {"month": self.month, "owners": {}, "workspaces": {}}
        for amount, group, name in sorted(_largest(rows), key=lambda row: row[1:]):
            document[group][name] = str(amount.quantize(_SMALLEST, ROUND_DOWN))
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_text(cls, document_text: str) -> PublishedSpend:
        """Return what a document says; entries that are no amounts are left out."""
        document = parsed_object(document_text) or {}
        owners, workspaces = (
            {
                name: amount
                for name, value in strings(document, group).items()
                if (amount := read_amount(value)) is not None
            }
            for group in ("owners", "workspaces")
        )
        return cls(text(document, "month"), owners, workspaces)

    @classmethod
    def of_document(cls, configmap: Mapping[str, Any]) -> PublishedSpend:
        """Return what a ConfigMap says."""
        return cls.from_text(text(section(configmap, "data"), KEY))


def month_of(now: datetime) -> str:
    """Return the month of a timestamp, as published documents name it."""
    return f"{now:%Y-%m}"


def _largest(rows: Iterable[tuple[Decimal, str, str]]) -> list[tuple[Decimal, str, str]]:
    return sorted(rows, reverse=True)[:MAX_ENTRIES]
