"""The ledger and the budgets of a replica, from its configuration; none where the environment has no table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentenv.core.ledger.rates import budget_policy
from agentenv.core.prices.book import MissingPricesError
from agentenv.service.aws import clients as aws
from agentenv.service.ledger.budgets import Budgets
from agentenv.service.ledger.record import LedgerRecorder
from agentenv.service.ledger.table import Ledger
from agentenv.service.ledger.usage import Meter, Prometheus

if TYPE_CHECKING:
    from agentenv.service.configuration import Configuration
    from agentenv.service.kube.sync_client import KubeApi
    from agentenv.service.telemetry.metrics import Metrics

_LOG = logging.getLogger(__name__)


def ledger_of(configuration: Configuration) -> Ledger | None:
    """The table."""
    if configuration.ledger_table is None:
        return None
    retention = configuration.settings.service.ledger_retention
    return Ledger(aws.client("dynamodb", configuration.region), configuration.ledger_table, retention)


def recorder_of(configuration: Configuration, cluster: KubeApi, metrics: Metrics) -> LedgerRecorder | None:
    """What writes it."""
    ledger = ledger_of(configuration)
    if ledger is None:
        return None
    source = Prometheus(configuration.prometheus) if configuration.prometheus else None
    return LedgerRecorder(cluster, ledger, Meter(source), metrics=metrics)


def budgets_of(configuration: Configuration, cluster: KubeApi, metrics: Metrics) -> Budgets | None:
    """What acts on it, where something is limited and there are prices to reckon with."""
    ledger = ledger_of(configuration)
    if ledger is None:
        return None
    try:
        policy = budget_policy(configuration.settings)
    except MissingPricesError as failure:
        # The environment works; what it costs is then for the bill to say. Preflight and policies say so before.
        _LOG.error("budgets do not act", extra={"facts": {"why": str(failure)}})
        return None
    return Budgets(cluster, ledger, policy, metrics)
