"""Evaluate policies for a request: it must be allowed by a statement, and denied by none.

Used for roles only: who may assume them (trust policies), and what their sessions may do. The rehearsal's own caller
owns the account and is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.core.iam import documents
from agentenv.core.iam.conditions import Context, conditions_met, matches_glob


@dataclass(frozen=True)
class Principal:
    """A caller: its kind as policies name it, and every name that a policy may use for it."""

    kind: str  # AWS, Service or Federated
    names: frozenset[str]


def trusts(document: str, principal: Principal, action: str, context: Context) -> bool:
    """Return whether a trust policy allows a principal's action on its role."""
    return _allowed([document], action, None, principal, context)


def grants(texts: Iterable[str], action: str, resource: str, context: Context) -> bool:
    """Return whether the policies of a role allow an action on a resource."""
    return _allowed(texts, action, resource, None, context)


def _allowed(
    texts: Iterable[str], action: str, resource: str | None, principal: Principal | None, context: Context
) -> bool:
    allowed = False
    for text in texts:
        document, _ = documents.read(text)
        for statement in documents.statements(document):
            applies = (
                _matches_action(statement, action)
                and _matches_resource(statement, resource)
                and _matches_principal(statement, principal)
            )
            if applies and conditions_met(statement.get("Condition", {}), context):
                if statement["Effect"] == "Deny":
                    return False
                allowed = True
    return allowed


def _matches_action(statement: Mapping[str, Any], action: str) -> bool:
    actions = documents.as_list(statement.get("Action", statement.get("NotAction", [])))
    return any(matches_glob(name.lower(), action.lower()) for name in actions) is ("Action" in statement)


def _matches_resource(statement: Mapping[str, Any], resource: str | None) -> bool:
    if resource is None:
        return True
    resources = documents.as_list(statement.get("Resource", statement.get("NotResource", [])))
    return any(matches_glob(name, resource) for name in resources) is ("Resource" in statement)


def _matches_principal(statement: Mapping[str, Any], principal: Principal | None) -> bool:
    if principal is None:
        return True
    element = statement.get("Principal", statement.get("NotPrincipal"))
    if element == "*":
        matches = True
    else:
        names = documents.as_list(element.get(principal.kind, [])) if isinstance(element, dict) else []
        everyone = principal.kind == "AWS" and "*" in names
        matches = everyone or not principal.names.isdisjoint(names)
    return matches is ("Principal" in statement)
