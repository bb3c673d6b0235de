"""The rule file of Prometheus: all recording rules and the alarms, evaluated each minute.

The recording rules are one group: each sees those before it at the same instant.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.metering.alarms import alarm_group
from agentenv.core.metering.cost_rules import HELD, NODES, USERS, bounds, lines, shares
from agentenv.core.metering.rule import EVERY, Rule
from agentenv.core.metering.tariff import Tariff
from agentenv.core.metering.usage_rules import ATTRIBUTED, OWNERS, USED

GROUP = "attribution"


def rules(tariff: Tariff) -> tuple[Rule, ...]:
    """Return all recording rules."""
    return (*OWNERS, *USED, *ATTRIBUTED, *NODES, *HELD, *USERS, *lines(tariff), *shares(), *bounds(tariff))


def rule_file(tariff: Tariff, *, failed_nodes: int) -> dict[str, Any]:
    """Return the rules and alarms as a Prometheus rule file."""
    return {
        "groups": [
            {
                "name": GROUP,
                "interval": EVERY,
                "rules": [
                    {
                        "record": rule.record,
                        "expr": rule.expr,
                        **({"labels": dict(rule.labels)} if rule.labels else {}),
                    }
                    for rule in rules(tariff)
                ],
            },
            alarm_group(failed_nodes),
        ]
    }
