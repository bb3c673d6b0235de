"""Constraints between settings: combinations that are rejected, each with its reason and its fix.

A constraint belongs here when every setting is valid by itself, and AWS, Kubernetes or the isolation would fail all the
same. Checking early avoids a `pulumi up` that fails halfway. There is a module for each section of the settings. A new
constraint changes one of them and adds its samples to the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints import (
    adoption,
    budgets,
    capabilities,
    classes,
    fargate,
    identity,
    isolation,
    names,
    network,
    service,
    sizes,
    storage,
    warm_pools,
    workspaced,
)
from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.constraints.names import CLASS_TWICE

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

__all__ = ["CLASS_TWICE", "CONSTRAINTS", "Constraint", "Finding", "check"]

CONSTRAINTS: tuple[Constraint, ...] = (
    *network.CONSTRAINTS,
    *isolation.CONSTRAINTS,
    *storage.CONSTRAINTS,
    *adoption.CONSTRAINTS,
    *classes.CONSTRAINTS,
    *sizes.CONSTRAINTS,
    *identity.CONSTRAINTS,
    *fargate.CONSTRAINTS,
    *capabilities.CONSTRAINTS,
    *warm_pools.CONSTRAINTS,
    *names.CONSTRAINTS,
    *budgets.CONSTRAINTS,
    *service.CONSTRAINTS,
    *workspaced.CONSTRAINTS,
)


def check(settings: Settings) -> Iterator[tuple[Constraint, Finding]]:
    """Yield every violation of a constraint, in the order of the constraints."""
    for constraint in CONSTRAINTS:
        for finding in constraint.find(settings):
            yield constraint, finding
