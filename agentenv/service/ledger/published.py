"""The published budgets of a replica: a watch of the ConfigMap that the budget pass writes.

So no request waits for the ledger. Where nothing is published, as before the first pass, nothing is refused; the next
pass suspends what is over its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from agentenv.core.ledger.budgets import LimitUsage, Policy, format_dollars
from agentenv.core.ledger.published import KEY, NAME, PublishedSpend
from agentenv.core.ledger.rows import month_start
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CONFIGURATIONS, Document, KubeApi, KubeClient, section
from agentenv.service.kube.informer import Informer
from agentenv.service.kube.unreadable import Key
from agentenv.service.telemetry.metrics import Metrics


class PublishedBudgets:
    """The budgets of one environment, as last published."""

    def __init__(self, policy: Policy, metrics: Metrics, now: Callable[[], datetime]) -> None:
        self.policy = policy
        self._metrics, self._now = metrics, now
        self.spend = PublishedSpend()

    def informer(self, kube: KubeClient, namespace: str) -> Informer:
        """Return the informer that keeps the figures up to date while it runs."""
        return Informer(kube, CONFIGURATIONS, self.put, self.drop, namespace=namespace, fields=f"metadata.name={NAME}")

    def put(self, configmap: Document) -> None:
        """Set the published figures."""
        self.spend = PublishedSpend.of_document(configmap)

    def drop(self, _: Key) -> None:
        """Forget the figures of a deleted ConfigMap."""
        self.spend = PublishedSpend()

    def nearest(self, workspace: Workspace) -> LimitUsage | None:
        """Return the limit of a workspace with the largest share spent."""
        return self.spend.nearest(self.policy, workspace, self._now())

    def refusal(self, workspace: Workspace) -> Problem | None:
        """Return why a workspace may not be created or resumed: its budget of this month is spent."""
        limited = self.nearest(workspace)
        if limited is None or not limited.over:
            return None
        self._metrics.budget("refuse")
        return Problem(
            "budget-spent",
            f"the cost of this month is {limited}",
            f"have the budget raised, or wait until {_next_month(self._now()):%Y-%m-%d}; nothing was deleted",
            spent=str(format_dollars(limited.spent)),
            limit=str(limited.limit),
            of=limited.of,
        )


async def publish(cluster: KubeApi, namespace: str, spend: PublishedSpend) -> bool:
    """Write the figures where they differ; return whether it did. Another leader's write is not overwritten."""
    content = {KEY: spend.to_text()}
    existing = await cluster.find(CONFIGURATIONS, NAME, namespace)
    if existing is None:
        metadata = {"name": NAME, "namespace": namespace}
        document: Mapping[str, object] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": content,
        }
        return await cluster.create(CONFIGURATIONS, document) is not None
    if section(existing, "data") == content:
        return False
    return await cluster.patch(CONFIGURATIONS, existing, {"data": content}) is not None


def _next_month(now: datetime) -> datetime:
    return month_start(month_start(now) + timedelta(days=32))
