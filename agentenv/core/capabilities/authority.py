"""Compare the AWS permissions of two identities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.envelope import Identity, Statement
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.iam.patterns import TooIntricateError, coverings, uncovered

if TYPE_CHECKING:
    from collections.abc import Iterable


def identity_exceeds(child: Identity | Unknown, parent: Identity | Unknown) -> tuple[bool, str] | None:
    """Return None where the child has no permission beyond its parent; else whether that is certain, and why."""
    if child is UNKNOWN:
        return False, "what it may do in AWS is not known"
    parent_identity = Identity() if parent is UNKNOWN else parent
    more = sorted(child.policies - parent_identity.policies)
    if more and parent is not UNKNOWN:
        return True, f"has the policy {more[0]}, which its parent has not"
    try:
        return _statements(child, parent) or (_unknown_parent() if more else None)
    except TooIntricateError as error:
        return False, f"whether its rights are among its parent's is too intricate to tell: {error}"


def _statements(child: Identity, parent: Identity | Unknown) -> tuple[bool, str] | None:
    least = [] if parent is UNKNOWN else [other for other in parent.statements if not other.conditional]
    most = None if parent is UNKNOWN else list(parent.statements)
    indeterminate: tuple[bool, str] | None = None
    for statement in sorted(child.statements):
        if (outside := _outside(statement, least)) is None:
            continue
        if most is None:
            return _unknown_parent()
        sure = None if statement.conditional else _outside(statement, most)
        if sure is not None:
            return True, f"may call {sure[0]} on {sure[1]}, which its parent may not"
        indeterminate = indeterminate or (
            False,
            f"whether it may call {outside[0]} on {outside[1]} and its parent may not depends on a condition",
        )
    return indeterminate


def _unknown_parent() -> tuple[bool, str]:
    return False, "what its parent may do in AWS is not known"


def _outside(statement: Statement, others: Iterable[Statement]) -> tuple[str, str] | None:
    """Return an action and a resource of the statement that none of the others allows.

    Which of the others allow an action decides which of them count for the resource; every combination that some
    action of the statement meets is tried.
    """
    every = list(others)
    by_action = coverings(statement.action.lower(), [other.action.lower() for other in every])
    for allowing, action in by_action.items():
        resource = uncovered(statement.resource, [every[index].resource for index in sorted(allowing)])
        if resource is not None:
            return action, resource
    return None
