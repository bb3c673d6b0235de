"""All recording rules, evaluated each minute.

They are one group: each sees those before it at the same instant.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.metering.cost_rules import HELD, NODES, USERS, bounds, lines, shares
from agentenv.core.metering.rule import Rule
from agentenv.core.metering.tariff import Tariff
from agentenv.core.metering.usage_rules import ATTRIBUTED, OWNERS, USED

EVERY = "1m"
GROUP = "attribution"


def rules(tariff: Tariff) -> tuple[Rule, ...]:
    """Return all recording rules."""
    return (*OWNERS, *USED, *ATTRIBUTED, *NODES, *HELD, *USERS, *lines(tariff), *shares(), *bounds(tariff))


def rule_file(tariff: Tariff) -> dict[str, Any]:
    """Return the rules as a Prometheus rule file."""
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
            }
        ]
    }
