"""Combinations of settings that are refused: each a row with its reason and its way out.

A row belongs here when every setting is well-formed by itself and AWS, Kubernetes or the isolation promised would fail
all the same, preferably before `up` has made half of an environment. A module a room of the plan; adding a refusal
touches one of them and its samples in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints import (
    adoption,
    capabilities,
    classes,
    fargate,
    identity,
    isolation,
    network,
    service,
    storage,
)
from agentenv.config.constraints import budgets as money
from agentenv.config.constraints import names as references
from agentenv.config.constraints import warm_pools as pools
from agentenv.config.constraints.constraint import Finding, Row

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

__all__ = ["ROWS", "Finding", "Row", "judge"]

ROWS: tuple[Row, ...] = (
    *network.ROWS,
    *isolation.ROWS,
    *storage.ROWS,
    *adoption.ROWS,
    *classes.ROWS,
    *identity.ROWS,
    *fargate.ROWS,
    *capabilities.ROWS,
    *pools.ROWS,
    *references.ROWS,
    *money.ROWS,
    *service.ROWS,
)


def judge(settings: Settings) -> Iterator[tuple[Row, Finding]]:
    """Every refusal that settings meet, in the order of the rows."""
    for row in ROWS:
        for finding in row.find(settings):
            yield row, finding
