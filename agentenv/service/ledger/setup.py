"""Create a replica's ledger and budgets from its configuration; None where the environment has no table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentenv.core.ledger.rates import budget_policy
from agentenv.core.prices.book import MissingPricesError
from agentenv.service.aws import clients as aws
from agentenv.service.ledger.budgets import Accounts
from agentenv.service.ledger.home_records import HomeRecordTable
from agentenv.service.ledger.record import LedgerRecorder
from agentenv.service.ledger.table import Ledger
from agentenv.service.ledger.usage import Meter, Prometheus

if TYPE_CHECKING:
    from agentenv.service.configuration import Configuration
    from agentenv.service.kube.client import KubeApi
    from agentenv.service.telemetry.metrics import Metrics

_LOG = logging.getLogger(__name__)


def ledger_of(configuration: Configuration) -> Ledger | None:
    """Create the client of the ledger's table."""
    if configuration.ledger_table is None:
        return None
    retention = configuration.settings.service.ledger_retention
    return Ledger(aws.client("dynamodb", configuration.region), configuration.ledger_table, retention)


def home_records_of(configuration: Configuration) -> HomeRecordTable | None:
    """Create the client of the records of homes, which are in the ledger's table."""
    if configuration.ledger_table is None:
        return None
    return HomeRecordTable(aws.client("dynamodb", configuration.region), configuration.ledger_table)


def recorder_of(configuration: Configuration, cluster: KubeApi, metrics: Metrics) -> LedgerRecorder | None:
    """Create the recorder of the ledger."""
    ledger = ledger_of(configuration)
    if ledger is None:
        return None
    source = Prometheus(configuration.prometheus) if configuration.prometheus else None
    return LedgerRecorder(cluster, ledger, Meter(source), metrics=metrics)


def accounts_of(configuration: Configuration) -> Accounts | None:
    """Create the costs of owners, where there are prices to calculate them with."""
    ledger = ledger_of(configuration)
    if ledger is None:
        return None
    try:
        return Accounts(ledger, budget_policy(configuration.settings))
    except MissingPricesError as failure:
        # The environment works without budgets. Preflight and policies report it before.
        _LOG.error("budgets are not enforced", extra={"facts": {"why": str(failure)}})
        return None
